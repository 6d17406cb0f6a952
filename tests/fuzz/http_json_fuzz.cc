// Fuzzes the JSON of /v1/rerank. What is accepted says what the body says, as a parser that builds the whole document
// reads it; what is answered is JSON, whatever ids, payloads and messages hold.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "server/http/rerank_json.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using nlohmann::json;

float Narrow(double wide) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::fabs(wide) <= kLargest) return static_cast<float>(wide);
  return std::copysign(std::numeric_limits<float>::infinity(), wide < 0 ? -1.0f : 1.0f);
}

void CheckMatrix(const json& query, const v1::TokenMatrix& tokens) {
  if (query.is_object()) {
    Require(query.size() == 3 && query["shape"] == json({tokens.num_tokens(), tokens.dim()}),
            "the shape is the body's");
    std::string decoded;
    Require(absl::Base64Unescape(query["data"].get<std::string>(), &decoded) && decoded == tokens.data(),
            "the data are the body's base64");
    return Require(tokens.dtype() != v1::DATA_TYPE_UNSPECIFIED && tokens.dtype() != v1::DATA_TYPE_I8,
                   "the type is one");
  }
  Require(query.is_array() && query.size() == tokens.num_tokens() && tokens.dtype() == v1::DATA_TYPE_F32,
          "a row is a token");
  Require(tokens.data().size() == sizeof(float) * tokens.num_tokens() * tokens.dim(), "the matrix has its size");
  const char* next = tokens.data().data();
  for (const json& row : query) {
    Require(row.size() == tokens.dim(), "the rows are as long as the first");
    for (const json& element : row) {
      float value = 0;
      std::memcpy(&value, next, sizeof(value));
      next += sizeof(value);
      Require(element.is_number() && value == Narrow(element.get<double>()), "an element is the body's number");
    }
  }
}

void CheckDocuments(const json& documents, const v1::Candidates& candidates) {
  if (documents.is_string()) {
    return Require(documents == "*" && candidates.has_whole_collection(), "a star is the whole collection");
  }
  json ids = json::array();
  for (const std::string& id : candidates.string_ids().ids()) ids.push_back(id);
  for (const int64_t id : candidates.int_ids().ids()) ids.push_back(id);
  Require(ids == documents && !ids.empty(), "the candidates are the body's documents");
}

void CheckRequest(const json& body, const v1::RerankRequest& request) {
  static const std::set<std::string> kMembers = {
      "model", "query", "query_weights", "documents", "top_n", "return_documents", "request_id"};
  for (const auto& member : body.items()) Require(kMembers.count(member.key()) == 1, "every member is known");
  Require(body["model"] == request.collection(), "the collection is the body's model");
  Require(body.value("request_id", "") == request.request_id(), "the request's id is the body's");
  Require(body.value("top_n", uint64_t{0}) == request.top_k(), "top_k is the body's top_n");
  Require(body.value("return_documents", false) == request.return_payloads(), "payloads are asked for as in the body");
  Require(request.queries_size() == 1, "a body has one query");
  CheckMatrix(body["query"], request.queries(0).tokens());
  CheckDocuments(body["documents"], request.candidates());
  const json weights = body.value("query_weights", json::array());
  Require(static_cast<int>(weights.size()) == request.queries(0).weights_size(), "the weights are the body's");
  for (size_t idx = 0; idx < weights.size(); ++idx) {
    Require(request.queries(0).weights(static_cast<int>(idx)) == static_cast<float>(weights[idx].get<double>()),
            "a weight is the body's number");
  }
}

void CheckAnswers(const std::string& text) {
  const absl::Status error = absl::InvalidArgumentError(absl::StrCat("queries[0].tokens.dim: is ", text));
  Require(json::accept(http::FormatError(error)), "an error is JSON");
  Require(json::accept(http::FormatServiceError(error)), "a service's error is JSON");
  v1::RerankResponse response;
  response.set_request_id(text);
  v1::QueryResult& result = *response.add_results();
  result.add_scores(1.5f);
  result.add_positions(3);
  result.mutable_string_ids()->add_ids(text);
  result.mutable_missing_string_ids()->add_ids(text);
  result.add_payloads(text);
  const absl::StatusOr<std::string> written = http::FormatRerankResponse(text, response, nullptr);
  Require(written.ok(), "an answer that nobody stops is written");
  const json answer = json::parse(*written, nullptr, false);
  Require(answer.is_object() && answer["results"].size() == 1 && answer["missing"].size() == 1, "an answer is JSON");
  v1::CollectionInfo info;
  info.set_name(text);
  info.set_path(text);
  info.set_error(text);
  Require(json::accept(http::FormatCollections({info})), "a list of collections is JSON");
}

void FuzzHttpJson(std::string_view input) {
  const std::string body(input);
  CheckAnswers(body);
  const absl::StatusOr<v1::RerankRequest> request = http::ParseRerankRequest(body, {});
  if (!request.ok()) return RequireRefusal(request.status());
  json whole = json::parse(body, nullptr, /*allow_exceptions=*/false);
  Require(whole.is_object(), "a body that is accepted is a JSON object");
  CheckRequest(whole, *request);
  v1::RerankRequest again;
  Require(again.ParseFromString(request->SerializeAsString()), "the request can travel");
}

const Registration kHttpJsonTarget("http_json", &FuzzHttpJson);

}  // namespace
}  // namespace maxsim::fuzz
