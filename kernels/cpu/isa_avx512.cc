// AVX-512 without BF16 instructions.
#include "kernels/cpu/avx512.inl.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernel.inl.h"

namespace maxsim::cpu {

constexpr Isa kAvx512Isa = {.name = "avx512",
                            .lanes = Avx512::kLanes,
                            .panel_vectors = Avx512::kPanelVectors,
                            .row_multiple = Avx512::kRowMultiple,
                            .f32 = MakeKernels<Avx512>(),
                            .bf16_pairs = {}};

}  // namespace maxsim::cpu
