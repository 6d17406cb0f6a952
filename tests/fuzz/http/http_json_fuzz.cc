// Fuzzes the JSON of calls. The message of an accepted request must equal what a parser that builds a tree finds in the
// body. Answers must be valid JSON, whatever ids, payloads and messages contain.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "server/console/questions.h"
#include "server/http/documents/count_body.h"
#include "server/http/documents/document_body.h"
#include "server/http/documents/document_json.h"
#include "server/http/documents/document_path.h"
#include "server/http/rerank/explain_json.h"
#include "server/http/rerank/rerank_body.h"
#include "server/http/rerank/rerank_members.h"
#include "server/service/call/status.h"
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

// Returns a member of the body under whichever of its names the body uses, or null if the body has none of them.
json MemberOf(const json& body, http::Member member) {
  for (const http::MemberName& known : http::kMemberNames) {
    if (known.member == member && body.contains(known.name)) return body[std::string(known.name)];
  }
  return nullptr;
}

bool HasMember(const json& element, const char* name) { return element.is_object() && element.contains(name); }

// Checks the documents in the body, or the ids of stored documents.
void CheckDocuments(const json& documents, bool strings_are_texts, const v1::Candidates& candidates) {
  if (documents.is_string()) {
    return Require(documents == "*" && candidates.has_whole_collection(), "a star is the whole collection");
  }
  json ids = json::array();
  json texts = json::array();
  int num_tokens = 0;
  for (const json& element : documents) {
    if (HasMember(element, "text") && !element["text"].is_null()) {
      texts.push_back(element["text"]);
    } else if (HasMember(element, "tokens") && !element["tokens"].is_null()) {
      const v1::InlineDocuments& carried = candidates.inline_documents();
      Require(num_tokens < carried.documents_size(), "every document of tokens is there");
      CheckMatrix(element["tokens"], carried.documents(num_tokens++));
    } else if (element.is_object()) {
      ids.push_back(element["id"]);
    } else {
      (strings_are_texts && element.is_string() ? texts : ids).push_back(element);
    }
  }
  json sent_ids = json::array();
  for (const std::string& id : candidates.string_ids().ids()) sent_ids.push_back(id);
  for (const int64_t id : candidates.int_ids().ids()) sent_ids.push_back(id);
  json sent_texts = json::array();
  for (const std::string& text : candidates.inline_documents().texts()) sent_texts.push_back(text);
  Require(ids == sent_ids && texts == sent_texts, "the candidates are the body's documents");
  Require(num_tokens == candidates.inline_documents().documents_size(), "no document of tokens is made up");
  Require((ids.empty() ? 0 : 1) + (texts.empty() ? 0 : 1) + (num_tokens > 0 ? 1 : 0) == 1,
          "documents are of one kind, and there are some");
}

void CheckQuery(const json& query, const v1::Query& sent) {
  if (query.is_string()) return Require(sent.text() == query, "the text is the body's");
  if (HasMember(query, "text")) return Require(sent.text() == query["text"], "the text is the object's");
  CheckMatrix(query, sent.tokens());
}

void CheckTopK(const json& top_n, const json& documents, const v1::RerankRequest& request) {
  const uint32_t offset = request.offset();
  const uint32_t top_k = request.top_k();
  const uint64_t asked = top_n.is_null() ? 0 : top_n.get<uint64_t>();
  if (documents.is_string()) return Require(asked == top_k, "top_k is the body's top_n");
  const auto limit = static_cast<uint64_t>(service::RequestLimits().max_top_k);
  const uint64_t most = limit / std::max<uint64_t>(request.group_size(), 1);
  const uint64_t all = std::min<uint64_t>(documents.size(), offset < most ? most - offset : limit);
  Require(top_k == (asked == 0 ? all : std::min<uint64_t>(asked, documents.size())),
          "top_k is the body's top_n, or all documents");
}

void CheckRefinement(const json& refinement, const v1::RerankRequest& request) {
  Require(refinement.is_object() == request.has_refinement(), "a refinement is asked for as in the body");
  if (!refinement.is_object()) return;
  const auto number = [&](const char* name) {
    const json value = refinement.value(name, json());
    return value.is_null() ? 0 : value.get<uint64_t>();
  };
  Require(number("documents") == request.refinement().documents(), "so many documents are refined as in the body");
  Require(number("budget") == request.refinement().budget(), "the budget is the body's");
  Require((refinement.value("require_proof", json()) == true) == request.refinement().require_proof(),
          "a proof is required as in the body");
}

