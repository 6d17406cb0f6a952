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
  kI8 = 4,    // quantised: needs the scale of its document and a rotation (kernels/quantize.h)
};

// Bytes of one element.
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

// Lower-case name used in manifests, configuration and messages: "f32", "f16", "bf16", "i8".
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

// The inverse of Name; nullopt for anything else.
constexpr std::optional<ScalarType> ScalarTypeFromName(std::string_view name) {
  for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

// Exact widening of one element.
float F16ToF32(uint16_t bits);
constexpr float Bf16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even; overflow gives infinity, NaN stays NaN.
uint16_t F32ToF16(float value);
uint16_t F32ToBf16(float value);

// Converts `count` elements. `from` and `to` may be any of F32, F16, BF16; narrowing rounds to nearest even through
// F32. The ranges must not overlap, unless the types are equal and the pointers too (then nothing happens). `source`
// need not be aligned to its element. Thread-safe.
void ConvertElements(ScalarType from, const void* source, ScalarType to, void* target, size_t count);

// Index of the first element that no token may have: not finite, of a magnitude beyond kMaxAbsValue, -128 in I8; or
// nullopt. `data` need not be aligned to its element.
std::optional<size_t> FindUnusableElement(ScalarType type, const void* data, size_t count);

}  // namespace maxsim
