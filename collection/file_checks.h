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

// Turns the error of reading an open file into DATA_LOSS. If it were UNAVAILABLE, a caller that scores from the file
// would treat a device as lost.
absl::Status AsDataLoss(const absl::Status& status);

// Returns DATA_LOSS, naming the file, unless it has the size that the manifest gives.
absl::Status CheckFileSize(const InputFile& file, int64_t num_bytes);

// Computes the checksum of bytes in memory. Returns the status of `stop` (may be null) if it is stopped.
absl::StatusOr<std::string> HashBytes(std::string_view bytes, const StopSignal* stop);

// Computes the checksum of a file. Reads the file instead of mapping it, so that a disk error is returned with its
// reason.
absl::StatusOr<std::string> HashFile(const InputFile& file, const StopSignal* stop);

// Returns DATA_LOSS, naming the file, unless its checksum `found` equals the `expected` one of the manifest.
absl::Status CheckChecksum(std::string_view path, std::string_view found, std::string_view expected);

}  // namespace maxsim::collection
