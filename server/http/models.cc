#include "server/http/models.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "maxsim_version.h"
#include "nlohmann/json.hpp"
#include "server/http/rerank/responses.h"
#include "server/http/text/json_text.h"
#include "server/http/text/percent.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

constexpr std::string_view kTextPrefix = "/text";
constexpr std::string_view kModelsPath = "/v1/models";
constexpr std::string_view kInfoPath = "/info";
// Xinference's client sends its token only if the answer on this path says that one is needed.
constexpr std::string_view kAuthPath = "/v1/cluster/auth";

// The limit that openapi.json states, in characters.
constexpr std::ptrdiff_t kMaxModelName = 512;

std::ptrdiff_t NumCharacters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

json ModelOf(const std::string& name) {
  return {{"id", name},         {"object", "model"},      {"created", 0},     {"owned_by", "maxsim"},
          {"model_name", name}, {"model_type", "rerank"}, {"model_uid", name}};
}

std::vector<std::string> NamesOf(const ModelSource& source) {
  std::vector<std::string> names;
  for (const v1::CollectionInfo& info : source.collections) names.push_back(info.name());
  if (source.encoder != nullptr && !source.encoder->model().empty()) names.push_back(source.encoder->model());
  return names;
}

Response AnswerOne(const ModelPath& path, const ModelSource& source) {
  if (const std::ptrdiff_t size = NumCharacters(path.name); size > kMaxModelName) {
    return Error(service::InvalidField("model", absl::StrCat("has ", size, " characters, the limit is ", kMaxModelName),
                                       {kMaxModelName, size}));
  }
  const std::vector<std::string> names = NamesOf(source);
  const bool takes_any = source.encoder != nullptr && (path.is_text || source.root_documents_are_texts);
  if (takes_any || std::find(names.begin(), names.end(), path.name) != names.end()) {
    return Json(200, Dump(ModelOf(path.name)));
  }
  const char* const hint = source.encoder == nullptr ? "" : "; for documents that are texts, ask /text/v1/models";
  return Error(service::FieldError(absl::StatusCode::kNotFound, client::kReasonInvalidField, "model",
                                   absl::StrCat(Quote(path.name), " is not a collection of this server", hint)));
}

json InfoOf(const ModelSource& source) {
  const std::string model = source.encoder == nullptr ? std::string() : source.encoder->model();
  return {{"model_id", model.empty() ? "maxsim" : model},
          {"model_type", {{"reranker", {{"id2label", {{"0", "LABEL_0"}}}, {"label2id", {{"LABEL_0", 0}}}}}}},
          {"max_client_batch_size", source.limits.max_inline_documents},
          {"max_concurrent_requests", source.max_requests},
          {"max_input_length", source.limits.max_document_tokens},
          {"auto_truncate", true},
          {"version", kVersion}};
}

}  // namespace

std::optional<ModelPath> ParseModelPath(std::string_view path) {
  ModelPath parsed;
  if (path.starts_with(kTextPrefix)) {
    parsed.is_text = true;
    path.remove_prefix(kTextPrefix.size());
  }
  if (path == kInfoPath) {
    parsed.kind = ModelPath::Kind::kInfo;
    return parsed;
  }
  if (path == kAuthPath) {
    parsed.kind = ModelPath::Kind::kAuth;
    return parsed;
  }
  if (!path.starts_with(kModelsPath)) return std::nullopt;
  path.remove_prefix(kModelsPath.size());
  if (path.empty()) return parsed;
  if (path.size() < 2 || path[0] != '/') return std::nullopt;
  std::optional<std::string> name = PercentDecode(path.substr(1));
  if (!name.has_value()) return std::nullopt;
  parsed.kind = ModelPath::Kind::kOne;
  parsed.name = *std::move(name);  // may hold a slash, as names on the Hugging Face Hub do
  return parsed;
}

Response AnswerModels(const ModelPath& path, const ModelSource& source) {
  switch (path.kind) {
    case ModelPath::Kind::kOne:
      return AnswerOne(path, source);
    case ModelPath::Kind::kInfo:
      return Json(200, Dump(InfoOf(source)));
    case ModelPath::Kind::kAuth:
      return Json(200, Dump({{"auth", source.needs_token}}));
    case ModelPath::Kind::kList:
      break;
  }
  json list = json::array();
  for (const std::string& name : NamesOf(source)) list.push_back(ModelOf(name));
  return Json(200, Dump({{"object", "list"}, {"data", list}}));
}

}  // namespace maxsim::http
