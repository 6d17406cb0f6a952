// Element types of token matrices, and conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace maxsim {

// How token values are stored. maxsim.v1.DataType on the wire has the same numbers.
enum class ScalarType : uint8_t {
  kF32 = 1,
  kF16 = 2,   // IEEE binary16
  kBF16 = 3,  // upper half of an IEEE binary32
  kI8 = 4,    // quantised, with a scale for each document and a rotation (kernels/quantize.h)
  // Residual codes: 1, 2, 4 or 8 bits per column, and the number of a centroid (kernels/residual_codes.h).
  kResidual1 = 5,
  kResidual2 = 6,
  kResidual4 = 7,
  kResidual8 = 8,
};

// Returns the bits of a column's code: 1, 2, 4 or 8 for residual codes, 0 for every other type.
constexpr int ResidualBits(ScalarType type) {
  switch (type) {
    case ScalarType::kResidual1:
      return 1;
    case ScalarType::kResidual2:
      return 2;
    case ScalarType::kResidual4:
      return 4;
    case ScalarType::kResidual8:
      return 8;
    case ScalarType::kF32:
    case ScalarType::kF16:
    case ScalarType::kBF16:
    case ScalarType::kI8:
      return 0;
  }
  return 0;
}

constexpr bool IsResidual(ScalarType type) { return ResidualBits(type) > 0; }

// Returns the bytes of one element; 0 for residual codes, whose rows have no elements.
constexpr size_t SizeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return 4;
    case ScalarType::kF16:
    case ScalarType::kBF16:
      return 2;
    case ScalarType::kI8:
      return 1;
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      return 0;
  }
  return 0;
}

// Returns the size in bytes of a token's row in shards and in DocumentsView. A row of residual codes has the codes of
// all columns, followed by the number of the centroid in four bytes, lowest byte first.
constexpr int64_t RowBytes(ScalarType type, int64_t dim) {
  if (IsResidual(type)) return dim * ResidualBits(type) / 8 + static_cast<int64_t>(sizeof(uint32_t));
  return dim * static_cast<int64_t>(SizeOf(type));
}

// Returns the lower-case name that manifests, configuration and messages use: "f32", "f16", "bf16", "i8",
// "residual1", "residual2", "residual4", "residual8".
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
    case ScalarType::kResidual1:
      return "residual1";
    case ScalarType::kResidual2:
      return "residual2";
    case ScalarType::kResidual4:
      return "residual4";
    case ScalarType::kResidual8:
      return "residual8";
  }
  return "?";
}

// Returns the type whose Name is `name`; nullopt for other names.
constexpr std::optional<ScalarType> ScalarTypeFromName(std::string_view name) {
  for (ScalarType type :
       {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8, ScalarType::kResidual1,
        ScalarType::kResidual2, ScalarType::kResidual4, ScalarType::kResidual8}) {
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
// F32. The ranges must not overlap, with one exception: if the types are equal, the pointers may be equal, and nothing
// happens. `source` need not be aligned to its element. Thread-safe.
void ConvertElements(ScalarType from, const void* source, ScalarType to, void* target, size_t count);

// Returns the index of the first element that is not allowed in a token, or nullopt. An element is not allowed if it is
// not finite, if its magnitude exceeds kMaxAbsValue, or if it is -128 in I8. `type` must not be residual codes, which
// have no elements. `data` need not be aligned to its element. Thread-safe.
std::optional<size_t> FindUnusableElement(ScalarType type, const void* data, size_t count);

}  // namespace maxsim
