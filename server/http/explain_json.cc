#include "server/http/explain_json.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "nlohmann/json.hpp"
#include "server/http/rerank_json.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

constexpr size_t kLongestQuote = 300;

// A body is an object, a matrix, its rows and their numbers.
constexpr int kMaxDepth = 4;

absl::Status Wrong(const char* member, std::string_view what) {
  return absl::InvalidArgumentError(Cat(member, ": ", what));
}

// Parses the body. What is nested deeper than a query is, is dropped on the way: the parser of /v1/rerank then refuses
// the member that it was in.
absl::StatusOr<json> ParseBody(const std::string& body) {
  const auto is_shallow = [](int depth, json::parse_event_t, const json&) { return depth <= kMaxDepth; };
  try {
    return json::parse(body, is_shallow);
  } catch (const json::parse_error& error) {
    std::string_view what = error.what();
    if (const size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    return absl::InvalidArgumentError(Cat("the body is not JSON: ", Printable(what, kLongestQuote)));
  }
}

// What the parser of /v1/rerank and the service call by names that this body does not have.
absl::Status Renamed(const absl::Status& status) {
  std::string message(status.message());
  for (const std::string_view name : {"documents[0]", "documents"}) {
    if (!message.starts_with(Cat(name, ":"))) continue;
    message.replace(0, name.size(), "id");
    break;
  }
  absl::Status renamed(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { renamed.SetPayload(url, payload); });
  return renamed;
}

// Appends a number with four decimals less than FP32 has: nine digits would make the answer twice as long.
void AppendSimilarity(double value, std::string& text) { absl::StrAppend(&text, static_cast<float>(value)); }

}  // namespace

absl::StatusOr<v1::RerankRequest> ParseExplainRequest(const std::string& body, const service::RequestLimits& limits,
                                                      const StopCheck& stop) {
  if (body.size() > kMaxExplainBodyBytes) {
    return absl::InvalidArgumentError(
        Cat("the body has ", body.size(), " bytes, and at most ", kMaxExplainBodyBytes, " are accepted"));
  }
  absl::StatusOr<json> parsed = ParseBody(body);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  for (const char* member : {"documents", "top_n", "return_documents"}) {
    if (parsed->contains(member)) return Wrong(member, "is not a member; model, query and id are");
  }
  const auto id = parsed->find("id");
  if (id == parsed->end()) return Wrong("id", "is missing");
  if (!id->is_string() && !id->is_number_integer()) return Wrong("id", "is neither a text nor a 64-bit integer");
  // One parser reads both bodies, so that a query means the same in both.
  json rerank = *std::move(parsed);
  rerank["documents"] = json::array({rerank["id"]});
  rerank.erase("id");
  absl::StatusOr<v1::RerankRequest> request = ParseRerankRequest(rerank.dump(), limits, stop);
  if (!request.ok()) return Renamed(request.status());
  return request;
}

std::string FormatExplanation(const v1::RerankRequest& request, const service::Explanation& explanation) {
  const v1::Candidates& candidates = request.candidates();
  json head = {{"model", request.collection()}, {"generation", explanation.generation}, {"score", explanation.score}};
  if (candidates.string_ids().ids_size() == 1) head["id"] = candidates.string_ids().ids(0);
  if (candidates.int_ids().ids_size() == 1) head["id"] = candidates.int_ids().ids(0);
  if (!explanation.query_tokens.empty()) head["query_tokens"] = explanation.query_tokens;
  if (!explanation.document_tokens.empty()) head["document_tokens"] = explanation.document_tokens;
  std::string text = head.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  text += ",\"similarities\":[";
  const double* similarity = explanation.similarities.data();
  for (int64_t i = 0; i < explanation.num_query_tokens; ++i) {
    text += i == 0 ? "[" : ",[";
    for (int64_t j = 0; j < explanation.num_document_tokens; ++j) {
      if (j > 0) text += ',';
      AppendSimilarity(*similarity++, text);
    }
    text += ']';
  }
  text += "]}";
  return text;
}

std::string FormatExplainError(const absl::Status& status) {
  return absl::StrReplaceAll(FormatServiceError(status), {{"\"message\":\"documents: ", "\"message\":\"id: "}});
}

}  // namespace maxsim::http
