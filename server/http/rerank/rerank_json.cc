#include "server/http/rerank/rerank_json.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/field_path.h"
#include "client/info_json.h"
#include "collection/document_line.h"
#include "kernels/scalar_type.h"
#include "nlohmann/json.hpp"
#include "server/http/text/json_text.h"
#include "server/service/call/status.h"
#include "server/service/hidden_folders.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

// Returns the document that the body had for a result, or null for a stored document.
const CarriedDocument* CarriedFor(const AnswerForm& form, const v1::QueryResult& result, int idx) {
  const uint64_t position = result.positions(idx);
  return position < form.carried.size() ? &form.carried[position] : nullptr;
}

// Appends the members that a result has in addition to its rank and score.
void AppendDocument(const AnswerForm& form, const v1::QueryResult& result, int idx, std::string& text) {
  const CarriedDocument* const carried = CarriedFor(form, result, idx);
  if (carried == nullptr) {
    if (idx >= result.payloads_size()) return;
    text += ",\"document\":";
    if (form.api == RerankApi::kInfinity) {  // a string, whatever it is of
      const std::string& payload = result.payloads(idx);
      text += Dump(payload.empty() ? "{}" : payload);
    } else {
      AppendPayload(result.payloads(idx), text);
    }
    return;
  }
  if (!carried->id.empty()) text += absl::StrCat(",\"id\":", carried->id);
  if (!carried->text.has_value() && carried->object.empty()) return;
  const std::string own_text = carried->text.value_or("");
  switch (form.shape) {
    case AnswerShape::kResults:
    case AnswerShape::kRankings:
      text += ",\"document\":";
      if (form.api == RerankApi::kInfinity) {
        text += Dump(own_text);
        break;
      }
      text += carried->object.empty() ? std::move(ObjectText().Add("text", own_text)).Finish() : carried->object;
      break;
    case AnswerShape::kData:
      text += absl::StrCat(",\"document\":", Dump(own_text));
      break;
    case AnswerShape::kList:
      text += absl::StrCat(",\"text\":", Dump(own_text));
      break;
  }
}

std::string ResultText(const AnswerForm& form, const v1::QueryResult& result, int idx) {
  const char* const score = form.shape == AnswerShape::kList       ? "score"
                            : form.shape == AnswerShape::kRankings ? "logit"
                                                                   : "relevance_score";
  ObjectText entry;
  if (idx < result.alignments_size()) {
    const v1::Alignment& alignment = result.alignments(idx);
    ObjectText pairs;
    pairs.AddText("document_tokens", ListText(alignment.document_tokens()));
    pairs.AddText("similarities", ListText(alignment.similarities()));
    entry.AddText("alignment", std::move(pairs).Finish());
  }
  if (idx < result.group_values_size()) entry.Add("group", result.group_values(idx));
  if (result.has_string_ids()) entry.Add("id", result.string_ids().ids(idx));
  if (result.has_int_ids()) entry.Add("id", result.int_ids().ids(idx));
  std::string text = std::move(entry.Add("index", result.positions(idx)).Add(score, result.scores(idx))).Finish();
  text.pop_back();
  if (idx < result.truncated_size() && result.truncated(idx)) text += ",\"truncated\":true";
  AppendDocument(form, result, idx, text);
  text += '}';
  return text;
}

// The text of an answer. After `stop` has returned an error, Add does nothing, and Finish returns the error.
class AnswerText {
 public:
  explicit AnswerText(const StopCheck& stop) : stop_(stop) {}

  void Append(std::string_view text) { text_ += text; }

  // Begins a list. From here on the text has commas between the elements that are added.
  void BeginList(std::string_view text) {
    text_ += text;
    is_first_ = true;
  }

  // Adds the text that `element` returns.
  template <typename Element>
  void Add(Element element) {
    if (stop_ != nullptr && text_.size() >= next_stop_bytes_ && status_.ok()) {
      status_ = stop_();
      next_stop_bytes_ = text_.size() + kStopBytes;
    }
    if (!status_.ok()) return;
    if (!std::exchange(is_first_, false)) text_ += ',';
    text_ += element();
  }

  absl::StatusOr<std::string> Finish() && {
    if (!status_.ok()) return status_;
    return std::move(text_);
  }

 private:
  static constexpr size_t kStopBytes = size_t{64} << 10;  // less than 10 ms of formatting

  const StopCheck& stop_;
  std::string text_;
  size_t next_stop_bytes_ = 0;
  bool is_first_ = true;
  absl::Status status_;
};

