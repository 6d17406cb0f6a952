// Summarises a collection for `maxsim-shard inspect`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/manifest.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// The distribution of the documents' numbers of tokens.
struct LengthDistribution {
  int64_t min = 0;
  int64_t median = 0;
  double mean = 0;
  int64_t p99 = 0;
  int64_t max = 0;
};

struct CollectionSummary {
  std::string folder;
  Manifest manifest;
  int64_t num_bytes = 0;                      // of all shard files
  int64_t token_bytes = 0;                    // of the token matrices among them
  int64_t code_bytes = 0;                     // of the files of codes
  int64_t field_bytes = 0;                    // of the files of fields
  std::vector<int64_t> field_documents = {};  // per field of the manifest: documents that have a value
  LengthDistribution lengths = {};

  // The quantisation loss of i8 storage, measured on a sample of the documents, or on all documents of a small
  // collection.
  struct Loss {
    QuantizationLoss found;
    int64_t num_tokens_read = 0;
  };
  std::optional<Loss> loss = {};

  // Only for live collections. Inspect leaves `log` empty; the caller reads the log and sets it.
  struct Log {
    uint64_t first_sequence = 0;  // the log holds the writes after this one
    uint64_t last_sequence = 0;
    uint64_t num_bytes = 0;
    int64_t num_tombstones = 0;  // documents of the shards that were replaced or deleted
  };
  std::optional<Log> log = {};
};

// Summarises the collection in `folder` from the manifest and the structure of every shard. Does not check checksums
// and values (VerifyCollection does). For an i8 collection, also reads up to about kInspectedBytes of token vectors.
inline constexpr int64_t kInspectedBytes = int64_t{256} << 20;
absl::StatusOr<CollectionSummary> Inspect(const std::string& folder);

// Describes the writes in a log: the sequences `first_sequence` + 1 .. `last_sequence`.
std::string DescribeWrites(uint64_t first_sequence, uint64_t last_sequence);

std::string FormatTable(const CollectionSummary& summary);
std::string FormatJson(const CollectionSummary& summary);

}  // namespace maxsim::collection
