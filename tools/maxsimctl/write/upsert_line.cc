#include "tools/maxsimctl/write/upsert_line.h"

#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_events.h"
#include "base/text.h"
#include "client/messages.h"
#include "collection/document_line.h"

namespace maxsim::ctl {
namespace {

enum class Member { kId, kTokens, kText, kPayload, kVersion, kField };
constexpr std::pair<std::string_view, Member> kMembers[] = {{"id", Member::kId},
                                                            {"tokens", Member::kTokens},
                                                            {"text", Member::kText},
                                                            {"payload", Member::kPayload},
                                                            {"version", Member::kVersion}};

class UpsertLineEvents : public JsonEvents {
 public:
  explicit UpsertLineEvents(std::string_view line) : JsonEvents(collection::kMaxPayloadDepth + 1), line_(line) {}

  absl::StatusOr<v1::Document> Take() {
    if (document_.id_case() == v1::Document::ID_NOT_SET) return Invalid("no \"id\"");
    if (has_words_ && !Has(Member::kText)) {
      return Invalid("\"tokens\" holds strings, not token vectors, and there is no \"text\"");
    }
    if (Has(Member::kTokens) == Has(Member::kText)) {
      return Invalid(Has(Member::kText) ? "both \"tokens\" and \"text\"" : "neither \"tokens\" nor \"text\"",
                     "; a document has one of them");
    }
    if (Has(Member::kTokens)) {
      if (num_rows_ == 0 || row_length_ == 0) return Invalid("\"tokens\": no token vectors");
      *document_.mutable_tokens() = client::MakeTokens(values_, static_cast<uint32_t>(row_length_));
    }
    if (Has(Member::kPayload)) {
      if (!fields_.empty()) {
        return Invalid("a member ", Quote(*fields_.begin()),
                       " beside \"payload\"; fields stand either in \"payload\" or beside \"id\"");
      }
    } else if (num_members_ > omitted_.size()) {
      document_.set_payload(collection::CompactObject(line_, omitted_));
    }
    return std::move(document_);
  }

 private:
  bool Has(Member member) const { return (seen_ >> static_cast<int>(member) & 1u) != 0; }
  bool In(Member member) const { return depth() >= 1 && member_ == member; }

  bool OnKey(std::string& key) override {
    if (depth() != 1) return true;
    const size_t number = num_members_++;
    for (const auto& [name, member] : kMembers) {
      if (key != name) continue;
      member_ = member;
      if (Has(member) || fields_.find(key) != fields_.end()) return Fail(Cat(Quote(key), " appears twice"));
      seen_ |= 1u << static_cast<int>(member);
      if (member != Member::kText) omitted_.push_back(number);
      return true;
    }
    member_ = Member::kField;
    if (fields_.find(key) != fields_.end()) return Fail(Cat(Quote(key), " appears twice"));
    fields_.insert(std::move(key));
    return true;
  }

  bool OnString(std::string& value) override {
    if (depth() == 1 && In(Member::kId)) {
      document_.set_string_id(std::move(value));
      return true;
    }
    if (depth() == 1 && In(Member::kText)) {
      document_.set_text(std::move(value));
      return true;
    }
    if (depth() == 2 && In(Member::kTokens) && num_rows_ == 0) {
      // "tokens" begins with a string. So it holds the tokens' texts, which `explain` shows, and not vectors. From here
      // on it is read like any other field of the payload.
      has_words_ = true;
      member_ = Member::kField;
      seen_ &= ~(1u << static_cast<int>(Member::kTokens));
      omitted_.pop_back();
      fields_.insert("tokens");
      return true;
    }
    return Value("a string");
  }
  bool OnInteger(int64_t value) override {
    if (depth() == 1 && In(Member::kId)) {
      document_.set_int_id(value);
      return true;
    }
    if (depth() == 1 && In(Member::kVersion)) {
      if (value < 1) return Fail(Cat("\"version\" is ", value, "; must be an integer of 1 or more"));
      document_.set_version(static_cast<uint64_t>(value));
      return true;
    }
    if (In(Member::kTokens)) return OnFloat(static_cast<double>(value));
    return Value("an integer");
  }
  bool OnLargeInteger(uint64_t value) override {
    if (depth() == 1 && In(Member::kVersion)) {
      document_.set_version(value);
      return true;
    }
    return OnFloat(static_cast<double>(value));
  }
  bool OnFloat(double value) override {
    if (depth() != 3 || !In(Member::kTokens)) return Value("a number");
    const auto rounded = static_cast<float>(value);
    if (!std::isfinite(rounded)) return Fail(Cat("\"tokens\": ", value, " is beyond what a float32 holds"));
    values_.push_back(rounded);
    return true;
  }

