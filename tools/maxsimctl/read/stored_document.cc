#include "tools/maxsimctl/read/stored_document.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "collection/formats/element_type.h"
#include "kernels/scalar_type.h"

namespace maxsim::ctl {
namespace {

Json StoredIdJson(const v1::StoredDocument& document) {
  if (document.has_int_id()) return document.int_id();
  return document.string_id();
}

absl::StatusOr<Json> StoredTokensJson(const v1::StoredDocument& document) {
  const absl::StatusOr<std::vector<float>> values = StoredValues(document);
  if (!values.ok()) return values.status();
  Json rows = Json::array();
  for (uint32_t token = 0; token < document.tokens().num_tokens(); ++token) {
    Json row = Json::array();
    for (uint32_t i = 0; i < document.tokens().dim(); ++i) {
      row.push_back(Shortest((*values)[size_t{token} * document.tokens().dim() + i]));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string StoredIdText(const v1::StoredDocument& document) {
  return document.has_int_id() ? std::to_string(document.int_id()) : document.string_id();
}

absl::StatusOr<std::vector<float>> StoredValues(const v1::StoredDocument& document) {
  const v1::TokenMatrix& tokens = document.tokens();
  const size_t count = size_t{tokens.num_tokens()} * tokens.dim();
  const bool quantized = tokens.dtype() == v1::DATA_TYPE_I8;
  const collection::ElementType type = quantized                              ? collection::ElementType::kI8
                                       : tokens.dtype() == v1::DATA_TYPE_F16  ? collection::ElementType::kF16
                                       : tokens.dtype() == v1::DATA_TYPE_BF16 ? collection::ElementType::kBF16
                                                                              : collection::ElementType::kF32;
  if (tokens.data().size() != count * collection::SizeOf(type)) {
    return absl::InternalError(
        Cat("the server's answer is wrong: ", tokens.data().size(), " bytes for ", count, " values of ", Name(type)));
  }
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = quantized ? static_cast<float>(static_cast<int8_t>(tokens.data()[i])) * document.scale()
                          : static_cast<float>(collection::LoadFloat(type, tokens.data().data(), i));
  }
  return values;
}

absl::StatusOr<Json> StoredDocumentJson(const v1::StoredDocument& document) {
  Json json = {{"id", StoredIdJson(document)},
               {"num_tokens", document.num_tokens()},
               {"version", document.version()},
               {"sequence", document.sequence()},
               {"payload", PayloadJson(document.payload())}};
  if (document.has_tokens()) {
    absl::StatusOr<Json> tokens = StoredTokensJson(document);
    if (!tokens.ok()) return tokens.status();
    json["tokens"] = *std::move(tokens);
  }
  return json;
}

}  // namespace maxsim::ctl
