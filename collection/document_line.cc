#include "collection/document_line.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_events.h"
#include "base/text.h"
#include "collection/shard_contents.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kIdKey = "id";

// Checks the line and stores its id in `line`. id_member() is the index of "id" among the top-level members.
class LineEvents : public JsonEvents {
 public:
  explicit LineEvents(DocumentLine* line) : JsonEvents(kMaxPayloadDepth), line_(line) {}

  bool has_id() const { return id_member_ != kNone; }
  size_t id_member() const { return id_member_; }

 private:
  static constexpr size_t kNone = ~size_t{0};

  bool OnKey(std::string& key) override {
    if (depth() != 1) return true;
    if (keys_.find(key) != keys_.end()) return Fail(Cat("key ", Quote(key), " appears twice"));
    at_id_ = key == kIdKey;
    if (at_id_) id_member_ = keys_.size();
    keys_.insert(std::move(key));
    return true;
  }
  bool OnInteger(int64_t value) override {
    if (depth() == 1 && at_id_) {
      at_id_ = false;
      line_->id_type = IdType::kInt64;
      line_->int_id = value;
      return true;
    }
    return Value("an integer");
  }
  bool OnString(std::string& value) override {
    if (depth() == 1 && at_id_) {
      at_id_ = false;
      line_->id_type = IdType::kString;
      line_->string_id = std::move(value);
      return true;
    }
    return Value("a string");
  }
  bool Value(std::string_view kind) override {
    if (depth() == 0) return Fail(Cat("a JSON object expected, not ", kind));
    return RefuseId(kind);
  }
  bool OnStartObject() override { return depth() == 1 || RefuseId("an object"); }
  bool OnStartArray() override {
    if (depth() == 1) return Fail("a JSON object expected, not an array");
    return RefuseId("an array");
  }
  bool RefuseId(std::string_view kind) {
    if (at_id_) return Fail(Cat("\"id\": a string or a 64-bit integer expected, not ", kind));
    return true;
  }

  DocumentLine* const line_;
  std::unordered_set<std::string> keys_;
  bool at_id_ = false;
  size_t id_member_ = kNone;
};

// Accepts any JSON object or, with `unique_keys`, any object without repeated top-level keys.
class ObjectEvents : public JsonEvents {
 public:
  explicit ObjectEvents(bool unique_keys) : JsonEvents(kMaxPayloadDepth), unique_keys_(unique_keys) {}

 private:
  bool OnKey(std::string& key) override {
    if (!unique_keys_ || depth() != 1 || keys_.insert(key).second) return true;
    return Fail(Cat("key ", Quote(key), " appears twice"));
  }
  bool Value(std::string_view kind) override { return depth() != 0 || Fail(Cat("a JSON object expected, not ", kind)); }
  bool OnStartArray() override { return depth() != 1 || Fail("a JSON object expected, not an array"); }

  const bool unique_keys_;
  std::unordered_set<std::string> keys_;
};

absl::Status CheckObject(std::string_view payload, bool unique_keys) {
  if (payload.empty() || payload[0] != '{') return Invalid("a payload does not begin with '{'");
  ObjectEvents events(unique_keys);
  return events.Parse(payload);
}

}  // namespace

absl::StatusOr<DocumentLine> ParseDocumentLine(std::string_view line) {
  if (static_cast<int64_t>(line.size()) > kMaxLineBytes) {
    return Invalid(line.size(), " bytes, the limit is ", kMaxLineBytes);
  }
  DocumentLine parsed;
  LineEvents events(&parsed);
  if (absl::Status status = events.Parse(line); !status.ok()) return status;
  if (!events.has_id()) return Invalid("no \"id\"");
  parsed.payload = CompactObject(line, {events.id_member()});
  if (parsed.payload == "{}") parsed.payload.clear();
  if (static_cast<int64_t>(parsed.payload.size()) > kMaxPayloadBytes) {
    return Invalid("the fields beside \"id\" take ", parsed.payload.size(), " bytes, the limit is ", kMaxPayloadBytes);
  }
  return parsed;
}

std::string CompactObject(std::string_view json, const std::vector<size_t>& omitted) {
  const auto is_kept = [&](size_t member) {
    return std::find(omitted.begin(), omitted.end(), member) == omitted.end();
  };
  json.remove_prefix(json.find('{'));  // the parser accepts a byte order mark
  std::string compact;
  compact.reserve(json.size());
  int depth = 0;
  size_t member = 0;
  bool kept = is_kept(0);
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_string) {
      if (kept) compact += c;
      if (c == '\\') {
        ++at;
        if (kept) compact += json[at];
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    if (c == '}' || c == ']') --depth;
    if (depth == 0) {
      // The end of the object: removes the comma that follows the last kept member.
      if (c == '}' && compact.back() == ',') compact.pop_back();
      compact += c;
    } else if (kept) {
      compact += c;
    }
    if (depth == 1 && c == ',') kept = is_kept(++member);
    if (c == '{' || c == '[') ++depth;
    if (c == '"') in_string = true;
  }
  return compact;
}

absl::Status CheckPayload(std::string_view payload) { return CheckObject(payload, false); }

absl::Status CheckNewPayload(std::string_view payload) { return CheckObject(payload, true); }

}  // namespace maxsim::collection
