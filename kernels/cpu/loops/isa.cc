#include "kernels/cpu/loops/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace maxsim::cpu {
namespace {

#if defined(__x86_64__)

// Returns whether the processor and the operating system support AMX with I8 and BF16. Linux lets a process use AMX
// only after it has asked for it, so this function asks. Returns false if Linux refuses, or does not know the request.
bool MayUseAmx() {
  constexpr uint32_t kBf16 = 1u << 22;
  constexpr uint32_t kTile = 1u << 24;
  constexpr uint32_t kI8 = 1u << 25;
  constexpr uint32_t kTileState = 3u << 17;  // bits of XCR0: the OS saves tile configuration and tile data
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & (kBf16 | kTile | kI8)) != (kBf16 | kTile | kI8)) return false;
  uint32_t saved = 0;
  uint32_t unused = 0;
  asm volatile("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
  if ((saved & kTileState) != kTileState) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif

}  // namespace

const std::vector<const Isa*>& AvailableIsas() {
  static const std::vector<const Isa*>* const isas = [] {
    auto* available = new std::vector<const Isa*>;
#if defined(__x86_64__)
    // These builtins also check that the operating system saves the wide registers.
    __builtin_cpu_init();
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
    // On Intel, BF16 instructions are slower than widening BF16 to FP32 (82 against 116 GFLOP/s on a Xeon), so the set
    // with BF16 instructions comes after VNNI. On other processors it comes first, because they should do twice the
    // work.
    const bool bf16_first = !__builtin_cpu_is("intel");
    if (avx512 && MayUseAmx()) available->push_back(&kAmxIsa);
    if (bf16 && bf16_first) available->push_back(&kAvx512Bf16Isa);
    if (vnni) available->push_back(&kAvx512VnniIsa);
    if (bf16 && !bf16_first) available->push_back(&kAvx512Bf16Isa);
    if (avx512) available->push_back(&kAvx512Isa);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) available->push_back(&kAvx2Isa);
#elif defined(__aarch64__)
    // Linux reports the optional instructions. Every 64-bit Arm processor has NEON itself.
    if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) available->push_back(&kNeonI8mmIsa);
    if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) available->push_back(&kNeonDotIsa);
    available->push_back(&kNeonIsa);
#endif
    available->push_back(&kPortableIsa);
    return available;
  }();
  return *isas;
}

}  // namespace maxsim::cpu
