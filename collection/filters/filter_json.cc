#include "collection/filters/filter_json.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_events.h"
#include "base/text.h"
#include "collection/filters/filter_text.h"
#include "nlohmann/json.hpp"

namespace maxsim::collection {
namespace {

constexpr std::string_view kKeys = "and, or, not, or field with equals, in, gt, gte, lt, lte or exists";

// Each level of a filter takes up to two levels of JSON: its object, and the array of an "and" or "or" around it.
constexpr int kMaxJsonDepth = 2 * kMaxFilterDepth + 2;

class FilterEvents : public JsonEvents {
 public:
  FilterEvents() : JsonEvents(kMaxJsonDepth) {}

  // Returns the filter. Call this after the parser has finished.
  Filter TakeFilter() { return std::move(*result_); }

 private:
  // An object that has not ended yet.
  struct Node {
    Filter filter;
    std::vector<std::string> keys = {};  // that were seen; the last one's value comes next
    bool in_array = false;               // of the last key
    std::optional<Filter::Kind> kind = {};

    const std::string& key() const { return keys.back(); }
  };

  static std::optional<Filter::Kind> KindOf(std::string_view key) {
    if (key == "and") return Filter::Kind::kAnd;
    if (key == "or") return Filter::Kind::kOr;
    if (key == "not") return Filter::Kind::kNot;
    if (key == "equals") return Filter::Kind::kEquals;
    if (key == "in") return Filter::Kind::kIn;
    if (key == "exists") return Filter::Kind::kExists;
    if (key == "gt" || key == "gte" || key == "lt" || key == "lte") return Filter::Kind::kRange;
    return std::nullopt;
  }
  static bool IsList(Filter::Kind kind) { return kind == Filter::Kind::kAnd || kind == Filter::Kind::kOr; }

  // Returns the path of the value that comes next, such as "and[1].not: ".
  std::string Where() const {
    std::string where;
    for (const Node& node : open_) {
      if (node.keys.empty()) continue;
      const size_t idx = node.key() == "in" ? node.filter.values.size() : node.filter.children.size();
      where +=
          Cat(where.empty() ? "" : ".", Printable(node.key(), 80), node.in_array ? Cat("[", idx, "]") : std::string());
    }
    return where.empty() ? "" : where + ": ";
  }
  bool Refuse(std::string_view found, std::string_view expected) {
    return Fail(Cat(Where(), "found ", found, ", expected ", expected));
  }
  // Returns a description of the values that the current key accepts.
  std::string_view Expected() const {
    const Node& node = open_.back();
    const std::string& key = node.key();
    if (key == "field") return "a string";
    if (key == "exists") return "true";
    if (key == "not" || (node.in_array && key != "in")) return "an object";
    if (key == "and" || key == "or") return "an array of objects";
    return key == "in" && !node.in_array ? "an array of values" : "a string, a number, true or false";
  }

  bool OnKey(std::string& key) override {
    Node& node = open_.back();
    if (std::find(node.keys.begin(), node.keys.end(), key) != node.keys.end()) {
      return Fail(Cat(Where(), "key ", Quote(key), " appears twice"));
    }
    const std::optional<Filter::Kind> kind = KindOf(key);
    if (!kind.has_value() && key != "field") return Fail(Cat(Where(), "key ", Quote(key), ", expected ", kKeys));
    if (kind.has_value() && node.kind.has_value() && *node.kind != *kind) {
      return Fail(Cat(Where(), "key ", Quote(key), " beside others that say what the filter is"));
    }
    if (kind.has_value()) node.kind = kind;
    node.keys.push_back(std::move(key));
    return true;
  }

  bool OnStartObject() override {
    if (depth() > 1) {
      const Node& node = open_.back();
      const bool is_place = node.key() == "not" || (node.in_array && node.key() != "in");
      if (!is_place) return Refuse("an object", Expected());
    }
    open_.emplace_back();
    return true;
  }
  bool OnEndObject() override {
    Node node = std::move(open_.back());
    open_.pop_back();
    if (!node.kind.has_value()) return Fail(Cat(Where(), "the filter is empty, expected ", kKeys));
    const bool has_field = std::find(node.keys.begin(), node.keys.end(), "field") != node.keys.end();
    const bool needs_field = !IsList(*node.kind) && *node.kind != Filter::Kind::kNot;
    if (has_field != needs_field) {
      return Fail(Cat(Where(), needs_field ? "key \"field\" is missing" : "key \"field\" beside and, or or not"));
    }
    node.filter.kind = *node.kind;
    if (open_.empty()) {
      result_ = std::move(node.filter);
      return true;
    }
    if (++num_nodes_ >= kMaxFilterNodes) return Fail(Cat("the filter has more than ", kMaxFilterNodes, " nodes"));
    open_.back().filter.children.push_back(std::move(node.filter));
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 1) return Fail("found an array, expected an object");
    Node& node = open_.back();
    const bool is_place = !node.in_array && (node.key() == "and" || node.key() == "or" || node.key() == "in");
    if (!is_place) return Refuse("an array", Expected());
    node.in_array = true;
    return true;
  }
  bool OnEndArray() override {
    open_.back().in_array = false;
    return true;
  }

