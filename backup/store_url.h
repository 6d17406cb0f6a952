// Opens the store that a URL names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backup/s3/s3_settings.h"
#include "backup/store/object_store.h"
#include "base/stop.h"

namespace maxsim::backup {

// Returns true for text that is meant as a URL ("SCHEME://...") and not as a path.
bool IsUrl(std::string_view text);

// Returns the store of s3://BUCKET/PREFIX (ReadS3Settings) or file:///FOLDER. Makes no connection yet. INVALID_ARGUMENT
// for other URLs. `stop` (may be null; must outlive the store) ends the repetition of requests to S3 (MakeS3Store).
// Takes the path of a file URL literally: does not decode %XX.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(const std::string& url, const Getenv& getenv,
                                                       const StopSignal* stop = nullptr);

}  // namespace maxsim::backup
