// Opens the store that a URL names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/backup/s3/s3_settings.h"
#include "tools/backup/store/object_store.h"

namespace maxsim::backup {

// Returns true for text that is meant as a URL ("SCHEME://...") and not as a path.
bool IsUrl(std::string_view text);

// Returns the store of s3://BUCKET/PREFIX (ReadS3Settings) or file:///FOLDER. Makes no connection yet. INVALID_ARGUMENT
// for other URLs. Takes the path of a file URL literally: does not decode %XX.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(const std::string& url, const Getenv& getenv);

}  // namespace maxsim::backup