  bool Value(std::string_view kind) override {
    if (open_.empty()) return Fail(Cat("found ", kind, ", expected an object"));
    return Refuse(kind, Expected());
  }
  bool OnBool(bool value) override {
    if (!open_.empty() && open_.back().key() == "exists" && value) return true;
    return TakeValue(value, value ? "true" : "false");
  }
  bool OnInteger(int64_t value) override { return TakeValue(value, "an integer"); }
  bool OnFloat(double value) override { return TakeValue(value, "a number"); }
  bool OnString(std::string& value) override {
    if (!open_.empty() && open_.back().key() == "field") {
      open_.back().filter.field = std::move(value);
      return true;
    }
    return TakeValue(std::move(value), "a string");
  }

  bool TakeValue(FilterValue value, std::string_view found) {
    if (open_.empty()) return Value(found);
    Node& node = open_.back();
    const std::string& key = node.key();
    if (key == "equals" || (key == "in" && node.in_array)) {
      if (++num_values_ > kMaxFilterValues) return Fail(Cat("the filter has more than ", kMaxFilterValues, " values"));
      node.filter.values.push_back(std::move(value));
      return true;
    }
    const bool is_low = key == "gt" || key == "gte";
    if (!is_low && key != "lt" && key != "lte") return Value(found);
    std::optional<FilterBound>& bound = is_low ? node.filter.low : node.filter.high;
    if (bound.has_value()) return Fail(Cat(Where(), is_low ? "gt and gte" : "lt and lte", " exclude each other"));
    bound = FilterBound{std::move(value), key.size() == 3};
    return true;
  }

  std::vector<Node> open_;
  std::optional<Filter> result_;
  size_t num_nodes_ = 0;
  size_t num_values_ = 0;
};

nlohmann::ordered_json JsonOf(const FilterValue& value) {
  return std::visit([](const auto& one) { return nlohmann::ordered_json(one); }, value);
}

nlohmann::ordered_json JsonOf(const Filter& filter) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!filter.field.empty()) json["field"] = filter.field;
  switch (filter.kind) {
    case Filter::Kind::kAnd:
    case Filter::Kind::kOr: {
      nlohmann::ordered_json& children = json[filter.kind == Filter::Kind::kAnd ? "and" : "or"];
      for (const Filter& child : filter.children) children.push_back(JsonOf(child));
      break;
    }
    case Filter::Kind::kNot:
      json["not"] = JsonOf(filter.children.front());
      break;
    case Filter::Kind::kEquals:
      json["equals"] = JsonOf(filter.values.front());
      break;
    case Filter::Kind::kIn:
      for (const FilterValue& value : filter.values) json["in"].push_back(JsonOf(value));
      break;
    case Filter::Kind::kRange:
      if (filter.low.has_value()) json[filter.low->inclusive ? "gte" : "gt"] = JsonOf(filter.low->value);
      if (filter.high.has_value()) json[filter.high->inclusive ? "lte" : "lt"] = JsonOf(filter.high->value);
      break;
    case Filter::Kind::kExists:
      json["exists"] = true;
      break;
    case Filter::Kind::kInSlots:
      json["in_slots"] = FormatSlotRange(filter.slots);
      break;
  }
  return json;
}

}  // namespace

absl::StatusOr<Filter> ParseFilterJson(std::string_view json) {
  if (json.size() > kMaxFilterTextBytes) {
    return Invalid("the filter has ", json.size(), " bytes, the limit is ", kMaxFilterTextBytes);
  }
  FilterEvents events;
  if (absl::Status status = events.Parse(json); !status.ok()) return status;
  Filter filter = events.TakeFilter();
  if (absl::Status status = CheckFilter(filter); !status.ok()) return status;
  return filter;
}

std::string FormatFilterJson(const Filter& filter) { return JsonOf(filter).dump(); }

}  // namespace maxsim::collection
