// Fuzzes a collection's manifest. An accepted manifest must be within the limits, and must not change when it is
// written and read again.
#include <cstdint>
#include <string>

#include "base/file.h"
#include "collection/collection_name.h"
#include "collection/manifest.h"
#include "collection/manifest_parser.h"
#include "kernels/limits.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzManifest(std::string_view input) {
  const absl::StatusOr<collection::Manifest> manifest = collection::ParseManifest(input, "collection.json");
  if (!manifest.ok()) return RequireRefusal(manifest.status());
  Require(manifest->dim >= kMinDim && manifest->dim <= kMaxDim, "dim is in range");
  Require(manifest->generation >= 1, "generations begin at 1");
  Require(collection::CheckCollectionName(manifest->name).ok(), "the name is one");
  Require(manifest->rotation_seed <= static_cast<uint64_t>(collection::kMaxRotationSeed), "the seed is in range");
  Require(manifest->log_sequence.value_or(0) <= static_cast<uint64_t>(collection::kMaxLogSequence),
          "the log's sequence is in range");
  if (manifest->partition.has_value()) {
    const collection::SlotRange& slots = *manifest->partition;
    Require(0 <= slots.first && slots.first < slots.end && slots.end <= collection::kNumSlots && !slots.is_whole(),
            "a partition has some slots, and not all");
  }
  if (manifest->codes.has_value()) {
    Require(ValidateCodeShape(collection::CodeShapeOf(*manifest)).ok(), "codes have a shape");
    Require(IsPlaneCount(manifest->codes->planes), "codes have 1, 2 or 4 planes");
    Require(manifest->codes->rotation_seed <= static_cast<uint64_t>(collection::kMaxRotationSeed),
            "the seed of codes is in range");
  }
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  for (const collection::ShardEntry& entry : manifest->shards) {
    Require(!entry.file.empty() && entry.file.find('/') == std::string::npos && entry.file != "..",
            "a shard lies in the collection's folder");
    Require(entry.num_documents >= 0 && entry.num_tokens >= entry.num_documents && entry.num_bytes >= 0 &&
                entry.num_documents <= kMaxShardDocuments,
            "a shard's counts are in range");
    Require(IsChecksum(entry.checksum), "a shard has a checksum");
    Require(entry.code_files.size() ==
                (manifest->codes.has_value() ? collection::NumCodeFiles(manifest->codes->planes) : 0),
            "a shard has the files of its codes");
    for (const collection::CodeFileEntry& file : entry.code_files) {
      Require(!file.file.empty() && file.file.find('/') == std::string::npos && file.file != "..",
              "a file of codes lies in the collection's folder");
      Require(file.num_bytes > 0 && IsChecksum(file.checksum), "a file of codes has a size and a checksum");
    }
    Require(collection::CodeFileBytes(entry, 4) >= 0, "the sizes of files of codes have a sum");
    Require(collection::BytesBesideTokens(*manifest, entry) >= 0, "no count is negative");
    num_documents += entry.num_documents;
    num_tokens += entry.num_tokens;
  }
  Require(num_documents == manifest->num_documents && num_tokens == manifest->num_tokens, "the totals are the sums");

  const std::string text = collection::FormatManifest(*manifest);
  const absl::StatusOr<collection::Manifest> again = collection::ParseManifest(text, "again");
  Require(again.ok(), "what is written can be read");
  Require(collection::FormatManifest(*again) == text, "what is read is what was written");
}

const Registration kManifestTarget("manifest", &FuzzManifest);

}  // namespace
}  // namespace maxsim::fuzz
