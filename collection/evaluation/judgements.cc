#include "collection/evaluation/judgements.h"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"
#include "base/unique_json.h"
#include "nlohmann/json.hpp"

namespace maxsim::evaluation {
namespace {

// Maximum nesting depth of a query's JSON. Members that this project does not know are ignored.
constexpr int kMaxQueryDepth = 100;

// Returns whether a line has column names, as BEIR's files begin with: query-id corpus-id score.
bool IsJudgementHeader(std::string_view query, std::string_view grade) {
  std::string name;
  for (const char c : query) {
    if (c != '-' && c != '_') name += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  double number = 0;
  return (name == "queryid" || name == "qid" || name == "query") && !ParseNumber(grade, number);
}

}  // namespace

std::vector<std::string> StringArray(const nlohmann::json& object, const char* name) {
  std::vector<std::string> strings;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return strings;
  for (const nlohmann::json& element : *found) {
    if (!element.is_string()) return {};
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  if (std::optional<std::string> text = ReadToEnd(path)) return *std::move(text);
  return absl::NotFoundError(
      Cat("cannot read '", path, "'", errno == 0 ? "" : ": ", errno == 0 ? "" : strerror(errno)));
}

absl::StatusOr<std::vector<QueryText>> ParseQueryTexts(std::string_view jsonl, const std::string& origin) {
  std::vector<QueryText> texts;
  absl::Status status = ForEachLine(jsonl, [&](int64_t number, std::string_view line) -> absl::Status {
    using nlohmann::json;
    const absl::StatusOr<json> parsed = ParseUniqueJson(line, kMaxQueryDepth);
    if (!parsed.ok()) return Invalid(origin, ":", number, ": ", parsed.status().message());
    const json& object = *parsed;
    if (!object.is_object()) return Invalid(origin, ":", number, ": not a JSON object");
    QueryText text;
    const auto id = object.find("id");
    if (id == object.end() || !(id->is_string() || id->is_number_integer())) {
      return Invalid(origin, ":", number, ": \"id\" must be there, a string or an integer");
    }
    text.id = id->is_string() ? id->get<std::string>() : id->dump();
    if (const auto found = object.find("text"); found != object.end() && found->is_string()) {
      text.text = found->get<std::string>();
    }
    text.tokens = StringArray(object, "tokens");
    texts.push_back(std::move(text));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return texts;
}

absl::StatusOr<Judgements> ParseJudgements(std::string_view text, const std::string& origin) {
  Judgements judgements;
  absl::Status status = ForEachLine(text, [&](int64_t number, std::string_view line) -> absl::Status {
    std::vector<std::string_view> fields;
    for (line = Trim(line); !line.empty(); line = Trim(line)) {
      const size_t end = std::min(line.find_first_of(kBlanks), line.size());
      fields.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    if (number == 1 && fields.size() >= 3 && IsJudgementHeader(fields.front(), fields.back())) return absl::OkStatus();
    double grade = 0;
    if (fields.size() < 3 || fields.size() > 4 || !ParseNumber(fields.back(), grade) || !std::isfinite(grade)) {
      return Invalid(origin, ":", number, ": not 'query document grade' (or 'query 0 document grade')");
    }
    judgements[std::string(fields.front())][std::string(fields[fields.size() - 2])] = grade;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return judgements;
}

}  // namespace maxsim::evaluation
