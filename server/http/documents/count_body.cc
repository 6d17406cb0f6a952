#include "server/http/documents/count_body.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "collection/filters/filter_json.h"
#include "server/http/text/body_events.h"
#include "server/http/text/json_text.h"
#include "server/service/documents/document_counts.h"
#include "server/service/request/filter_message.h"

namespace maxsim::http {
namespace {

enum class CountMember : uint8_t { kCollection, kFilter, kMinSequence, kField, kLimit };

// The members of a body by CountMember. A count has the first kNumCountMembers.
constexpr std::array<std::string_view, 5> kCountMembers = {"collection", "filter", "min_sequence", "field", "limit"};
constexpr size_t kNumCountMembers = 3;

template <typename Request>
class CountEvents final : public BodyEvents {
 public:
  CountEvents(const StopCheck& stop, Request* request) : BodyEvents(kMaxDepth, stop), request_(*request) {}

 private:
  static constexpr int kMaxDepth = 72;  // The JSON of a filter has up to 66 levels.
  static constexpr bool kHasFacets = std::is_same_v<Request, v1::FacetsRequest>;
  static constexpr size_t kNumMembers = kHasFacets ? kCountMembers.size() : kNumCountMembers;

  bool Key(std::string& key) override {
    for (size_t idx = 0; idx < kNumMembers; ++idx) {
      if (key != kCountMembers[idx]) continue;
      member_ = static_cast<CountMember>(idx);
      return !std::exchange(seen_[idx], true) || Wrong(key, "appears twice");
    }
    return Wrong(Printable(key, kLongestQuote),
                 kHasFacets ? "is not a member (collection, field, filter, limit and min_sequence are)"
                            : "is not a member (collection, filter and min_sequence are)");
  }

  // A member that is null is left out.
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
      case CountMember::kMinSequence:
      case CountMember::kLimit:
        break;
    }
    return Refuse(Shown(value));
  }

  bool Integer(int64_t value) override { return Number(static_cast<double>(value), value); }

  bool Number(double, const Json& exact) override {
    const std::optional<uint64_t> value = Unsigned(exact);
    if (depth() != 1 || !value.has_value()) return Refuse(Shown(exact));
    if (member_ == CountMember::kMinSequence) {
      request_.set_min_sequence(*value);
      return true;
    }
    if (member_ != CountMember::kLimit) return Refuse(Shown(exact));
    if constexpr (kHasFacets) {
      if (const absl::Status status = service::CheckFacetsLimit(*value); !status.ok()) return Fail(status);
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

  // Reads the filter by the parser of filters, from its object in the body.
  bool EndIgnored() override {
    const absl::StatusOr<collection::Filter> filter = collection::ParseFilterJson(Since(filter_begin_));
    if (!filter.ok()) return Wrong("filter", std::string(filter.status().message()));
    *request_.mutable_filter() = service::FilterMessageOf(*filter);
    return true;
  }

  bool EndObject() override {
    for (size_t idx = 0; idx < kNumMembers; ++idx) {
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
      case CountMember::kMinSequence:
      case CountMember::kLimit:
        break;
    }
    return WrongValue(member, shown, ", not a whole number from 0 to 2^64 - 1");
  }

  std::string MatrixPath() const override { return "collection"; }  // No matrix is read.

  static bool IsRequired(CountMember member) {
    return member == CountMember::kCollection || member == CountMember::kField;
  }

  Request& request_;
  CountMember member_ = CountMember::kCollection;
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

absl::StatusOr<v1::FacetsRequest> ParseFacetsBody(const std::string& body, const StopCheck& stop) {
  return ParseBody<v1::FacetsRequest>(body, stop);
}

}  // namespace maxsim::http
