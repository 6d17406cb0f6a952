#include "tests/conformance/drivers/cpp/cpp_results.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/error_details.h"
#include "client/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::conformance {
namespace {

constexpr int64_t kMaxExact = (int64_t{1} << 53) - 1;  // larger integers are written as {"int64": "..."}

Json IdJson(int64_t id) {
  if (id >= -kMaxExact && id <= kMaxExact) return id;
  return Json{{"int64", absl::StrCat(id)}};
}

// Returns the ids of a message, from the one of its two lists that is set.
Json IdsJson(const v1::StringIds& strings, const v1::IntIds& integers) {
  Json ids = Json::array();
  for (const std::string& id : strings.ids()) ids.push_back(id);
  for (int64_t id : integers.ids()) ids.push_back(IdJson(id));
  return ids;
}

Json AlignmentJson(const v1::Alignment& alignment, Json document) {
  document["matches"] = std::vector<uint32_t>(alignment.document_tokens().begin(), alignment.document_tokens().end());
  document["similarities"] = std::vector<float>(alignment.similarities().begin(), alignment.similarities().end());
  return document;
}

Json ResultJson(const v1::QueryResult& result, uint64_t sequence) {
  const Json ids = IdsJson(result.string_ids(), result.int_ids());
  Json documents = Json::array();
  for (int i = 0; i < result.scores_size(); ++i) {
    Json document = {{"score", result.scores(i)}, {"position", result.positions(i)}};
    if (!ids.empty()) document["id"] = ids[static_cast<size_t>(i)];
    if (i < result.payloads_size() && !result.payloads(i).empty()) {
      document["payload"] = Json::parse(result.payloads(i));
    }
    if (i < result.alignments_size()) document = AlignmentJson(result.alignments(i), std::move(document));
    if (i < result.truncated_size()) document["truncated"] = result.truncated(i);
    if (i < result.group_values_size()) document["group"] = result.group_values(i);
    documents.push_back(std::move(document));
  }
  return {{"documents", std::move(documents)},
          {"missing", IdsJson(result.missing_string_ids(), result.missing_int_ids())},
          {"sequence", sequence},
          {"query_tokens", std::vector<std::string>(result.query_tokens().begin(), result.query_tokens().end())},
          {"query_truncated", result.query_truncated()}};
}

// Returns the name of an enum's value without its prefix, in lower case.
std::string NameOf(const std::string& value, std::string_view prefix) {
  return absl::AsciiStrToLower(value.substr(prefix.size()));
}

Json OutcomeJson(const v1::WriteResult& result) {
  return {{"outcome", NameOf(v1::WriteOutcome_Name(result.outcome()), "WRITE_OUTCOME_")},
          {"sequence", result.sequence()},
          {"truncated", result.truncated()}};
}

Json CollectionJson(const v1::CollectionInfo& info) {
  Json fields = Json::array();
  for (const v1::FieldDeclaration& field : info.fields()) {
    fields.push_back({{"name", field.name()}, {"kind", NameOf(v1::FieldKind_Name(field.kind()), "FIELD_KIND_")}});
  }
  return {{"name", info.name()},
          {"state", NameOf(v1::CollectionState_Name(info.state()), "COLLECTION_STATE_")},
          {"dim", info.dim()},
          {"storage", NameOf(v1::DataType_Name(info.storage()), "DATA_TYPE_")},
          {"id_type", NameOf(v1::IdType_Name(info.id_type()), "ID_TYPE_")},
          {"num_documents", info.num_documents()},
          {"num_tokens", info.num_tokens()},
          {"generation", info.generation()},
          {"live", info.has_live()},
          {"fields", std::move(fields)}};
}

// Returns the rows of a matrix of F32 or F16 values. The collections of the suite have no other storage types.
Json RowsJson(const v1::TokenMatrix& matrix) {
  Json rows = Json::array();
  const size_t element_bytes = matrix.dtype() == v1::DATA_TYPE_F32 ? 4 : 2;
  for (size_t i = 0; i < matrix.data().size(); i += element_bytes) {
    if (i / element_bytes % matrix.dim() == 0) rows.push_back(Json::array());
    if (element_bytes == 4) {
      float value;
      std::memcpy(&value, matrix.data().data() + i, sizeof(value));
      rows.back().push_back(value);
    } else {
      uint16_t bits;
      std::memcpy(&bits, matrix.data().data() + i, sizeof(bits));
      rows.back().push_back(F16ToF32(bits));
    }
  }
  return rows;
}

}  // namespace

