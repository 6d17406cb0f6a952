#include "server/http/documents/document_json.h"

#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/field_path.h"
#include "kernels/scalar_type.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/text/json_text.h"

namespace maxsim::http {
namespace {

std::string_view NameOf(v1::WriteOutcome outcome) {
  switch (outcome) {
    case v1::WRITE_OUTCOME_APPLIED:
      return "applied";
    case v1::WRITE_OUTCOME_STALE:
      return "stale";
    case v1::WRITE_OUTCOME_NOT_FOUND:
      return "not_found";
    default:
      return "unspecified";
  }
}

// Returns the answer's results and sequence as JSON, without the closing brace.
template <typename Response>
std::string WritesText(const Response& response) {
  std::string text = "{\"results\":[";
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::WriteResult& result = response.results(i);
    absl::StrAppend(&text, i == 0 ? "" : ",", "{\"outcome\":\"", std::string(NameOf(result.outcome())), "\"");
    if (result.sequence() > 0) absl::StrAppend(&text, ",\"sequence\":", result.sequence());
    if (result.truncated()) text += ",\"truncated\":true";
    text += '}';
  }
  absl::StrAppend(&text, "],\"sequence\":", response.sequence());
  return text;
}

// Returns a document as JSON, without the closing brace.
std::string DocumentText(const v1::StoredDocument& document) {
  std::string text =
      absl::StrCat("{\"id\":", document.has_string_id() ? Dump(document.string_id()) : absl::StrCat(document.int_id()),
                   ",\"num_tokens\":", document.num_tokens());
  if (!document.payload().empty()) {
    text += ",\"payload\":";
    AppendPayload(document.payload(), text);
  }
  if (document.version() > 0) absl::StrAppend(&text, ",\"version\":", document.version());
  if (document.sequence() > 0) absl::StrAppend(&text, ",\"sequence\":", document.sequence());
  if (!document.has_tokens()) return text;
  const v1::TokenMatrix& tokens = document.tokens();
  const auto type = static_cast<ScalarType>(tokens.dtype());
  absl::StrAppend(&text, ",\"tokens\":{\"dtype\":\"", std::string(Name(type)), "\",\"shape\":[", tokens.num_tokens(),
                  ",", tokens.dim(), "],\"data\":\"", absl::Base64Escape(tokens.data()), "\"}");
  if (type == ScalarType::kI8) text += absl::StrCat(",\"scale\":", Dump(document.scale()));
  return text;
}

// Begins the text of an answer: adds its list of documents.
template <typename Response>
absl::Status AddDocuments(const Response& response, const StopCheck& stop, std::string& text) {
  constexpr size_t kStopBytes = size_t{1} << 20;  // some milliseconds of base64
  text = "{\"documents\":[";
  size_t next_stop_bytes = kStopBytes;
  for (int i = 0; i < response.documents_size(); ++i) {
    if (stop != nullptr && text.size() >= next_stop_bytes) {
      if (absl::Status status = stop(); !status.ok()) return status;
      next_stop_bytes = text.size() + kStopBytes;
    }
    absl::StrAppend(&text, i == 0 ? "" : ",", DocumentText(response.documents(i)), "}");
  }
  text += ']';
  return absl::OkStatus();
}

// The beginning or the end of a field's path in gRPC, and the name of this field in a body.
struct RenamedPath {
  std::string_view path;
  std::string_view member;
};
constexpr std::array<RenamedPath, 7> kRenamedLists = {{{"string_ids.ids", "ids"},
                                                       {"int_ids.ids", "ids"},
                                                       {"string_ids", "ids"},
                                                       {"int_ids", "ids"},
                                                       {"after_string_id", "after"},
                                                       {"after_int_id", "after"},
                                                       {"filter_text", "filter"}}};
constexpr std::array<RenamedPath, 4> kRenamedEndings = {{{".string_id", ".id"},
                                                         {".int_id", ".id"},
                                                         {".tokens.num_tokens", ".tokens.shape[0]"},
                                                         {".tokens.dim", ".tokens.shape[1]"}}};

std::string NameInBody(const std::string& field) {
  for (const RenamedPath& list : kRenamedLists) {
    if (client::IsWithin(field, list.path)) return client::Rebased(field, list.path, list.member);
  }
  for (const RenamedPath& ending : kRenamedEndings) {
    if (!field.ends_with(ending.path)) continue;
    return field.substr(0, field.size() - ending.path.size()).append(ending.member);
  }
  return field;
}

}  // namespace

std::string FormatWrites(const v1::UpsertResponse& response) {
  return absl::StrCat(WritesText(response), ",\"usage\":{\"total_tokens\":", response.encoded_tokens(), "}}");
}

std::string FormatWrites(const v1::DeleteResponse& response) {
  if (response.results_size() > 0) return WritesText(response) + "}";
  return absl::StrCat("{\"num_deleted\":", response.num_deleted(), ",\"num_missing\":", response.num_missing(),
                      ",\"num_stale\":", response.num_stale(), ",\"has_more\":", response.has_more() ? "true" : "false",
                      ",\"sequence\":", response.sequence(), "}");
}

absl::StatusOr<std::string> FormatDocuments(const v1::GetResponse& response, const StopCheck& stop) {
  std::string text;
  if (absl::Status status = AddDocuments(response, stop, text); !status.ok()) return status;
  text += ",\"missing\":[";
  const char* comma = "";
  for (const std::string& id : response.missing_string_ids().ids()) {
    absl::StrAppend(&text, std::exchange(comma, ","), Dump(id));
  }
  for (const int64_t id : response.missing_int_ids().ids()) absl::StrAppend(&text, std::exchange(comma, ","), id);
  absl::StrAppend(&text, "],\"generation\":", response.generation(), ",\"sequence\":", response.sequence(), "}");
  return text;
}

absl::StatusOr<std::string> FormatPage(const v1::ScrollResponse& response, const StopCheck& stop) {
  std::string text;
  if (absl::Status status = AddDocuments(response, stop, text); !status.ok()) return status;
  absl::StrAppend(&text, ",\"has_more\":", response.has_more() ? "true" : "false",
                  ",\"generation\":", response.generation(), ",\"sequence\":", response.sequence(), "}");
  return text;
}

std::string FormatDocument(const v1::GetResponse& response) {
  return absl::StrCat(DocumentText(response.documents(0)), ",\"generation\":", response.generation(), "}");
}

std::string FormatCount(const v1::CountResponse& response) {
  return absl::StrCat("{\"count\":", response.count(), ",\"generation\":", response.generation(),
                      ",\"sequence\":", response.sequence(), "}");
}

std::string FormatFacets(const v1::FacetsResponse& response) {
  std::string text = "{\"values\":[";
  const char* comma = "";
  for (const v1::FacetValue& value : response.values()) {
    absl::StrAppend(&text, std::exchange(comma, ","), "{\"value\":", Dump(value.value()), ",\"count\":", value.count(),
                    "}");
  }
  absl::StrAppend(&text, "],\"num_values\":", response.num_values(), ",\"num_documents\":", response.num_documents(),
                  ",\"generation\":", response.generation(), ",\"sequence\":", response.sequence(), "}");
  return text;
}

std::string FormatDocumentError(const absl::Status& status) {
  const std::string field = client::FieldOf(status);
  return FormatError(field.empty() ? status : client::WithField(status, NameInBody(field)));
}

}  // namespace maxsim::http
