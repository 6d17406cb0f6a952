// Files that commands read: token matrices, ids, query texts, relevance judgements. Every error names the file and, if
// there is one, the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/evaluation/judgements.h"
#include "collection/evaluation/query_set.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::ctl {

using evaluation::Judgements;
using evaluation::ParseJudgements;
using evaluation::ParseQueryTexts;
using evaluation::QuerySet;
using evaluation::QueryText;
using evaluation::ReadWholeFile;

// Returns a query in the form in which it is sent.
v1::TokenMatrix QueryTokens(const QuerySet& queries, int64_t query);

// Reads a one-dimensional .npy file of floating-point weights. INVALID_ARGUMENT unless it has `num_tokens` elements.
absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, int32_t num_tokens);

// Returns the ids in a text, one per line. Skips empty lines, and drops a carriage return at the end of a line.
std::vector<std::string> ParseIdLines(std::string_view text);

// Returns the ids of a list separated by commas, without blanks around them.
std::vector<std::string> ParseIdList(std::string_view text);

// Reads a file to its end, as ReadWholeFile does; "-" reads standard input.
absl::StatusOr<std::string> ReadText(const std::string& path);

// Turns ids into candidates of a collection whose ids have this type. Returns INVALID_ARGUMENT if there are no ids, or
// if the type is integer and an id is not a 64-bit integer; the message names that id.
absl::StatusOr<v1::Candidates> MakeCandidates(absl::Span<const std::string> ids, v1::IdType type);

// Reads a file of query texts; "-" reads standard input.
absl::StatusOr<std::vector<QueryText>> ReadQueryTexts(const std::string& path);

// Returns the payload's "tokens", which is the word piece of each document token; empty if it has none.
std::vector<std::string> PayloadTokens(const std::string& payload);

}  // namespace maxsim::ctl
