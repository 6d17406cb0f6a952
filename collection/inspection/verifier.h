// Checks every byte of a collection and reports all errors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/manifest.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// Maximum number of problems that are reported as text. Further problems are only counted.
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

// Checks everything in the shards that the manifest names:
// - size, checksum and structure of each file
// - ids: encoding, length, none twice in the collection; in a partition also slots and ascending ordinals
// - token values: finite and within kMaxAbsValue; i8: not -128
// - payloads: JSON objects
// - codes against the vectors (FindWrongCodes), and field values against the payloads (FindWrongFields)
//
// Goes on after a problem as far as the damage allows, and returns an error only if the manifest cannot be read. Calls
// `on_shard` (may be null) after each shard. Holds all ids in memory. `tombstones` (may be null) has, for each shard of
// a live collection, the ascending ordinals of deleted or replaced documents, whose ids may appear again.
absl::StatusOr<VerifyReport> VerifyCollection(const std::string& folder,
                                              const std::function<void(const ShardReport&)>& on_shard = nullptr,
                                              const std::vector<std::vector<uint32_t>>* tombstones = nullptr);

// Returns "shard-000001-00000.safetensors  1,398 documents  174,339 tokens  32.10 MiB  ok".
std::string FormatLine(const ShardReport& report);

}  // namespace maxsim::collection
