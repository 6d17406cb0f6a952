// Makes random payloads and random filters over them, for tests that compare two implementations of filters.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "collection/field.h"
#include "collection/filters/filter.h"
#include "collection/slots.h"
#include "nlohmann/json.hpp"

namespace maxsim::collection {

class RandomFilters {
 public:
  explicit RandomFilters(uint64_t seed) : random_(seed) {}

  static const std::vector<Field>& fields() {
    static const auto* const fields = new std::vector<Field>(
        *ParseFields("lang:keyword=m.lang,tags:keywords=m.tags,year:integer,price:number,sold:boolean=m.sold,at:time"));
    return *fields;
  }

  uint64_t Below(uint64_t end) { return random_() % end; }

  // Returns a payload in which about one field in four is missing. Different payloads often share values.
  std::string Payload() {
    nlohmann::json payload;
    if (Some()) payload["m"]["lang"] = Keyword();
    if (Some()) {
      payload["m"]["tags"] = nlohmann::json::array();
      for (uint64_t tag = Below(5); tag > 0; --tag) payload["m"]["tags"].push_back(Keyword());
    }
    if (Some()) payload["year"] = Integer();
    if (Below(2) == 0 ? Some() : false) payload["price"] = Integer();
    if (!payload.contains("price") && Some()) payload["price"] = Number();
    if (Some()) payload["m"]["sold"] = Below(2) == 0;
    if (Some()) payload["at"] = Time();
    if (Below(8) == 0) payload["year"] = nullptr;
    return payload.is_null() ? "" : payload.dump();
  }

  // From now on, about one comparison in `every` is an in_slots filter. 1 means every comparison, 0 means none.
  void UseSlots(uint64_t every) { slots_every_ = every; }

  // Returns a range of slots. Some come often.
  SlotRange Slots() {
    static const std::vector<SlotRange> often = {{0, kNumSlots}, {0, kNumSlots / 2}, {kNumSlots / 2, kNumSlots}};
    if (Below(3) == 0) return often[Below(often.size())];
    const auto first = static_cast<int32_t>(Below(kNumSlots));
    return {first, first + 1 + static_cast<int32_t>(Below(static_cast<uint64_t>(kNumSlots - first)))};
  }

  // Returns a filter of at most `depth` levels of and, or and not over comparisons.
  Filter Tree(int depth) {
    if (depth <= 1 || Below(3) == 0) return Comparison();
    if (Below(4) == 0) return Filter::Not(Tree(depth - 1));
    std::vector<Filter> children;
    for (uint64_t count = Below(4) + 1; count > 0; --count) children.push_back(Tree(depth - 1));
    return Below(2) == 0 ? Filter::And(std::move(children)) : Filter::Or(std::move(children));
  }

  Filter Comparison() {
    if (slots_every_ != 0 && Below(slots_every_) == 0) return Filter::InSlots(Slots());
    const Field& field = fields()[Below(fields().size())];
    const bool has_order =
        field.kind == FieldKind::kInteger || field.kind == FieldKind::kNumber || field.kind == FieldKind::kTime;
    if (Below(6) == 0) return Filter::Exists(field.name);
    if (Below(3) == 0) {
      std::vector<FilterValue> values;
      for (uint64_t count = Below(5) + 1; count > 0; --count) values.push_back(Value(field.kind));
      return Filter::In(field.name, std::move(values));
    }
    if (!has_order || Below(4) == 0) return Filter::Equals(field.name, Value(field.kind));
    const uint64_t bounds = Below(3);
    const FilterBound low{Value(field.kind), Below(2) == 0};
    const FilterBound high{Value(field.kind), Below(2) == 0};
    if (bounds == 0) return Filter::Range(field.name, low, std::nullopt);
    if (bounds == 1) return Filter::Range(field.name, std::nullopt, high);
    return Filter::Range(field.name, low, high);
  }

 private:
  bool Some() { return Below(4) != 0; }
  std::string Keyword() {
    static const std::vector<std::string> keywords = {"",          "a", "b", "ab", "\xc3\xa9", "quote \" and \\",
                                                      "new\nline", "z"};
    return keywords[Below(keywords.size())];
  }
  int64_t Integer() {
    static const std::vector<int64_t> odd = {INT64_MIN, INT64_MAX, (int64_t{1} << 53) + 1, -1};
    return Below(10) == 0 ? odd[Below(odd.size())] : static_cast<int64_t>(Below(9));
  }
  double Number() {
    static const std::vector<double> odd = {-0.0, 5e-324, 1e300, -2.5, 1.0 / 3};
    return Below(5) == 0 ? odd[Below(odd.size())] : static_cast<double>(Below(18)) / 2;
  }
  std::string Time() {
    static const std::vector<std::string> times = {"2026-01-02T03:04:05Z",        "2026-01-02T04:04:05+01:00",
                                                   "2026-01-02T03:04:05.5Z",      "2026-01-02T03:04:05.000001Z",
                                                   "1969-12-31T23:59:59.25Z",     "0000-01-01T00:00:00Z",
                                                   "9999-12-31T23:59:59.999999Z", "2026-01-02T03:04:06Z"};
    return times[Below(times.size())];
  }
  FilterValue Value(FieldKind kind) {
    switch (kind) {
      case FieldKind::kKeyword:
      case FieldKind::kKeywords:
        return Keyword();
      case FieldKind::kInteger:
        if (Below(5) == 0) return static_cast<double>(Below(9));
        return Integer();
      case FieldKind::kNumber:
        if (Below(3) == 0) return Integer();
        return Number();
      case FieldKind::kBoolean:
        return Below(2) == 0;
      case FieldKind::kTime:
        return Time();
    }
    return false;
  }

  std::mt19937_64 random_;
  uint64_t slots_every_ = 0;
};

}  // namespace maxsim::collection
