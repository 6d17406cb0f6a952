#include "server/http/rerank/rerank_body.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "collection/filters/filter_json.h"
#include "kernels/limits.h"
#include "server/http/rerank/rerank_events.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::http {
namespace {

constexpr uint32_t BitOf(Member member) { return uint32_t{1} << static_cast<int>(member); }

}  // namespace

bool RerankEvents::Key(std::string& key) {
  if (depth() == 1) return SelectMember(key);
  if (in_document()) return DocumentMember(key);
  if (in_refinement()) return RefinementMember(key);
  if (key != "text" && !query_.has_text()) {
    return ReadEncoded(query_.mutable_tokens(), limits_.max_query_tokens, "limits.max_query_tokens", key);
  }
  if (key == "text" && !query_.has_text()) return true;
  return Wrong(Cat("query.", Printable(key, kLongestQuote)), "is not a member beside the text before it");
}

// Notes which member the next value belongs to. Refuses a member that appears twice, and an unknown name.
bool RerankEvents::SelectMember(const std::string& key) {
  const auto* const known = std::find_if(kMemberNames.begin(), kMemberNames.end(),
                                         [&](const MemberName& candidate) { return candidate.name == key; });
  if (known == kMemberNames.end()) return UnknownMember(key);
  member_ = known->member;
  if (member_ == Member::kIgnored) return true;
  if ((seen_ & BitOf(member_)) != 0) return Wrong(key, "appears twice");
  seen_ |= BitOf(member_);
  if (member_ == Member::kDocuments) documents_name_ = key;
  if (member_ == Member::kTopN) top_n_name_ = key;
  if (member_ == Member::kMinScore) min_score_name_ = key;
  return true;
}

bool RerankEvents::UnknownMember(std::string_view name) {
  const std::string_view known = NameOfField(name);
  return Wrong(
      Printable(name, kLongestQuote),
      Cat("is not a member (model, query, query_weights, documents, top_n, return_documents, "
          "return_alignments, payload_fields, normalize, offset, min_score, group_by, group_size, refinement, filter, "
          "min_sequence and request_id are)",
          known.empty() ? "" : "; HTTP's name for it is ", known));
}

bool RerankEvents::RefinementMember(const std::string& key) {
  if (key != "documents" && key != "budget" && key != "require_proof") {
    return Wrong(Cat("refinement.", Printable(key, kLongestQuote)),
                 "is not a member (documents, budget and require_proof are)");
  }
  if (std::find(refinement_parts_.begin(), refinement_parts_.end(), key) != refinement_parts_.end()) {
    return Wrong(Cat("refinement.", key), "appears twice");
  }
  refinement_parts_.push_back(key);
  part_ = key;
  return true;
}

bool RerankEvents::Null() {
  if (in_document() || in_refinement() || (depth() == 1 && member_ == Member::kIgnored)) return true;
  if (depth() != 1 || member_ == Member::kNone) return Refuse("null");
  seen_ &= ~BitOf(member_);
  return true;
}

bool RerankEvents::Bool(bool value) {
  if (in_document() && !is_own_part()) return true;
  if (in_refinement() && part_ == "require_proof") {
    request_.mutable_refinement()->set_require_proof(value);
    return true;
  }
  if (depth() == 1) {
    switch (member_) {
      case Member::kIgnored:
        return true;
      case Member::kReturnDocuments:
        request_.set_return_payloads(value);
        return true;
      case Member::kReturnAlignments:
        request_.set_return_alignments(value);
        return true;
      case Member::kNormalize:
        request_.set_normalize(value);
        return true;
      default:
        break;
    }
  }
  return Refuse(value ? "true" : "false");
}

bool RerankEvents::AddRankField(const std::string& name) {
  if (rank_fields_.size() >= static_cast<size_t>(service::kMaxPayloadFields)) {
    return Wrong("rank_fields", Cat("has more than ", service::kMaxPayloadFields, " names"),
                 {service::kMaxPayloadFields, ""});
  }
  rank_fields_.push_back(name);
  return true;
}

