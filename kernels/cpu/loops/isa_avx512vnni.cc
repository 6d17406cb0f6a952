// AVX-512 with VNNI.
#include "kernels/cpu/loops/avx512.inl.h"
#include "kernels/cpu/loops/avx512vnni.inl.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {

constexpr Isa kAvx512VnniIsa = {.name = "avx512vnni",
                                .lanes = Avx512::kLanes,
                                .panel_vectors = Avx512::kPanelVectors,
                                .f32 = MakeKernels<Avx512>(),
                                .bf16 = {},
                                .i8 = MakeKernels<Avx512Vnni>()};

}  // namespace maxsim::cpu
