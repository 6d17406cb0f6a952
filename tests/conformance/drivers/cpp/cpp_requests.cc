#include "tests/conformance/drivers/cpp/cpp_requests.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/messages.h"

namespace maxsim::conformance {
namespace {

constexpr uint32_t kDim = 8;  // of a matrix without rows, which does not say its width

// Returns a value of an object, or `otherwise` if the object has none or null.
template <typename Value>
Value Get(const Json& object, const char* name, Value otherwise) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? otherwise : found->get<Value>();
}

v1::TokenMatrix MakeMatrix(const Json& rows) {
  std::vector<float> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<float>());
  }
  return client::MakeTokens(values, rows.empty() ? kDim : static_cast<uint32_t>(rows[0].size()));
}

v1::Query MakeQuery(const Json& query, const Json& weights) {
  v1::Query message =
      query.is_string() ? client::MakeTextQuery(query.get<std::string>()) : client::MakeQuery(MakeMatrix(query));
  for (const Json& weight : weights) message.add_weights(weight.get<float>());
  return message;
}

// Returns an integer id, which is a number or {"int64": "..."}.
int64_t IntId(const Json& id) {
  int64_t number = 0;
  if (id.is_object() && absl::SimpleAtoi(id.at("int64").get<std::string>(), &number)) return number;
  return id.get<int64_t>();
}

// Sets the ids of a message that has the fields string_ids and int_ids. An empty list is set as string_ids.
template <typename Message>
void SetIds(const Json& ids, Message& message) {
  if (ids.empty() || ids[0].is_string()) {
    v1::StringIds& strings = *message.mutable_string_ids();
    for (const Json& id : ids) strings.add_ids(id.get<std::string>());
    return;
  }
  for (const Json& id : ids) message.mutable_int_ids()->add_ids(IntId(id));
}

v1::Candidates MakeCandidates(const Json& ids, const Json& documents) {
  if (ids.is_null() && documents.is_null()) return client::WholeCollection();
  v1::Candidates candidates;
  if (!ids.is_null()) {
    SetIds(ids, candidates);
    return candidates;
  }
  v1::InlineDocuments& inlined = *candidates.mutable_inline_documents();
  for (const Json& document : documents) {
    if (document.is_string()) {
      inlined.add_texts(document.get<std::string>());
    } else {
      *inlined.add_documents() = MakeMatrix(document);
    }
  }
  return candidates;
}

// Returns the member `name`, or null if the object has none.
Json Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

v1::FilterValue MakeValue(const Json& value) {
  v1::FilterValue message;
  if (value.is_string()) {
    message.set_string_value(value.get<std::string>());
  } else if (value.is_boolean()) {
    message.set_boolean_value(value.get<bool>());
  } else if (value.is_number_integer()) {
    message.set_integer_value(value.get<int64_t>());
  } else {
    message.set_number_value(value.get<double>());
  }
  return message;
}

void SetBound(const Json& value, bool exclusive, v1::FilterBound& bound) {
  *bound.mutable_value() = MakeValue(value);
  bound.set_exclusive(exclusive);
}

// Converts a filter from JSON (docs/reference/filters.md) to a message.
v1::Filter MakeFilter(const Json& json) {
  v1::Filter filter;
  if (json.contains("and")) {
    for (const Json& one : json["and"]) *filter.mutable_all_of()->add_filters() = MakeFilter(one);
  } else if (json.contains("or")) {
    for (const Json& one : json["or"]) *filter.mutable_any_of()->add_filters() = MakeFilter(one);
  } else if (json.contains("not")) {
    *filter.mutable_negation() = MakeFilter(json["not"]);
  } else if (json.contains("equals")) {
    filter.mutable_equals()->set_field(json["field"].get<std::string>());
    *filter.mutable_equals()->mutable_value() = MakeValue(json["equals"]);
  } else if (json.contains("in")) {
    filter.mutable_is_in()->set_field(json["field"].get<std::string>());
    for (const Json& one : json["in"]) *filter.mutable_is_in()->add_values() = MakeValue(one);
  } else if (json.contains("exists")) {
    filter.set_exists(json["field"].get<std::string>());
  } else {
    v1::FilterRange& range = *filter.mutable_range();
    range.set_field(json["field"].get<std::string>());
    if (json.contains("gt")) SetBound(json["gt"], true, *range.mutable_low());
    if (json.contains("gte")) SetBound(json["gte"], false, *range.mutable_low());
    if (json.contains("lt")) SetBound(json["lt"], true, *range.mutable_high());
    if (json.contains("lte")) SetBound(json["lte"], false, *range.mutable_high());
  }
  return filter;
}

template <typename Request>
void SetFilter(const Json& arguments, Request& request) {
  const Json filter = Member(arguments, "filter");
  if (filter.is_string()) request.set_filter_text(filter.get<std::string>());
  if (filter.is_object()) *request.mutable_filter() = MakeFilter(filter);
}

v1::Priority PriorityOf(const std::string& name) {
  if (name == "low") return v1::PRIORITY_LOW;
  return name == "high" ? v1::PRIORITY_HIGH : v1::PRIORITY_NORMAL;
}

