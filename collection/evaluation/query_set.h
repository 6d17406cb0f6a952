// Reads queries, which are token matrices, from files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/formats/element_type.h"
#include "kernels/scalar_type.h"

namespace maxsim::evaluation {

// True for the types that queries and weights can have.
bool IsFloat(collection::ElementType type);

// Queries as token matrices, all of one element type and dimension.
class QuerySet {
 public:
  // `tokens_path` is a .npy file of float16, float32 or float64 (rounded to float32):
  //   [tokens, dim]           one query; or, with `lengths_path`, several queries one after another. `lengths_path`
  //                           is then a file with an integer array of their lengths
  //   [queries, tokens, dim]  queries of one length
  static absl::StatusOr<QuerySet> Read(const std::string& tokens_path, const std::string& lengths_path);

  // Makes one query per entry of `lengths`, its number of tokens. `values` [sum of lengths, dim] has the tokens of all
  // queries one after another.
  static QuerySet FromFloats(int32_t dim, absl::Span<const int32_t> lengths, absl::Span<const float> values);

  ScalarType type() const { return type_; }
  int32_t dim() const { return dim_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int32_t num_tokens(int64_t query) const {
    return static_cast<int32_t>(offsets_[static_cast<size_t>(query) + 1] - offsets_[static_cast<size_t>(query)]);
  }
  // Returns [num_tokens, dim] elements of type().
  std::string_view bytes(int64_t query) const;

  // Returns the bytes of the query's elements, [num_tokens, dim], rounded to `type`. To round as the server does, pass
  // QueryType(storage type of the collection).
  std::string Rounded(int64_t query, ScalarType type) const;

  // Returns OUT_OF_RANGE if there is no query with this index.
  absl::Status CheckIndex(int64_t index) const;

 private:
  ScalarType type_ = ScalarType::kF32;
  int32_t dim_ = 0;
  std::vector<int64_t> offsets_ = {0};  // in tokens
  std::string values_;
};

}  // namespace maxsim::evaluation
