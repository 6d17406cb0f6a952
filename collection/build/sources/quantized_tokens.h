// Dequantises token vectors to FP32 while they are read: i8 elements with scales, F8_E4M3 elements with or without
// scales, and the rotated rows of this project's own i8 shards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/build/sources/array_input.h"
#include "collection/build/sources/sources.h"

namespace maxsim::collection {

// Returns true for i8 and F8_E4M3.
bool IsQuantized(ElementType type);

struct Quantization {
  // Scales of a floating-point type, finite and not negative: one per token ([T] or [T, 1]), one per document ([N] or
  // [N, 1]), or one for all ([] or [1]). Required for i8. Without scales, f8_e4m3 elements are the values themselves.
  std::optional<ArrayInput> scales;
  // The seed of the rotation that was applied before quantisation; nullopt if the vectors were not rotated.
  std::optional<uint64_t> rotation_seed;
};

// Returns a source of type f32: scale x element, rotated back. `tokens` is [T, d] of a quantised type; `lengths` are
// the documents' token counts and sum to T. Returns INVALID_ARGUMENT if scales are missing, or have a wrong type or
// shape. A wrong scale value is found later, by the source's Next.
absl::StatusOr<std::unique_ptr<TokenSource>> OpenQuantizedTokens(ArrayInput tokens, Quantization quantization,
                                                                 std::vector<int32_t> lengths);

}  // namespace maxsim::collection
