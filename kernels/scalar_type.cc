#include "kernels/scalar_type.h"

#include <cmath>
#include <cstring>

#include "kernels/limits.h"

namespace maxsim {
namespace {

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

float LoadAsF32(ScalarType type, const void* data, size_t idx) {
  switch (type) {
    case ScalarType::kF32:
      return LoadElement<float>(data, idx);
    case ScalarType::kF16:
      return F16ToF32(LoadElement<uint16_t>(data, idx));
    case ScalarType::kBF16:
      return Bf16ToF32(LoadElement<uint16_t>(data, idx));
    case ScalarType::kI8:
      return LoadElement<int8_t>(data, idx);
  }
  return 0;
}

}  // namespace

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  // Zero and subnormals: fraction x 2^-24, exact in binary32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 2^16 or more
  if (magnitude < 0x38800000) {
    // Below the smallest normal: adding 1/2 leaves the subnormal's 10 bits, rounded by the FPU, at the bottom.
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
  if (from == to) {
    if (source != target && count != 0) std::memcpy(target, source, count * SizeOf(from));
    return;
  }
  for (size_t idx = 0; idx < count; ++idx) {
    const float value = LoadAsF32(from, source, idx);
    switch (to) {
      case ScalarType::kF32:
        StoreElement(target, idx, value);
        break;
      case ScalarType::kF16:
        StoreElement(target, idx, F32ToF16(value));
        break;
      case ScalarType::kBF16:
        StoreElement(target, idx, F32ToBf16(value));
        break;
      case ScalarType::kI8:
        return;  // quantising is not a conversion of single elements
    }
  }
}

std::optional<size_t> FindUnusableElement(ScalarType type, const void* data, size_t count) {
  for (size_t idx = 0; idx < count; ++idx) {
    // Written so that NaN fails it.
    if (!(std::fabs(LoadAsF32(type, data, idx)) <= kMaxAbsValue)) return idx;
  }
  return std::nullopt;
}

}  // namespace maxsim
