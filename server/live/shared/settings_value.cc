#include "server/live/shared/settings_value.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/error_details.h"
#include "collection/group_name.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"
#include "nlohmann/json.hpp"
#include "server/live/shared/json_value.h"

namespace maxsim::live {
namespace {

using Json = nlohmann::json;
using store::SharedSettings;

constexpr size_t kLongestValueQuote = 64;
constexpr uint64_t kSettingsFormatVersion = 1;

// Reads the members of one JSON object. After the first wrong member, `status` is its error, and reads change nothing.
class Members {
 public:
  // `json` must be an object. `path` is the object's place in the value: "" or, for example, "codes.".
  Members(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  template <typename Number>
  void Read(const char* member, int64_t min, int64_t max, Number* number) {
    const Json* const found = Find(member);
    if (found == nullptr) return;
    if (!found->is_number_integer() || found->get<int64_t>() < min || found->get<int64_t>() > max) {
      return Fail(member, *found, Cat("a whole number from ", min, " to ", max));
    }
    *number = static_cast<Number>(found->get<int64_t>());
  }
  void Read(const char* member, bool* value) {
    const Json* const found = Find(member);
    if (found == nullptr) return;
    if (!found->is_boolean()) return Fail(member, *found, "true or false");
    *value = found->get<bool>();
  }
  void Read(const char* member, size_t max_bytes, std::string* text) {
    const Json* const found = Find(member);
    if (found == nullptr) return;
    if (!found->is_string() || found->get_ref<const std::string&>().size() > max_bytes) {
      return Fail(member, *found, Cat("a text of at most ", max_bytes, " bytes"));
    }
    *text = found->get<std::string>();
  }
  // Reads a name, and converts it with `from_name`, which returns nullopt for an unknown name.
  template <typename FromName, typename Value>
  void Read(const char* member, FromName from_name, std::string_view accepted, Value* value) {
    const Json* const found = Find(member);
    if (found == nullptr) return;
    const auto read = found->is_string() ? from_name(found->get_ref<const std::string&>()) : std::nullopt;
    if (!read.has_value()) return Fail(member, *found, accepted);
    *value = *read;
  }
  // Returns the member. Returns null, and sets the status, if it is not there.
  const Json* Find(const char* member) {
    const auto found = json_.find(member);
    if (found == json_.end() && status_.ok()) status_ = Invalid(path_, member, " is not there");
    return status_.ok() ? &*found : nullptr;
  }
  void Fail(const char* member, const Json& value, std::string_view accepted) {
    if (status_.ok()) status_ = Invalid(path_, member, " is ", QuoteJson(value), "; must be ", accepted);
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  const std::string path_;
  absl::Status status_;
};

std::optional<ScalarType> StorageFromName(std::string_view name) {
  const std::optional<ScalarType> type = ScalarTypeFromName(name);
  return type.has_value() && !IsResidual(*type) ? type : std::nullopt;
}

std::optional<collection::IdType> IdTypeFromName(std::string_view name) {
  for (const collection::IdType type : {collection::IdType::kString, collection::IdType::kInt64}) {
    if (collection::Name(type) == name) return type;
  }
  return std::nullopt;
}

absl::Status ReadCodes(const Json& json, collection::CreateOptions* options) {
  if (!json.is_object()) return Invalid("codes is not an object");
  collection::CodesFormat codes;
  Members members(json, "codes.");
  members.Read("planes", 1, kMaxPlanes, &codes.planes);
  members.Read("factors", &codes.factors);
  if (!members.status().ok()) return members.status();
  if (!IsPlaneCount(codes.planes)) return Invalid("codes.planes is ", codes.planes, "; must be 1, 2 or 4");
  options->codes = codes;
  return absl::OkStatus();
}

absl::Status ReadFields(const Json& json, collection::CreateOptions* options) {
  if (!json.is_array()) return Invalid("fields is not a list");
  for (const Json& one : json) {
    const std::string path = Cat("fields[", options->fields.size(), "]");
    if (!one.is_object()) return Invalid(path, " is not an object");
    collection::Field field;
    Members members(one, path + ".");
    members.Read("name", collection::kMaxFieldNameBytes, &field.name);
    members.Read("kind", collection::FieldKindFromName, "keyword, keywords, integer, number, boolean or time",
                 &field.kind);
    members.Read("path", collection::kMaxFieldPathBytes, &field.path);
    if (!members.status().ok()) return members.status();
    options->fields.push_back(std::move(field));
  }
  return Prefix("fields: ", collection::CheckFields(options->fields));
}

absl::Status ReadEncoder(const Json& json, collection::CreateOptions* options) {
  if (!json.is_object()) return Invalid("encoder is not an object");
  collection::EncoderIdentity encoder{.dim = options->dim};
  Members members(json, "encoder.");
  members.Read("model", collection::kMaxEncoderTextBytes, &encoder.model);
  members.Read("fingerprint", collection::kMaxEncoderTextBytes, &encoder.fingerprint);
  if (members.status().ok()) options->encoder = std::move(encoder);
  return members.status();
}

// Returns the texts of the settings that all servers must have in common, by their fields in CreateCollectionRequest.
std::vector<std::pair<std::string_view, std::string>> Texts(const SharedSettings& settings) {
  const collection::CreateOptions& options = settings.options;
  const collection::EncoderIdentity encoder = options.encoder.value_or(collection::EncoderIdentity());
  return {{"dim", Cat(options.dim)},
          {"storage", std::string(Name(options.storage))},
          {"id_type", std::string(collection::Name(options.id_type))},
          {"code_planes", Cat(options.codes.has_value() ? options.codes->planes : 0)},
          {"code_factors", options.codes.has_value() && options.codes->factors ? "true" : "false"},
          {"fields", collection::FormatFields(options.fields)},
          {"encoder.model", encoder.model},
          {"encoder.fingerprint", encoder.fingerprint}};
}

}  // namespace

std::string FormatSettingsValue(const SharedSettings& settings) {
  const collection::CreateOptions& options = settings.options;
  Json json = {{kFormatVersionKey, kSettingsFormatVersion},
               {"dim", options.dim},
               {"storage", Name(options.storage)},
               {"id_type", collection::Name(options.id_type)},
               {"codes", nullptr},
               {"fields", Json::array()},
               {"encoder", nullptr},
               {"residency", store::Name(settings.residency)},
               {"replicate", settings.replicate},
               {"partitioned", settings.is_partitioned},
               {"group", settings.group}};
  if (options.codes.has_value()) {
    json["codes"] = {{"planes", options.codes->planes}, {"factors", options.codes->factors}};
  }
  for (const collection::Field& field : options.fields) {
    json["fields"].push_back({{"name", field.name}, {"kind", collection::Name(field.kind)}, {"path", field.path}});
  }
  if (options.encoder.has_value()) {
    json["encoder"] = {{"model", options.encoder->model}, {"fingerprint", options.encoder->fingerprint}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<SharedSettings> ParseSettingsValue(const std::string& name, std::string_view value) {
  if (value.size() > kMaxSettingsValueBytes) {
    return Invalid("the value has ", value.size(), " bytes; must have at most ", kMaxSettingsValueBytes);
  }
  const Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("the value ", Printable(value, kLongestValueQuote), " is not a JSON object");
  if (absl::Status status = CheckFormatVersion(json, kSettingsFormatVersion); !status.ok()) return status;
  SharedSettings settings;
  settings.options.name = name;
  Members members(json, "");
  members.Read("dim", kMinDim, kMaxDim, &settings.options.dim);
  members.Read("storage", StorageFromName, "f32, f16, bf16 or i8", &settings.options.storage);
  members.Read("id_type", IdTypeFromName, "string or int64", &settings.options.id_type);
  members.Read("residency", store::ResidencyFromName, "auto, gpu, host or disk", &settings.residency);
  members.Read("replicate", &settings.replicate);
  members.Read("partitioned", &settings.is_partitioned);
  members.Read("group", collection::kMaxGroupNameBytes, &settings.group);
  const Json* const codes = members.Find("codes");
  const Json* const fields = members.Find("fields");
  const Json* const encoder = members.Find("encoder");
  absl::Status status = members.status();
  if (status.ok() && !codes->is_null()) status = ReadCodes(*codes, &settings.options);
  if (status.ok()) status = ReadFields(*fields, &settings.options);
  if (status.ok() && !encoder->is_null()) status = ReadEncoder(*encoder, &settings.options);
  if (!status.ok()) return status;
  return settings;
}

absl::Status CheckSameSettings(const SharedSettings& wanted, const SharedSettings& shared) {
  const auto theirs = Texts(shared);
  size_t idx = 0;
  for (const auto& [field, text] : Texts(wanted)) {
    const std::string& other = theirs[idx++].second;
    if (text == other) continue;
    return client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonInvalidField, field,
                              Cat("is ", Quote(text), ", but collection ", wanted.options.name, " of this cluster has ",
                                  Quote(other), "; give the same settings, or another name"));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::live
