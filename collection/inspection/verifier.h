// Reads every byte of a collection and reports all errors in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/manifest.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// The most problems that are reported as text; further ones are only counted.
inline constexpr size_t kMaxProblems = 100;

struct ShardReport {
  std::string file;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bytes = 0;  // including the files of codes and fields
  int64_t num_problems = 0;
  QuantizationLoss loss;  // lossy tokens of i8
};

struct VerifyReport {
  int64_t num_shards = 0;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bytes = 0;
  int64_t num_problems = 0;
  std::vector<std::string> problems;  // the first kMaxProblems
  QuantizationLoss loss;              // lossy tokens of i8; not a problem, since the files are intact
};

// Checks, for every shard the manifest names: size and checksum, structure and offsets, ids (encoding, length, none
// twice in the whole collection; those of a partition: of its slots), ordinals of a partition (ascending from shard to
// shard too), token values (finite, within kMaxAbsValue; i8: not -128), payloads (JSON objects), and, where the
// collection has codes: their files, and every bit, factor, scale and bound against the vectors (FindWrongCodes);
// where it has fields: their files, and every value against the payloads (FindWrongFields).
// Goes on after a problem as far as the damage allows. `on_shard` (may be null) is called after each shard. Holds all
// ids in memory, tokens never. Fails only when there is no readable manifest. `tombstones` (may be null) are those of a
// live collection's shards, ascending ordinals for each: the ids of those documents may be there again.
absl::StatusOr<VerifyReport> VerifyCollection(const std::string& folder,
                                              const std::function<void(const ShardReport&)>& on_shard = nullptr,
                                              const std::vector<std::vector<uint32_t>>* tombstones = nullptr);

// Returns "shard-000001-00000.safetensors  1,398 documents  174,339 tokens  32.10 MiB  ok".
std::string FormatLine(const ShardReport& report);

}  // namespace maxsim::collection
