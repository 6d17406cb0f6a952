// Builds request messages from plain memory.
//
// A builder copies a span once, into the message; it moves a std::string of raw bytes into the message. Builders only
// check what they need in order not to read outside of their arguments: the server validates every field, and its error
// names the field. If the caller's sizes contradict each other, the result is a matrix that the server refuses (its
// `data` does not have num_tokens x dim elements). All functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

// Makes an FP32 matrix. `values` is [num_tokens, dim] row-major; num_tokens = values.size() / dim.
v1::TokenMatrix MakeTokens(absl::Span<const float> values, uint32_t dim);
// Makes a matrix of 16-bit elements; `type` is DATA_TYPE_F16 or DATA_TYPE_BF16.
v1::TokenMatrix MakeTokens(v1::DataType type, absl::Span<const uint16_t> values, uint32_t dim);
// Makes a matrix of raw little-endian bytes of any type.
v1::TokenMatrix MakeTokens(v1::DataType type, uint32_t num_tokens, uint32_t dim, std::string bytes);

// Makes a query of these tokens; `weights` has one weight per token or is empty. The query has no candidates of its
// own, so the server uses those of the request.
v1::Query MakeQuery(v1::TokenMatrix tokens, absl::Span<const float> weights = {});

// Makes a query of a text, UTF-8, which the server's encoder turns into vectors. It has no candidates of its own.
v1::Query MakeTextQuery(std::string_view text);

v1::Candidates StringCandidates(absl::Span<const std::string> ids);
v1::Candidates StringCandidates(absl::Span<const std::string_view> ids);
v1::Candidates IntCandidates(absl::Span<const int64_t> ids);
v1::Candidates WholeCollection();

// Makes a document to be written. The caller can then set its payload and its version.
v1::Document MakeDocument(std::string_view id, v1::TokenMatrix tokens);
v1::Document MakeDocument(int64_t id, v1::TokenMatrix tokens);
// Makes a document of a text, UTF-8, which the server's encoder turns into vectors.
v1::Document MakeTextDocument(std::string_view id, std::string_view text);
v1::Document MakeTextDocument(int64_t id, std::string_view text);

}  // namespace maxsim::client
