#include "tests/unit/kernels/emulated_isa.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/cpu/loops/avx512_shape.h"
#include "kernels/cpu/loops/kernel.inl.h"
#include "kernels/cpu/loops/kernel_amx.inl.h"
#include "kernels/scalar_type.h"

namespace maxsim::test {
namespace {

constexpr size_t kLanes = cpu::Avx512Shape::kLanes;

struct Floats {
  float lane[kLanes];
};

struct Integers {
  int32_t lane[kLanes];
};

struct Steps {
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
  using Element = float;
  using Sum = Floats;
  using Step = Floats;
  using Total = Floats;
  static Step Broadcast(const char* step) {
    float value;
    std::memcpy(&value, step, sizeof(value));
    return Fill<Floats>([&](size_t) { return value; });
  }
  static Step LoadStep(const uint32_t* steps) { return Copy<Floats>(steps); }
  static Sum MulAdd(const Step& a, const Step& b, const Sum& sum) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] * b.lane[idx] + sum.lane[idx]; });
  }
  static Total Finish(const Sum& sum) { return sum; }
  static Total Add(const Total& a, const Total& b) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] + b.lane[idx]; });
  }
  // In lanes where `a` and `b` are equal (such as 0 and -0), returns that of `b`, as the instruction does.
  static Total Max(const Total& a, const Total& b) {
    return Fill<Floats>([&](size_t idx) { return a.lane[idx] > b.lane[idx] ? a.lane[idx] : b.lane[idx]; });
  }
  static Sum Zero() { return {}; }
  static Total Load(const float* from) { return Copy<Floats>(from); }
  static void Store(float* to, const Total& value) { std::memcpy(to, &value, sizeof(value)); }
};

Steps BroadcastStep(const char* step) {
  uint32_t value;
  std::memcpy(&value, step, sizeof(value));
  return Fill<Steps>([&](size_t) { return value; });
}

float High(uint32_t pair) { return Bf16ToF32(static_cast<uint16_t>(pair >> 16)); }
float Low(uint32_t pair) { return Bf16ToF32(static_cast<uint16_t>(pair & 0xffff)); }

struct EmulatedBf16 : Emulated {
  using Step = Steps;
  static constexpr size_t kBlockSteps = cpu::Avx512Bf16Shape::kBlockSteps;
  static constexpr cpu::Feed kFeed = cpu::Avx512Bf16Shape::kFeed;
  static Step Broadcast(const char* step) { return BroadcastStep(step); }
  static Step LoadStep(const uint32_t* steps) { return Copy<Steps>(steps); }
  // Follows the description of VDPBF16PS: the odd product comes first, and each addition is rounded.
  static Sum MulAdd(const Step& a, const Step& b, const Sum& sum) {
    return Fill<Floats>([&](size_t idx) {
      const float with_high = High(a.lane[idx]) * High(b.lane[idx]) + sum.lane[idx];
      return Low(a.lane[idx]) * Low(b.lane[idx]) + with_high;
    });
  }
};

// UnsignedByte returns byte `idx` of a step zero-extended, and SignedByte returns it sign-extended.
int32_t UnsignedByte(uint32_t step, int idx) { return static_cast<int32_t>(step >> (8 * idx) & 0xff); }
int32_t SignedByte(uint32_t step, int idx) { return static_cast<int8_t>(UnsignedByte(step, idx)); }

struct EmulatedIntegers {
  using Element = int32_t;
  using Sum = Integers;
  using Step = Steps;
  using Total = Integers;
  static Step Broadcast(const char* step) { return BroadcastStep(step); }
  static Step LoadStep(const uint32_t* steps) { return Copy<Steps>(steps); }
  static Total Finish(const Sum& sum) { return sum; }
  static Total Add(const Total& a, const Total& b) {
    return Fill<Integers>([&](size_t idx) { return a.lane[idx] + b.lane[idx]; });
  }
  static Total Max(const Total& a, const Total& b) {
    return Fill<Integers>([&](size_t idx) { return std::max(a.lane[idx], b.lane[idx]); });
  }
  static Sum Zero() { return {}; }
  static Total Load(const int32_t* from) { return Copy<Integers>(from); }
  static void Store(int32_t* to, const Total& value) { std::memcpy(to, &value, sizeof(value)); }
};

struct EmulatedVnni : EmulatedIntegers, cpu::Avx512VnniShape {
  // Follows VPDPBUSD: the document's bytes are unsigned, the query's signed.
  static Sum MulAdd(const Step& query, const Step& row, const Sum& sum) {
    return Fill<Integers>([&](size_t idx) {
      int32_t result = sum.lane[idx];
      for (int byte = 0; byte < 4; ++byte) {
        result += UnsignedByte(row.lane[idx], byte) * SignedByte(query.lane[idx], byte);
      }
      return result;
    });
  }
};

