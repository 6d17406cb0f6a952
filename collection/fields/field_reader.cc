#include "collection/fields/field_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_events.h"
#include "base/text.h"
#include "collection/document_line.h"
#include "collection/fields/time_text.h"

namespace maxsim::collection {
namespace {

using Node = FieldReader::Node;

std::string_view Expected(FieldKind kind) {
  switch (kind) {
    case FieldKind::kKeyword:
      return "a string";
    case FieldKind::kKeywords:
      return "a list of strings";
    case FieldKind::kInteger:
      return "an integer of 64 bits";
    case FieldKind::kNumber:
      return "a number";
    case FieldKind::kBoolean:
      return "true or false";
    case FieldKind::kTime:
      return "a time of RFC 3339 in years 0000 to 9999, such as \"2026-01-02T03:04:05Z\"";
  }
  return "?";
}

// Assigns values to their fields while the parser reads them.
class ValueEvents : public JsonEvents {
 public:
  ValueEvents(const std::vector<Field>& fields, std::vector<Node>& nodes, uint64_t payload,
              std::vector<FieldValue>& values)
      : JsonEvents(kMaxPayloadDepth), fields_(fields), nodes_(nodes), payload_(payload), values_(values) {}

 private:
  static constexpr size_t kNone = ~size_t{0};

  // A container that has not ended yet.
  struct Open {
    size_t node = kNone;   // the node whose value it is; kNone if no field's path leads here
    bool is_list = false;  // a list that is the value of a field
  };

  // Returns the node (key of a field's path) to which the next value belongs; kNone if no field needs the value.
  size_t TakeNode() {
    if (open_.empty()) return kNone;
    if (open_.back().is_list) return open_.back().node;
    return std::exchange(next_, kNone);
  }

  bool Refuse(size_t node, const std::string& found) {
    if (nodes_[node].fields.empty()) {
      const Field& field = fields_[FieldBelow(node)];
      return Fail(Cat("field ", Quote(field.name), ": the member ", Quote(nodes_[node].key), " of the path ",
                      Quote(field.path), " is ", found, "; must be an object"));
    }
    return RefuseFor(nodes_[node].fields.front(), found);
  }
  bool RefuseFor(size_t idx, const std::string& found) {
    const bool in_list = open_.back().is_list && fields_[idx].kind == FieldKind::kKeywords;
    return Fail(Cat("field ", Quote(fields_[idx].name), ": ", in_list ? "an element of the list is " : "the value is ",
                    found, "; must be ", in_list ? Expected(FieldKind::kKeyword) : Expected(fields_[idx].kind)));
  }
  size_t FieldBelow(size_t node) const {
    while (nodes_[node].fields.empty()) node = nodes_[node].children.front();
    return nodes_[node].fields.front();
  }

  // Assigns a scalar to the fields whose paths end at a node. make(kind) returns the scalar as a value of this kind, or
  // nullopt if it does not fit.
  template <typename Make>
  bool Take(size_t node, const std::string& found, const Make& make) {
    if (node == kNone) return true;
    if (open_.back().is_list || nodes_[node].fields.empty()) return Refuse(node, found);
    for (const size_t idx : nodes_[node].fields) {
      std::optional<FieldValue> value = make(fields_[idx].kind);
      if (!value.has_value()) return RefuseFor(idx, found);
      values_[idx] = *std::move(value);
    }
    return true;
  }

  bool Value(std::string_view kind) override {
    if (open_.empty()) return Fail(Cat("a JSON object expected, not ", kind));
    const size_t node = TakeNode();  // a JSON null means that the document has no value
    return node == kNone || !open_.back().is_list || Refuse(node, std::string(kind));
  }
  bool OnBool(bool value) override {
    if (open_.empty()) return Value("a boolean");
    return Take(TakeNode(), value ? "true" : "false", [&](FieldKind kind) -> std::optional<FieldValue> {
      return kind == FieldKind::kBoolean ? std::optional<FieldValue>(value) : std::nullopt;
    });
  }
  bool OnInteger(int64_t value) override {
    if (open_.empty()) return Value("an integer");
    return Take(TakeNode(), Cat(value), [&](FieldKind kind) -> std::optional<FieldValue> {
      if (kind == FieldKind::kInteger) return value;
      return kind == FieldKind::kNumber ? std::optional<FieldValue>(static_cast<double>(value)) : std::nullopt;
    });
  }
  bool OnLargeInteger(uint64_t value) override {
    if (open_.empty()) return Value("an integer");
    return TakeNumber(static_cast<double>(value), Cat(value));
  }
  bool OnFloat(double value) override {
    if (open_.empty()) return Value("a number");
    return TakeNumber(value, Cat("the number ", value));
  }
  bool TakeNumber(double value, const std::string& found) {
    return Take(TakeNode(), found, [&](FieldKind kind) -> std::optional<FieldValue> {
      // Adding 0 turns -0 into 0, so that equal values have equal bits.
      return kind == FieldKind::kNumber ? std::optional<FieldValue>(value + 0.0) : std::nullopt;
    });
  }
  bool OnString(std::string& value) override {
    if (open_.empty()) return Value("a string");
    const size_t node = TakeNode();
    if (node == kNone) return true;
    if (open_.back().is_list) return TakeElement(value);
    for (const size_t idx : nodes_[node].fields) {
      const bool is_too_long = fields_[idx].kind == FieldKind::kKeyword && value.size() > kMaxKeywordBytes;
      if (is_too_long) return FailTooLong(idx, Quote(value), value.size());
    }
    return Take(node, Quote(value), [&](FieldKind kind) -> std::optional<FieldValue> {
      if (kind == FieldKind::kKeyword) return value;
      if (kind != FieldKind::kTime) return std::nullopt;
      const std::optional<int64_t> time = ParseTime(value);
      return time.has_value() ? std::optional<FieldValue>(*time) : std::nullopt;
    });
  }

