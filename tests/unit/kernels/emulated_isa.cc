#include "tests/unit/kernels/emulated_isa.h"

#include <cstring>

#include "kernels/cpu/avx512_shape.h"
#include "kernels/cpu/kernel.inl.h"
#include "kernels/scalar_type.h"

namespace maxsim::test {
namespace {

constexpr size_t kLanes = cpu::Avx512Shape::kLanes;

struct Floats {
  float lane[kLanes];
};

struct Pairs {
  uint32_t lane[kLanes];
};

// Calls function(lane) for every lane of a result.
template <typename Vector, typename Function>
Vector Fill(Function function) {
  Vector result;
  for (size_t idx = 0; idx < kLanes; ++idx) result.lane[idx] = function(idx);
  return result;
}

template <typename Vector>
Vector Copy(const void* from) {
  Vector result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

struct Emulated : cpu::Avx512Shape {
  using Sum = Floats;
  using Step = Floats;
  static Step Broadcast(const char* step) {
    float value;
    std::memcpy(&value, step, sizeof(value));
    return Fill<Floats>([&](size_t) { return value; });
  }
  static Step LoadStep(const uint32_t* steps) { return Copy<Floats>(steps); }
  static Sum MulAdd(const Step& a, const Step& b, const Sum& sum) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] * b.lane[idx] + sum.lane[idx]; });
  }
  static Sum Add(const Sum& a, const Sum& b) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] + b.lane[idx]; });
  }
  // As the instruction: the second operand where both are equal.
  static Sum Max(const Sum& a, const Sum& b) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] > b.lane[idx] ? a.lane[idx] : b.lane[idx]; });
  }
  static Sum Zero() { return {}; }
  static Sum Load(const float* from) { return Copy<Floats>(from); }
  static void Store(float* to, const Sum& value) { std::memcpy(to, &value, sizeof(value)); }
};

struct EmulatedBf16 : Emulated {
  using Step = Pairs;
  static constexpr size_t kBlockSteps = cpu::Avx512Bf16Shape::kBlockSteps;
  static Step Broadcast(const char* step) {
    uint32_t value;
    std::memcpy(&value, step, sizeof(value));
    return Fill<Pairs>([&](size_t) { return value; });
  }
  static Step LoadStep(const uint32_t* steps) { return Copy<Pairs>(steps); }
  // As VDPBF16PS is described: the odd product first, each addition rounded.
  static Sum MulAdd(const Step& a, const Step& b, const Sum& sum) {
    return Fill<Floats>([&](size_t idx) {
      const auto high = [](uint32_t pair) { return Bf16ToF32(static_cast<uint16_t>(pair >> 16)); };
      const auto low = [](uint32_t pair) { return Bf16ToF32(static_cast<uint16_t>(pair & 0xffff)); };
      const float with_high = high(a.lane[idx]) * high(b.lane[idx]) + sum.lane[idx];
      return low(a.lane[idx]) * low(b.lane[idx]) + with_high;
    });
  }
};

}  // namespace

constexpr cpu::Isa kEmulatedAvx512Bf16Isa = {.name = "emulated_avx512bf16",
                                             .lanes = cpu::Avx512Shape::kLanes,
                                             .panel_vectors = cpu::Avx512Shape::kPanelVectors,
                                             .row_multiple = cpu::Avx512Shape::kRowMultiple,
                                             .f32 = cpu::MakeKernels<Emulated>(),
                                             .bf16_pairs = cpu::MakeKernels<EmulatedBf16>()};

}  // namespace maxsim::test
