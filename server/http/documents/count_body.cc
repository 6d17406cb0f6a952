#include "server/http/documents/count_body.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "collection/filters/filter_json.h"
#include "server/http/text/body_events.h"
#include "server/http/text/json_text.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_scroll.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::http {
namespace {

enum class CountMember : uint8_t {
  kCollection,
  kField,
  kFilter,
  kAfter,
  kLimit,
  kReturnPayloads,
  kReturnTokens,
  kMinSequence,
};
constexpr std::array<std::string_view, 8> kCountMembers = {
    "collection", "field", "filter", "after", "limit", "return_payloads", "return_tokens", "min_sequence"};

template <typename Request>
class CountEvents final : public BodyEvents {
 public:
  CountEvents(const StopCheck& stop, Request* request) : BodyEvents(kMaxDepth, stop), request_(*request) {}

 private:
  static constexpr int kMaxDepth = 72;  // The JSON of a filter has up to 66 levels.
  static constexpr bool kHasFacets = std::is_same_v<Request, v1::FacetsRequest>;
  static constexpr bool kHasScroll = std::is_same_v<Request, v1::ScrollRequest>;

  // Returns whether a body of this call has the member.
  static constexpr bool Has(CountMember member) {
    switch (member) {
      case CountMember::kFilter:
      case CountMember::kMinSequence:
        return true;
      case CountMember::kCollection:
        return !kHasScroll;  // the path has it
      case CountMember::kField:
        return kHasFacets;
      case CountMember::kLimit:
        return kHasFacets || kHasScroll;
      case CountMember::kAfter:
      case CountMember::kReturnPayloads:
      case CountMember::kReturnTokens:
        return kHasScroll;
    }
    return false;
  }
  static constexpr bool IsRequired(CountMember member) {
    return Has(member) && (member == CountMember::kCollection || member == CountMember::kField);
  }

  // Returns the members of the call as text, such as "collection, filter and min_sequence".
  static std::string Members() {
    std::string text;
    for (size_t idx = 0; idx < kCountMembers.size(); ++idx) {
      if (!Has(static_cast<CountMember>(idx))) continue;
      const bool is_last = idx + 1 == kCountMembers.size();
      text += Cat(text.empty() ? "" : is_last ? " and " : ", ", kCountMembers[idx]);
    }
    return text;
  }

  bool Key(std::string& key) override {
    for (size_t idx = 0; idx < kCountMembers.size(); ++idx) {
      if (key != kCountMembers[idx] || !Has(static_cast<CountMember>(idx))) continue;
      member_ = static_cast<CountMember>(idx);
      return !std::exchange(seen_[idx], true) || Wrong(key, "appears twice");
    }
    return Wrong(Printable(key, kLongestQuote), Cat("is not a member (", Members(), " are)"));
  }

  // A member that is null counts as left out.
  bool Null() override { return (depth() == 1 && !IsRequired(member_)) || Refuse("null"); }

  bool Text(std::string& value) override {
    if (depth() != 1) return Refuse(Shown(value));
    switch (member_) {
      case CountMember::kCollection:
        request_.set_collection(std::move(value));
        return true;
      case CountMember::kFilter:
        request_.set_filter_text(std::move(value));
        return true;
      case CountMember::kField:
        if constexpr (kHasFacets) request_.set_field(std::move(value));
        return true;
      case CountMember::kAfter:
        if constexpr (kHasScroll) request_.set_after_string_id(std::move(value));
        return true;
      case CountMember::kLimit:
      case CountMember::kReturnPayloads:
      case CountMember::kReturnTokens:
      case CountMember::kMinSequence:
        break;
    }
    return Refuse(Shown(value));
  }

  bool Bool(bool value) override {
    if constexpr (kHasScroll) {
      if (depth() == 1 && member_ == CountMember::kReturnPayloads) {
        request_.set_return_payloads(value);
        return true;
      }
      if (depth() == 1 && member_ == CountMember::kReturnTokens) {
        request_.set_return_tokens(value);
        return true;
      }
    }
    return Refuse(value ? "true" : "false");
  }

