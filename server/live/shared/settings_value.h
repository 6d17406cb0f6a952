// The value of a collection's key `collections.NAME` in the key-value store, such as {"format_version": 1, "dim": 128,
// "storage": "f16", "id_type": "string", "codes": null, "fields": [{"name": "year", "kind": "integer", "path":
// "year"}], "encoder": null, "residency": "auto", "replicate": false, "partitioned": false, "group": ""}. A value
// without "format_version" has version 1. The functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/shared_settings.h"

namespace maxsim::live {

// The maximum size of a value that is read. 64 fields and an encoder take at most 60 KiB.
inline constexpr size_t kMaxSettingsValueBytes = size_t{128} << 10;

// Returns the value. `settings` must be those of a collection that can be created.
std::string FormatSettingsValue(const store::SharedSettings& settings);

// Returns the settings of the collection `name`. If a member is wrong, returns INVALID_ARGUMENT with the member, its
// value and what is accepted. Ignores unknown members.
absl::StatusOr<store::SharedSettings> ParseSettingsValue(const std::string& name, std::string_view value);

// Returns FAILED_PRECONDITION if `wanted` differs from `shared` in a setting that all servers must have in common. The
// error names the setting's field in CreateCollectionRequest, and has both values.
absl::Status CheckSameSettings(const store::SharedSettings& wanted, const store::SharedSettings& shared);

}  // namespace maxsim::live