  // Refuses every value that none of the other functions accepts. Values inside a payload may be anything.
  bool Value(std::string_view kind) override {
    if (depth() == 0) return Fail(Cat("a JSON object expected, not ", kind));
    if (In(Member::kField)) return true;
    if (depth() == 1 && kind == "null") {  // as if the member were not there
      seen_ &= ~(1u << static_cast<int>(member_));
      if (member_ == Member::kText) omitted_.push_back(num_members_ - 1);
      return true;
    }
    if (In(Member::kPayload) && depth() > 1) return true;
    return Refuse(kind);
  }
  bool Refuse(std::string_view kind) {
    static constexpr std::string_view kAccepted[] = {"a string or a 64-bit integer",
                                                     "rows of numbers, a row for each token", "a string", "an object",
                                                     "an integer of 1 or more"};
    const auto member = static_cast<size_t>(member_);
    return Fail(Cat("\"", kMembers[member].first, "\": ", kAccepted[member], " expected, not ", kind));
  }

  bool OnStartObject() override {
    if (depth() > 1 && In(Member::kField)) return FitsPayload();
    if (depth() == 1 || (In(Member::kPayload) && depth() > 2)) return true;
    if (!In(Member::kPayload)) return Refuse("an object");
    payload_begin_ = position() - 1;
    return true;
  }
  bool OnEndObject() override {
    if (depth() == 1 && In(Member::kPayload)) {
      document_.set_payload(std::string(line_.substr(payload_begin_, position() - payload_begin_)));
    }
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 1) return Fail("a JSON object expected, not an array");
    if (In(Member::kField)) return FitsPayload();
    if (In(Member::kPayload) && depth() > 2) return true;
    if (!In(Member::kTokens) || depth() > 3) return Refuse("an array");
    if (depth() == 3) row_begin_ = values_.size();
    return true;
  }
  bool OnEndArray() override {
    if (!In(Member::kTokens) || depth() != 2) return true;
    const size_t length = values_.size() - row_begin_;
    if (num_rows_++ == 0) row_length_ = length;
    return length == row_length_ ||
           Fail(Cat("\"tokens\": row ", num_rows_ - 1, " has ", length, " numbers, but row 0 has ", row_length_));
  }

  // Checks the nesting of a payload made of the line's fields. JsonEvents allows one level more, for a "payload"
  // member.
  bool FitsPayload() { return depth() <= collection::kMaxPayloadDepth || FailTooDeep(collection::kMaxPayloadDepth); }

  const std::string_view line_;
  v1::Document document_;
  Member member_ = Member::kId;  // the top-level member that is being read
  unsigned seen_ = 0;            // a bit for each member of kMembers
  size_t num_members_ = 0;
  std::vector<size_t> omitted_;             // numbers of the members that do not belong to the payload
  std::unordered_set<std::string> fields_;  // all members that are not in kMembers
  bool has_words_ = false;                  // "tokens" holds the tokens' texts
  size_t payload_begin_ = 0;
  std::vector<float> values_;
  size_t row_begin_ = 0, row_length_ = 0, num_rows_ = 0;
};

}  // namespace

absl::StatusOr<v1::Document> ParseUpsertLine(std::string_view line, v1::IdType id_type) {
  UpsertLineEvents events(line);
  if (absl::Status status = events.Parse(line); !status.ok()) return status;
  absl::StatusOr<v1::Document> document = events.Take();
  if (!document.ok()) return document;
  if (document->has_int_id() != (id_type == v1::ID_TYPE_INT64)) {
    return Invalid("\"id\" is ", document->has_int_id() ? "an integer" : "a string", "; the collection's ids are ",
                   id_type == v1::ID_TYPE_INT64 ? "integers" : "strings");
  }
  return document;
}

}  // namespace maxsim::ctl
