// Parses the text of a manifest.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The values of "format" and "format_version". Version 2 is for partitions: a reader that only knows version 1 would
// ignore the key "partition", and would serve the part as if it were the whole collection. Version 3 is for collections
// with codes (also partitions): a program that does not know codes would write the next generation without them.
// Version 4 is for collections with fields (also partitions, with or without codes), for the same reason.
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

// These are the keys of Manifest::codes, an object. A shard has its code files, an array of objects, under kCodesKey
// too.
inline constexpr std::string_view kCodesKey = "codes";
inline constexpr std::string_view kCodePlanesKey = "planes";
inline constexpr std::string_view kCodeFactorsKey = "factors";
inline constexpr std::string_view kCodeRotationKey = "rotation";
inline constexpr std::string_view kCodeRotationSeedKey = "rotation_seed";

// This is the key of Manifest::fields, an array of objects. A shard has its field file, an object, under it too.
inline constexpr std::string_view kFieldsKey = "fields";
inline constexpr std::string_view kFieldNameKey = "name";
inline constexpr std::string_view kFieldKindKey = "kind";
inline constexpr std::string_view kFieldPathKey = "path";

// Parses and checks a manifest: known format version, required keys, value ranges, totals that equal the shards' sums.
// `origin` (a path) opens every error message. Never allocates more than a small multiple of the text's size.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view origin);

}  // namespace maxsim::collection
