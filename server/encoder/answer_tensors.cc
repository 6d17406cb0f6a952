#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "collection/formats/element_type.h"
#include "collection/formats/safetensors.h"
#include "kernels/scalar_type.h"
#include "nlohmann/json.hpp"
#include "server/encoder/answer.h"

namespace maxsim::encoder {
namespace {

using collection::ElementType;
using collection::SafetensorsTensor;

// Names of an encoder longer than this are cut.
constexpr size_t kMaxNameBytes = 1024;

// Longer lists in the metadata are ignored: once parsed, they would take many times their size.
constexpr size_t kMaxListBytes = size_t{4} << 20;

// Returns the number of rows of each text.
absl::StatusOr<std::vector<int32_t>> ReadLengths(const SafetensorsTensor& tensor, std::string_view body,
                                                 size_t num_texts, int64_t num_rows) {
  const std::optional<ElementType> type = collection::ElementTypeFromSafetensors(tensor.dtype);
  if (type != ElementType::kI64 && type != ElementType::kI32) {
    return absl::UnavailableError(Cat("\"lengths\" is ", Quote(tensor.dtype), ", not I64 or I32"));
  }
  if (tensor.shape.size() != 1) return absl::UnavailableError("\"lengths\" does not have one dimension");
  if (tensor.shape[0] != static_cast<int64_t>(num_texts)) {
    return absl::InternalError(Cat("it has ", tensor.shape[0], " matrices for ", num_texts, " texts"));
  }
  std::vector<int32_t> lengths(num_texts);
  int64_t rows_left = num_rows;
  for (size_t idx = 0; idx < num_texts; ++idx) {
    const int64_t length = *collection::LoadInteger(*type, body.data() + tensor.begin, idx);
    if (length < 0 || length > rows_left || length > INT32_MAX) {
      return absl::InternalError(Cat("\"lengths\"[", idx, "] is ", length, ", but ", rows_left, " rows are left"));
    }
    lengths[idx] = static_cast<int32_t>(length);
    rows_left -= length;
  }
  if (rows_left != 0)
    return absl::InternalError(Cat("\"lengths\" leave ", rows_left, " rows of \"tokens\" to no text"));
  return lengths;
}

// Sets the pieces (the tokens as texts) of each text for which `metadata` has a list with one piece per token. Ignores
// other lists, because no score depends on the pieces.
void AddPieces(std::string_view metadata, std::vector<EncodedText>* texts) {
  if (metadata.size() > kMaxListBytes) return;
  nlohmann::json lists = nlohmann::json::parse(metadata, nullptr, /*allow_exceptions=*/false);
  if (!lists.is_array() || lists.size() != texts->size()) return;
  for (size_t idx = 0; idx < texts->size(); ++idx) {
    nlohmann::json& list = lists[idx];
    EncodedText& text = (*texts)[idx];
    if (!list.is_array() || list.size() != static_cast<size_t>(text.num_tokens)) continue;
    const bool all_texts = std::all_of(list.begin(), list.end(), [](const auto& piece) { return piece.is_string(); });
    if (!all_texts) continue;
    for (nlohmann::json& piece : list) text.pieces.push_back(std::move(piece.get_ref<std::string&>()));
  }
}

// Marks the texts whose indices `metadata` lists. Ignores anything else in the list, because no score depends on the
// marks.
void MarkTruncated(std::string_view metadata, std::vector<EncodedText>* texts) {
  if (metadata.size() > kMaxListBytes) return;
  const nlohmann::json list = nlohmann::json::parse(metadata, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  for (const nlohmann::json& idx : list) {
    if (idx.is_number_unsigned() && idx.get<uint64_t>() < texts->size()) {
      (*texts)[idx.get<uint64_t>()].is_truncated = true;
    }
  }
}

}  // namespace

absl::StatusOr<Answer> ParseTensors(std::string_view body, size_t num_texts) {
  const auto header = collection::ParseSafetensorsHeader(body, static_cast<int64_t>(body.size()));
  if (!header.ok()) return absl::UnavailableError(header.status().message());
  const SafetensorsTensor* const tokens = header->Find("tokens");
  const SafetensorsTensor* const lengths = header->Find("lengths");
  if (tokens == nullptr || lengths == nullptr) {
    return absl::UnavailableError("it lacks the tensors \"tokens\" and \"lengths\"");
  }
  const std::optional<ElementType> element = collection::ElementTypeFromSafetensors(tokens->dtype);
  const std::optional<ScalarType> type =
      element.has_value() ? collection::ToScalarType(*element) : std::optional<ScalarType>();
  if (!type.has_value() || *type == ScalarType::kI8) {
    return absl::UnavailableError(Cat("\"tokens\" is ", Quote(tokens->dtype), ", not F16, BF16 or F32"));
  }
  if (tokens->shape.size() != 2) return absl::UnavailableError("\"tokens\" does not have two dimensions");
  const int64_t dim = tokens->shape[1];
  if (dim < 1 || dim > INT32_MAX) return absl::InternalError(Cat("vectors of ", dim, " values"));
  const auto counts = ReadLengths(*lengths, body, num_texts, tokens->shape[0]);
  if (!counts.ok()) return counts.status();
  Answer answer;
  const char* next = body.data() + tokens->begin;
  for (const int32_t count : *counts) {
    EncodedText& text = answer.texts.emplace_back();
    text.num_tokens = count;
    text.dim = static_cast<int32_t>(dim);
    text.values.resize(static_cast<size_t>(count) * static_cast<size_t>(dim));
    if (!text.values.empty()) {
      ConvertElements(*type, next, ScalarType::kF32, text.values.data(), text.values.size());
    }
    next += text.values.size() * SizeOf(*type);
  }
  if (const auto pieces = header->FindMetadata("pieces"); pieces.has_value()) AddPieces(*pieces, &answer.texts);
  if (const auto list = header->FindMetadata("truncated"); list.has_value()) MarkTruncated(*list, &answer.texts);
  answer.model = std::string(header->FindMetadata("model").value_or("").substr(0, kMaxNameBytes));
  answer.fingerprint = std::string(header->FindMetadata("fingerprint").value_or("").substr(0, kMaxNameBytes));
  return answer;
}

}  // namespace maxsim::encoder
