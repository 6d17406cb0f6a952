#include "client/ctl/inputs.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/messages.h"
#include "kernels/limits.h"
#include "nlohmann/json.hpp"
#include "server/shard/npy.h"
#include "server/shard/text.h"

namespace maxsim::client::ctl {
namespace {

using nlohmann::json;
using shard::Cat;
using shard::Invalid;
using shard::NpyFile;
using shard::Quote;

constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Calls visit(line number from 1, line) for every line that is not blank, until it fails.
template <typename Visit>
absl::Status ForEachLine(std::string_view text, Visit visit) {
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (Trim(line).empty()) continue;
    absl::Status status = visit(number, line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The elements in a type the wire carries, and that type.
std::pair<ScalarType, std::string> WireElements(const NpyFile& file) {
  const std::optional<ScalarType> same = shard::ToScalarType(file.type());
  const auto count = static_cast<size_t>(file.num_elements());
  if (same.has_value()) return {*same, std::string(static_cast<const char*>(file.data()), count * SizeOf(*same))};
  std::string values(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(shard::LoadFloat(file.type(), file.data(), i));
    std::memcpy(values.data() + i * sizeof(float), &value, sizeof(float));
  }
  return {ScalarType::kF32, std::move(values)};
}

bool IsFloat(shard::ElementType type) {
  using shard::ElementType;
  return type == ElementType::kF16 || type == ElementType::kBF16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

absl::StatusOr<std::vector<int64_t>> ReadOffsets(const std::string& lengths_path, int64_t num_tokens,
                                                 const std::string& tokens_path) {
  absl::StatusOr<NpyFile> file = NpyFile::Open(lengths_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<int64_t>> lengths = file->Integers();
  if (!lengths.ok()) return lengths.status();
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : *lengths) {
    if (length < 1 || length > num_tokens - offsets.back()) {
      return Invalid(lengths_path, ": query ", offsets.size() - 1, " has length ", length, ", and ",
                     num_tokens - offsets.back(), " tokens of ", tokens_path, " are left");
    }
    offsets.push_back(offsets.back() + length);
  }
  if (offsets.back() != num_tokens) {
    return Invalid(lengths_path, ": the lengths add up to ", offsets.back(), ", and ", tokens_path, " has ", num_tokens,
                   " tokens");
  }
  return offsets;
}

// Strings of a JSON array; empty unless all elements are.
std::vector<std::string> StringArray(const json& object, const char* name) {
  std::vector<std::string> strings;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return strings;
  for (const json& element : *found) {
    if (!element.is_string()) return {};
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

}  // namespace

absl::StatusOr<QuerySet> QuerySet::Read(const std::string& tokens_path, const std::string& lengths_path) {
  const absl::StatusOr<NpyFile> file = NpyFile::Open(tokens_path);
  if (!file.ok()) return file.status();
  const std::vector<int64_t>& shape = file->shape();
  if (!IsFloat(file->type())) {
    return Invalid(tokens_path, ": elements are ", shard::Name(file->type()), "; queries are f16, f32 or f64");
  }
  const bool uniform = shape.size() == 3;
  if (shape.size() != 2 && !uniform) {
    return Invalid(tokens_path, ": shape is ", shard::FormatShape(shape),
                   "; queries are [tokens, dim] or [queries, tokens, dim]");
  }
  if (uniform && !lengths_path.empty()) {
    return Invalid(tokens_path, ": shape is ", shard::FormatShape(shape), "; with lengths it must be [tokens, dim]");
  }
  if (file->num_elements() == 0) return Invalid(tokens_path, ": shape is ", shard::FormatShape(shape), "; it is empty");
  if (shape.back() > kMaxDim) {
    return Invalid(tokens_path, ": the dimension is ", shape.back(), "; at most ", kMaxDim, " is allowed");
  }

  QuerySet set;
  set.dim_ = static_cast<int32_t>(shape.back());
  const int64_t num_tokens = file->num_elements() / shape.back();
  if (!lengths_path.empty()) {
    absl::StatusOr<std::vector<int64_t>> offsets = ReadOffsets(lengths_path, num_tokens, tokens_path);
    if (!offsets.ok()) return offsets.status();
    set.offsets_ = *std::move(offsets);
  } else {
    const int64_t length = uniform ? shape[1] : num_tokens;
    while (set.offsets_.back() < num_tokens) set.offsets_.push_back(set.offsets_.back() + length);
  }
  for (int64_t query = 0; query < set.size(); ++query) {
    const int64_t length = set.offsets_[static_cast<size_t>(query) + 1] - set.offsets_[static_cast<size_t>(query)];
    if (length > kMaxQueryTokens) {
      return Invalid(tokens_path, ": query ", query, " has ", length, " tokens; at most ", kMaxQueryTokens,
                     " are allowed", lengths_path.empty() ? " (is --query-lengths missing?)" : "");
    }
  }
  std::tie(set.type_, set.values_) = WireElements(*file);
  return set;
}

std::string_view QuerySet::bytes(int64_t query) const {
  const size_t row_bytes = static_cast<size_t>(dim_) * SizeOf(type_);
  const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(query)]) * row_bytes;
  return std::string_view(values_).substr(begin, static_cast<size_t>(num_tokens(query)) * row_bytes);
}

v1::TokenMatrix QuerySet::Message(int64_t query) const {
  return MakeTokens(type_, static_cast<uint32_t>(num_tokens(query)), static_cast<uint32_t>(dim_),
                    std::string(bytes(query)));
}

std::string QuerySet::Rounded(int64_t query, ScalarType type) const {
  const std::string_view source = bytes(query);
  const size_t count = source.size() / SizeOf(type_);
  std::string rounded(count * SizeOf(type), '\0');
  ConvertElements(type_, source.data(), type, rounded.data(), count);
  return rounded;
}

absl::Status QuerySet::CheckIndex(int64_t index) const {
  if (index >= 0 && index < size()) return absl::OkStatus();
  return absl::OutOfRangeError(Cat("--query-index is ", index, "; there are ", size(), " queries, from 0"));
}

absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, int32_t num_tokens) {
  const absl::StatusOr<NpyFile> file = NpyFile::Open(path);
  if (!file.ok()) return file.status();
  if (!IsFloat(file->type()) || file->shape().size() != 1 || file->num_elements() != num_tokens) {
    return Invalid(path, ": ", shard::Name(file->type()), " of shape ", shard::FormatShape(file->shape()),
                   "; the weights must be floating-point of shape [", num_tokens, "], one per query token");
  }
  std::vector<float> weights;
  for (int32_t i = 0; i < num_tokens; ++i) {
    weights.push_back(static_cast<float>(shard::LoadFloat(file->type(), file->data(), static_cast<size_t>(i))));
  }
  return weights;
}

std::vector<std::string> ParseIdLines(std::string_view text) {
  std::vector<std::string> ids;
  ForEachLine(text, [&](int64_t, std::string_view line) {
    if (line.back() == '\r') line.remove_suffix(1);
    ids.emplace_back(line);
    return absl::OkStatus();
  }).IgnoreError();
  return ids;
}

std::vector<std::string> ParseIdList(std::string_view text) {
  std::vector<std::string> ids;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view id = Trim(text.substr(0, comma));
    if (!id.empty()) ids.emplace_back(id);
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[16 * 1024];
  // read() takes the exception that a folder's stream buffer throws; its iterators would let it out.
  while (file.good()) {
    file.read(block, sizeof(block));
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (!file.bad() && file.eof()) return text;
  return absl::NotFoundError(
      Cat("cannot read '", path, "'", errno == 0 ? "" : ": ", errno == 0 ? "" : strerror(errno)));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  return ReadWholeFile(path);
}

absl::StatusOr<v1::Candidates> MakeCandidates(absl::Span<const std::string> ids, v1::IdType type) {
  if (ids.empty()) return Invalid("there is no candidate id");
  if (type != v1::ID_TYPE_INT64) return StringCandidates(ids);
  std::vector<int64_t> numbers;
  numbers.reserve(ids.size());
  for (const std::string& id : ids) {
    int64_t number = 0;
    if (!ParseNumber(Trim(id), number)) {
      return Invalid("candidate ", numbers.size() + 1, ": ", Quote(id),
                     " is not a 64-bit integer, as this collection's ids are");
    }
    numbers.push_back(number);
  }
  return IntCandidates(numbers);
}

absl::StatusOr<std::vector<QueryText>> ParseQueryTexts(std::string_view jsonl, const std::string& origin) {
  std::vector<QueryText> texts;
  absl::Status status = ForEachLine(jsonl, [&](int64_t number, std::string_view line) -> absl::Status {
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
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

absl::StatusOr<std::vector<QueryText>> ReadQueryTexts(const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  return ParseQueryTexts(*text, path);
}

std::vector<std::string> PayloadTokens(const std::string& payload) {
  const json object = json::parse(payload, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? StringArray(object, "tokens") : std::vector<std::string>();
}

namespace {

// The line of column names that BEIR's files and others begin with: query-id corpus-id score.
bool IsJudgementHeader(std::string_view query, std::string_view grade) {
  std::string name;
  for (const char c : query) {
    if (c != '-' && c != '_') name += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  double number = 0;
  return (name == "queryid" || name == "qid" || name == "query") && !ParseNumber(grade, number);
}

}  // namespace

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

}  // namespace maxsim::client::ctl