bool RerankEvents::Text(std::string& value) {
  if (depth() == 1) return MemberText(value);
  if (in_document()) {
    if (part_ == "id") {
      document_.has_id = true;
      document_.string_id = std::move(value);
    } else if (part_ == "text") {
      document_.has_text = true;
      document_.text = std::move(value);
    } else if (part_ == "tokens") {
      return Refuse(Shown(value));
    }
    return true;
  }
  if (in_query_object()) {
    query_.set_text(std::move(value));
    return true;
  }
  if (depth() == 2 && member_ == Member::kPayloadFields) {
    if (request_.payload_fields_size() >= service::kMaxPayloadFields) {
      return Wrong("payload_fields", Cat("has more than ", service::kMaxPayloadFields, " names"),
                   {service::kMaxPayloadFields, ""});
    }
    request_.add_payload_fields(value);
    return true;
  }
  if (depth() == 2 && member_ == Member::kRankFields) return AddRankField(value);
  if (depth() == 2 && member_ == Member::kDocuments) {
    return path_.strings_are_texts ? AddText(value) : AddStringId(value);
  }
  return Refuse(Shown(value));
}

// The value of a member of the body.
bool RerankEvents::MemberText(std::string& value) {
  switch (member_) {
    case Member::kIgnored:
      return true;
    case Member::kModel:
      request_.set_collection(std::move(value));
      return true;
    case Member::kRequestId:
      request_.set_request_id(std::move(value));
      return true;
    case Member::kQuery:
      query_.set_text(std::move(value));
      return true;
    case Member::kFilter:
      request_.set_filter_text(std::move(value));
      return true;
    case Member::kGroupBy:
      request_.set_group_by(std::move(value));
      return true;
    case Member::kDocuments:
      if (value != "*") return RefuseDocuments();
      request_.mutable_candidates()->mutable_whole_collection();
      return true;
    case Member::kReturnDocuments:
    case Member::kReturnAlignments:
    case Member::kNormalize:
      // Clients that build their JSON from settings may send booleans as strings.
      if (absl::EqualsIgnoreCase(value, "true")) return Bool(true);
      if (absl::EqualsIgnoreCase(value, "false")) return Bool(false);
      return Refuse(Shown(value));
    default:
      return Refuse(Shown(value));
  }
}

bool RerankEvents::Integer(int64_t value) {
  const bool is_uint32 = value >= 0 && value <= int64_t{UINT32_MAX};
  if (depth() == 1 && member_ == Member::kTopN && is_uint32) {
    request_.set_top_k(static_cast<uint32_t>(value));
    return true;
  }
  if (depth() == 1 && member_ == Member::kOffset && is_uint32) {
    request_.set_offset(static_cast<uint32_t>(value));
    return true;
  }
  if (depth() == 1 && member_ == Member::kGroupSize && is_uint32) {
    request_.set_group_size(static_cast<uint32_t>(value));
    return true;
  }
  if (in_refinement() && part_ != "require_proof" && is_uint32) {
    v1::RefinementOptions& refinement = *request_.mutable_refinement();
    (part_ == "budget") ? refinement.set_budget(static_cast<uint32_t>(value))
                        : refinement.set_documents(static_cast<uint32_t>(value));
    return true;
  }
  if (depth() == 1 && member_ == Member::kMinSequence && value >= 0) {
    request_.set_min_sequence(static_cast<uint64_t>(value));
    return true;
  }
  if (in_document() && part_ == "id") {
    document_.has_id = document_.is_int = true;
    document_.int_id = value;
    return true;
  }
  if (depth() == 2 && member_ == Member::kDocuments) return AddIntId(value);
  return Number(static_cast<double>(value), value);
}

// Called for numbers that are not integers or are too large for an integer, and for integers where none is expected.
bool RerankEvents::Number(double value, const Json& exact) {
  if (depth() == 1 && member_ == Member::kIgnored) return true;
  if (depth() == 1 && member_ == Member::kMinScore) return TakeMinScore(value, exact);
  if (depth() == 2 && member_ == Member::kWeights) return AddWeight(value, exact);
  if (in_document() && !is_own_part()) return true;
  return Refuse(Shown(exact));
}

bool RerankEvents::TakeMinScore(double value, const Json& exact) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (!(std::abs(value) <= static_cast<double>(kLargest))) {
    return Wrong(min_score_name_, Cat("is ", Shown(exact), "; its magnitude must be at most ", kLargest));
  }
  request_.set_min_score(static_cast<float>(value));
  return true;
}

bool RerankEvents::AddWeight(double value, const Json& exact) {
  if (query_.weights_size() >= limits_.max_query_tokens) {
    return Wrong("query_weights",
                 Cat("has more than ", limits_.max_query_tokens, " numbers (limits.max_query_tokens)"));
  }
  if (!(std::abs(value) <= kMaxAbsWeight)) {
    return Wrong(Cat("query_weights[", query_.weights_size(), "]"),
                 Cat("is ", Shown(exact), "; its magnitude must be at most ", kMaxAbsWeight));
  }
  query_.add_weights(static_cast<float>(value));
  return true;
}

