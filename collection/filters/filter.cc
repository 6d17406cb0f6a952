#include "collection/filters/filter.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "collection/field.h"

namespace maxsim::collection {
namespace {

// Checks a tree of filters from the root down, and counts its nodes and values.
class Checker {
 public:
  explicit Checker(size_t max_nodes) : max_nodes_(max_nodes) {}

  absl::Status Check(const Filter& filter, int depth, bool in_and) {
    const bool is_pair = filter.low.has_value() && filter.high.has_value();
    if (depth + (is_pair && !in_and ? 1 : 0) > kMaxFilterDepth) {
      return Invalid("the filter is nested deeper than ", kMaxFilterDepth, " levels");
    }
    num_nodes_ += !is_pair ? 1 : in_and ? 2 : 3;
    if (num_nodes_ > max_nodes_) return Invalid("the filter has more than ", kMaxFilterNodes, " nodes");
    num_values_ += filter.values.size();
    if (num_values_ > kMaxFilterValues) return Invalid("the filter has more than ", kMaxFilterValues, " values");
    if (absl::Status status = CheckNode(filter); !status.ok()) return status;
    for (const Filter& child : filter.children) {
      absl::Status status = Check(child, depth + 1, filter.kind == Filter::Kind::kAnd);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckValue(const Filter& filter, const FilterValue& value) {
    if (const auto* const number = std::get_if<double>(&value); number != nullptr && !std::isfinite(*number)) {
      return Invalid("field ", Quote(filter.field), ": ", *number, " is not finite");
    }
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr && !IsUtf8(*text)) return Invalid("field ", Quote(filter.field), ": a value is not UTF-8");
    return absl::OkStatus();
  }

  static absl::Status CheckSlots(const Filter& filter) {
    if (!filter.children.empty() || !filter.field.empty() || !filter.values.empty() || filter.low.has_value() ||
        filter.high.has_value()) {
      return Invalid("in_slots: has a field, a value or a filter of its own");
    }
    const SlotRange& slots = filter.slots;
    if (slots.first < 0 || slots.first >= kNumSlots) {
      return Invalid("in_slots: the first slot is ", slots.first, "; must be 0 to ", kNumSlots - 1);
    }
    if (slots.end > slots.first && slots.end <= kNumSlots) return absl::OkStatus();
    return Invalid("in_slots: the end is ", slots.end, "; must be ", slots.first + 1, " to ", kNumSlots);
  }

  static absl::Status CheckNode(const Filter& filter) {
    if (filter.kind == Filter::Kind::kInSlots) return CheckSlots(filter);
    if (!filter.slots.is_whole()) return Invalid("a filter other than in_slots has a range of slots");
    const bool is_list = filter.kind == Filter::Kind::kAnd || filter.kind == Filter::Kind::kOr;
    const std::string_view name = filter.kind == Filter::Kind::kAnd ? "and" : is_list ? "or" : "not";
    if (is_list && filter.children.empty()) return Invalid(name, ": has no filter; must have at least one");
    if (filter.kind == Filter::Kind::kNot && filter.children.size() != 1) {
      return Invalid("not: has ", filter.children.size(), " filters; must have one");
    }
    if (is_list || filter.kind == Filter::Kind::kNot) {
      const bool has_more =
          !filter.field.empty() || !filter.values.empty() || filter.low.has_value() || filter.high.has_value();
      return has_more ? Invalid(name, ": has a field or a value of its own") : absl::OkStatus();
    }
    if (absl::Status status = CheckFieldName(filter.field); !status.ok()) {
      return Prefix(Cat("field ", Quote(filter.field), ": "), status);
    }
    if (!filter.children.empty()) return Invalid("field ", Quote(filter.field), ": a comparison has filters in it");
    const bool is_range = filter.kind == Filter::Kind::kRange;
    if (is_range != (filter.low.has_value() || filter.high.has_value())) {
      return Invalid("field ", Quote(filter.field), ": ",
                     is_range ? "a range has no bound" : "has a bound, but is not a range");
    }
    const bool is_in = filter.kind == Filter::Kind::kIn;
    const size_t num_expected = filter.kind == Filter::Kind::kEquals ? 1 : 0;
    if (is_in ? filter.values.empty() : filter.values.size() != num_expected) {
      return Invalid("field ", Quote(filter.field), ": has ", filter.values.size(), " values, expected ",
                     is_in               ? "at least one"
                     : num_expected == 1 ? "one"
                                         : "none");
    }
    for (const FilterValue& value : filter.values) {
      if (absl::Status status = CheckValue(filter, value); !status.ok()) return status;
    }
    for (const std::optional<FilterBound>* const bound : {&filter.low, &filter.high}) {
      if (!bound->has_value()) continue;
      if (absl::Status status = CheckValue(filter, (*bound)->value); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const size_t max_nodes_;
  size_t num_nodes_ = 0;
  size_t num_values_ = 0;
};

bool IsRestricted(const Filter& filter) {
  return filter.kind == Filter::Kind::kAnd && filter.children.size() == 2 &&
         filter.children[1].kind == Filter::Kind::kInSlots;
}

}  // namespace

Filter Filter::Not(Filter child) {
  Filter filter{.kind = Kind::kNot};
  filter.children.push_back(std::move(child));
  return filter;
}

absl::Status CheckFilter(const Filter& filter) {
  if (IsRestricted(filter)) return Checker(kMaxFilterNodes + kNumRestrictingNodes).Check(filter, 0, /*in_and=*/false);
  return Checker(kMaxFilterNodes).Check(filter, 1, /*in_and=*/false);
}

std::optional<SlotRange> FindSlotsOutside(const Filter& filter, const SlotRange& held) {
  if (filter.kind == Filter::Kind::kInSlots && !held.contains(filter.slots)) return filter.slots;
  for (const Filter& child : filter.children) {
    if (const std::optional<SlotRange> outside = FindSlotsOutside(child, held)) return outside;
  }
  return std::nullopt;
}

}  // namespace maxsim::collection
