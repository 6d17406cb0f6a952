#include "server/service/creation/create_options.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/encoder_identity.h"
#include "collection/field.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"
#include "maxsim_version.h"
#include "server/service/call/status.h"
#include "server/service/creation/collection_request.h"
#include "server/service/request/info.h"
#include "server/service/request/slots_of_request.h"

namespace maxsim::service {
namespace {

// Reads the fields that the new collection will have.
absl::StatusOr<std::vector<collection::Field>> FieldsOf(const v1::CreateCollectionRequest& request) {
  std::vector<collection::Field> fields;
  for (int i = 0; i < request.fields_size(); ++i) {
    const v1::FieldDeclaration& declared = request.fields(i);
    const std::optional<collection::FieldKind> kind = KindOf(declared.kind());
    if (!kind.has_value()) {
      return InvalidField(absl::StrCat("fields[", i, "].kind"),
                          absl::StrCat("is ", static_cast<int>(declared.kind()), "; must be 1 to ",
                                       static_cast<int>(v1::FieldKind_MAX)));
    }
    fields.push_back({declared.name(), *kind, declared.path().empty() ? declared.name() : declared.path()});
  }
  const absl::Status status = collection::CheckFields(fields);
  if (!status.ok()) return InvalidField("fields", std::string(status.message()));
  return fields;
}

}  // namespace

std::string CreatedByThisServer() { return absl::StrCat("maxsimd ", kVersion); }

absl::StatusOr<collection::CreateOptions> CreateOptionsOf(const v1::CreateCollectionRequest& request) {
  if (absl::Status status = CheckName(request.name()); !status.ok()) return status;
  if (request.dim() < static_cast<uint32_t>(kMinDim) || request.dim() > static_cast<uint32_t>(kMaxDim)) {
    return InvalidField("dim", absl::StrCat("is ", request.dim(), "; must be ", kMinDim, " to ", kMaxDim),
                        {kMaxDim, request.dim()});
  }
  if (!v1::DataType_IsValid(request.storage())) {
    return InvalidField("storage", absl::StrCat("is ", static_cast<int>(request.storage()), "; must be 0 to ",
                                                static_cast<int>(v1::DataType_MAX)));
  }
  if (IsResidual(static_cast<ScalarType>(request.storage()))) {
    return InvalidField("storage", absl::StrCat("is ", std::string(Name(static_cast<ScalarType>(request.storage()))),
                                                ", but a live collection stores f32, f16, bf16 or i8"));
  }
  if (!v1::IdType_IsValid(request.id_type())) {
    return InvalidField("id_type", absl::StrCat("is ", static_cast<int>(request.id_type()), "; must be 0 to ",
                                                static_cast<int>(v1::IdType_MAX)));
  }
  collection::CreateOptions options;
  options.name = request.name();
  options.dim = static_cast<int32_t>(request.dim());
  if (request.storage() != v1::DATA_TYPE_UNSPECIFIED) options.storage = static_cast<ScalarType>(request.storage());
  options.id_type = request.id_type() == v1::ID_TYPE_INT64 ? collection::IdType::kInt64 : collection::IdType::kString;
  options.created_by = CreatedByThisServer();
  if (request.code_planes() != 0) {
    if (request.code_planes() > static_cast<uint32_t>(kMaxPlanes) ||
        !IsPlaneCount(static_cast<int>(request.code_planes()))) {
      return InvalidField("code_planes",
                          absl::StrCat("is ", request.code_planes(), "; must be 0 (no codes), 1, 2 or 4"),
                          {kMaxPlanes, request.code_planes()});
    }
    options.codes =
        collection::CodesFormat{.planes = static_cast<int>(request.code_planes()), .factors = request.code_factors()};
  } else if (request.code_factors()) {
    return InvalidField("code_factors", "is true, but code_planes is 0: the collection has no codes");
  }
  absl::StatusOr<std::vector<collection::Field>> fields = FieldsOf(request);
  if (!fields.ok()) return fields.status();
  options.fields = *std::move(fields);
  const absl::StatusOr<collection::SlotRange> slots = SlotsOfRequest(request);
  if (!slots.ok()) return slots.status();
  options.partition = *slots;
  if (!request.has_encoder()) return options;
  const v1::EncoderInfo& encoder = request.encoder();
  for (const auto& [field, text] :
       {std::pair("encoder.model", &encoder.model()), std::pair("encoder.fingerprint", &encoder.fingerprint())}) {
    if (text->size() > collection::kMaxEncoderTextBytes) {
      return InvalidField(
          field, absl::StrCat("has ", text->size(), " bytes; must have at most ", collection::kMaxEncoderTextBytes),
          {collection::kMaxEncoderTextBytes, text->size()});
    }
  }
  if (encoder.dim() != 0 && encoder.dim() != request.dim()) {
    return InvalidField("encoder.dim", absl::StrCat("is ", encoder.dim(), ", but the collection's is ", request.dim()));
  }
  options.encoder = {.model = encoder.model(), .fingerprint = encoder.fingerprint(), .dim = options.dim};
  return options;
}

store::SharedSettings SettingsOf(const std::string& name, const collection::Manifest& manifest) {
  store::SharedSettings settings;
  settings.options = {.name = name,
                      .dim = manifest.dim,
                      .storage = manifest.storage,
                      .id_type = manifest.id_type,
                      .encoder = manifest.encoder,
                      .codes = manifest.codes,
                      .fields = manifest.fields};
  return settings;
}

}  // namespace maxsim::service