// A thread's AMX tiles: eight tiles of sixteen rows of 64 bytes. They may be used only between Configure and Release.
struct EmulatedTiles {
  static void Configure() {
    if (configured) std::abort();
    configured = true;
  }
  static void Release() {
    if (!configured) std::abort();
    configured = false;
  }
  template <int kTile>
  static void Zero() {
    std::memset(tiles[kTile], 0, sizeof(tiles[kTile]));
  }
  template <int kTile>
  static void Load(const void* from, size_t stride) {
    if (!configured) std::abort();
    for (size_t row = 0; row < kLanes; ++row) {
      std::memcpy(tiles[kTile][row], static_cast<const char*>(from) + row * stride, sizeof(tiles[kTile][row]));
    }
  }
  template <int kTile>
  static void Store(void* to, size_t stride) {
    for (size_t row = 0; row < kLanes; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, tiles[kTile][row], sizeof(tiles[kTile][row]));
    }
  }

  static thread_local bool configured;
  static thread_local uint32_t tiles[8][kLanes][kLanes];
};
thread_local bool EmulatedTiles::configured = false;
thread_local uint32_t EmulatedTiles::tiles[8][kLanes][kLanes];

struct EmulatedAmxI8 : EmulatedTiles, cpu::AmxI8Shape {
  struct Vector : EmulatedIntegers, cpu::Avx512Shape {};
  // Multiplies as TDPBSSD does.
  template <int kSums, int kRows, int kQueries>
  static void Multiply() {
    for (size_t row = 0; row < kLanes; ++row) {
      for (size_t step = 0; step < kLanes; ++step) {
        const uint32_t row_step = tiles[kRows][row][step];
        for (size_t lane = 0; lane < kLanes; ++lane) {
          auto sum = static_cast<int32_t>(tiles[kSums][row][lane]);
          for (int byte = 0; byte < 4; ++byte) {
            sum += SignedByte(row_step, byte) * SignedByte(tiles[kQueries][step][lane], byte);
          }
          tiles[kSums][row][lane] = static_cast<uint32_t>(sum);
        }
      }
    }
  }
};

struct EmulatedAmxBf16 : EmulatedTiles, cpu::AmxBf16Shape {
  using Vector = Emulated;
  // Multiplies as TDPBF16PS does: it adds the even columns one after the other, then the odd ones, then both sums, and
  // adds that to the sum so far.
  template <int kSums, int kRows, int kQueries>
  static void Multiply() {
    for (size_t row = 0; row < kLanes; ++row) {
      Floats even = {};
      Floats odd = {};
      for (size_t step = 0; step < kLanes; ++step) {
        const uint32_t row_step = tiles[kRows][row][step];
        const float row_low = Low(row_step);
        const float row_high = High(row_step);
        for (size_t lane = 0; lane < kLanes; ++lane) {
          even.lane[lane] += row_low * Low(tiles[kQueries][step][lane]);
          odd.lane[lane] += row_high * High(tiles[kQueries][step][lane]);
        }
      }
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float sum = std::bit_cast<float>(tiles[kSums][row][lane]) + (even.lane[lane] + odd.lane[lane]);
        tiles[kSums][row][lane] = std::bit_cast<uint32_t>(sum);
      }
    }
  }
};

}  // namespace

constexpr cpu::Isa kEmulatedAvx512Bf16Isa = {.name = "emulated_avx512bf16",
                                             .lanes = cpu::Avx512Shape::kLanes,
                                             .panel_vectors = cpu::Avx512Shape::kPanelVectors,
                                             .f32 = cpu::MakeKernels<Emulated>(),
                                             .bf16 = cpu::MakeKernels<EmulatedBf16>(),
                                             .i8 = cpu::MakeKernels<EmulatedVnni>()};

constexpr cpu::Isa kEmulatedAmxIsa = {.name = "emulated_amx",
                                      .lanes = cpu::Avx512Shape::kLanes,
                                      .panel_vectors = cpu::Avx512Shape::kPanelVectors,
                                      .f32 = cpu::MakeKernels<Emulated>(),
                                      .bf16 = cpu::MakeTileKernels<EmulatedAmxBf16>(),
                                      .i8 = cpu::MakeTileKernels<EmulatedAmxI8>()};

std::vector<const cpu::Isa*> EmulatedIsas() {
  const std::vector<const cpu::Isa*> real = cpu::AvailableIsas();
  const auto has = [&real](std::string_view name) {
    return std::any_of(real.begin(), real.end(), [name](const cpu::Isa* isa) { return isa->name == name; });
  };
  std::vector<const cpu::Isa*> isas;
  if (!has("avx512bf16")) isas.push_back(&kEmulatedAvx512Bf16Isa);
  if (!has("amx")) isas.push_back(&kEmulatedAmxIsa);
  return isas;
}

}  // namespace maxsim::test