// Returns a request with all options, and without queries and candidates.
v1::RerankRequest MakeRerankOptions(const Json& arguments) {
  v1::RerankRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  request.set_top_k(Get<uint32_t>(arguments, "top_k", 10));
  request.set_offset(Get<uint32_t>(arguments, "offset", 0));
  if (arguments.contains("min_score")) request.set_min_score(arguments["min_score"].get<float>());
  request.set_group_by(Get<std::string>(arguments, "group_by", ""));
  request.set_group_size(Get<uint32_t>(arguments, "group_size", 0));
  request.set_return_payloads(Get<bool>(arguments, "payloads", false));
  for (const Json& field : Member(arguments, "payload_fields")) request.add_payload_fields(field.get<std::string>());
  request.set_return_alignments(Get<bool>(arguments, "alignments", false));
  request.set_normalize(Get<bool>(arguments, "normalize", false));
  request.set_priority(PriorityOf(Get<std::string>(arguments, "priority", "normal")));
  if (Get<std::string>(arguments, "missing_policy", "report") == "fail") {
    request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  }
  request.set_request_id(Get<std::string>(arguments, "request_id", ""));
  request.set_min_sequence(Get<uint64_t>(arguments, "min_sequence", 0));
  SetFilter(arguments, request);
  return request;
}

// Returns whether `ids` has one entry per query: a list or, for the whole collection, null.
bool HasListsOfIds(const Json& ids) { return !ids.empty() && (ids[0].is_array() || ids[0].is_null()); }

// Returns whether `documents` has a list of matrices or of texts for each query.
bool HasListsOfDocuments(const Json& documents) {
  if (documents.empty() || !documents[0].is_array() || documents[0].empty()) return false;
  const Json& first = documents[0][0];
  return first.is_string() || (first.is_array() && !first.empty() && first[0].is_array());
}

v1::Document MakeOneDocument(const Json& given) {
  v1::Document document;
  const Json& id = given["id"];
  if (id.is_string()) {
    document.set_string_id(id.get<std::string>());
  } else {
    document.set_int_id(IntId(id));
  }
  if (given.contains("tokens")) *document.mutable_tokens() = MakeMatrix(given["tokens"]);
  document.set_text(Get<std::string>(given, "text", ""));
  if (given.contains("payload")) document.set_payload(given["payload"].dump());
  const Json version = Member(given, "version");
  uint64_t number = 0;
  if (version.is_object() && absl::SimpleAtoi(version.at("int64").get<std::string>(), &number)) {
    document.set_version(number);
  } else if (!version.is_null()) {
    document.set_version(version.get<uint64_t>());
  }
  return document;
}

}  // namespace

v1::RerankRequest MakeRerank(const Json& arguments) {
  v1::RerankRequest request = MakeRerankOptions(arguments);
  *request.add_queries() = MakeQuery(arguments["query"], Member(arguments, "weights"));
  *request.mutable_candidates() = MakeCandidates(Member(arguments, "ids"), Member(arguments, "documents"));
  return request;
}

v1::RerankRequest MakeRerankMany(const Json& arguments) {
  v1::RerankRequest request = MakeRerankOptions(arguments);
  const Json ids = Member(arguments, "ids"), documents = Member(arguments, "documents");
  const Json weights = Member(arguments, "weights");
  for (size_t i = 0; i < arguments["queries"].size(); ++i) {
    v1::Query& query = *request.add_queries();
    query = MakeQuery(arguments["queries"][i], weights.is_null() ? Json() : weights[i]);
    if (HasListsOfIds(ids)) *query.mutable_candidates() = MakeCandidates(ids[i], Json());
    if (HasListsOfDocuments(documents)) *query.mutable_candidates() = MakeCandidates(Json(), documents[i]);
  }
  if (!HasListsOfIds(ids) && !HasListsOfDocuments(documents)) {
    *request.mutable_candidates() = MakeCandidates(ids, documents);
  }
  return request;
}

v1::RerankRequest MakeExplain(const Json& arguments) {
  v1::RerankRequest request = MakeRerankOptions(arguments);
  *request.add_queries() = MakeQuery(arguments["query"], Member(arguments, "weights"));
  SetIds(Json::array({arguments["id"]}), *request.mutable_candidates());
  return request;
}

v1::UpsertRequest MakeUpsert(const Json& arguments) {
  v1::UpsertRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  for (const Json& document : arguments["documents"]) *request.add_documents() = MakeOneDocument(document);
  return request;
}

v1::DeleteRequest MakeDelete(const Json& arguments) {
  v1::DeleteRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  if (arguments.contains("ids")) SetIds(arguments["ids"], request);
  SetFilter(arguments, request);
  request.set_version(Get<uint64_t>(arguments, "version", 0));
  return request;
}

v1::GetRequest MakeGet(const Json& arguments) {
  v1::GetRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  SetIds(arguments["ids"], request);
  request.set_return_tokens(Get<bool>(arguments, "return_tokens", false));
  request.set_min_sequence(Get<uint64_t>(arguments, "min_sequence", 0));
  return request;
}

v1::ScrollRequest MakeScroll(const Json& arguments) {
  v1::ScrollRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  SetFilter(arguments, request);
  request.set_limit(Get<uint32_t>(arguments, "page_size", 0));
  const Json after = Member(arguments, "after");
  if (after.is_string()) {
    request.set_after_string_id(after.get<std::string>());
  } else if (!after.is_null()) {
    request.set_after_int_id(IntId(after));
  }
  request.set_return_payloads(Get<bool>(arguments, "payloads", true));
  request.set_return_tokens(Get<bool>(arguments, "return_tokens", false));
  return request;
}

v1::CountRequest MakeCount(const Json& arguments) {
  v1::CountRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  SetFilter(arguments, request);
  return request;
}

v1::FacetsRequest MakeFacets(const Json& arguments) {
  v1::FacetsRequest request;
  request.set_collection(Get<std::string>(arguments, "collection", ""));
  request.set_field(Get<std::string>(arguments, "field", ""));
  SetFilter(arguments, request);
  request.set_limit(Get<uint32_t>(arguments, "limit", 0));
  return request;
}

}  // namespace maxsim::conformance