  bool FailTooLong(size_t idx, const std::string& found, size_t num_bytes) {
    return Fail(Cat("field ", Quote(fields_[idx].name), ": ", found, " has ", num_bytes, " bytes, the limit is ",
                    kMaxKeywordBytes));
  }

  bool TakeElement(std::string& value) {
    const std::vector<size_t>& of_list = nodes_[open_.back().node].fields;
    if (value.size() > kMaxKeywordBytes) return FailTooLong(of_list.front(), Quote(value), value.size());
    if (list_.size() == kMaxKeywordsPerDocument) {
      return Fail(Cat("field ", Quote(fields_[of_list.front()].name), ": the list has more than ",
                      kMaxKeywordsPerDocument, " elements, the limit"));
    }
    list_.push_back(std::move(value));
    return true;
  }

  bool OnStartObject() override {
    if (depth() == 1) {
      open_.push_back({.node = 0});
      return true;
    }
    const size_t node = TakeNode();
    if (node != kNone && (open_.back().is_list || !nodes_[node].fields.empty())) return Refuse(node, "an object");
    open_.push_back({.node = node});
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 1) return Fail("a JSON object expected, not an array");
    const size_t node = TakeNode();
    if (node == kNone) {
      open_.push_back({});
      return true;
    }
    if (open_.back().is_list || nodes_[node].fields.empty()) return Refuse(node, "a list");
    for (const size_t idx : nodes_[node].fields) {
      if (fields_[idx].kind != FieldKind::kKeywords) return RefuseFor(idx, "a list");
    }
    list_.clear();
    open_.push_back({.node = node, .is_list = true});
    return true;
  }
  bool OnEndObject() override {
    open_.pop_back();
    return true;
  }
  bool OnEndArray() override {
    if (open_.back().is_list && !list_.empty()) {
      std::sort(list_.begin(), list_.end());
      list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
      for (const size_t idx : nodes_[open_.back().node].fields) values_[idx] = list_;
    }
    open_.pop_back();
    return true;
  }
  bool OnKey(std::string& key) override {
    next_ = kNone;
    if (open_.back().node == kNone) return true;
    for (const size_t child : nodes_[open_.back().node].children) {
      if (nodes_[child].key != key) continue;
      if (std::exchange(nodes_[child].seen_in, payload_) == payload_) {
        return Fail(Cat("field ", Quote(fields_[FieldBelow(child)].name), ": key ", Quote(key), " appears twice"));
      }
      next_ = child;
    }
    return true;
  }

  const std::vector<Field>& fields_;
  std::vector<Node>& nodes_;
  const uint64_t payload_;
  std::vector<FieldValue>& values_;
  std::vector<Open> open_;
  size_t next_ = kNone;            // the node whose key was read last
  std::vector<std::string> list_;  // elements of the list that is open
};

}  // namespace

FieldReader::FieldReader(const std::vector<Field>& fields) : fields_(fields), nodes_(1), values_(fields.size()) {
  for (size_t idx = 0; idx < fields.size(); ++idx) {
    size_t node = 0;
    for (const std::string_view key : SplitFieldPath(fields[idx].path)) {
      const std::vector<size_t>& children = nodes_[node].children;
      const auto found =
          std::find_if(children.begin(), children.end(), [&](size_t it) { return nodes_[it].key == key; });
      if (found != children.end()) {
        node = *found;
        continue;
      }
      nodes_[node].children.push_back(nodes_.size());
      node = nodes_.size();
      nodes_.push_back({.key = std::string(key)});
    }
    nodes_[node].fields.push_back(idx);
  }
}

absl::StatusOr<const std::vector<FieldValue>*> FieldReader::Read(std::string_view payload) {
  std::fill(values_.begin(), values_.end(), FieldValue());
  if (payload.empty()) return &values_;
  absl::Status status = ValueEvents(fields_, nodes_, ++num_payloads_, values_).Parse(payload);
  if (!status.ok()) return status;
  return &values_;
}

}  // namespace maxsim::collection
