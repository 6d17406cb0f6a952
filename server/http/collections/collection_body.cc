#include "server/http/collections/collection_body.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/field.h"
#include "kernels/scalar_type.h"
#include "server/http/text/body_events.h"
#include "server/http/text/json_text.h"

namespace maxsim::http {
namespace {

enum class ChangeMember : uint8_t {
  kDim,
  kStorage,
  kIdType,
  kPath,
  kResidency,
  kReplicate,
  kEncoder,
  kCodePlanes,
  kCodeFactors,
  kFields,
  kEncoderModel,
  kEncoderFingerprint,
  kEncoderDim,
};
constexpr std::array<std::string_view, 10> kChangeMembers = {
    "dim", "storage", "id_type", "path", "residency", "replicate", "encoder", "code_planes", "code_factors", "fields"};
// Members of the encoder, from ChangeMember::kEncoderModel on.
constexpr std::array<std::string_view, 3> kEncoderMembers = {"model", "fingerprint", "dim"};

constexpr std::string_view kLargestNumber = ", not a whole number from 0 to 4294967295";

// Handles the JSON parser's events for a body. The depth is 1 within the body and 2 within the encoder's object.
template <typename Request>
class ChangeEvents final : public BodyEvents {
 public:
  ChangeEvents(const StopCheck& stop, Request* request) : BodyEvents(kMaxDepth, stop), request_(*request) {}

 private:
  static constexpr int kMaxDepth = 8;
  static constexpr bool kIsCreate = std::is_same_v<Request, v1::CreateCollectionRequest>;
  static constexpr bool kIsSnapshot = std::is_same_v<Request, v1::SnapshotCollectionRequest>;

  static constexpr bool Has(ChangeMember member) { return kIsCreate || (kIsSnapshot && member == ChangeMember::kPath); }
  static constexpr bool IsRequired(ChangeMember member) {
    return kIsCreate ? member == ChangeMember::kDim : Has(member);
  }

  bool Key(std::string& key) override {
    if (depth() == 2) {
      for (size_t idx = 0; idx < kEncoderMembers.size(); ++idx) {
        if (key == kEncoderMembers[idx]) return Take(kChangeMembers.size() + idx);
      }
      return Wrong(Cat("encoder.", Printable(key, kLongestQuote)), "is not a member (model, fingerprint and dim are)");
    }
    for (size_t idx = 0; idx < kChangeMembers.size(); ++idx) {
      if (key == kChangeMembers[idx] && Has(static_cast<ChangeMember>(idx))) return Take(idx);
    }
    return Wrong(Printable(key, kLongestQuote),
                 kIsCreate     ? "is not a member (dim, storage, id_type, path, residency, replicate, encoder, "
                                 "code_planes, code_factors and fields are)"
                 : kIsSnapshot ? "is not a member (path is)"
                               : "is not a member; the body is {} or empty");
  }

  bool Take(size_t idx) {
    member_ = static_cast<ChangeMember>(idx);
    return !std::exchange(seen_[idx], true) || Wrong(Member(), "appears twice");
  }

  std::string Member() const {
    const auto idx = static_cast<size_t>(member_);
    if (idx < kChangeMembers.size()) return std::string(kChangeMembers[idx]);
    return Cat("encoder.", kEncoderMembers[idx - kChangeMembers.size()]);
  }
  bool IsScalar() const { return depth() == (member_ >= ChangeMember::kEncoderModel ? 2 : 1); }

  // A member that is null counts as left out.
  bool Null() override { return (IsScalar() && !IsRequired(member_)) || Refuse("null"); }

  bool Bool(bool value) override {
    if constexpr (kIsCreate) {
      if (IsScalar() && member_ == ChangeMember::kReplicate) {
        request_.set_replicate(value);
        return true;
      }
      if (IsScalar() && member_ == ChangeMember::kCodeFactors) {
        request_.set_code_factors(value);
        return true;
      }
    }
    return Refuse(value ? "true" : "false");
  }

  bool Text(std::string& value) override {
    if (!IsScalar()) return Refuse(Shown(value));
    if constexpr (kIsCreate || kIsSnapshot) {
      if (member_ == ChangeMember::kPath) {
        request_.set_path(std::move(value));
        return true;
      }
    }
    if constexpr (kIsCreate) return CreateText(value);
    return Refuse(Shown(value));
  }