// Paths of fields in errors of RerankApi, and the names of these fields in the body. A row also matches longer paths
// that begin with its path. The first row that matches is used.
struct Renamed {
  std::string_view path;
  std::string_view member;
};
constexpr std::array<Renamed, 18> kRenamed = {{{"filter_text", "filter"},
                                               {"queries[0].tokens.num_tokens", "query.shape[0]"},
                                               {"queries[0].tokens.dim", "query.shape[1]"},
                                               {"queries[0].tokens", "query"},
                                               {"queries[0].text", "query"},
                                               {"queries[0].weights", "query_weights"},
                                               {"candidates.inline_documents.documents", "documents"},
                                               {"candidates.inline_documents.texts", "documents"},
                                               {"inline_documents.texts", "documents"},
                                               {"candidates.inline_documents", "documents"},
                                               {"candidates.string_ids.ids", "documents"},
                                               {"candidates.int_ids.ids", "documents"},
                                               {"candidates.string_ids", "documents"},
                                               {"candidates.int_ids", "documents"},
                                               {"candidates", "documents"},
                                               {"collection", "model"},
                                               {"return_payloads", "return_documents"},
                                               {"top_k", "top_n"}}};

// Some clients of Cohere, Xinference and SiliconFlow read the billed units from here and fail without them.
std::string MetaOf(const AnswerForm& form, const v1::RerankResponse& response) {
  return absl::StrCat("{\"api_version\":{\"version\":\"", form.api == RerankApi::kV2 ? "2" : "1",
                      "\"},\"billed_units\":{\"search_units\":1},\"tokens\":{\"input_tokens\":",
                      response.encoded_tokens(), ",\"output_tokens\":0}}");
}

std::string TimingsText(const v1::Timings& timings) {
  ObjectText text;
  text.Add("copy_us", timings.copy_us()).Add("encode_us", timings.encode_us()).Add("kernel_us", timings.kernel_us());
  return std::move(text.Add("queue_us", timings.queue_us()).Add("total_us", timings.total_us())).Finish();
}

std::string RefinementText(const v1::Refinement& refinement) {
  ObjectText text;
  text.Add("certificate", v1::Certificate_Name(refinement.certificate()).substr(12))
      .Add("documents", refinement.documents())
      .Add("margin", refinement.margin());
  if (refinement.has_outside_score()) {
    text.Add("outside_is_bound", refinement.outside_is_bound()).Add("outside_score", refinement.outside_score());
  }
  return std::move(text.Add("planes", refinement.planes())).Finish();
}

std::string_view ListNameOf(AnswerShape shape) {
  if (shape == AnswerShape::kData) return ",\"data\":[";
  return shape == AnswerShape::kRankings ? ",\"rankings\":[" : ",\"results\":[";
}

// Appends the results as a list. `name` is the beginning of its member, or empty if the answer is only the list.
void AddResults(const AnswerForm& form, const v1::RerankResponse& response, std::string_view name, AnswerText& answer) {
  answer.BeginList(name);
  for (const v1::QueryResult& result : response.results()) {
    for (int i = 0; i < result.scores_size(); ++i) {
      answer.Add([&] { return ResultText(form, result, i); });
    }
  }
  answer.Append("]");
}

