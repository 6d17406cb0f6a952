#include "server/service/selection/filter_message.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/error_details.h"
#include "client/slot_message.h"
#include "collection/filters/filter_text.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::FilterBound;
using collection::FilterValue;

// Returns nullopt if the message has no value.
std::optional<FilterValue> ValueOf(const v1::FilterValue& message) {
  switch (message.kind_case()) {
    case v1::FilterValue::kStringValue:
      return message.string_value();
    case v1::FilterValue::kIntegerValue:
      return int64_t{message.integer_value()};
    case v1::FilterValue::kNumberValue:
      return message.number_value();
    case v1::FilterValue::kBooleanValue:
      return message.boolean_value();
    case v1::FilterValue::KIND_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

// Converts a message and, recursively, its children. `where` is the path of a node with a dot at its end, or "" for the
// root.
class Converter {
 public:
  explicit Converter(size_t max_nodes) : max_nodes_(max_nodes) {}

  absl::StatusOr<Filter> Convert(const v1::Filter& message, const std::string& where, int depth) {
    if (depth > collection::kMaxFilterDepth) {
      return Invalid("the filter is nested deeper than ", collection::kMaxFilterDepth, " levels");
    }
    if (++num_nodes_ > max_nodes_) {
      return Invalid("the filter has more than ", collection::kMaxFilterNodes, " nodes");
    }
    switch (message.node_case()) {
      case v1::Filter::kAllOf:
        return ConvertList(Filter::Kind::kAnd, message.all_of(), where + "all_of", depth);
      case v1::Filter::kAnyOf:
        return ConvertList(Filter::Kind::kOr, message.any_of(), where + "any_of", depth);
      case v1::Filter::kNegation: {
        absl::StatusOr<Filter> child = Convert(message.negation(), where + "negation.", depth + 1);
        if (!child.ok()) return child;
        return Filter::Not(*std::move(child));
      }
      case v1::Filter::kEquals: {
        std::optional<FilterValue> value = ValueOf(message.equals().value());
        if (!value.has_value()) return Unset(where + "equals.value");
        return Filter::Equals(message.equals().field(), *std::move(value));
      }
      case v1::Filter::kIsIn:
        return ConvertIn(message.is_in(), where + "is_in");
      case v1::Filter::kRange:
        return ConvertRange(message.range(), where + "range");
      case v1::Filter::kExists:
        return Filter::Exists(message.exists());
      case v1::Filter::kInSlots:
        return ConvertSlots(message.in_slots(), where + "in_slots");
      case v1::Filter::NODE_NOT_SET:
        break;
    }
    return Unset(where.empty() ? "the filter" : where.substr(0, where.size() - 1));
  }

 private:
  static absl::Status Unset(const std::string& where) { return Invalid(where, " is not set"); }

  absl::StatusOr<Filter> ConvertList(Filter::Kind kind, const v1::FilterList& list, const std::string& where,
                                     int depth) {
    Filter filter{.kind = kind};
    for (int idx = 0; idx < list.filters_size(); ++idx) {
      absl::StatusOr<Filter> child = Convert(list.filters(idx), Cat(where, ".filters[", idx, "]."), depth + 1);
      if (!child.ok()) return child;
      filter.children.push_back(*std::move(child));
    }
    if (filter.children.empty()) return Invalid(where, ".filters: is empty; must have at least one");
    return filter;
  }

  absl::StatusOr<Filter> ConvertIn(const v1::FilterIn& in, const std::string& where) {
    num_values_ += static_cast<size_t>(in.values_size());
    if (num_values_ > collection::kMaxFilterValues) {
      return Invalid(where, ".values: the filter has more than ", collection::kMaxFilterValues, " values");
    }
    std::vector<FilterValue> values;
    for (int idx = 0; idx < in.values_size(); ++idx) {
      std::optional<FilterValue> value = ValueOf(in.values(idx));
      if (!value.has_value()) return Unset(Cat(where, ".values[", idx, "]"));
      values.push_back(*std::move(value));
    }
    return Filter::In(in.field(), std::move(values));
  }

  static absl::StatusOr<Filter> ConvertRange(const v1::FilterRange& range, const std::string& where) {
    Filter filter = Filter::Range(range.field(), std::nullopt, std::nullopt);
    if (range.has_low()) {
      std::optional<FilterValue> value = ValueOf(range.low().value());
      if (!value.has_value()) return Unset(where + ".low.value");
      filter.low = FilterBound{*std::move(value), !range.low().exclusive()};
    }
    if (range.has_high()) {
      std::optional<FilterValue> value = ValueOf(range.high().value());
      if (!value.has_value()) return Unset(where + ".high.value");
      filter.high = FilterBound{*std::move(value), !range.high().exclusive()};
    }
    return filter;
  }

  static absl::StatusOr<Filter> ConvertSlots(const v1::PartitionInfo& slots, const std::string& where) {
    constexpr auto kEnd = static_cast<uint32_t>(collection::kNumSlots);
    if (slots.first_slot() >= kEnd) {
      return Invalid(where, ".first_slot: is ", slots.first_slot(), "; must be 0 to ", kEnd - 1);
    }
    if (slots.end_slot() <= slots.first_slot() || slots.end_slot() > kEnd) {
      return Invalid(where, ".end_slot: is ", slots.end_slot(), "; must be ", slots.first_slot() + 1, " to ", kEnd);
    }
    return Filter::InSlots(client::SlotRangeOf(slots));
  }

  const size_t max_nodes_;
  size_t num_nodes_ = 0;
  size_t num_values_ = 0;
};

void Fill(const FilterValue& value, v1::FilterValue& message) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    message.set_string_value(*text);
  } else if (const auto* const integer = std::get_if<int64_t>(&value)) {
    message.set_integer_value(*integer);
  } else if (const auto* const number = std::get_if<double>(&value)) {
    message.set_number_value(*number);
  } else {
    message.set_boolean_value(std::get<bool>(value));
  }
}

