// AMX multiplies BF16 and I8 documents in tiles of sixteen by sixteen tokens. It reads rows where they are stored if
// their width is a multiple of a tile's width. FP32 and FP16 documents use the FP32 kernels of AVX-512.
#include "kernels/cpu/loops/avx512.inl.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"
#include "kernels/cpu/loops/kernel_amx.inl.h"

namespace maxsim::cpu {
namespace {

// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig kTileConfig;

// Uses inline assembly, because GCC 12's intrinsics do not tell the compiler that a tile load reads memory.
struct Amx {
  static void Configure() { asm volatile("ldtilecfg %0" : : "m"(kTileConfig)); }
  static void Release() { asm volatile("tilerelease"); }
  template <int kTile>
  [[gnu::always_inline]] static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void Load(const void* from, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Store(void* to, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
};

struct AmxI8 : Amx, AmxI8Shape {
  struct Vector : Avx512Integers, Avx512Shape {};
  template <int kSums, int kRows, int kQueries>
  [[gnu::always_inline]] static void Multiply() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kQueries));
  }
};

// The instruction adds up the products of a tile's even columns, and separately those of its odd columns. Then it adds
// the two sums, and adds the result to the accumulator. Every addition rounds to nearest even; inputs and results below
// 2^-126 count as zero.
struct AmxBf16 : Amx, AmxBf16Shape {
  using Vector = Avx512;
  template <int kSums, int kRows, int kQueries>
  [[gnu::always_inline]] static void Multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kQueries));
  }
};

}  // namespace

constexpr Isa kAmxIsa = {.name = "amx",
                         .lanes = Avx512::kLanes,
                         .panel_vectors = Avx512::kPanelVectors,
                         .f32 = MakeKernels<Avx512>(),
                         .bf16 = MakeTileKernels<AmxBf16>(),
                         .i8 = MakeTileKernels<AmxI8>()};

}  // namespace maxsim::cpu
