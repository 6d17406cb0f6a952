// Builders of request messages from plain memory.
//
// A span is copied once, straight into the message's bytes; a std::string that already holds them is moved in. Nothing
// is checked beyond what would make a builder read outside its arguments: the server validates every field and names
// it. Sizes that contradict each other are a programmer's error and yield a matrix that the server refuses (its `data`
// is not num_tokens x dim elements). All functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

// `values` is [num_tokens, dim] row-major; num_tokens = values.size() / dim. FP32:
v1::TokenMatrix MakeTokens(absl::Span<const float> values, uint32_t dim);
// Elements of 16 bits, kF16 or kBF16:
v1::TokenMatrix MakeTokens(ScalarType type, absl::Span<const uint16_t> values, uint32_t dim);
// Raw little-endian bytes of any type:
v1::TokenMatrix MakeTokens(ScalarType type, uint32_t num_tokens, uint32_t dim, std::string bytes);

// A query of these tokens; `weights` is one a token, or empty. It has no candidates of its own: those of the request.
v1::Query MakeQuery(v1::TokenMatrix tokens, absl::Span<const float> weights = {});

v1::Candidates StringCandidates(absl::Span<const std::string> ids);
v1::Candidates StringCandidates(absl::Span<const std::string_view> ids);
v1::Candidates IntCandidates(absl::Span<const int64_t> ids);
v1::Candidates WholeCollection();

}  // namespace maxsim::client
