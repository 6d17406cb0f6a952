// Element types of arrays that can be imported. Shards can store only some of them (ScalarType).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/scalar_type.h"

namespace maxsim::collection {

enum class ElementType : uint8_t { kF16, kBF16, kF32, kF64, kF8E4M3, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };

// Returns the name in lower case: "f16", "i64", "f8_e4m3", ...
std::string_view Name(ElementType type);
size_t SizeOf(ElementType type);
bool IsInteger(ElementType type);

// Returns the storage type with the same elements; nullopt if shards cannot store this element type.
std::optional<ScalarType> ToScalarType(ElementType type);
// Returns the element type of the rows that a shard of this storage type has.
ElementType StoredElementType(ScalarType storage);

std::optional<ElementType> ElementTypeFromSafetensors(std::string_view dtype);

// Returns element `idx` of an integer array, which need not be aligned; nullopt if the element is above 2^63 - 1.
std::optional<int64_t> LoadInteger(ElementType type, const void* data, size_t idx);

// Converts an OCP 8-bit floating-point number (E4M3: no infinity, largest magnitude 448) exactly.
float F8E4M3ToF32(uint8_t bits);

// Returns the element `idx` of a floating-point array.
double LoadFloat(ElementType type, const void* data, size_t idx);

}  // namespace maxsim::collection
