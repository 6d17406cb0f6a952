#include "kernels/scalar_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/limits.h"

namespace maxsim {
namespace {

// The number of elements handled at a time: conversions through F32 keep their intermediate values on the stack, and
// the search for unusable elements examines elements one by one only in a batch that has one.
constexpr size_t kElementBatch = 512;

// Loads an element by copying its bytes, since it may lie at any address. Compilers turn loops that call this function
// into vector code.
template <typename T>
T LoadElement(const void* data, size_t idx) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + idx * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreElement(void* data, size_t idx, T value) {
  std::memcpy(static_cast<char*>(data) + idx * sizeof(T), &value, sizeof(T));
}

const void* ElementPointer(ScalarType type, const void* data, size_t idx) {
  return static_cast<const char*>(data) + idx * SizeOf(type);
}

// HasF16Vectors returns whether the processor has instructions that convert vectors of F16. These instructions give
// exactly the results of F16ToF32 and F32ToF16, also for NaNs. WidenF16Vectors and NarrowF16Vectors convert as many
// elements as fill whole vectors, from the first one on, and return their number.
#if defined(__x86_64__)
// The conversions are F16C, which every processor with AVX2 has.
bool HasF16Vectors() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

__attribute__((target("avx,f16c"))) size_t WidenF16Vectors(const void* source, void* target, size_t count) {
  size_t idx = 0;
  for (; idx + 8 <= count; idx += 8) {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(source) + idx * 2));
    const __m256i bits = _mm256_castps_si256(_mm256_cvtph_ps(halves));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<char*>(target) + idx * 4), bits);
  }
  return idx;
}

__attribute__((target("avx,f16c"))) size_t NarrowF16Vectors(const void* source, void* target, size_t count) {
  size_t idx = 0;
  for (; idx + 8 <= count; idx += 8) {
    const __m256i bits =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const char*>(source) + idx * 4));
    const __m128i halves = _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<char*>(target) + idx * 2), halves);
  }
  return idx;
}
#elif defined(__aarch64__)
bool HasF16Vectors() { return true; }

size_t WidenF16Vectors(const void* source, void* target, size_t count) {
  size_t idx = 0;
  for (; idx + 4 <= count; idx += 4) {
    float16x4_t halves;
    std::memcpy(&halves, static_cast<const char*>(source) + idx * 2, sizeof(halves));
    const float32x4_t values = vcvt_f32_f16(halves);
    std::memcpy(static_cast<char*>(target) + idx * 4, &values, sizeof(values));
  }
  return idx;
}

size_t NarrowF16Vectors(const void* source, void* target, size_t count) {
  size_t idx = 0;
  for (; idx + 4 <= count; idx += 4) {
    float32x4_t values;
    std::memcpy(&values, static_cast<const char*>(source) + idx * 4, sizeof(values));
    const float16x4_t halves = vcvt_f16_f32(values);
    std::memcpy(static_cast<char*>(target) + idx * 2, &halves, sizeof(halves));
  }
  return idx;
}
#else
bool HasF16Vectors() { return false; }
size_t WidenF16Vectors(const void*, void*, size_t) { return 0; }
size_t NarrowF16Vectors(const void*, void*, size_t) { return 0; }
#endif

void WidenF16(const void* source, void* target, size_t count) {
  for (size_t idx = HasF16Vectors() ? WidenF16Vectors(source, target, count) : 0; idx < count; ++idx) {
    StoreElement(target, idx, F16ToF32(LoadElement<uint16_t>(source, idx)));
  }
}

void NarrowF16(const void* source, void* target, size_t count) {
  for (size_t idx = HasF16Vectors() ? NarrowF16Vectors(source, target, count) : 0; idx < count; ++idx) {
    StoreElement(target, idx, F32ToF16(LoadElement<float>(source, idx)));
  }
}

void WidenBf16(const void* __restrict source, void* __restrict target, size_t count) {
  for (size_t idx = 0; idx < count; ++idx) {
    StoreElement(target, idx, static_cast<uint32_t>(LoadElement<uint16_t>(source, idx)) << 16);
  }
}

