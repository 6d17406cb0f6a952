#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/shard/text.h"
#include "server/store/collection_loader.h"
#include "server/store/memory_ledger.h"

namespace maxsim::store {
namespace {

bool IsGpu(const Backend& backend) { return backend.info().name != "cpu"; }

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max() : a + b;
}

}  // namespace

uint64_t ShardBytesNeeded(const Backend& backend, const shard::Manifest& manifest, const shard::ShardEntry& entry,
                          Residency residency) {
  const uint64_t backend_bytes =
      backend.BytesNeeded(manifest.storage, manifest.dim, entry.num_documents, entry.num_tokens, Tier::kDevice)
          .device_bytes;
  switch (residency) {
    case Residency::kHost:
      return SaturatingAdd(backend_bytes, static_cast<uint64_t>(entry.num_bytes));
    case Residency::kDisk:
      // The CPU backend's memory is the host's; only the tokens stay in the file.
      return SaturatingAdd(backend_bytes, static_cast<uint64_t>(shard::BytesBesideTokens(manifest, entry)));
    default:
      return backend_bytes;
  }
}

uint64_t BytesNeeded(const Backend& backend, const shard::Manifest& manifest, Residency residency) {
  uint64_t bytes = 0;
  for (const shard::ShardEntry& entry : manifest.shards) {
    bytes = SaturatingAdd(bytes, ShardBytesNeeded(backend, manifest, entry, residency));
  }
  return bytes;
}

absl::StatusOr<Residency> PlaceCollection(const Backend& backend, const shard::Manifest& manifest, Residency residency,
                                          int32_t max_dim, uint64_t available_bytes) {
  if (manifest.dim > max_dim) {
    return absl::FailedPreconditionError(shard::Cat("dimension ", manifest.dim, " of collection ", manifest.name,
                                                    " is beyond the server's limit of ", max_dim));
  }
  if (IsGpu(backend)) {
    if (residency == Residency::kAuto || residency == Residency::kGpu) return Residency::kGpu;
    return absl::FailedPreconditionError(shard::Cat("residency \"", Name(residency),
                                                    "\" is not supported by this version on the CUDA backend; use ",
                                                    "\"gpu\" or \"auto\""));
  }
  if (residency == Residency::kGpu) {
    return absl::FailedPreconditionError(
        "residency \"gpu\" needs the CUDA backend and this server runs the CPU backend; use \"auto\", \"host\" or "
        "\"disk\"");
  }
  if (residency != Residency::kAuto) return residency;
  return BytesNeeded(backend, manifest, Residency::kHost) <= available_bytes ? Residency::kHost : Residency::kDisk;
}

std::string FormatMemoryPlan(const Backend& backend, const shard::Manifest& manifest, Residency residency,
                             const MemoryLedger::Availability& memory, size_t max_shards) {
  const uint64_t needed = BytesNeeded(backend, manifest, residency);
  size_t file_width = sizeof("shard");
  for (const shard::ShardEntry& entry : manifest.shards) file_width = std::max(file_width, entry.file.size());
  const auto width = static_cast<int>(file_width);

  std::string text = absl::StrFormat("collection %s, generation %d: %s documents, %s tokens of %d x %s, %d %s\n",
                                     manifest.name, manifest.generation, shard::FormatCount(manifest.num_documents),
                                     shard::FormatCount(manifest.num_tokens), manifest.dim, Name(manifest.storage),
                                     manifest.shards.size(), manifest.shards.size() == 1 ? "shard" : "shards");
  absl::StrAppendFormat(&text, "  %-*s  %15s  %19s  %23s  %23s  %s\n", width, "shard", "documents", "tokens",
                        "file bytes", "memory bytes", "tier");
  uint64_t file_bytes = 0;
  size_t shown = 0;
  for (const shard::ShardEntry& entry : manifest.shards) {
    file_bytes = SaturatingAdd(file_bytes, static_cast<uint64_t>(entry.num_bytes));
    if (shown == max_shards) continue;
    ++shown;
    absl::StrAppendFormat(&text, "  %-*s  %15s  %19s  %23s  %23s  %s\n", width, entry.file,
                          shard::FormatCount(entry.num_documents), shard::FormatCount(entry.num_tokens),
                          shard::FormatCount(entry.num_bytes),
                          FormatGrouped(ShardBytesNeeded(backend, manifest, entry, residency)), Name(residency));
  }
  if (shown < manifest.shards.size()) text += shard::Cat("  and ", manifest.shards.size() - shown, " more shards\n");
  absl::StrAppendFormat(&text, "  %-*s  %15s  %19s  %23s  %23s  %s\n", width, "total",
                        shard::FormatCount(manifest.num_documents), shard::FormatCount(manifest.num_tokens),
                        FormatGrouped(file_bytes), FormatGrouped(needed), Name(residency));
  if (residency == Residency::kGpu) {
    uint64_t host_bytes = 0;
    for (const shard::ShardEntry& entry : manifest.shards) {
      host_bytes = SaturatingAdd(host_bytes, static_cast<uint64_t>(shard::BytesBesideTokens(manifest, entry)));
    }
    text +=
        shard::Cat("  ids, offsets and payloads (host memory, outside the budget): ", FormatBytes(host_bytes), "\n");
  }
  text += shard::Cat("  id index (host memory, outside the budget): ",
                     FormatBytes(IdIndex::NumBytes(static_cast<uint64_t>(manifest.num_documents))), "\n");
  text += shard::Cat("  ", backend.info().name, " memory: budget ",
                     memory.budget_bytes == 0 ? std::string("none") : FormatBytes(memory.budget_bytes),
                     ", held by collections ", FormatBytes(memory.held_bytes), ", free ",
                     FormatBytes(memory.free_bytes), ", kept free ", FormatBytes(memory.reserve_bytes), "\n");
  text += shard::Cat("  needs ", FormatBytes(needed), " of ", FormatBytes(memory.available_bytes),
                     " available: ", needed <= memory.available_bytes ? "fits" : "DOES NOT FIT", "\n");
  return text;
}

}  // namespace maxsim::store