  bool Integer(int64_t value) override {
    if constexpr (kHasScroll) {
      if (depth() == 1 && member_ == CountMember::kAfter) {
        request_.set_after_int_id(value);
        return true;
      }
    }
    return Number(static_cast<double>(value), value);
  }

  bool Number(double, const Json& exact) override {
    const std::optional<uint64_t> value = Unsigned(exact);
    if (depth() != 1 || !value.has_value()) return Refuse(Shown(exact));
    if (member_ == CountMember::kMinSequence) {
      request_.set_min_sequence(*value);
      return true;
    }
    if (member_ != CountMember::kLimit) return Refuse(Shown(exact));
    if constexpr (kHasFacets || kHasScroll) {
      const absl::Status status = kHasFacets ? service::CheckFacetsLimit(*value) : service::CheckScrollLimit(*value);
      if (!status.ok()) return Fail(status);
      request_.set_limit(static_cast<uint32_t>(*value));
    }
    return true;
  }

  bool StartList() override { return Skip(); }
  bool EndList() override { return true; }

  bool StartObject() override {
    if (depth() == 1) return true;
    if (depth() != 2 || member_ != CountMember::kFilter) return Skip();
    filter_begin_ = position() - 1;
    return Ignore();
  }

  // Passes the filter's object in the body to the parser of filters.
  bool EndIgnored() override {
    const absl::StatusOr<collection::Filter> filter = collection::ParseFilterJson(Since(filter_begin_));
    if (!filter.ok()) return Wrong("filter", std::string(filter.status().message()));
    *request_.mutable_filter() = service::FilterMessageOf(*filter);
    return true;
  }

  bool EndObject() override {
    for (size_t idx = 0; idx < kCountMembers.size(); ++idx) {
      if (IsRequired(static_cast<CountMember>(idx)) && !seen_[idx]) return Wrong(kCountMembers[idx], "is missing");
    }
    return true;
  }

  bool Refuse(std::string_view shown) override {
    if (depth() == 0) return Fail("the body is not a JSON object");
    const std::string_view member = kCountMembers[static_cast<size_t>(member_)];
    switch (member_) {
      case CountMember::kCollection:
      case CountMember::kField:
        return WrongValue(member, shown, ", not a text");
      case CountMember::kFilter:
        return WrongValue(member, shown, ", not an object, nor a text such as lang = \"en\" and year >= 2020");
      case CountMember::kAfter:
        return WrongValue(member, shown, ", not a text or a 64-bit integer");
      case CountMember::kReturnPayloads:
      case CountMember::kReturnTokens:
        return WrongValue(member, shown, ", not true or false");
      case CountMember::kMinSequence:
      case CountMember::kLimit:
        break;
    }
    return WrongValue(member, shown, ", not a whole number from 0 to 2^64 - 1");
  }

  std::string MatrixPath() const override { return "collection"; }  // No matrix is read.

  Request& request_;
  CountMember member_ = CountMember::kFilter;
  std::array<bool, kCountMembers.size()> seen_ = {};
  size_t filter_begin_ = 0;  // of its object, in the body
};

template <typename Request>
absl::StatusOr<Request> ParseBody(const std::string& body, const StopCheck& stop) {
  Request request;
  CountEvents<Request> events(stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

}  // namespace

absl::StatusOr<v1::CountRequest> ParseCountBody(const std::string& body, const StopCheck& stop) {
  return ParseBody<v1::CountRequest>(body, stop);
}

absl::StatusOr<v1::ScrollRequest> ParseScrollBody(const std::string& body, const StopCheck& stop) {
  return ParseBody<v1::ScrollRequest>(body, stop);
}

absl::StatusOr<v1::FacetsRequest> ParseFacetsBody(const std::string& body, const StopCheck& stop) {
  return ParseBody<v1::FacetsRequest>(body, stop);
}

}  // namespace maxsim::http
