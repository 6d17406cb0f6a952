// Checks the sizes and checksums of the files that a manifest names: shards, and their code and field files.
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

// Turns the error of reading an open file into DATA_LOSS. The original code may be UNAVAILABLE, which means a lost
// device to code that scores documents.
absl::Status AsDataLoss(const absl::Status& status);

// Returns DATA_LOSS, naming the file, if its size is not `num_bytes`, which the manifest states.
absl::Status CheckFileSize(const InputFile& file, int64_t num_bytes);

// Computes the checksum of bytes in memory. `stop` may be null; once it is stopped, returns its status.
absl::StatusOr<std::string> HashBytes(std::string_view bytes, const StopSignal* stop);

// Computes the checksum of a file. Reads instead of mapping it, so that a disk error is returned as a status.
absl::StatusOr<std::string> HashFile(const InputFile& file, const StopSignal* stop);

// Returns DATA_LOSS, naming the file, if its checksum `found` is not the manifest's, `expected`.
absl::Status CheckChecksum(std::string_view path, std::string_view found, std::string_view expected);

}  // namespace maxsim::collection
