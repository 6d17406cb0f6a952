// Reads the body of /v1/rerank event by event into the message: nothing of it is kept twice, and what is wrong ends the
// reading where it stands.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_events.h"
#include "base/text.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "nlohmann/json.hpp"
#include "server/http/base64.h"
#include "server/http/rerank_json.h"
#include "server/http/rerank_members.h"

namespace maxsim::http {
namespace {

// These are the levels of a request: the object, its members, the rows of a matrix, their numbers; and one to spare.
constexpr int kMaxDepth = 4;

// A message quotes this many bytes of what a client sent.
constexpr size_t kLongestQuote = 64;

// A value as it would be written in JSON, cut short.
template <typename Value>
std::string Shown(const Value& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string Shown(const std::string& text) {
  // The escapes of what is cut off would not be seen anyway.
  return Shown<std::string>(text.substr(0, 2 * kLongestQuote));
}

class BodyEvents : public JsonEvents {
 public:
  BodyEvents(const service::RequestLimits& limits, const StopCheck& stop, v1::RerankRequest* request)
      : JsonEvents(kMaxDepth), limits_(limits), stop_(stop), request_(*request), query_(*request->add_queries()) {}

  absl::Status Read(std::string_view body) {
    body_ = body;
    absl::Status status = Parse(body, stop_);
    if (!stopped_.ok()) return stopped_;
    return malformed() ? Prefix("the body is not JSON: ", status) : status;
  }

 private:
  // Records what is wrong with a member of the body, which ends the reading.
  bool Wrong(std::string_view member, std::string_view what) { return Fail(Cat(member, ": ", what)); }
  bool FailTooDeep(int max_depth) override {
    return Fail(Cat("the body is nested deeper than ", max_depth, " levels"));
  }

  bool OnKey(std::string& key) override {
    if (skipped_depth_ > 0) return true;
    if (depth() == 1) return Select(kMembers, key, "", &seen_, &member_) || UnknownMember(key);
    if (!in_encoded_ || in_shape_) return true;
    return Select(kQueryMembers, key, "query.", &seen_in_query_, &query_member_) ||
           Wrong(Cat("query.", Printable(key, kLongestQuote)), "is not a member (dtype, shape and data are)");
  }

  // False when there is no such member, or it appears twice; of two errors the first counts.
  template <typename Id, size_t kSize>
  bool Select(const std::array<MemberName<Id>, kSize>& names, std::string_view key, std::string_view where,
              uint32_t* seen, Id* selected) {
    for (const MemberName<Id>& name : names) {
      if (name.name != key) continue;
      const uint32_t bit = uint32_t{1} << static_cast<int>(name.id);
      if ((*seen & bit) != 0) return Wrong(Cat(where, key), "appears twice");
      *seen |= bit;
      *selected = name.id;
      return true;
    }
    return false;
  }

  template <typename Id, size_t kSize>
  bool CheckComplete(const std::array<MemberName<Id>, kSize>& names, std::string_view where, uint32_t seen) {
    for (const MemberName<Id>& name : names) {
      if (name.required && (seen & uint32_t{1} << static_cast<int>(name.id)) == 0) {
        return Wrong(Cat(where, name.name), "is missing");
      }
    }
    return true;
  }

  bool UnknownMember(std::string_view name) {
    const std::string_view known = NameOfField(name);
    return Wrong(Printable(name, kLongestQuote),
                 Cat("is not a member (model, query, query_weights, documents, top_n, return_documents and request_id "
                     "are)",
                     known.empty() ? "" : "; HTTP's name for it is ", known));
  }

  // These events are of scalars.
  bool Value(std::string_view kind) override { return IsIgnored() || Refuse(kind); }  // null alone comes here
  bool OnBool(bool value) override {
    if (IsIgnored()) return true;
    if (depth() != 1 || member_ != Member::kReturnDocuments) return Refuse(value ? "true" : "false");
    request_.set_return_payloads(value);
    return true;
  }
  bool OnString(std::string& value) override;
  bool OnInteger(int64_t value) override;
  bool OnLargeInteger(uint64_t value) override { return OnNumber(static_cast<double>(value), value); }
  bool OnFloat(double value) override { return OnNumber(value, value); }

  // These events are of containers.
  bool OnStartObject() override {
    if (IsIgnored() || depth() == 1) return true;
    if (depth() != 2 || member_ != Member::kQuery) return Skip();
    in_encoded_ = true;
    query_member_ = QueryMember::kNone;
    return true;
  }
  bool OnEndObject() override {
    if (skipped_depth_ > 0) return EndSkipped();
    if (in_shape_) return true;
    if (depth() == 0) return CheckComplete(kMembers, "", seen_);
    in_encoded_ = false;
    return CheckComplete(kQueryMembers, "query.", seen_in_query_);
  }
  bool OnStartArray() override;
  bool OnEndArray() override;

  // True for values inside of one that is wrong already, or that make the shape so.
  bool IsIgnored() {
    shape_is_wrong_ = shape_is_wrong_ || in_shape_;
    return skipped_depth_ > 0 || in_shape_;
  }
  // A container that is not wanted is read to its end, so that the message can show it.
  bool Skip() {
    skipped_depth_ = depth();
    container_begin_ = position() - 1;
    return true;
  }
  bool EndSkipped() {
    if (depth() >= skipped_depth_) return true;
    skipped_depth_ = 0;
    return Refuse(ShownContainer());
  }
  // The container that ends here, as it was sent.
  std::string_view ShownContainer() const { return body_.substr(container_begin_, position() - container_begin_); }

  // Numbers that no integer holds, or where none is wanted; `exact` is the same for a message.
  template <typename Exact>
  bool OnNumber(double value, Exact exact);
  bool AddToRow(double value);
  template <typename Exact>
  bool AddWeight(double value, Exact exact);
  bool TooMany(std::string_view member, int64_t limit, std::string_view what) {
    return Wrong(member, Cat("has more than ", limit, " ", what));
  }
  bool EndRow();
  bool EndMatrix();
  bool EndShape();
  bool ReadData(const std::string& text);
  bool ReadDtype(const std::string& name);

  // The error for a value that cannot stand where the parser is; `shown` is what was sent.
  bool Refuse(std::string_view shown);
  bool RefuseElement(std::string_view shown);
  bool RefuseRow() {
    return Wrong(Cat("query[", num_rows_, "]"), Cat("must be a row of ", dim_, " numbers as the first is"));
  }
  bool TooManyDocuments() {
    return TooMany("documents", limits_.max_candidates_per_query, "ids (limits.max_candidates_per_query)");
  }
  bool NoList() { return Wrong("query", "must be a list of rows of numbers, or {dtype, shape, data}"); }

  const service::RequestLimits& limits_;
  const StopCheck& stop_;
  std::string_view body_;
  v1::RerankRequest& request_;
  v1::Query& query_;
  absl::Status stopped_;

  Member member_ = Member::kNone;  // whose value the parser reads
  QueryMember query_member_ = QueryMember::kNone;
  uint32_t seen_ = 0;  // bits of members
  uint32_t seen_in_query_ = 0;
  int skipped_depth_ = 0;  // of the container that is being skipped; 0: none
  size_t container_begin_ = 0;
  bool in_encoded_ = false;
  bool in_shape_ = false;

  int64_t num_rows_ = 0;  // of a nested matrix; whole ones
  int64_t dim_ = 0;       // of its first row
  int64_t row_size_ = 0;  // of the row that is being read
  int64_t num_shape_ = 0;
  bool shape_is_wrong_ = false;
};

bool BodyEvents::Refuse(std::string_view shown) {
  const auto is = [&](std::string_view member, std::string_view wanted) {
    return Wrong(member, Cat("is ", Printable(shown, kLongestQuote), wanted));
  };
  if (depth() == 0) return Fail("the body is not a JSON object");
  if (depth() > 1) return RefuseElement(shown);
  switch (member_) {
    case Member::kQuery:
      if (shown.starts_with('"')) {
        return Wrong("query",
                     "is a text; this server takes token vectors: a list of rows of numbers, or {dtype, shape, data}");
      }
      return NoList();
    case Member::kDocuments:
      return Wrong("documents", "must be a list of ids that is not empty, or \"*\" for the whole collection");
    case Member::kWeights:
      return Wrong("query_weights", "must be a list of numbers");
    case Member::kTopN:
      return is("top_n", Cat(", and whole numbers from 0 to ", limits_.max_top_k, " (limits.max_top_k) are accepted"));
    case Member::kReturnDocuments:
      return is("return_documents", ", not true or false");
    case Member::kModel:
      return is("model", ", not a text");
    case Member::kRequestId:
    case Member::kNone:
      break;
  }
  return is("request_id", ", not a text");
}

// Refuses an element of a list or of the query's object.
bool BodyEvents::RefuseElement(std::string_view shown) {
  const auto is = [&](std::string_view member, std::string_view wanted) {
    return Wrong(member, Cat("is ", Printable(shown, kLongestQuote), wanted));
  };
  if (member_ == Member::kDocuments) {
    const int num_ids = request_.candidates().string_ids().ids_size() + request_.candidates().int_ids().ids_size();
    return is(Cat("documents[", num_ids, "]"), "; ids must be all texts or all 64-bit integers");
  }
  if (member_ == Member::kWeights) return is(Cat("query_weights[", query_.weights_size(), "]"), ", not a number");
  if (in_encoded_) {
    if (query_member_ == QueryMember::kDtype) return is("query.dtype", "; f32, f16 and bf16 are accepted");
    if (query_member_ == QueryMember::kData) return Wrong("query.data", "is not base64");
    return is("query.shape", Cat("; it must be [tokens, dim]: 1 to ", limits_.max_query_tokens,
                                 " (limits.max_query_tokens), and the collection's dimension"));
  }
  if (depth() == 3) return is(Cat("query[", num_rows_, "][", row_size_, "]"), ", not a number");
  return num_rows_ == 0 ? NoList() : RefuseRow();
}

bool BodyEvents::OnString(std::string& value) {
  if (IsIgnored()) return true;
  if (depth() == 1) {
    if (member_ == Member::kModel) {
      request_.set_collection(std::move(value));
      return true;
    }
    if (member_ == Member::kRequestId) {
      request_.set_request_id(std::move(value));
      return true;
    }
    if (member_ == Member::kDocuments && value == "*") {
      request_.mutable_candidates()->mutable_whole_collection();
      return true;
    }
  }
  if (depth() == 2 && member_ == Member::kDocuments && !request_.candidates().has_int_ids()) {
    auto& ids = *request_.mutable_candidates()->mutable_string_ids()->mutable_ids();
    if (ids.size() >= limits_.max_candidates_per_query) return TooManyDocuments();
    *ids.Add() = value;  // the parser's text has more room than it needs, and is used again
    return true;
  }
  if (depth() == 2 && in_encoded_ && query_member_ == QueryMember::kDtype) return ReadDtype(value);
  if (depth() == 2 && in_encoded_ && query_member_ == QueryMember::kData) return ReadData(value);
  return Refuse(Shown(value));
}

bool BodyEvents::OnInteger(int64_t value) {
  const bool is_uint32 = value >= 0 && value <= int64_t{UINT32_MAX};
  if (in_shape_ && depth() == 3 && is_uint32 && num_shape_ < 2) {
    v1::TokenMatrix& tokens = *query_.mutable_tokens();
    num_shape_ == 0 ? tokens.set_num_tokens(static_cast<uint32_t>(value))
                    : tokens.set_dim(static_cast<uint32_t>(value));
    ++num_shape_;
    return true;
  }
  if (IsIgnored()) return true;
  if (depth() == 1 && member_ == Member::kTopN && is_uint32) {
    request_.set_top_k(static_cast<uint32_t>(value));
    return true;
  }
  if (depth() == 2 && member_ == Member::kDocuments && !request_.candidates().has_string_ids()) {
    auto& ids = *request_.mutable_candidates()->mutable_int_ids()->mutable_ids();
    if (ids.size() >= limits_.max_candidates_per_query) return TooManyDocuments();
    ids.Add(value);
    return true;
  }
  return OnNumber(static_cast<double>(value), value);
}

template <typename Exact>
bool BodyEvents::OnNumber(double value, Exact exact) {
  if (IsIgnored()) return true;
  if (depth() == 3 && member_ == Member::kQuery) return AddToRow(value);
  if (depth() == 2 && member_ == Member::kWeights) return AddWeight(value, exact);
  return Refuse(Shown(exact));
}

bool BodyEvents::AddToRow(double value) {
  if (num_rows_ > 0 && row_size_ == dim_) return RefuseRow();
  if (row_size_ == kMaxDim) return TooMany("query[0]", kMaxDim, "numbers, the largest dimension");
  // Beyond FP32's range this becomes an infinity, which validation refuses with its place.
  const float narrow = std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())
                           ? std::copysign(std::numeric_limits<float>::infinity(), value > 0 ? 1.0F : -1.0F)
                           : static_cast<float>(value);
  query_.mutable_tokens()->mutable_data()->append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  ++row_size_;
  return true;
}

template <typename Exact>
bool BodyEvents::AddWeight(double value, Exact exact) {
  if (query_.weights_size() >= limits_.max_query_tokens) {
    return TooMany("query_weights", limits_.max_query_tokens, "numbers (limits.max_query_tokens)");
  }
  if (!(std::abs(value) <= kMaxAbsWeight)) {
    return Wrong(Cat("query_weights[", query_.weights_size(), "]"),
                 Cat("is ", Shown(exact), "; its magnitude must be at most ", kMaxAbsWeight));
  }
  query_.add_weights(static_cast<float>(value));
  return true;
}

bool BodyEvents::OnStartArray() {
  if (IsIgnored()) return true;
  if (depth() == 2 && (member_ == Member::kDocuments || member_ == Member::kWeights)) return true;
  if (depth() == 2 && member_ == Member::kQuery) return true;
  if (depth() == 3 && in_encoded_ && query_member_ == QueryMember::kShape) {
    in_shape_ = true;
    container_begin_ = position() - 1;
    return true;
  }
  if (depth() != 3 || in_encoded_ || member_ != Member::kQuery) return Skip();
  if (num_rows_ >= limits_.max_query_tokens) {
    return TooMany("query", limits_.max_query_tokens, "rows (limits.max_query_tokens)");
  }
  row_size_ = 0;
  return true;
}

bool BodyEvents::OnEndArray() {
  if (skipped_depth_ > 0) return EndSkipped();
  if (in_shape_) return depth() > 2 || EndShape();
  if (depth() == 2) return EndRow();
  if (member_ == Member::kQuery) return EndMatrix();
  if (member_ == Member::kDocuments && !request_.has_candidates()) return Refuse("");
  return true;
}

bool BodyEvents::EndRow() {
  if (num_rows_ == 0) {
    if (row_size_ == 0) return NoList();
    dim_ = row_size_;
  } else if (row_size_ != dim_) {
    return RefuseRow();
  }
  ++num_rows_;
  return true;
}

bool BodyEvents::EndMatrix() {
  if (num_rows_ == 0) return NoList();
  v1::TokenMatrix& tokens = *query_.mutable_tokens();
  tokens.set_dtype(v1::DATA_TYPE_F32);
  tokens.set_num_tokens(static_cast<uint32_t>(num_rows_));
  tokens.set_dim(static_cast<uint32_t>(dim_));
  return true;
}

bool BodyEvents::EndShape() {
  in_shape_ = false;
  return (!shape_is_wrong_ && num_shape_ == 2) || RefuseElement(ShownContainer());
}

bool BodyEvents::ReadDtype(const std::string& name) {
  const auto type = ScalarTypeFromName(name);
  if (!type.has_value() || *type == ScalarType::kI8) return RefuseElement(Shown(name));
  query_.mutable_tokens()->set_dtype(static_cast<v1::DataType>(*type));
  return true;
}

bool BodyEvents::ReadData(const std::string& text) {
  const absl::StatusOr<bool> is_base64 = DecodeBase64(text, stop_, query_.mutable_tokens()->mutable_data());
  if (is_base64.ok()) return *is_base64 || RefuseElement("");
  stopped_ = is_base64.status();
  return false;
}

}  // namespace

absl::StatusOr<v1::RerankRequest> ParseRerankRequest(const std::string& body, const service::RequestLimits& limits,
                                                     const StopCheck& stop) {
  v1::RerankRequest request;
  BodyEvents events(limits, stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

}  // namespace maxsim::http
