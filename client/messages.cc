#include "client/messages.h"

#include <bit>
#include <utility>

namespace maxsim::client {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire carries little-endian elements as they lie in memory");

v1::TokenMatrix FromMemory(v1::DataType type, const void* values, size_t num_values, size_t element_bytes,
                           uint32_t dim) {
  v1::TokenMatrix tokens;
  tokens.set_dtype(type);
  tokens.set_num_tokens(dim == 0 ? 0 : static_cast<uint32_t>(num_values / dim));
  tokens.set_dim(dim);
  tokens.set_data(values, num_values * element_bytes);
  return tokens;
}

template <typename String>
v1::Candidates FromStrings(absl::Span<const String> ids) {
  v1::Candidates candidates;
  auto& target = *candidates.mutable_string_ids()->mutable_ids();
  target.Reserve(static_cast<int>(ids.size()));
  for (const String& id : ids) target.Add()->assign(id.data(), id.size());
  return candidates;
}

}  // namespace

v1::TokenMatrix MakeTokens(absl::Span<const float> values, uint32_t dim) {
  return FromMemory(v1::DATA_TYPE_F32, values.data(), values.size(), sizeof(float), dim);
}

v1::TokenMatrix MakeTokens(v1::DataType type, absl::Span<const uint16_t> values, uint32_t dim) {
  // A type of another width would make the matrix claim more bytes than the span has.
  if (type != v1::DATA_TYPE_F16 && type != v1::DATA_TYPE_BF16) return {};
  return FromMemory(type, values.data(), values.size(), sizeof(uint16_t), dim);
}

v1::TokenMatrix MakeTokens(v1::DataType type, uint32_t num_tokens, uint32_t dim, std::string bytes) {
  v1::TokenMatrix tokens;
  tokens.set_dtype(type);
  tokens.set_num_tokens(num_tokens);
  tokens.set_dim(dim);
  tokens.set_data(std::move(bytes));
  return tokens;
}

v1::Query MakeQuery(v1::TokenMatrix tokens, absl::Span<const float> weights) {
  v1::Query query;
  *query.mutable_tokens() = std::move(tokens);
  query.mutable_weights()->Add(weights.begin(), weights.end());
  return query;
}

v1::Query MakeTextQuery(std::string_view text) {
  v1::Query query;
  query.set_text(std::string(text));
  return query;
}

v1::Candidates StringCandidates(absl::Span<const std::string> ids) { return FromStrings(ids); }
v1::Candidates StringCandidates(absl::Span<const std::string_view> ids) { return FromStrings(ids); }

v1::Candidates IntCandidates(absl::Span<const int64_t> ids) {
  v1::Candidates candidates;
  candidates.mutable_int_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return candidates;
}

v1::Candidates WholeCollection() {
  v1::Candidates candidates;
  candidates.mutable_whole_collection();
  return candidates;
}

v1::Document MakeDocument(std::string_view id, v1::TokenMatrix tokens) {
  v1::Document document;
  document.set_string_id(std::string(id));
  *document.mutable_tokens() = std::move(tokens);
  return document;
}

v1::Document MakeDocument(int64_t id, v1::TokenMatrix tokens) {
  v1::Document document;
  document.set_int_id(id);
  *document.mutable_tokens() = std::move(tokens);
  return document;
}

v1::Document MakeTextDocument(std::string_view id, std::string_view text) {
  v1::Document document;
  document.set_string_id(std::string(id));
  document.set_text(std::string(text));
  return document;
}

v1::Document MakeTextDocument(int64_t id, std::string_view text) {
  v1::Document document;
  document.set_int_id(id);
  document.set_text(std::string(text));
  return document;
}

}  // namespace maxsim::client