void NarrowBf16(const void* __restrict source, void* __restrict target, size_t count) {
  for (size_t idx = 0; idx < count; ++idx) {
    // This does what F32ToBf16 does, without branches.
    const auto bits = LoadElement<uint32_t>(source, idx);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet_nan = bits >> 16 | 0x40;
    const bool is_nan = static_cast<int32_t>(bits & 0x7fffffff) > 0x7f800000;
    StoreElement(target, idx, static_cast<uint16_t>(is_nan ? quiet_nan : rounded));
  }
}

void WidenToF32(ScalarType from, const void* source, void* target, size_t count) {
  switch (from) {
    case ScalarType::kF32:
      std::memcpy(target, source, count * sizeof(float));
      return;
    case ScalarType::kF16:
      return WidenF16(source, target, count);
    case ScalarType::kBF16:
      return WidenBf16(source, target, count);
    case ScalarType::kI8:  // an element has no value without its document's scale
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      return;  // rows have no elements
  }
}

void NarrowFromF32(const void* source, ScalarType to, void* target, size_t count) {
  switch (to) {
    case ScalarType::kF32:
      std::memcpy(target, source, count * sizeof(float));
      return;
    case ScalarType::kF16:
      return NarrowF16(source, target, count);
    case ScalarType::kBF16:
      return NarrowBf16(source, target, count);
    case ScalarType::kI8:
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      return;
  }
}

// Returns true when an element's magnitude bits exceed `limit`. Positive floats are ordered as their bits are,
// infinities and NaNs last. The loop collects the sign of limit - magnitude, which needs no comparison.
template <typename Bits, typename Signed>
bool AnyAbove(const void* data, size_t count, Signed limit) {
  constexpr auto kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  Signed above = 0;
  for (size_t idx = 0; idx < count; ++idx) {
    const auto magnitude = static_cast<Signed>(LoadElement<Bits>(data, idx) & kMagnitude);
    above = static_cast<Signed>(above | static_cast<Signed>(limit - magnitude));
  }
  return above < 0;
}

bool AnyUnusable(ScalarType type, const void* data, size_t count) {
  constexpr auto kLimit = std::bit_cast<int32_t>(kMaxAbsValue);
  switch (type) {
    case ScalarType::kF32:
      return AnyAbove<uint32_t, int32_t>(data, count, kLimit);
    case ScalarType::kF16:
      return AnyAbove<uint16_t, int16_t>(data, count, 0x7bff);  // the largest finite F16 is below kMaxAbsValue
    case ScalarType::kBF16:
      // The limit rounded to BF16 is slightly larger than the limit, but values within the limit may round to it.
      return AnyAbove<uint16_t, int16_t>(data, count, static_cast<int16_t>((kLimit + 0x8000) >> 16));
    case ScalarType::kI8:
      return std::memchr(data, 0x80, count) != nullptr;
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      return true;
  }
  return true;
}

}  // namespace

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    const uint32_t quiet = fraction != 0 ? 0x400000 : 0;  // the processor makes a signalling NaN quiet too
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | fraction << 13);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  // Zero and subnormals are fraction x 2^-24, which is exact in binary32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));  // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 2^16: infinity
  if (magnitude < 0x38800000) {
    // The value is below the smallest normal. Adding 1/2 leaves the subnormal's 10 bits, rounded by the FPU, in the
    // lowest bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void ConvertElements(ScalarType from, const void* source, ScalarType to, void* target, size_t count) {
  if (count == 0) return;
  if (from == to) {
    if (source != target) std::memcpy(target, source, count * SizeOf(from));
    return;
  }
  if (to == ScalarType::kF32) return WidenToF32(from, source, target, count);
  if (from == ScalarType::kF32) return NarrowFromF32(source, to, target, count);
  float values[kElementBatch];
  for (size_t idx = 0; idx < count; idx += kElementBatch) {
    const size_t chunk = std::min(kElementBatch, count - idx);
    WidenToF32(from, ElementPointer(from, source, idx), values, chunk);
    NarrowFromF32(values, to, static_cast<char*>(target) + idx * SizeOf(to), chunk);
  }
}

std::optional<size_t> FindUnusableElement(ScalarType type, const void* data, size_t count) {
  for (size_t idx = 0; idx < count; idx += kElementBatch) {
    const size_t chunk = std::min(kElementBatch, count - idx);
    if (!AnyUnusable(type, ElementPointer(type, data, idx), chunk)) continue;
    for (size_t found = idx; found < idx + chunk; ++found) {
      if (AnyUnusable(type, ElementPointer(type, data, found), 1)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace maxsim
