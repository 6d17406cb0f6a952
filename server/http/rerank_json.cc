#include "server/http/rerank_json.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "nlohmann/json.hpp"
#include "server/rpc/status.h"
#include "server/shard/document_line.h"
#include "server/shard/json_events.h"
#include "server/shard/text.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

// Levels of a request: the object, its members, the rows of a matrix, their numbers; and one to spare.
constexpr int kMaxDepth = 4;

// Of what a client sent, in a message.
constexpr size_t kLongestQuote = 64;

absl::Status Invalid(std::string_view member, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(member), ": ", message));
}

std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// A member's value as people sent it, cut short.
std::string Shown(const json& value) { return shard::Printable(Dump(value), kLongestQuote); }

// What a parsed value does not show any more: members that appear twice, of which it keeps the last, and how deep it
// was. Parsing does not recurse, but what comes after it may, so nothing deeper than a request is kept.
class BodyChecks {
 public:
  // For json::parse.
  bool Keep(int depth, json::parse_event_t event, const json& value) {
    too_deep_ = too_deep_ || depth > kMaxDepth;
    // Objects that a request may have: the body, and the query in it.
    if (event == json::parse_event_t::object_start && depth < 2) members_[static_cast<size_t>(depth)].clear();
    if (event == json::parse_event_t::key && depth <= 2) {
      const auto& name = value.get_ref<const std::string&>();
      if (depth == 1) member_ = name;
      if (depth == 2 && member_.empty()) return !too_deep_;  // the body is no object, which is said later
      const bool is_new = members_[static_cast<size_t>(depth) - 1].insert(name).second;
      if (!is_new && repeated_.empty()) repeated_ = depth == 1 ? name : absl::StrCat(member_, ".", name);
    }
    return !too_deep_;
  }

  absl::Status Result() const {
    if (too_deep_) {
      return absl::InvalidArgumentError(absl::StrCat("the body is nested deeper than ", kMaxDepth, " levels"));
    }
    if (repeated_.empty()) return absl::OkStatus();
    return Invalid(shard::Printable(repeated_, kLongestQuote), "appears twice");
  }

 private:
  bool too_deep_ = false;
  std::array<std::set<std::string>, 2> members_;
  std::string member_;  // of the body, in which the parser is
  std::string repeated_;
};

// Says why a body is not JSON, and where.
class BodyEvents : public shard::JsonEvents {
 public:
  BodyEvents() : JsonEvents(kMaxDepth) {}
};

absl::Status ReadShape(const json& shape, const rpc::RequestLimits& limits, v1::TokenMatrix& tokens) {
  const bool is_pair = shape.is_array() && shape.size() == 2 && shape[0].is_number_unsigned() &&
                       shape[1].is_number_unsigned() && shape[0].get<uint64_t>() <= UINT32_MAX &&
                       shape[1].get<uint64_t>() <= UINT32_MAX;
  if (!is_pair) {
    return Invalid("query.shape",
                   absl::StrCat("is ", Shown(shape), "; it must be [tokens, dim]: 1 to ", limits.max_query_tokens,
                                " (limits.max_query_tokens), and the collection's dimension"));
  }
  tokens.set_num_tokens(shape[0].get<uint32_t>());
  tokens.set_dim(shape[1].get<uint32_t>());
  return absl::OkStatus();
}

