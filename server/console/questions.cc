#include "server/console/questions.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_json.h"
#include "nlohmann/json.hpp"

namespace maxsim::console {
namespace {

using nlohmann::json;

// Limit on the nesting of a question's JSON, because ignored members may be deep.
constexpr int kMaxQuestionDepth = 100;

bool IsShape(const json& shape) {
  return shape.is_array() && shape.size() == 2 && shape[0].is_number_unsigned() && shape[1].is_number_unsigned() &&
         shape[0].get<uint64_t>() > 0 && shape[1].get<uint64_t>() > 0;
}

bool AreTexts(const json& list) {
  if (!list.is_array()) return false;
  for (const json& entry : list) {
    if (!entry.is_string()) return false;
  }
  return true;
}

// Returns what is wrong with a question, or "".
std::string WrongQuestion(const json& question) {
  if (!question.is_object()) return "is not a JSON object";
  const auto is_text = [](const json& object, const char* name) {
    return object.contains(name) && object[name].is_string() && !object[name].get_ref<const std::string&>().empty();
  };
  if (!is_text(question, "text")) return "text: is not a text";
  if (!question.contains("query") || !question["query"].is_object()) return "query: is not an object";
  const json& query = question["query"];
  if (!is_text(query, "dtype")) return "query.dtype: is not a text";
  if (!is_text(query, "data")) return "query.data: is not a text";
  if (!query.contains("shape") || !IsShape(query["shape"])) return "query.shape: is not [tokens, dim]";
  if (!question.contains("tokens")) return "";
  const json& tokens = question["tokens"];
  if (!AreTexts(tokens)) return "tokens: is not a list of texts";
  if (tokens.size() == query["shape"][0].get<uint64_t>()) return "";
  return Cat("tokens: has ", tokens.size(), " texts, but query.shape[0] is ", query["shape"][0].get<uint64_t>());
}

}  // namespace

absl::StatusOr<std::string> QuestionsJson(std::string_view lines) {
  json questions = json::array();
  int64_t number = 0;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const absl::StatusOr<json> parsed = ParseUniqueJson(line, kMaxQuestionDepth);
    if (!parsed.ok()) return absl::InvalidArgumentError(Cat("line ", number, ": ", parsed.status().message()));
    const json& question = *parsed;
    if (const std::string wrong = WrongQuestion(question); !wrong.empty()) {
      return absl::InvalidArgumentError(Cat("line ", number, ": ", wrong));
    }
    const json& query = question["query"];
    json kept = {{"text", question["text"]},
                 {"query", {{"dtype", query["dtype"]}, {"shape", query["shape"]}, {"data", query["data"]}}}};
    if (question.contains("tokens")) kept["tokens"] = question["tokens"];
    questions.push_back(std::move(kept));
  }
  return json{{"questions", std::move(questions)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::string> ReadQuestions(const std::string& path) {
  absl::StatusOr<std::string> lines = ReadSmallFile(path, kMaxQuestionsBytes);
  if (!lines.ok()) return lines.status();
  absl::StatusOr<std::string> questions = QuestionsJson(*lines);
  if (questions.ok()) return questions;
  return absl::Status(questions.status().code(), Cat(path, ", ", questions.status().message()));
}

}  // namespace maxsim::console
