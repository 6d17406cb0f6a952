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

// Turns the error of a file that is in use into DATA_LOSS. UNAVAILABLE would tell a caller that scores from it that a
// device was lost.
absl::Status AsDataLoss(const absl::Status& status);

// DATA_LOSS, naming the file, unless its size is what the manifest says.
absl::Status CheckFileSize(const InputFile& file, int64_t num_bytes);

// Computes the checksum of bytes in memory. Ends with the status of `stop` (may be null) once that is stopped.
absl::StatusOr<std::string> HashBytes(std::string_view bytes, const StopSignal* stop);

// Computes the checksum of a file. Reads it, rather than maps it, so that a disk error is returned with its reason.
absl::StatusOr<std::string> HashFile(const InputFile& file, const StopSignal* stop);

// DATA_LOSS, naming the file, unless a checksum is what the manifest says.
absl::Status CheckChecksum(std::string_view path, std::string_view found, std::string_view expected);

}  // namespace maxsim::collection
