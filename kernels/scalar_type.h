// Element types of token matrices, and conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace maxsim {

// How token values are stored. The numbers are those of maxsim.v1.DataType on the wire.
enum class ScalarType : uint8_t {
  kF32 = 1,
  kF16 = 2,   // IEEE binary16
  kBF16 = 3,  // upper half of an IEEE binary32
  kI8 = 4,    // quantised, with a scale for each document and a rotation (kernels/quantize.h)
};

// Returns the bytes of one element.
constexpr size_t SizeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return 4;
    case ScalarType::kF16:
    case ScalarType::kBF16:
      return 2;
    case ScalarType::kI8:
      return 1;
  }
  return 0;
}

// Returns the lower-case name that manifests, configuration and messages use: "f32", "f16", "bf16", "i8".
constexpr std::string_view Name(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return "f32";
    case ScalarType::kF16:
      return "f16";
    case ScalarType::kBF16:
      return "bf16";
    case ScalarType::kI8:
      return "i8";
  }
  return "?";
}

// Returns the type whose Name is `name`; nullopt for other names.
constexpr std::optional<ScalarType> ScalarTypeFromName(std::string_view name) {
  for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

// Widens one element, exactly.
float F16ToF32(uint16_t bits);
constexpr float Bf16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even. Overflow gives infinity, and NaN stays NaN.
uint16_t F32ToF16(float value);
uint16_t F32ToBf16(float value);

// Converts `count` elements. `from` and `to` may be any of F32, F16, BF16; narrowing rounds to nearest even through
// F32. The ranges must not overlap, unless the types are equal and the pointers too (then nothing happens). `source`
// need not be aligned to its element. Thread-safe.
void ConvertElements(ScalarType from, const void* source, ScalarType to, void* target, size_t count);

// Returns the index of the first element that no token may have, or nullopt. Such an element is not finite, has a
// magnitude beyond kMaxAbsValue, or is -128 in I8. `data` need not be aligned to its element. Thread-safe.
std::optional<size_t> FindUnusableElement(ScalarType type, const void* data, size_t count);

}  // namespace maxsim
