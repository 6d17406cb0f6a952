// Reads query texts and relevance judgements from files. Every error names the file and the line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace maxsim::evaluation {

// Reads a file to its end. NOT_FOUND, with the file and the reason, if it cannot be read, also for a folder.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Returns the strings of an array in an object; empty unless all elements of the array are strings.
std::vector<std::string> StringArray(const nlohmann::json& object, const char* name);

// Holds a query as a JSON Lines file describes it.
struct QueryText {
  std::string id;
  std::string text;
  std::vector<std::string> tokens;  // word pieces; may be empty
};
absl::StatusOr<std::vector<QueryText>> ParseQueryTexts(std::string_view jsonl, const std::string& origin);

// Judgements are grades by query id, then document id. Lines are "query document grade" or TREC's "query 0 document
// grade", separated by blanks or tabs. A first line of column names (BEIR's "query-id corpus-id score") is skipped.
using Judgements = std::map<std::string, std::map<std::string, double>>;
absl::StatusOr<Judgements> ParseJudgements(std::string_view text, const std::string& origin);

}  // namespace maxsim::evaluation
