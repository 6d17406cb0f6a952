#include "kernels/cpu/isa.h"

namespace maxsim::cpu {

const std::vector<const Isa*>& AvailableIsas() {
  static const std::vector<const Isa*>* const isas = [] {
    auto* available = new std::vector<const Isa*>;
#if defined(__x86_64__)
    // These builtins ask the operating system too, whether it saves the wide registers.
    __builtin_cpu_init();
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) available->push_back(&kAvx512Bf16Isa);
    if (avx512) available->push_back(&kAvx512Isa);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) available->push_back(&kAvx2Isa);
#endif
    available->push_back(&kPortableIsa);
    return available;
  }();
  return *isas;
}

}  // namespace maxsim::cpu