void CheckRequest(const json& body, bool strings_are_texts, const v1::RerankRequest& request) {
  const auto flag = [&](http::Member member) { return MemberOf(body, member) == true; };
  const auto text = [&](http::Member member) {
    const json value = MemberOf(body, member);
    return value.is_null() ? std::string() : value.get<std::string>();
  };
  Require(text(http::Member::kModel) == request.collection(), "the collection is the body's model");
  Require(text(http::Member::kRequestId) == request.request_id(), "the request's id is the body's");
  Require(flag(http::Member::kReturnDocuments) == request.return_payloads(), "payloads are asked for as in the body");
  Require(flag(http::Member::kReturnAlignments) == request.return_alignments(), "so are alignments");
  Require(flag(http::Member::kNormalize) == request.normalize(), "and means");
  Require(request.queries_size() == 1, "a body has one query");
  CheckQuery(MemberOf(body, http::Member::kQuery), request.queries(0));
  const json documents = MemberOf(body, http::Member::kDocuments);
  CheckDocuments(documents, strings_are_texts, request.candidates());
  const json offset = MemberOf(body, http::Member::kOffset);
  Require((offset.is_null() ? 0 : offset.get<uint64_t>()) == request.offset(), "the offset is the body's");
  const json min_score = MemberOf(body, http::Member::kMinScore);
  Require(min_score.is_null() != request.has_min_score(), "a least score is asked for as in the body");
  if (!min_score.is_null()) {
    Require(static_cast<float>(min_score.get<double>()) == request.min_score(), "the least score is the body's");
  }
  CheckTopK(MemberOf(body, http::Member::kTopN), documents, request);
  Require(text(http::Member::kGroupBy) == request.group_by(), "the field to group by is the body's");
  const json group_size = MemberOf(body, http::Member::kGroupSize);
  Require((group_size.is_null() ? 0 : group_size.get<uint64_t>()) == request.group_size(), "so is the group's size");
  const json weights = MemberOf(body, http::Member::kWeights);
  Require(static_cast<int>(weights.size()) == request.queries(0).weights_size(), "the weights are the body's");
  for (size_t idx = 0; idx < weights.size(); ++idx) {
    Require(request.queries(0).weights(static_cast<int>(idx)) == static_cast<float>(weights[idx].get<double>()),
            "a weight is the body's number");
  }
  const json fields = MemberOf(body, http::Member::kPayloadFields);
  Require(static_cast<int>(fields.size()) == request.payload_fields_size(), "the fields are the body's");
  CheckRefinement(MemberOf(body, http::Member::kRefinement), request);
}

// Returns whether an object of the body has two members of the same name. The parser that builds a tree keeps only one
// of them.
bool HasTwins(const std::string& body) {
  std::vector<std::set<std::string>> open;
  bool has_twins = false;
  const json whole = json::parse(
      body,
      [&](int, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::object_start) open.emplace_back();
        if (event == json::parse_event_t::object_end) open.pop_back();
        if (event == json::parse_event_t::key) has_twins |= !open.back().insert(parsed.get<std::string>()).second;
        return true;
      },
      /*allow_exceptions=*/false);
  return !whole.is_discarded() && has_twins;
}

void CheckAnswers(const std::string& text) {
  absl::Status error = service::InvalidField(absl::StrCat("queries[0].tokens.", text), text);
  Require(json::accept(http::FormatServiceError(error)), "an error of any field is JSON");
  error = service::InvalidField("queries[0].tokens.dim", text, {3, 4, "limits.x"});
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
  const absl::StatusOr<std::string> written = http::FormatRerankResponse({.model = text}, response, nullptr);
  Require(written.ok(), "an answer that nobody stops is written");
  const json answer = json::parse(*written, nullptr, false);
  Require(answer.is_object() && answer["results"].size() == 1 && answer["missing"].size() == 1, "an answer is JSON");
  v1::CollectionInfo info;
  info.set_name(text);
  info.set_path(text);
  info.set_error(text);
  Require(json::accept(http::FormatCollections({info}, nullptr)), "a list of collections is JSON");
}

// Checks the parsers of other bodies that the port or a file may contain.
void CheckOthers(const std::string& body) {
  const absl::StatusOr<v1::RerankRequest> explain = http::ParseExplainRequest(body, {});
  if (explain.ok()) {
    const v1::Candidates& candidates = explain->candidates();
    Require(explain->queries_size() == 1, "one query is explained");
    Require(candidates.string_ids().ids_size() + candidates.int_ids().ids_size() == 1, "one document is explained");
    v1::ExplainResponse explanation;
    explanation.set_num_query_tokens(1);
    explanation.set_num_document_tokens(1);
    explanation.add_similarities(0.5);
    explanation.add_document_tokens(body);
    Require(json::accept(http::FormatExplanation(body, candidates, explanation)), "an explanation is JSON");
  } else {
    RequireRefusal(explain.status());
    Require(json::accept(http::FormatExplainError(explain.status())), "its error is JSON");
  }
  if (const absl::StatusOr<std::string> questions = console::QuestionsJson(body); questions.ok()) {
    Require(json::accept(*questions), "recorded questions are JSON");
  } else {
    RequireRefusal(questions.status());
  }
}

