#include "collection/evaluation/run_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/lines.h"
#include "base/text.h"

namespace maxsim::evaluation {
namespace {

// Field separators, which a field must not contain: the characters that isspace counts as white space.
constexpr std::string_view kSeparators = " \t\r\n\v\f";

constexpr size_t kNumFields = 6;

struct RunLine {
  RunDocument document;
  int64_t number = 0;
};

// Splits a line into fields. Returns the number of all fields, and stores the first kNumFields.
size_t Split(std::string_view line, std::array<std::string_view, kNumFields>& fields) {
  size_t count = 0;
  for (size_t begin = line.find_first_not_of(kSeparators); begin != std::string_view::npos; ++count) {
    const size_t end = std::min(line.find_first_of(kSeparators, begin), line.size());
    if (count < kNumFields) fields[count] = line.substr(begin, end - begin);
    begin = line.find_first_not_of(kSeparators, end);
  }
  return count;
}

// Reads a score as trec_eval does: a decimal number with an optional sign, rounded to a 32-bit float. Returns false if
// the text is not a number or the result is not finite.
bool ParseScore(std::string_view text, float& score) {
  if (text.substr(0, 1) == "+") text.remove_prefix(text.substr(1, 1) == "-" ? 0 : 1);
  double value = 0;
  if (!ParseNumber(text, value)) return false;
  // The shortest decimal that stands for the largest float is slightly above that float. Accepts values that round to
  // it: those less than 2^103, half the distance between the two largest floats, above it.
  constexpr double kMaxFloat = std::numeric_limits<float>::max();
  if (!(std::abs(value) < kMaxFloat + 0x1p103)) return false;
  score = static_cast<float>(std::clamp(value, -kMaxFloat, kMaxFloat));
  return true;
}

// Returns a query's documents in trec_eval's order (run_file.h). Returns INVALID_ARGUMENT if one appears twice.
absl::StatusOr<std::vector<RunDocument>> Rank(std::vector<RunLine>& lines, const std::string& query,
                                              const std::string& origin) {
  std::sort(lines.begin(), lines.end(), [](const RunLine& a, const RunLine& b) {
    const int order = a.document.id.compare(b.document.id);
    return order != 0 ? order < 0 : a.number < b.number;
  });
  const auto twice = std::adjacent_find(
      lines.begin(), lines.end(), [](const RunLine& a, const RunLine& b) { return a.document.id == b.document.id; });
  if (twice != lines.end()) {
    return Invalid(origin, ":", (twice + 1)->number, ": query ", Quote(query), " has document ",
                   Quote(twice->document.id), " for the second time; the first is line ", twice->number);
  }
  std::vector<RunDocument> ranking;
  ranking.reserve(lines.size());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) ranking.push_back(std::move(line->document));
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const RunDocument& a, const RunDocument& b) { return a.score > b.score; });
  return ranking;
}

}  // namespace

absl::StatusOr<Run> ParseRun(std::string_view text, const std::string& origin) {
  std::map<std::string, std::vector<RunLine>, std::less<>> lines;
  absl::Status status = ForEachLine(text, [&](int64_t number, std::string_view line) -> absl::Status {
    std::array<std::string_view, kNumFields> fields;
    const size_t count = Split(line, fields);
    if (count == 0) return absl::OkStatus();
    if (count != kNumFields) {
      return Invalid(origin, ":", number, ": ", count, " fields in ", Quote(Trim(line)),
                     "; a run has 6: query Q0 document rank score tag");
    }
    const auto [query, ignored, id, rank, score, tag] = fields;
    int64_t ranked = 0;
    if (!ParseNumber(rank, ranked))
      return Invalid(origin, ":", number, ": the rank ", Quote(rank), " is not an integer");
    RunLine parsed{{std::string(id), 0}, number};
    if (!ParseScore(score, parsed.document.score)) {
      return Invalid(origin, ":", number, ": the score ", Quote(score), " is not a finite 32-bit number");
    }
    auto found = lines.find(query);
    if (found == lines.end()) found = lines.emplace(std::string(query), std::vector<RunLine>()).first;
    found->second.push_back(std::move(parsed));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  Run run;
  for (auto& [query, of_query] : lines) {
    absl::StatusOr<std::vector<RunDocument>> ranking = Rank(of_query, query, origin);
    if (!ranking.ok()) return ranking.status();
    run.emplace_hint(run.end(), query, *std::move(ranking));
    of_query = {};  // the lines of a large run are not held twice
  }
  return run;
}

std::vector<std::string> RankedIds(absl::Span<const RunDocument> ranking) {
  std::vector<std::string> ids;
  ids.reserve(ranking.size());
  for (const RunDocument& document : ranking) ids.push_back(document.id);
  return ids;
}

absl::Status CheckRunField(std::string_view what, std::string_view text) {
  if (text.empty()) return Invalid(what, " is empty; a run needs it");
  if (text.find_first_of(kSeparators) != std::string_view::npos || text.find('\0') != std::string_view::npos) {
    return Invalid(what, " ", Quote(text), " holds white space or a zero byte; a field of a run cannot");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FormatRanking(const std::string& query, absl::Span<const RunDocument> ranking,
                                          const std::string& tag) {
  if (absl::Status status = CheckRunField("query id", query); !status.ok()) return status;
  if (absl::Status status = CheckRunField("tag", tag); !status.ok()) return status;
  std::string lines;
  float limit = std::numeric_limits<float>::max();
  for (size_t idx = 0; idx < ranking.size(); ++idx) {
    const RunDocument& document = ranking[idx];
    if (absl::Status status = CheckRunField("document id", document.id); !status.ok()) return status;
    if (!std::isfinite(document.score)) return Invalid("the score of document ", Quote(document.id), " is not finite");
    const float score = std::min(document.score, limit);
    limit = std::nextafter(score, -std::numeric_limits<float>::infinity());
    std::array<char, 32> number;
    const char* end = std::to_chars(number.data(), number.data() + number.size(), score).ptr;
    lines += Cat(query, " Q0 ", document.id, " ", idx + 1, " ",
                 std::string_view(number.data(), static_cast<size_t>(end - number.data())), " ", tag, "\n");
  }
  return lines;
}

}  // namespace maxsim::evaluation
