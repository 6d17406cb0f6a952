#include "tools/maxsimctl/context/input_files.h"

#include <iostream>
#include <iterator>

#include "base/lines.h"
#include "base/text.h"
#include "client/messages.h"
#include "collection/formats/npy.h"
#include "nlohmann/json.hpp"

namespace maxsim::ctl {
namespace {

using collection::NpyFile;
using evaluation::StringArray;

}  // namespace

v1::TokenMatrix QueryTokens(const QuerySet& queries, int64_t query) {
  return client::MakeTokens(static_cast<v1::DataType>(queries.type()), static_cast<uint32_t>(queries.num_tokens(query)),
                            static_cast<uint32_t>(queries.dim()), std::string(queries.bytes(query)));
}

absl::StatusOr<std::vector<float>> ReadWeights(const std::string& path, int32_t num_tokens) {
  const absl::StatusOr<NpyFile> file = NpyFile::Open(path);
  if (!file.ok()) return file.status();
  if (!evaluation::IsFloat(file->type()) || file->shape().size() != 1 || file->num_elements() != num_tokens) {
    return Invalid(path, ": ", collection::Name(file->type()), " of shape ", collection::FormatShape(file->shape()),
                   "; the weights must be floating-point of shape [", num_tokens, "], one per query token");
  }
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(num_tokens));
  for (int32_t i = 0; i < num_tokens; ++i) {
    weights.push_back(static_cast<float>(collection::LoadFloat(file->type(), file->data(), static_cast<size_t>(i))));
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

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  return ReadWholeFile(path);
}

absl::StatusOr<v1::Candidates> MakeCandidates(absl::Span<const std::string> ids, v1::IdType type) {
  if (ids.empty()) return Invalid("it holds no candidate id");
  if (type != v1::ID_TYPE_INT64) return client::StringCandidates(ids);
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
  return client::IntCandidates(numbers);
}

absl::StatusOr<std::vector<QueryText>> ReadQueryTexts(const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  return ParseQueryTexts(*text, path);
}

std::vector<std::string> PayloadTokens(const std::string& payload) {
  const nlohmann::json object = nlohmann::json::parse(payload, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? StringArray(object, "tokens") : std::vector<std::string>();
}

}  // namespace maxsim::ctl
