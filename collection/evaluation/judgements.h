// Reads query texts and relevance judgements from files. Errors name the file and the line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace maxsim::evaluation {

// Returns a file's contents. Returns NOT_FOUND, with the reason, if it cannot be read or is a folder.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Returns the array of strings object[name]. Returns an empty list if it is missing, or if any element is not a string.
std::vector<std::string> StringArray(const nlohmann::json& object, const char* name);

// Holds a query as a JSON Lines file describes it.
struct QueryText {
  std::string id;
  std::string text;
  std::vector<std::string> tokens;  // word pieces; may be empty
};
absl::StatusOr<std::vector<QueryText>> ParseQueryTexts(std::string_view jsonl, const std::string& origin);

// The grades of documents: judgements[query id][document id]. Each line of the file is "query document grade" or TREC's
// "query 0 document grade", separated by blanks or tabs. A first line of column names is skipped.
using Judgements = std::map<std::string, std::map<std::string, double>>;
absl::StatusOr<Judgements> ParseJudgements(std::string_view text, const std::string& origin);

}  // namespace maxsim::evaluation