void CheckUpsertedDocument(const json& sent, const v1::Document& document) {
  Require(sent["id"] == (document.has_string_id() ? json(document.string_id()) : json(document.int_id())),
          "the id is the body's");
  if (HasMember(sent, "tokens") && !sent["tokens"].is_null()) CheckMatrix(sent["tokens"], document.tokens());
  const bool has_text = HasMember(sent, "text") && !sent["text"].is_null();
  Require(document.text() == (has_text ? sent["text"].get<std::string>() : ""), "the text is the body's");
  const bool has_payload = HasMember(sent, "payload") && !sent["payload"].is_null();
  Require(has_payload == !document.payload().empty(), "a payload is the body's");
  if (has_payload) Require(json::parse(document.payload(), nullptr, false) == sent["payload"], "and whole");
  const bool has_version = HasMember(sent, "version") && !sent["version"].is_null();
  Require(document.version() == (has_version ? sent["version"].get<uint64_t>() : 0), "the version is the body's");
}

// Checks the bodies and paths of calls that write and read documents.
void CheckDocumentCalls(const std::string& body, bool has_twins) {
  const json sent = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (const absl::StatusOr<v1::UpsertRequest> upsert = http::ParseUpsertBody(body, {}); !upsert.ok()) {
    RequireRefusal(upsert.status());
  } else if (!has_twins) {
    Require(static_cast<int>(sent["documents"].size()) == upsert->documents_size(), "no document is made up");
    for (int i = 0; i < upsert->documents_size(); ++i) {
      CheckUpsertedDocument(sent["documents"][static_cast<size_t>(i)], upsert->documents(i));
    }
  }
  if (const absl::StatusOr<v1::DeleteRequest> deletes = http::ParseDeleteBody(body); !deletes.ok()) {
    RequireRefusal(deletes.status());
  } else if (deletes->has_filter() || deletes->has_filter_text()) {
    Require(deletes->string_ids().ids().empty() && deletes->int_ids().ids().empty(), "a filter comes without ids");
    Require(has_twins || !deletes->has_filter_text() || sent["filter"] == deletes->filter_text(),
            "the filter is the body's");
  } else if (!has_twins) {
    json ids = json::array();
    for (const std::string& id : deletes->string_ids().ids()) ids.push_back(id);
    for (const int64_t id : deletes->int_ids().ids()) ids.push_back(id);
    Require(ids == sent["ids"], "the ids are the body's");
  }
  if (const absl::StatusOr<v1::GetRequest> get = http::ParseGetBody(body); !get.ok()) RequireRefusal(get.status());
  if (const absl::StatusOr<v1::CountRequest> count = http::ParseCountBody(body); !count.ok()) {
    RequireRefusal(count.status());
  } else if (!has_twins) {
    Require(count->collection() == sent["collection"].get<std::string>(), "the collection is the body's");
  }
  if (const absl::StatusOr<v1::FacetsRequest> facets = http::ParseFacetsBody(body); !facets.ok()) {
    RequireRefusal(facets.status());
  } else if (!has_twins) {
    Require(facets->field() == sent["field"].get<std::string>(), "the field is the body's");
  }
  if (const absl::StatusOr<v1::ScrollRequest> scroll = http::ParseScrollBody(body); !scroll.ok()) {
    RequireRefusal(scroll.status());
  } else if (!has_twins && scroll->has_after_string_id()) {
    Require(scroll->after_string_id() == sent["after"].get<std::string>(), "the id is the body's");
  }
  if (const auto path = http::ParseDocumentPath(body); path.has_value()) {
    Require(body.size() >= path->collection.size() + path->id.size(), "what is decoded is no longer");
  }
  v1::GetResponse response;
  response.add_documents()->set_string_id(body);
  response.mutable_documents(0)->set_payload(body);
  response.mutable_missing_string_ids()->add_ids(body);
  Require(json::accept(*http::FormatDocuments(response)), "a list of documents is JSON");
  v1::ScrollResponse page;
  page.add_documents()->set_payload(body);
  Require(json::accept(*http::FormatPage(page)), "a page of documents is JSON");
  v1::FacetsResponse facets;
  facets.add_values()->set_value(body);
  Require(json::accept(http::FormatFacets(facets)), "a list of values is JSON");
  Require(json::accept(http::FormatDocumentError(service::InvalidField(body, body))), "an error is JSON");
}

void FuzzHttpJson(std::string_view input) {
  const std::string body(input);
  CheckAnswers(body);
  CheckOthers(body);
  CheckDocumentCalls(body, HasTwins(body));
  const http::RerankPath& path = http::kRerankPaths[body.size() % http::kRerankPaths.size()];
  const absl::StatusOr<http::RerankBody> parsed = http::ParseRerankBody(body, path, {});
  if (!parsed.ok()) return RequireRefusal(parsed.status());
  json whole = json::parse(body, nullptr, /*allow_exceptions=*/false);
  Require(whole.is_object(), "a body that is accepted is a JSON object");
  // Unknown members and members that are null may appear twice.
  if (!HasTwins(body)) CheckRequest(whole, path.strings_are_texts, parsed->request);
  v1::RerankRequest again;
  Require(again.ParseFromString(parsed->request.SerializeAsString()), "the request can travel");
}

const Registration kHttpJsonTarget("http_json", &FuzzHttpJson);

}  // namespace
}  // namespace maxsim::fuzz