void Fill(const std::optional<FilterBound>& bound, v1::FilterBound* (v1::FilterRange::*make)(),
          v1::FilterRange& range) {
  if (!bound.has_value()) return;
  v1::FilterBound& message = *(range.*make)();
  Fill(bound->value, *message.mutable_value());
  message.set_exclusive(!bound->inclusive);
}

void Fill(const Filter& filter, v1::Filter& message) {
  switch (filter.kind) {
    case Filter::Kind::kAnd:
      for (const Filter& child : filter.children) Fill(child, *message.mutable_all_of()->add_filters());
      return;
    case Filter::Kind::kOr:
      for (const Filter& child : filter.children) Fill(child, *message.mutable_any_of()->add_filters());
      return;
    case Filter::Kind::kNot:
      return Fill(filter.children.front(), *message.mutable_negation());
    case Filter::Kind::kEquals:
      message.mutable_equals()->set_field(filter.field);
      return Fill(filter.values.front(), *message.mutable_equals()->mutable_value());
    case Filter::Kind::kIn:
      message.mutable_is_in()->set_field(filter.field);
      for (const FilterValue& value : filter.values) Fill(value, *message.mutable_is_in()->add_values());
      return;
    case Filter::Kind::kRange:
      message.mutable_range()->set_field(filter.field);
      Fill(filter.low, &v1::FilterRange::mutable_low, *message.mutable_range());
      Fill(filter.high, &v1::FilterRange::mutable_high, *message.mutable_range());
      return;
    case Filter::Kind::kExists:
      message.set_exists(filter.field);
      return;
    case Filter::Kind::kInSlots:
      *message.mutable_in_slots() = client::SlotMessageOf(filter.slots);
      return;
  }
}

}  // namespace

absl::StatusOr<collection::Filter> FilterOf(const v1::Filter& message) {
  // The nodes that restrict a client's filter to slots do not count (CheckFilter).
  const bool is_restricted = message.all_of().filters_size() == 2 && message.all_of().filters(1).has_in_slots();
  const size_t num_extra = is_restricted ? collection::kNumRestrictingNodes : 0;
  absl::StatusOr<Filter> filter =
      Converter(collection::kMaxFilterNodes + num_extra).Convert(message, "", is_restricted ? 0 : 1);
  if (!filter.ok()) return filter;
  if (absl::Status status = collection::CheckFilter(*filter); !status.ok()) return status;
  return filter;
}

template <typename Request>
absl::StatusOr<std::optional<collection::Filter>> FilterOfRequest(const Request& request) {
  if (request.matching_case() == Request::MATCHING_NOT_SET) return std::nullopt;
  absl::StatusOr<Filter> filter =
      request.has_filter_text() ? collection::ParseFilter(request.filter_text()) : FilterOf(request.filter());
  if (!filter.ok()) return FilterError(request, filter.status());
  return *std::move(filter);
}

template <typename Request>
absl::Status FilterError(const Request& request, const absl::Status& error) {
  if (!absl::IsInvalidArgument(error)) return error;
  const absl::string_view problem = error.message();
  return client::InvalidField(request.has_filter_text() ? "filter_text" : "filter",
                              std::string_view(problem.data(), problem.size()));
}

template absl::StatusOr<std::optional<Filter>> FilterOfRequest(const v1::RerankRequest& request);
template absl::StatusOr<std::optional<Filter>> FilterOfRequest(const v1::CountRequest& request);
template absl::StatusOr<std::optional<Filter>> FilterOfRequest(const v1::FacetsRequest& request);
template absl::StatusOr<std::optional<Filter>> FilterOfRequest(const v1::ScrollRequest& request);
template absl::StatusOr<std::optional<Filter>> FilterOfRequest(const v1::DeleteRequest& request);
template absl::Status FilterError(const v1::RerankRequest& request, const absl::Status& error);
template absl::Status FilterError(const v1::CountRequest& request, const absl::Status& error);
template absl::Status FilterError(const v1::FacetsRequest& request, const absl::Status& error);
template absl::Status FilterError(const v1::DeleteRequest& request, const absl::Status& error);
template absl::Status FilterError(const v1::ScrollRequest& request, const absl::Status& error);

std::optional<v1::Filter> WithoutSlots(const v1::Filter& filter) {
  if (filter.has_in_slots()) return std::nullopt;
  if (!filter.has_all_of()) return filter;
  v1::Filter rest;
  for (const v1::Filter& child : filter.all_of().filters()) {
    std::optional<v1::Filter> kept = WithoutSlots(child);
    if (kept.has_value()) *rest.mutable_all_of()->add_filters() = *std::move(kept);
  }
  if (!rest.has_all_of()) return std::nullopt;
  const bool lost_others = rest.all_of().filters_size() == 1 && filter.all_of().filters_size() > 1;
  if (!lost_others) return rest;
  v1::Filter only = std::move(*rest.mutable_all_of()->mutable_filters(0));
  return only;
}

v1::Filter FilterMessageOf(const collection::Filter& filter) {
  v1::Filter message;
  Fill(filter, message);
  return message;
}

}  // namespace maxsim::service
