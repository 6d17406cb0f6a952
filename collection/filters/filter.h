// A filter is a tree of conditions on field values and slots. Only documents that match a request's filter are scored.
//
// A filter is parsed from text (filter_text.h), JSON or a protobuf message into the same tree. Before it is evaluated
// (evaluate.h), it is checked against the fields of a collection and converted to its canonical form (canonical.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "collection/slots.h"

namespace maxsim::collection {

// Clients send filters, so these limits bound the cost of storing and evaluating one. 32 levels are far more than
// people write, and a list of 16,384 values takes a millisecond.
inline constexpr int kMaxFilterDepth = 32;
inline constexpr size_t kMaxFilterNodes = 1024;
inline constexpr size_t kMaxFilterValues = 16'384;  // of all nodes together
// The number of nodes that a router adds to a client's filter (CheckFilter). They do not count towards kMaxFilterNodes
// and kMaxFilterDepth.
inline constexpr size_t kNumRestrictingNodes = 2;

// A value that documents are compared with. A time is a string of RFC 3339.
using FilterValue = std::variant<bool, int64_t, double, std::string>;

struct FilterBound {
  FilterValue value;
  bool inclusive = true;

  friend bool operator==(const FilterBound&, const FilterBound&) = default;
};

// One node of the tree. A document without a value of a field does not match equals, in, range or exists on this field,
// so it matches their negations.
//
// Only protobuf messages can contain an in_slots. The parsers of text and JSON refuse it, but both formatters print it,
// for cache keys and errors.
struct Filter {
  enum class Kind : uint8_t {
    kAnd,      // all children match; at least one
    kOr,       // some child matches; at least one
    kNot,      // the child does not match
    kEquals,   // the field has the value or, for keywords, its list has the value
    kIn,       // the field has one of the values; at least one
    kRange,    // the value is in a range: of integer, number and time
    kExists,   // the field has a value
    kInSlots,  // the slot of the document's id (SlotOf) is in a range
  };

  Kind kind = Kind::kExists;
  std::vector<Filter> children = {};     // of and, or: some; of not: one
  std::string field = {};                // of equals, in, range and exists
  std::vector<FilterValue> values = {};  // of equals: one; of in: some
  std::optional<FilterBound> low = {};   // of range, which needs at least one bound
  std::optional<FilterBound> high = {};
  SlotRange slots = {};  // of in_slots; all slots for the others

  static Filter And(std::vector<Filter> children) { return {.kind = Kind::kAnd, .children = std::move(children)}; }
  static Filter Or(std::vector<Filter> children) { return {.kind = Kind::kOr, .children = std::move(children)}; }
  static Filter Not(Filter child);
  static Filter Equals(std::string field, FilterValue value) {
    return {.kind = Kind::kEquals, .field = std::move(field), .values = {std::move(value)}};
  }
  static Filter In(std::string field, std::vector<FilterValue> values) {
    return {.kind = Kind::kIn, .field = std::move(field), .values = std::move(values)};
  }
  static Filter Range(std::string field, std::optional<FilterBound> low, std::optional<FilterBound> high) {
    return {.kind = Kind::kRange, .field = std::move(field), .low = std::move(low), .high = std::move(high)};
  }
  static Filter Exists(std::string field) { return {.kind = Kind::kExists, .field = std::move(field)}; }
  static Filter InSlots(const SlotRange& slots) { return {.kind = Kind::kInSlots, .slots = slots}; }
  // Returns a filter that matches every document.
  static Filter Everything() { return InSlots(SlotRange()); }

  // Returns whether this filter is Everything(). If not, it may still match every document.
  bool is_everything() const { return kind == Kind::kInSlots && slots.is_whole(); }

  friend bool operator==(const Filter&, const Filter&) = default;
};

// Checks a filter against the rules of each Kind and against the limits. INVALID_ARGUMENT says what is wrong. Functions
// that recurse over a checked filter need no depth limit. A range with two bounds counts as three nodes (an "and" of
// two comparisons); directly inside an "and" it counts as two. A router restricts a client's filter F to slots by
// sending and(F, in_slots). In a filter of this form only F counts.
absl::Status CheckFilter(const Filter& filter);

// Returns the slot range of the first in_slots in the filter that is not inside `held`; nullopt if there is none. The
// filter must have passed CheckFilter.
std::optional<SlotRange> FindSlotsOutside(const Filter& filter, const SlotRange& held);

}  // namespace maxsim::collection
