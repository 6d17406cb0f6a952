#include "collection/formats/element_type.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace maxsim::collection {
namespace {

struct Row {
  std::string_view name;
  std::string_view safetensors;
  size_t size;
};
// The rows are in the order of the values of ElementType.
constexpr std::array<Row, 13> kRows = {{{"f16", "F16", 2},
                                        {"bf16", "BF16", 2},
                                        {"f32", "F32", 4},
                                        {"f64", "F64", 8},
                                        {"f8_e4m3", "F8_E4M3", 1},
                                        {"i8", "I8", 1},
                                        {"i16", "I16", 2},
                                        {"i32", "I32", 4},
                                        {"i64", "I64", 8},
                                        {"u8", "U8", 1},
                                        {"u16", "U16", 2},
                                        {"u32", "U32", 4},
                                        {"u64", "U64", 8}}};

template <typename T>
T Load(const void* data, size_t idx) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + idx * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string_view Name(ElementType type) { return kRows[static_cast<size_t>(type)].name; }
size_t SizeOf(ElementType type) { return kRows[static_cast<size_t>(type)].size; }
bool IsInteger(ElementType type) { return type >= ElementType::kI8; }

std::optional<ScalarType> ToScalarType(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return ScalarType::kF16;
    case ElementType::kBF16:
      return ScalarType::kBF16;
    case ElementType::kF32:
      return ScalarType::kF32;
    default:
      return std::nullopt;
  }
}

ElementType StoredElementType(ScalarType storage) {
  switch (storage) {
    case ScalarType::kF16:
      return ElementType::kF16;
    case ScalarType::kBF16:
      return ElementType::kBF16;
    case ScalarType::kF32:
      return ElementType::kF32;
    case ScalarType::kI8:
      return ElementType::kI8;
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      return ElementType::kU8;  // rows are bytes
  }
  return ElementType::kF32;
}

std::optional<ElementType> ElementTypeFromSafetensors(std::string_view dtype) {
  for (size_t idx = 0; idx < kRows.size(); ++idx) {
    if (kRows[idx].safetensors == dtype) return static_cast<ElementType>(idx);
  }
  return std::nullopt;
}

std::optional<int64_t> LoadInteger(ElementType type, const void* data, size_t idx) {
  switch (type) {
    case ElementType::kI8:
      return Load<int8_t>(data, idx);
    case ElementType::kI16:
      return Load<int16_t>(data, idx);
    case ElementType::kI32:
      return Load<int32_t>(data, idx);
    case ElementType::kI64:
      return Load<int64_t>(data, idx);
    case ElementType::kU8:
      return Load<uint8_t>(data, idx);
    case ElementType::kU16:
      return Load<uint16_t>(data, idx);
    case ElementType::kU32:
      return Load<uint32_t>(data, idx);
    case ElementType::kU64: {
      const auto value = Load<uint64_t>(data, idx);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

float F8E4M3ToF32(uint8_t bits) {
  constexpr int kBias = 7;
  const int exponent = bits >> 3 & 0xf;
  const int fraction = bits & 0x7;
  float magnitude = 0;
  if (exponent == 0xf && fraction == 0x7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), 1 - kBias - 3);
  } else {
    magnitude = std::ldexp(static_cast<float>(8 + fraction), exponent - kBias - 3);
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

double LoadFloat(ElementType type, const void* data, size_t idx) {
  switch (type) {
    case ElementType::kF16:
      return F16ToF32(Load<uint16_t>(data, idx));
    case ElementType::kBF16:
      return Bf16ToF32(Load<uint16_t>(data, idx));
    case ElementType::kF32:
      return Load<float>(data, idx);
    case ElementType::kF64:
      return Load<double>(data, idx);
    case ElementType::kF8E4M3:
      return F8E4M3ToF32(Load<uint8_t>(data, idx));
    default:
      return 0;
  }
}

}  // namespace maxsim::collection
