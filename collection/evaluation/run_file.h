// Reads and writes runs: the ranking of each query in TREC's format, a line for each document, "query Q0 document rank
// score tag". Every error of reading names the file, the line and the value.
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

// Holds rankings by query id, the best document first. The order is trec_eval's: descending scores, compared as 32-bit
// floats, then descending ids, compared by their bytes. Ranks in a file are ignored.
using Run = std::map<std::string, std::vector<RunDocument>>;

// Reads a run. Fields are separated by blanks or tabs, and lines may be in any order. Returns INVALID_ARGUMENT for a
// line without exactly six fields, a rank that is not an integer, a score that is not a finite number, or a document
// that a query has twice.
absl::StatusOr<Run> ParseRun(std::string_view text, const std::string& origin);

// Returns the ids of a ranking, in its order.
std::vector<std::string> RankedIds(absl::Span<const RunDocument> ranking);

// Returns OK for text that can be a field of a run. INVALID_ARGUMENT, which names `what` it is, for empty text and for
// text with white space or a zero byte in it.
absl::Status CheckRunField(std::string_view what, std::string_view text);

// Returns the lines of one query's ranking, ranks from 1. A reader that sorts by score keeps this order: a score that
// is not below the one before it is written as the next smaller float. INVALID_ARGUMENT for fields that CheckRunField
// refuses, and for a score that is not finite.
absl::StatusOr<std::string> FormatRanking(const std::string& query, absl::Span<const RunDocument> ranking,
                                          const std::string& tag);

}  // namespace maxsim::evaluation
