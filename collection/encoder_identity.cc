#include "collection/encoder_identity.h"

#include <array>
#include <tuple>
#include <utility>

#include "base/json_events.h"
#include "base/text.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

constexpr size_t kShownBytes = 200;

absl::Status CheckText(std::string_view key, std::string_view text) {
  if (text.size() > kMaxEncoderTextBytes) {
    return Invalid(key, ": ", text.size(), " bytes, the limit is ", kMaxEncoderTextBytes);
  }
  return IsUtf8(text) ? absl::OkStatus() : Invalid(key, ": is not UTF-8");
}

absl::Status CheckNumber(std::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value == 0 || (value >= low && value <= high)) return absl::OkStatus();
  return Invalid(key, ": ", value, " is not in ", low, " .. ", high);
}

// Level 1 is the identity's object. There are no levels below it.
class IdentityEvents : public JsonEvents {
 public:
  explicit IdentityEvents(EncoderIdentity* identity) : JsonEvents(1), identity_(identity) {}

  absl::Status Finish() {
    for (const size_t required : {size_t{0}, size_t{2}}) {
      if (!seen_[required]) return Invalid("key \"", kKeys[required], "\" is missing");
    }
    if (dim_ == 0) return Invalid("dim: 0 is not in ", kMinDim, " .. ", kMaxDim);
    for (const auto& [key, value, high] :
         {std::tuple("dim", dim_, int64_t{kMaxDim}), std::tuple("query_length", query_length_, kMaxEncoderLength),
          std::tuple("document_length", document_length_, kMaxEncoderLength)}) {
      if (absl::Status status = CheckNumber(key, value, 1, high); !status.ok()) return status;
    }
    identity_->dim = static_cast<int32_t>(dim_);
    identity_->query_length = static_cast<int32_t>(query_length_);
    identity_->document_length = static_cast<int32_t>(document_length_);
    return CheckEncoderIdentity(*identity_);
  }

 private:
  static constexpr std::array<std::string_view, 8> kKeys = {"model",           "fingerprint",     "dim",
                                                            "query_prefix",    "document_prefix", "query_length",
                                                            "document_length", "query_expansion"};

  bool OnKey(std::string& key) override {
    for (key_ = 0; key_ < kKeys.size() && kKeys[key_] != key; ++key_) {
    }
    if (key_ == kKeys.size()) return Fail(Cat("unknown key ", Quote(key)));
    return !std::exchange(seen_[key_], true) || Fail(Cat("key \"", key, "\" appears twice"));
  }
  bool Value(std::string_view kind) override {
    if (depth() == 0) return Fail(Cat("an object expected, not ", kind));
    const bool is_text = TextOf(key_) != nullptr, is_number = NumberOf(key_) != nullptr;
    return Fail(Cat(kKeys[key_], ": ",
                    is_text     ? "a string"
                    : is_number ? "an integer"
                                : "true or false",
                    " expected, not ", kind));
  }
  bool OnString(std::string& value) override {
    std::string* text = depth() == 1 ? TextOf(key_) : nullptr;
    if (text == nullptr) return Value("a string");
    *text = std::move(value);
    return true;
  }
  bool OnInteger(int64_t value) override {
    int64_t* number = depth() == 1 ? NumberOf(key_) : nullptr;
    if (number == nullptr) return Value("an integer");
    *number = value;
    return true;
  }
  bool OnBool(bool value) override {
    if (depth() != 1 || key_ != 7) return Value("a boolean");
    identity_->query_expansion = value;
    return true;
  }
  bool OnStartArray() override { return Fail("an object expected, not an array"); }

  std::string* TextOf(size_t key) {
    switch (key) {
      case 0:
        return &identity_->model;
      case 1:
        return &identity_->fingerprint;
      case 3:
        return &identity_->query_prefix;
      case 4:
        return &identity_->document_prefix;
      default:
        return nullptr;
    }
  }
  int64_t* NumberOf(size_t key) {
    switch (key) {
      case 2:
        return &dim_;
      case 5:
        return &query_length_;
      case 6:
        return &document_length_;
      default:
        return nullptr;
    }
  }

  EncoderIdentity* const identity_;
  size_t key_ = 0;  // index in kKeys of the key whose value comes next
  std::array<bool, 8> seen_{};
  int64_t dim_ = 0;
  int64_t query_length_ = 0;
  int64_t document_length_ = 0;
};

bool Differ(std::string_view a, std::string_view b) { return !a.empty() && !b.empty() && a != b; }
bool Differ(int32_t a, int32_t b) { return a != 0 && b != 0 && a != b; }

}  // namespace

absl::Status CheckEncoderIdentity(const EncoderIdentity& identity) {
  for (const auto& [key, text] :
       {std::pair("model", &identity.model), std::pair("fingerprint", &identity.fingerprint),
        std::pair("query_prefix", &identity.query_prefix), std::pair("document_prefix", &identity.document_prefix)}) {
    if (absl::Status status = CheckText(key, *text); !status.ok()) return status;
  }
  for (const auto& [key, value, high] : {std::tuple("dim", identity.dim, int64_t{kMaxDim}),
                                         std::tuple("query_length", identity.query_length, kMaxEncoderLength),
                                         std::tuple("document_length", identity.document_length, kMaxEncoderLength)}) {
    if (absl::Status status = CheckNumber(key, value, 1, high); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ParseEncoderIdentity(std::string_view json, std::string_view origin, EncoderIdentity* identity) {
  *identity = {};
  IdentityEvents events(identity);
  absl::Status status = events.Parse(json);
  if (status.ok()) status = events.Finish();
  return status.ok() ? status : Prefix(Cat(origin, ": "), status);
}

std::string DescribeEncoder(const EncoderIdentity& identity) {
  std::string text = identity.model.empty() ? "an encoder without a name" : Printable(identity.model, kShownBytes);
  if (!identity.fingerprint.empty()) text += Cat(" (fingerprint ", Printable(identity.fingerprint, kShownBytes), ")");
  return text;
}

absl::Status CheckSameEncoder(const EncoderIdentity& of_collection, const EncoderIdentity& of_server) {
  std::string difference;
  if (!of_collection.fingerprint.empty() && !of_server.fingerprint.empty()) {
    if (of_collection.fingerprint != of_server.fingerprint) difference = "their fingerprints differ";
  } else if (Differ(of_collection.model, of_server.model)) {
    difference = "their models differ";
  } else if (Differ(of_collection.query_prefix, of_server.query_prefix)) {
    difference = Cat("query_prefix is ", Quote(of_collection.query_prefix), " there and ",
                     Quote(of_server.query_prefix), " here");
  } else if (Differ(of_collection.document_prefix, of_server.document_prefix)) {
    difference = Cat("document_prefix is ", Quote(of_collection.document_prefix), " there and ",
                     Quote(of_server.document_prefix), " here");
  }
  if (difference.empty() && Differ(of_collection.dim, of_server.dim)) {
    difference = Cat("dim is ", of_collection.dim, " there and ", of_server.dim, " here");
  }
  if (difference.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("the collection was encoded by ", DescribeEncoder(of_collection),
                                           ", but the server's encoder is ", DescribeEncoder(of_server), ": ",
                                           difference));
}

}  // namespace maxsim::collection
