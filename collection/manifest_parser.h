// Parses the text of a manifest.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The values of "format" and "format_version". A collection with fields has version 4; otherwise one with codes 3;
// otherwise a partition 2; any other collection 1. So programs that do not know a feature refuse the collection.
// Otherwise they would serve a partition as a whole collection, or write the next generation without codes or fields.
inline constexpr std::string_view kManifestFormat = "maxsim-collection";
inline constexpr int64_t kManifestFormatVersion = 1;
inline constexpr int64_t kPartitionFormatVersion = 2;
inline constexpr int64_t kCodesFormatVersion = 3;
inline constexpr int64_t kFieldsFormatVersion = 4;

// This is the key of Manifest::num_centroids.
inline constexpr std::string_view kNumCentroidsKey = "num_centroids";

// This is the key of Manifest::log_sequence.
inline constexpr std::string_view kLogSequenceKey = "log_sequence";

// These are the keys of Manifest::partition, an object.
inline constexpr std::string_view kPartitionKey = "partition";
inline constexpr std::string_view kFirstSlotKey = "first_slot";
inline constexpr std::string_view kEndSlotKey = "end_slot";

// The keys of Manifest::codes, an object. In a shard's entry, kCodesKey is the key of the code files, an array of
// objects.
inline constexpr std::string_view kCodesKey = "codes";
inline constexpr std::string_view kCodePlanesKey = "planes";
inline constexpr std::string_view kCodeFactorsKey = "factors";
inline constexpr std::string_view kCodeRotationKey = "rotation";
inline constexpr std::string_view kCodeRotationSeedKey = "rotation_seed";

// The keys of Manifest::fields, an array of objects. In a shard's entry, kFieldsKey is the key of the field file, an
// object.
inline constexpr std::string_view kFieldsKey = "fields";
inline constexpr std::string_view kFieldNameKey = "name";
inline constexpr std::string_view kFieldKindKey = "kind";
inline constexpr std::string_view kFieldPathKey = "path";

// Parses and checks a manifest: format version, required keys, value ranges, and totals that equal the shards' sums.
// Error messages begin with `origin`, such as a path. Takes memory of at most a small multiple of the text's size.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view origin);

}  // namespace maxsim::collection