bool RerankEvents::StartList() {
  if (depth() == 2) {
    switch (member_) {
      case Member::kQuery:
        return ReadRows(query_.mutable_tokens(), limits_.max_query_tokens, "limits.max_query_tokens");
      case Member::kDocuments:
      case Member::kWeights:
      case Member::kPayloadFields:
      case Member::kRankFields:
        return true;
      case Member::kIgnored:
        return Ignore();
      default:
        break;
    }
  }
  if (!in_document_value()) return Skip();
  if (part_ != "tokens") return is_own_part() ? Skip() : Ignore();
  return BeginTokens() &&
         ReadRows(carried().add_documents(), limits_.max_document_tokens, "limits.max_document_tokens");
}

bool RerankEvents::StartObject() {
  if (depth() == 1) return true;
  if (depth() == 2 && member_ == Member::kQuery) return true;
  if (in_refinement()) {
    request_.mutable_refinement();
    return true;
  }
  if (depth() == 2 && member_ == Member::kIgnored) return Ignore();
  if (depth() == 2 && member_ == Member::kFilter) {
    filter_begin_ = position() - 1;
    return Ignore();
  }
  if (depth() == 3 && member_ == Member::kDocuments) {
    document_ = Document();
    document_.begin = position() - 1;
    return true;
  }
  if (!in_document_value()) return Skip();
  if (part_ != "tokens") return is_own_part() ? Skip() : Ignore();
  return BeginTokens() &&
         ReadEncoded(carried().add_documents(), limits_.max_document_tokens, "limits.max_document_tokens");
}

bool RerankEvents::EndList() {
  return depth() != 1 || member_ != Member::kDocuments || num_documents_ > 0 || RefuseDocuments();
}

bool RerankEvents::EndObject() {
  if (depth() == 0) return EndBody();
  if (depth() == 1 && member_ == Member::kRefinement) return true;
  if (depth() == 1) return query_.has_text() || RefuseQuery();
  return EndDocument();
}

bool RerankEvents::EndIgnored() {
  return depth() != 1 || member_ != Member::kFilter || TakeFilter(Since(filter_begin_));
}

// Passes the filter's object in the body to the parser of filters.
bool RerankEvents::TakeFilter(std::string_view json) {
  const absl::StatusOr<collection::Filter> filter = collection::ParseFilterJson(json);
  if (!filter.ok()) return Wrong("filter", std::string(filter.status().message()));
  *request_.mutable_filter() = service::FilterMessageOf(*filter);
  return true;
}

bool RerankEvents::EndBody() {
  if ((seen_ & BitOf(Member::kQuery)) == 0) return Wrong("query", "is missing");
  if ((seen_ & BitOf(Member::kDocuments)) == 0) return Wrong("documents", "is missing");
  if (!TakeRankFields()) return false;
  if (!request_.candidates().has_whole_collection()) {
    // Without top_n the answer has all documents of the request, as with other services, but at most limits.max_top_k.
    // If the offset leaves no room for results, the service refuses the request.
    const int64_t room = limits_.max_top_k / std::max<int64_t>(request_.group_size(), 1) - request_.offset();
    const auto all = static_cast<uint32_t>(std::min(num_documents_, room > 0 ? room : limits_.max_top_k));
    request_.set_top_k(request_.top_k() == 0 ? all : std::min(request_.top_k(), static_cast<uint32_t>(num_documents_)));
  }
  body_.form.api = path_.api;
  if (path_.api == RerankApi::kV1 && top_n_name_ == "top_k") body_.form.shape = AnswerShape::kData;
  if (path_.api == RerankApi::kNim) body_.form.shape = AnswerShape::kRankings;
  if (path_.api == RerankApi::kTei && documents_name_ == "texts") {
    body_.form.shape = AnswerShape::kList;
    // An answer that is only a list cannot report missing ids. So missing ids are an error.
    request_.set_missing_policy(v1::MISSING_POLICY_FAIL);
  }
  KeepCarried();
  return true;
}

std::string RerankEvents::MatrixPath() const {
  return member_ == Member::kQuery ? std::string("query") : Cat(DocumentPath(), ".tokens");
}

absl::StatusOr<RerankBody> ParseRerankBody(const std::string& body, const RerankPath& path,
                                           const service::RequestLimits& limits, const StopCheck& stop) {
  RerankBody parsed;
  RerankEvents events(path, limits, stop, &parsed);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return parsed;
}

}  // namespace maxsim::http
