// Parses the text of a manifest.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// These are the values of "format" and "format_version" that are written and read.
inline constexpr std::string_view kManifestFormat = "maxsim-collection";
inline constexpr int64_t kManifestFormatVersion = 1;

// This is the key of Manifest::log_sequence.
inline constexpr std::string_view kLogSequenceKey = "log_sequence";

// Parses and checks a manifest: known format version, required keys, value ranges, totals that equal the shards' sums.
// `origin` (a path) opens every error message. Never allocates more than a small multiple of the text's size.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view origin);

}  // namespace maxsim::collection
