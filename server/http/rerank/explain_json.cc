#include "server/http/rerank/explain_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/unique_json.h"
#include "client/error_details.h"
#include "nlohmann/json.hpp"
#include "server/http/rerank/rerank_body.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/rerank/rerank_path.h"
#include "server/http/text/json_text.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

constexpr size_t kLongestShown = 300;

// A body is an object with a matrix. The matrix is a list of rows, or an object with a shape: 3 levels in all.
constexpr int kMaxExplainDepth = 3;

constexpr std::array<std::string_view, 5> kExplainMembers = {"model", "query", "id", "query_weights", "request_id"};

absl::StatusOr<json> ParseWhole(const std::string& body) {
  std::string repeated;
  absl::StatusOr<json> value = ParseUniqueJson(body, kMaxExplainDepth, &repeated);
  if (value.ok()) return value;
  if (!repeated.empty()) return client::InvalidField(Printable(repeated, kLongestShown), "appears twice");
  return absl::InvalidArgumentError(Cat("the body is not JSON: ", value.status().message()));
}

// Errors of /v1/rerank's parser and of the service may be about a field that the body of /v1/explain does not have.
// Replaces the name of such a field by the name in this body.
absl::Status NamedAsInBody(const absl::Status& status) {
  const std::string field = client::FieldOf(status);
  return field == "documents[0]" || field == "documents" ? client::WithField(status, "id") : status;
}

// Appends the value with six digits, which suffice to draw it. All digits of FP64 would make the answer three times
// as long.
void AppendSimilarity(double value, std::string& text) { absl::StrAppend(&text, static_cast<float>(value)); }

}  // namespace

absl::StatusOr<v1::RerankRequest> ParseExplainRequest(const std::string& body, const service::RequestLimits& limits,
                                                      const StopCheck& stop) {
  if (body.size() > kMaxExplainBodyBytes) {
    return absl::InvalidArgumentError(
        Cat("the body has ", body.size(), " bytes; must have at most ", kMaxExplainBodyBytes));
  }
  absl::StatusOr<json> parsed = ParseWhole(body);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  for (const auto& [name, value] : parsed->items()) {
    if (std::find(kExplainMembers.begin(), kExplainMembers.end(), name) != kExplainMembers.end()) continue;
    return client::InvalidField(Printable(name, kLongestShown),
                                "is not a member (model, query, id, query_weights and request_id are)");
  }
  const auto id = parsed->find("id");
  if (id == parsed->end()) return client::InvalidField("id", "is missing");
  if (!id->is_string() && !id->is_number_integer()) {
    return client::InvalidField("id", "is neither a text nor a 64-bit integer");
  }
  // Turn the body into a body of /v1/rerank with the document `id`. Then one parser reads both kinds of bodies, and a
  // query means the same in both.
  json rerank = *std::move(parsed);
  rerank["documents"] = json::array({rerank["id"]});
  rerank.erase("id");
  absl::StatusOr<RerankBody> read = ParseRerankBody(rerank.dump(), *FindRerankPath("/v1/rerank"), limits, stop);
  if (!read.ok()) return NamedAsInBody(read.status());
  return std::move(read->request);
}

std::string FormatExplanation(const std::string& collection, const v1::Candidates& document,
                              const v1::ExplainResponse& explanation) {
  ObjectText head;
  if (!explanation.document_tokens().empty()) head.AddText("document_tokens", ListText(explanation.document_tokens()));
  head.Add("generation", explanation.generation());
  if (document.string_ids().ids_size() == 1) head.Add("id", document.string_ids().ids(0));
  if (document.int_ids().ids_size() == 1) head.Add("id", document.int_ids().ids(0));
  head.Add("model", collection);
  if (!explanation.query_tokens().empty()) head.AddText("query_tokens", ListText(explanation.query_tokens()));
  if (explanation.query_truncated()) head.Add("query_truncated", true);
  std::string text = std::move(head.Add("score", explanation.score())).Finish();
  text.pop_back();
  text += ",\"similarities\":[";
  const double* similarity = explanation.similarities().data();
  for (uint32_t i = 0; i < explanation.num_query_tokens(); ++i) {
    text += i == 0 ? "[" : ",[";
    for (uint32_t j = 0; j < explanation.num_document_tokens(); ++j) {
      if (j > 0) text += ',';
      AppendSimilarity(*similarity++, text);
    }
    text += ']';
  }
  text += "]}";
  return text;
}

std::string FormatExplainError(const absl::Status& status) {
  return FormatError(NamedAsInBody(NamedAsInRerankBody(status)));
}

}  // namespace maxsim::http