// Describes one collection.
json CollectionEntry(const v1::CollectionInfo& info) {
  json entry = {{"name", info.name()}, {"state", v1::CollectionState_Name(info.state()).substr(17)}};
  if (!info.error().empty()) entry["error"] = info.error();
  if (info.generation() > 0) {
    entry.update({{"generation", info.generation()},
                  {"dim", info.dim()},
                  {"storage", std::string(Name(static_cast<ScalarType>(info.storage())))},
                  {"id_type", info.id_type() == v1::ID_TYPE_STRING ? "string" : "int64"},
                  {"num_documents", info.num_documents()},
                  {"num_tokens", info.num_tokens()},
                  {"resident_bytes", info.resident_bytes()},
                  {"residency", info.residency()}});
    if (info.code_planes() > 0) entry["code_planes"] = info.code_planes();
    for (const v1::FieldDeclaration& field : info.fields()) {
      entry["fields"].push_back(client::FieldJson<json>(field));
    }
    if (info.has_live()) entry["live"] = client::LiveJson<json>(info.live());
    if (info.has_partition()) {
      entry["partition"] = client::PartitionJson<json>(info.partition());
    }
    if (info.has_encoder()) entry["encoder"] = client::EncoderJson<json>(info.encoder());
    if (info.unavailable_documents() > 0) entry["unavailable_documents"] = info.unavailable_documents();
    for (const v1::TierInfo& tier : info.tiers()) {
      entry["tiers"].push_back(client::TierJson<json>(tier));
    }
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::string> FormatRerankResponse(const AnswerForm& form, const v1::RerankResponse& response,
                                                 const StopCheck& stop) {
  AnswerText answer(stop);
  if (form.shape == AnswerShape::kList) {
    AddResults(form, response, "[", answer);
    return std::move(answer).Finish();
  }
  answer.Append(absl::StrCat("{\"generation\":", response.generation(), ",\"id\":", Dump(response.request_id())));
  if (response.sequence() > 0) answer.Append(absl::StrCat(",\"sequence\":", response.sequence()));
  uint64_t unavailable = 0;
  answer.BeginList(",\"missing\":[");
  for (const v1::QueryResult& result : response.results()) {
    unavailable += result.unavailable_documents();
    for (const std::string& id : result.missing_string_ids().ids()) answer.Add([&] { return Dump(id); });
    for (const int64_t id : result.missing_int_ids().ids()) answer.Add([&] { return absl::StrCat(id); });
  }
  answer.Append("],\"meta\":" + MetaOf(form, response));
  answer.Append(absl::StrCat(",\"model\":", Dump(form.model), ",\"timings\":", TimingsText(response.timings())));
  if (unavailable > 0) answer.Append(absl::StrCat(",\"unavailable_documents\":", unavailable));
  if (response.unavailable_groups_size() > 0) {
    answer.Append(absl::StrCat(",\"unavailable_groups\":", ListText(response.unavailable_groups())));
  }
  answer.Append(absl::StrCat(",\"usage\":{\"prompt_tokens\":", response.encoded_tokens(),
                             ",\"total_tokens\":", response.encoded_tokens(), "}"));
  if (response.results_size() > 0 && response.results(0).query_tokens_size() > 0) {
    answer.Append(absl::StrCat(",\"query_tokens\":", ListText(response.results(0).query_tokens())));
  }
  if (response.results_size() > 0 && response.results(0).query_truncated()) answer.Append(",\"query_truncated\":true");
  if (response.results_size() > 0 && response.results(0).has_refinement()) {
    answer.Append(absl::StrCat(",\"refinement\":", RefinementText(response.results(0).refinement())));
  }
  if (form.shape == AnswerShape::kData) answer.Append(",\"object\":\"list\"");
  AddResults(form, response, ListNameOf(form.shape), answer);
  answer.Append("}");
  return std::move(answer).Finish();
}

std::string FormatRerankResponse(const AnswerForm& form, const v1::RerankResponse& response) {
  return *FormatRerankResponse(form, response, /*stop=*/nullptr);
}

void AppendPayload(const std::string& payload, std::string& text) {
  if (payload.empty()) {
    text += "{}";
  } else {
    text += collection::CheckPayload(payload).ok() ? payload : Dump(payload);
  }
}

std::string FormatError(const absl::Status& status) {
  const absl::Status shown = service::ForClient(status);
  const std::string message(shown.message());
  ObjectText error;
  error.Add("code", service::CodeName(shown.code()));
  if (const std::string field = client::FieldOf(shown); !field.empty()) error.Add("field", field);
  if (const std::optional<uint64_t> limit = client::LimitOf(shown)) error.Add("limit", *limit);
  if (const std::string key = client::LimitKeyOf(shown); !key.empty()) error.Add("limit_key", key);
  error.Add("message", message);
  if (const std::optional<uint64_t> deleted = client::NumDeletedOf(shown)) error.Add("num_deleted", *deleted);
  if (const std::string reason = client::ReasonOf(shown); !reason.empty()) error.Add("reason", reason);
  ObjectText body;
  body.Add("detail", message).AddText("error", std::move(error).Finish());
  return std::move(body.Add("message", message)).Finish();
}

absl::Status NamedAsInRerankBody(const absl::Status& status) {
  const std::string field = client::FieldOf(status);
  for (const Renamed& renamed : kRenamed) {
    if (!client::IsWithin(field, renamed.path)) continue;
    return client::WithField(status, client::Rebased(field, renamed.path, renamed.member));
  }
  return status;
}

std::string FormatServiceError(const absl::Status& status) { return FormatError(NamedAsInRerankBody(status)); }

std::string FormatCollection(const v1::CollectionInfo& info) { return Dump(CollectionEntry(info)); }

std::string FormatCollections(const std::vector<v1::CollectionInfo>& collections, const v1::EncoderInfo* encoder) {
  json body;
  if (encoder != nullptr) body["encoder"] = client::EncoderJson<json>(*encoder);
  json list = json::array();
  for (const v1::CollectionInfo& info : collections) {
    list.push_back(CollectionEntry(info));
  }
  body["collections"] = std::move(list);
  return Dump(body);
}

}  // namespace maxsim::http
