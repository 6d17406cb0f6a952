// Checks sizes and checksums of files that a manifest names: shards and the files beside them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/stop.h"

namespace maxsim::collection {

// Returns DATA_LOSS: "path: message".
absl::Status DataLoss(std::string_view path, std::string_view message);

// Returns the message of an error.
std::string_view MessageOf(const absl::Status& status);

// Makes DATA_LOSS of the error of a file that is in use. A file that fails is no device that is lost, which is what
// UNAVAILABLE would say to a caller that scores from it.
absl::Status AsDataLoss(const absl::Status& status);

// DATA_LOSS, naming the file, unless its size is what the manifest says.
absl::Status CheckFileSize(const InputFile& file, int64_t num_bytes);

// Computes the checksum of bytes in memory. Ends with the status of `stop` (may be null) once that is stopped.
absl::StatusOr<std::string> HashBytes(std::string_view bytes, const StopSignal* stop);

// Computes the checksum of a file, which is read and not mapped: a disk that cannot is an error with its reason.
absl::StatusOr<std::string> HashFile(const InputFile& file, const StopSignal* stop);

// DATA_LOSS, naming the file, unless a checksum is what the manifest says.
absl::Status CheckChecksum(std::string_view path, std::string_view found, std::string_view expected);

}  // namespace maxsim::collection