absl::Status ReadEncodedMatrix(const json& query, const rpc::RequestLimits& limits, v1::TokenMatrix& tokens) {
  for (const auto& member : query.items()) {
    if (member.key() != "dtype" && member.key() != "shape" && member.key() != "data") {
      return Invalid(absl::StrCat("query.", shard::Printable(member.key(), kLongestQuote)),
                     "is not a member (dtype, shape and data are)");
    }
  }
  for (const char* name : {"dtype", "shape", "data"}) {
    if (!query.contains(name)) return Invalid(absl::StrCat("query.", name), "is missing");
  }
  const json& dtype = query["dtype"];
  const auto type = dtype.is_string() ? ScalarTypeFromName(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!type.has_value() || *type == ScalarType::kI8) {
    return Invalid("query.dtype", absl::StrCat("is ", Shown(dtype), "; f32, f16 and bf16 are accepted"));
  }
  tokens.set_dtype(static_cast<v1::DataType>(*type));
  if (absl::Status status = ReadShape(query["shape"], limits, tokens); !status.ok()) return status;
  const json& data = query["data"];
  if (!data.is_string() || !absl::Base64Unescape(data.get_ref<const std::string&>(), tokens.mutable_data())) {
    return Invalid("query.data", "is not base64");
  }
  return absl::OkStatus();
}

