// Reads and writes runs: files in TREC's format with a ranking for each query, one line per document: "query Q0
// document rank score tag".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace maxsim::evaluation {

struct RunDocument {
  std::string id;
  float score = 0;  // finite
};

// The ranking of each query id, best document first. As in trec_eval, the order is by descending score (a 32-bit
// float), and equal scores by descending bytes of the id. The ranks in a file are ignored.
using Run = std::map<std::string, std::vector<RunDocument>>;

// Reads a run. Lines may be in any order. Returns INVALID_ARGUMENT, with `origin` and the line, for a line without
// exactly six fields, a rank that is not an integer, a score that is not a finite number, or a document that a query
// has twice.
absl::StatusOr<Run> ParseRun(std::string_view text, const std::string& origin);

// Returns the ids of a ranking, in its order.
std::vector<std::string> RankedIds(absl::Span<const RunDocument> ranking);

// Returns OK if `text` can be a field of a run. Returns INVALID_ARGUMENT, which begins with `what`, if it is empty or
// has white space or a zero byte.
absl::Status CheckRunField(std::string_view what, std::string_view text);

// Returns the lines of one query's ranking, with ranks from 1. A score that is not below the score before it is written
// as the next smaller float, so that a reader that sorts by score keeps the order. Returns INVALID_ARGUMENT for fields
// that CheckRunField refuses, and for a score that is not finite.
absl::StatusOr<std::string> FormatRanking(const std::string& query, absl::Span<const RunDocument> ranking,
                                          const std::string& tag);

}  // namespace maxsim::evaluation