Json RankingJson(const v1::RerankResponse& response) { return ResultJson(response.results(0), response.sequence()); }

Json RankingsJson(const v1::RerankResponse& response) {
  Json rankings = Json::array();
  for (const v1::QueryResult& result : response.results()) rankings.push_back(ResultJson(result, response.sequence()));
  return {{"rankings", std::move(rankings)}};
}

Json ExplanationJson(const v1::ExplainResponse& response) {
  Json rows = Json::array();
  for (int i = 0; i < response.similarities_size(); ++i) {
    if (static_cast<uint32_t>(i) % response.num_document_tokens() == 0) rows.push_back(Json::array());
    rows.back().push_back(response.similarities(i));
  }
  return {{"score", response.score()},
          {"similarities", std::move(rows)},
          {"query_tokens", std::vector<std::string>(response.query_tokens().begin(), response.query_tokens().end())}};
}

Json WritesJson(const v1::UpsertResponse& response) {
  Json results = Json::array();
  for (const v1::WriteResult& result : response.results()) results.push_back(OutcomeJson(result));
  return {{"results", std::move(results)}, {"sequence", response.sequence()}};
}

Json DeletesJson(const v1::DeleteResponse& response, bool by_filter) {
  if (by_filter) {
    return {{"num_deleted", response.num_deleted()},
            {"num_missing", response.num_missing()},
            {"num_stale", response.num_stale()},
            {"sequence", response.sequence()}};
  }
  Json results = Json::array();
  for (const v1::WriteResult& result : response.results()) results.push_back(OutcomeJson(result));
  return {{"results", std::move(results)}, {"sequence", response.sequence()}};
}

Json StoredJson(const v1::StoredDocument& document) {
  Json json = {
      {"num_tokens", document.num_tokens()}, {"version", document.version()}, {"sequence", document.sequence()}};
  if (document.id_case() == v1::StoredDocument::kStringId) {
    json["id"] = document.string_id();
  } else {
    json["id"] = IdJson(document.int_id());
  }
  if (!document.payload().empty()) json["payload"] = Json::parse(document.payload());
  if (document.has_tokens()) json["tokens"] = RowsJson(document.tokens());
  return json;
}

Json GetJson(const v1::GetResponse& response) {
  Json documents = Json::array();
  for (const v1::StoredDocument& document : response.documents()) documents.push_back(StoredJson(document));
  return {{"documents", std::move(documents)},
          {"missing", IdsJson(response.missing_string_ids(), response.missing_int_ids())}};
}

Json FacetsJson(const v1::FacetsResponse& response) {
  Json values = Json::array();
  for (const v1::FacetValue& value : response.values()) values.push_back(Json::array({value.value(), value.count()}));
  return {{"values", std::move(values)},
          {"num_values", response.num_values()},
          {"num_documents", response.num_documents()}};
}

Json InfoJson(const v1::GetInfoResponse& response) {
  const v1::Limits& limits = response.limits();
  Json collections = Json::array();
  for (const v1::CollectionInfo& info : response.collections()) collections.push_back(CollectionJson(info));
  return {{"limits",
           {{"max_queries_per_request", limits.max_queries_per_request()},
            {"max_query_tokens", limits.max_query_tokens()},
            {"max_document_tokens", limits.max_document_tokens()},
            {"max_candidates_per_query", limits.max_candidates_per_query()},
            {"max_inline_documents", limits.max_inline_documents()},
            {"max_top_k", limits.max_top_k()},
            {"default_top_k", limits.default_top_k()}}},
          {"encoder",
           {{"model", response.encoder().model()},
            {"fingerprint", response.encoder().fingerprint()},
            {"dim", response.encoder().dim()}}},
          {"collections", std::move(collections)},
          {"loading", response.loading()}};
}

Json ErrorJson(const absl::Status& status) {
  Json error = {{"code", absl::StatusCodeToString(status.code())}, {"message", std::string(status.message())}};
  if (const std::string field = client::FieldOf(status); !field.empty()) error["field"] = field;
  if (const std::string reason = client::ReasonOf(status); !reason.empty()) error["reason"] = reason;
  if (const std::optional<uint64_t> limit = client::LimitOf(status)) error["limit"] = *limit;
  if (const std::string key = client::LimitKeyOf(status); !key.empty()) error["limit_key"] = key;
  if (const std::optional<absl::Duration> delay = client::RetryAfter(status)) {
    error["retry_after_ms"] = absl::ToInt64Milliseconds(*delay);
  }
  return error;
}

}  // namespace maxsim::conformance
