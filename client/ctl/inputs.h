// Files that commands read: token matrices, ids, query texts, relevance judgements. Every error names the file, and the
// line where there is one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client::ctl {

// Queries as token matrices of one type and dimension, packed.
class QuerySet {
 public:
  // `tokens_path` is a .npy file of float16, float32 or float64 (rounded to float32):
  //   [tokens, dim]           one query; or with `lengths_path`, an integer array, as many as that has, packed
  //   [queries, tokens, dim]  queries of one length
  static absl::StatusOr<QuerySet> Read(const std::string& tokens_path, const std::string& lengths_path);

  ScalarType type() const { return type_; }
  int32_t dim() const { return dim_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int32_t num_tokens(int64_t query) const {
    return static_cast<int32_t>(offsets_[static_cast<size_t>(query) + 1] - offsets_[static_cast<size_t>(query)]);
  }
  // [num_tokens, dim] elements of type().
  std::string_view bytes(int64_t query) const;

  v1::TokenMatrix Message(int64_t query) const;

  // The query's elements rounded to `type`, as the server rounds them to the collection's storage.
  std::string Rounded(int64_t query, ScalarType type) const;

  // OUT_OF_RANGE, with the option's name and the number there are, unless `index` is a query.
  absl::Status CheckIndex(int64_t index) const;

 private:
  ScalarType type_ = ScalarType::kF32;
  int32_t dim_ = 0;
  std::vector<int64_t> offsets_ = {0};  // in tokens
  std::string values_;
};

// A one-dimensional .npy of floating-point weights. INVALID_ARGUMENT unless it has `num_tokens` elements.
absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, int32_t num_tokens);

// Ids in a text, a line each; empty lines are skipped and a carriage return before the end of a line is dropped.
std::vector<std::string> ParseIdLines(std::string_view text);

// Ids between commas, blanks around each dropped.
std::vector<std::string> ParseIdList(std::string_view text);

// A file that can be read to its end; NOT_FOUND naming it and the reason otherwise, also for a folder.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The same; "-" reads standard input.
absl::StatusOr<std::string> ReadText(const std::string& path);

// Candidates of a collection with this kind of ids. INVALID_ARGUMENT naming an id that is not a 64-bit integer where
// the collection has integers, or when there is none at all.
absl::StatusOr<v1::Candidates> MakeCandidates(absl::Span<const std::string> ids, v1::IdType type);

// A query as a JSON Lines file describes it.
struct QueryText {
  std::string id;
  std::string text;
  std::vector<std::string> tokens;  // word pieces; may be empty
};
absl::StatusOr<std::vector<QueryText>> ParseQueryTexts(std::string_view jsonl, const std::string& origin);
absl::StatusOr<std::vector<QueryText>> ReadQueryTexts(const std::string& path);

// The payload's "tokens": the word piece of each document token. Empty where there are none.
std::vector<std::string> PayloadTokens(const std::string& payload);

// Grades by query id, then document id. Lines are "query document grade" or TREC's "query 0 document grade", between
// blanks or tabs; a first line of column names (BEIR's "query-id corpus-id score") is skipped.
using Judgements = std::map<std::string, std::map<std::string, double>>;
absl::StatusOr<Judgements> ParseJudgements(std::string_view text, const std::string& origin);

}  // namespace maxsim::client::ctl