  bool CreateText(std::string& value) {
    switch (member_) {
      case ChangeMember::kStorage: {
        const std::optional<ScalarType> storage = ScalarTypeFromName(value);
        if (!storage.has_value()) return Refuse(Shown(value));
        request_.set_storage(static_cast<v1::DataType>(*storage));
        return true;
      }
      case ChangeMember::kIdType:
        if (value != "string" && value != "int64") return Refuse(Shown(value));
        request_.set_id_type(value == "string" ? v1::ID_TYPE_STRING : v1::ID_TYPE_INT64);
        return true;
      case ChangeMember::kResidency:
        request_.set_residency(std::move(value));
        return true;
      case ChangeMember::kFields:
        return TakeFields(value);
      case ChangeMember::kEncoderModel:
        request_.mutable_encoder()->set_model(std::move(value));
        return true;
      case ChangeMember::kEncoderFingerprint:
        request_.mutable_encoder()->set_fingerprint(std::move(value));
        return true;
      default:
        return Refuse(Shown(value));
    }
  }

  bool TakeFields(const std::string& text) {
    const absl::StatusOr<std::vector<collection::Field>> fields = collection::ParseFields(text);
    if (!fields.ok()) return Wrong("fields", std::string(fields.status().message()));
    for (const collection::Field& field : *fields) {
      v1::FieldDeclaration& declared = *request_.add_fields();
      declared.set_name(field.name);
      declared.set_kind(static_cast<v1::FieldKind>(1 + static_cast<int>(field.kind)));
      declared.set_path(field.path);
    }
    return true;
  }

  bool Integer(int64_t value) override { return Number(static_cast<double>(value), value); }

  bool Number(double, const Json& exact) override {
    if constexpr (kIsCreate) {
      const std::optional<uint64_t> number = Unsigned(exact);
      if (IsScalar() && number.has_value() && *number <= std::numeric_limits<uint32_t>::max()) {
        const auto value = static_cast<uint32_t>(*number);
        if (member_ == ChangeMember::kDim) {
          request_.set_dim(value);
          return true;
        }
        if (member_ == ChangeMember::kCodePlanes) {
          request_.set_code_planes(value);
          return true;
        }
        if (member_ == ChangeMember::kEncoderDim) {
          request_.mutable_encoder()->set_dim(value);
          return true;
        }
      }
    }
    return Refuse(Shown(exact));
  }

  bool StartList() override { return Skip(); }
  bool EndList() override { return true; }

  bool StartObject() override {
    if (depth() == 1) return true;
    if (depth() != 2 || member_ != ChangeMember::kEncoder || !kIsCreate) return Skip();
    if constexpr (kIsCreate) request_.mutable_encoder();
    return true;
  }

  bool EndObject() override {
    if (depth() != 0) return true;
    for (size_t idx = 0; idx < kChangeMembers.size(); ++idx) {
      if (IsRequired(static_cast<ChangeMember>(idx)) && !seen_[idx]) return Wrong(kChangeMembers[idx], "is missing");
    }
    return true;
  }

  bool Refuse(std::string_view shown) override {
    if (depth() == 0) return Fail("the body is not a JSON object");
    switch (member_) {
      case ChangeMember::kDim:
      case ChangeMember::kCodePlanes:
      case ChangeMember::kEncoderDim:
        return WrongValue(Member(), shown, kLargestNumber);
      case ChangeMember::kReplicate:
      case ChangeMember::kCodeFactors:
        return WrongValue(Member(), shown, ", not true or false");
      case ChangeMember::kStorage:
        return WrongValue(Member(), shown, ", not \"f16\", \"bf16\", \"f32\" or \"i8\"");
      case ChangeMember::kIdType:
        return WrongValue(Member(), shown, ", not \"string\" or \"int64\"");
      case ChangeMember::kFields:
        return WrongValue(Member(), shown, ", not a text such as lang:keyword=meta.lang,year:integer");
      case ChangeMember::kEncoder:
        return WrongValue(Member(), shown, ", not an object with model, fingerprint and dim");
      case ChangeMember::kPath:
      case ChangeMember::kResidency:
      case ChangeMember::kEncoderModel:
      case ChangeMember::kEncoderFingerprint:
        break;
    }
    return WrongValue(Member(), shown, ", not a text");
  }

  std::string MatrixPath() const override { return "dim"; }  // No matrix is read.

  Request& request_;
  ChangeMember member_ = ChangeMember::kPath;
  std::array<bool, kChangeMembers.size() + kEncoderMembers.size()> seen_ = {};
};

template <typename Request>
absl::StatusOr<Request> ParseChange(const std::string& body) {
  Request request;
  const StopCheck never_stop;
  ChangeEvents<Request> events(never_stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

}  // namespace

absl::StatusOr<v1::CreateCollectionRequest> ParseCreateBody(const std::string& body) {
  return ParseChange<v1::CreateCollectionRequest>(body);
}

absl::StatusOr<v1::SnapshotCollectionRequest> ParseSnapshotBody(const std::string& body) {
  return ParseChange<v1::SnapshotCollectionRequest>(body);
}

absl::StatusOr<v1::CompactCollectionRequest> ParseCompactBody(const std::string& body) {
  if (body.empty()) return v1::CompactCollectionRequest();
  return ParseChange<v1::CompactCollectionRequest>(body);
}

}  // namespace maxsim::http