absl::Status ReadNestedMatrix(const json& query, v1::TokenMatrix& tokens) {
  if (query.empty() || !query[0].is_array() || query[0].empty()) {
    return Invalid("query", "must be a list of rows of numbers, or {dtype, shape, data}");
  }
  const size_t dim = query[0].size();
  tokens.set_dtype(v1::DATA_TYPE_F32);
  tokens.set_num_tokens(static_cast<uint32_t>(query.size()));
  tokens.set_dim(static_cast<uint32_t>(dim));
  std::string& data = *tokens.mutable_data();
  data.reserve(query.size() * dim * sizeof(float));
  for (size_t row = 0; row < query.size(); ++row) {
    if (!query[row].is_array() || query[row].size() != dim) {
      return Invalid(absl::StrCat("query[", row, "]"),
                     absl::StrCat("must be a row of ", dim, " numbers as the first is"));
    }
    for (size_t column = 0; column < dim; ++column) {
      const json& value = query[row][column];
      if (!value.is_number()) {
        return Invalid(absl::StrCat("query[", row, "][", column, "]"),
                       absl::StrCat("is ", Shown(value), ", not a number"));
      }
      // Beyond FP32's range this becomes an infinity, which validation refuses with its place.
      const double wide = value.get<double>();
      const float narrow =
          std::abs(wide) > static_cast<double>(std::numeric_limits<float>::max())
              ? std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(wide > 0 ? 1 : -1))
              : static_cast<float>(wide);
      data.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDocuments(const json& documents, v1::Candidates& candidates) {
  if (documents == "*") {
    candidates.mutable_whole_collection();
    return absl::OkStatus();
  }
  if (!documents.is_array() || documents.empty()) {
    return Invalid("documents", "must be a list of ids that is not empty, or \"*\" for the whole collection");
  }
  const bool strings = documents[0].is_string();
  for (size_t i = 0; i < documents.size(); ++i) {
    const json& id = documents[i];
    if (strings && id.is_string()) {
      candidates.mutable_string_ids()->add_ids(id.get_ref<const std::string&>());
    } else if (!strings && id.is_number_integer() &&
               (!id.is_number_unsigned() || id.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX))) {
      candidates.mutable_int_ids()->add_ids(id.get<int64_t>());
    } else {
      return Invalid(absl::StrCat("documents[", i, "]"),
                     absl::StrCat("is ", Shown(id), "; ids must be all texts or all 64-bit integers"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadWeights(const json& weights, v1::Query& query) {
  if (!weights.is_array()) return Invalid("query_weights", "must be a list of numbers");
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].is_number()) {
      return Invalid(absl::StrCat("query_weights[", i, "]"), absl::StrCat("is ", Shown(weights[i]), ", not a number"));
    }
    const double weight = weights[i].get<double>();
    if (!(std::abs(weight) <= kMaxAbsWeight)) {
      return Invalid(absl::StrCat("query_weights[", i, "]"),
                     absl::StrCat("is ", Shown(weights[i]), "; its magnitude must be at most ", kMaxAbsWeight));
    }
    query.add_weights(static_cast<float>(weight));
  }
  return absl::OkStatus();
}

// What a member is called here that has the name of RerankRequest's field, or "".
std::string_view NameOfField(std::string_view field) {
  if (field == "collection") return "model";
  if (field == "queries") return "query";
  if (field == "candidates") return "documents";
  if (field == "top_k") return "top_n";
  if (field == "return_payloads") return "return_documents";
  return "";
}

absl::Status UnknownMember(const std::string& name) {
  std::string message =
      "is not a member (model, query, query_weights, documents, top_n, return_documents and request_id are)";
  if (const std::string_view known = NameOfField(name); !known.empty()) {
    absl::StrAppend(&message, "; HTTP's name for it is ", std::string(known));
  }
  return Invalid(shard::Printable(name, kLongestQuote), message);
}

absl::Status ReadMember(const std::string& name, const json& value, const rpc::RequestLimits& limits,
                        v1::RerankRequest& request) {
  v1::Query& query = *request.mutable_queries(0);
  if (name == "query") {
    if (value.is_object()) return ReadEncodedMatrix(value, limits, *query.mutable_tokens());
    if (value.is_array()) return ReadNestedMatrix(value, *query.mutable_tokens());
    if (value.is_string()) {
      return Invalid("query",
                     "is a text; this server takes token vectors: a list of rows of numbers, or {dtype, shape, data}");
    }
    return Invalid("query", "must be a list of rows of numbers, or {dtype, shape, data}");
  }
  if (name == "documents") return ReadDocuments(value, *request.mutable_candidates());
  if (name == "query_weights") return ReadWeights(value, query);
  if (name == "model" || name == "request_id") {
    if (!value.is_string()) return Invalid(name, absl::StrCat("is ", Shown(value), ", not a text"));
    (name == "model" ? *request.mutable_collection() : *request.mutable_request_id()) = value.get<std::string>();
    return absl::OkStatus();
  }
  if (name == "top_n") {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      return Invalid(name, absl::StrCat("is ", Shown(value), ", and whole numbers from 0 to ", limits.max_top_k,
                                        " (limits.max_top_k) are accepted"));
    }
    request.set_top_k(value.get<uint32_t>());
    return absl::OkStatus();
  }
  if (name == "return_documents") {
    if (!value.is_boolean()) return Invalid(name, absl::StrCat("is ", Shown(value), ", not true or false"));
    request.set_return_payloads(value.get<bool>());
    return absl::OkStatus();
  }
  return UnknownMember(name);
}

// As it was stored: parsed and written anew, numbers would lose digits. One that is no JSON object becomes a string.
void AppendPayload(const std::string& payload, std::string& text) {
  if (payload.empty()) {
    text += "{}";
  } else {
    text += shard::CheckPayload(payload).ok() ? payload : Dump(payload);
  }
}

void AppendResult(const v1::QueryResult& result, int idx, std::string& text) {
  json entry = {{"index", result.positions(idx)}, {"relevance_score", result.scores(idx)}};
  if (result.has_string_ids()) entry["id"] = result.string_ids().ids(idx);
  if (result.has_int_ids()) entry["id"] = result.int_ids().ids(idx);
  text += Dump(entry);
  if (idx >= result.payloads_size()) return;
  text.pop_back();
  text += ",\"document\":";
  AppendPayload(result.payloads(idx), text);
  text += '}';
}

// The gRPC paths that a request from here can be refused for, and what they are in the body.
struct Renamed {
  std::string_view path;
  std::string_view member;
};
constexpr std::array<Renamed, 10> kRenamed = {{{"queries[0].tokens.num_tokens", "query.shape[0]"},
                                               {"queries[0].tokens.dim", "query.shape[1]"},
                                               {"queries[0].tokens", "query"},
                                               {"queries[0].weights", "query_weights"},
                                               {"candidates.string_ids.ids", "documents"},
                                               {"candidates.int_ids.ids", "documents"},
                                               {"candidates.string_ids", "documents"},
                                               {"candidates.int_ids", "documents"},
                                               {"collection:", "model:"},
                                               {"top_k:", "top_n:"}}};

std::string ErrorBody(absl::StatusCode code, const std::string& message) {
  return Dump({{"error", {{"code", rpc::CodeName(code)}, {"message", message}}}});
}

}  // namespace

absl::StatusOr<v1::RerankRequest> ParseRerankRequest(const std::string& body, const rpc::RequestLimits& limits) {
  BodyChecks checks;
  const auto keep = [&checks](int depth, json::parse_event_t event, json& value) {
    return checks.Keep(depth, event, value);
  };
  const json root = json::parse(body, keep, /*allow_exceptions=*/false);
  if (absl::Status status = checks.Result(); !status.ok()) return status;
  // The parser would take a NUL byte as the end.
  if (root.is_discarded() || body.find('\0') != std::string::npos) {
    return Invalid("the body is not JSON", std::string(BodyEvents().Parse(body).message()));
  }
  if (!root.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  v1::RerankRequest request;
  request.add_queries();
  for (const char* name : {"model", "query", "documents"}) {
    if (!root.contains(name)) return Invalid(name, "is missing");
  }
  for (const auto& member : root.items()) {
    if (absl::Status status = ReadMember(member.key(), member.value(), limits, request); !status.ok()) return status;
  }
  return request;
}

std::string FormatRerankResponse(const std::string& collection, const v1::RerankResponse& response) {
  json missing = json::array();
  uint64_t unavailable = 0;
  for (const v1::QueryResult& result : response.results()) {
    unavailable += result.unavailable_documents();
    for (const std::string& id : result.missing_string_ids().ids()) missing.push_back(id);
    for (const int64_t id : result.missing_int_ids().ids()) missing.push_back(id);
  }
  const v1::Timings& timings = response.timings();
  json body = {{"id", response.request_id()},
               {"model", collection},
               {"generation", response.generation()},
               {"missing", std::move(missing)},
               {"timings",
                {{"queue_us", timings.queue_us()},
                 {"copy_us", timings.copy_us()},
                 {"kernel_us", timings.kernel_us()},
                 {"total_us", timings.total_us()}}}};
  if (unavailable > 0) body["unavailable_documents"] = unavailable;
  std::string text = Dump(body);
  text.pop_back();
  text += ",\"results\":[";
  bool first = true;
  for (const v1::QueryResult& result : response.results()) {
    for (int i = 0; i < result.scores_size(); ++i) {
      if (!std::exchange(first, false)) text += ',';
      AppendResult(result, i, text);
    }
  }
  text += "]}";
  return text;
}

std::string FormatError(const absl::Status& status) { return ErrorBody(status.code(), std::string(status.message())); }

std::string FormatServiceError(const absl::Status& status) {
  std::string message(status.message());
  for (const Renamed& renamed : kRenamed) {
    if (!absl::StartsWith(message, std::string(renamed.path))) continue;
    message.replace(0, renamed.path.size(), renamed.member);
    break;
  }
  return ErrorBody(status.code(), message);
}

std::string FormatCollections(const std::vector<v1::CollectionInfo>& collections) {
  json list = json::array();
  for (const v1::CollectionInfo& info : collections) {
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
      if (info.unavailable_documents() > 0) entry["unavailable_documents"] = info.unavailable_documents();
      for (const v1::TierInfo& tier : info.tiers()) {
        entry["tiers"].push_back({{"tier", tier.tier()},
                                  {"device", tier.device()},
                                  {"num_shards", tier.num_shards()},
                                  {"token_bytes", tier.token_bytes()},
                                  {"resident_bytes", tier.resident_bytes()}});
      }
    }
    list.push_back(std::move(entry));
  }
  return Dump({{"collections", std::move(list)}});
}

}  // namespace maxsim::http
