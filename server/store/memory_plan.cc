#include "server/store/memory_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/saturating.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/filters/field_index.h"
#include "kernels/codes/code_layout.h"
#include "kernels/codes/scan_cost.h"
#include "server/store/collection/id_index.h"

namespace maxsim::store {
namespace {

// Returns FormatCount of a sum that may have been clamped to the largest uint64_t.
std::string FormatTotal(uint64_t bytes) {
  return FormatCount(static_cast<int64_t>(std::min<uint64_t>(bytes, std::numeric_limits<int64_t>::max())));
}

// Returns the bytes of the id index and of the documents' lengths.
uint64_t IndexBytes(uint64_t num_documents) {
  return SaturatingAdd(IdIndex::NumBytes(num_documents), DocumentLengths::NumBytes(num_documents));
}

// Returns the tiers that a shard may go to, best first.
absl::StatusOr<std::vector<Residency>> TiersFor(const DeviceSet& devices, Residency residency) {
  if (residency == Residency::kGpu && !devices.is_gpu()) {
    return absl::FailedPreconditionError(
        "residency \"gpu\" needs the CUDA backend and this server runs the CPU backend; use \"auto\", \"host\" or "
        "\"disk\"");
  }
  if (residency != Residency::kAuto) return std::vector<Residency>{residency};
  if (!devices.is_gpu()) return std::vector<Residency>{Residency::kHost, Residency::kDisk};
  return std::vector<Residency>{Residency::kGpu, Residency::kHost, Residency::kDisk};
}

bool IsReplicated(const DeviceSet& devices, const collection::Manifest& manifest, Residency best, int code_planes,
                  Replication replication, uint64_t below_bytes) {
  if (devices.num_alive() < 2 || replication == Replication::kOff) return false;
  if (replication == Replication::kOn) return true;
  const MemoryNeed need = CollectionNeed(devices, manifest, best, code_planes);
  return SaturatingAdd(need.device_bytes, need.host_bytes) < below_bytes;
}

// Returns the bytes of ids, offsets and payloads of all shards.
uint64_t BytesBeside(const collection::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const collection::ShardEntry& entry : manifest.shards) {
    bytes = SaturatingAdd(bytes, static_cast<uint64_t>(collection::BytesBesideTokens(manifest, entry)));
  }
  return bytes;
}

// Returns the bytes of the indexes of fields of all shards.
uint64_t AllFieldIndexBytes(const collection::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const collection::ShardEntry& entry : manifest.shards) {
    bytes = SaturatingAdd(bytes, FieldIndexBytes(manifest, entry));
  }
  return bytes;
}

// Returns how much memory the files of a shard's codes take on the CPU backend, which scans codes in place. For kHost
// this is the size of the files. For kDisk it is their size without the planes and factors.
uint64_t OwnCodeBytes(const collection::Manifest& manifest, const collection::ShardEntry& entry, Residency tier,
                      int planes) {
  const auto bytes = static_cast<uint64_t>(std::max<int64_t>(collection::CodeFileBytes(entry, planes), 0));
  if (tier == Residency::kHost) return bytes;
  const uint64_t row_bytes = CodeBytes(manifest.dim, planes) + (manifest.codes->factors ? 1 : 0);
  return bytes - std::min(bytes, static_cast<uint64_t>(std::max<int64_t>(entry.num_tokens, 0)) * row_bytes);
}

// Returns the numbers of planes of codes (bits per value) that a load may try, in descending order. The last one is 0.
std::vector<int> PlanesToTry(const collection::Manifest& manifest, int max_planes) {
  std::vector<int> planes;
  for (const int count : {4, 2, 1}) {
    if (manifest.codes.has_value() && count <= std::min(manifest.codes->planes, max_planes)) planes.push_back(count);
  }
  planes.push_back(0);
  return planes;
}

// Returns `capacity` minus the memory that each device must still reserve to scan the largest shard's codes.
Capacity WithoutScans(Capacity capacity, const DeviceSet& devices, const collection::Manifest& manifest, int planes,
                      const MemoryLedger::Memory& memory) {
  uint64_t scan_bytes = 0;
  for (const collection::ShardEntry& entry : manifest.shards) {
    scan_bytes = std::max(scan_bytes, ScanNeed(devices, manifest, entry, planes));
  }
  for (size_t device = 0; device < capacity.device_bytes.size(); ++device) {
    std::optional<uint64_t>& bytes = capacity.device_bytes[device];
    if (!bytes.has_value()) continue;
    *bytes -= std::min(*bytes, scan_bytes - std::min(scan_bytes, memory.devices[device].scan_bytes));
  }
  return capacity;
}

// Returns MemoryDemand::scan_bytes for the shards in the given placement.
std::vector<uint64_t> ScanDemand(const DeviceSet& devices, const collection::Manifest& manifest, int planes,
                                 const Placement& placement) {
  std::vector<uint64_t> scan_bytes(devices.size());
  for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
    const uint64_t need = ScanNeed(devices, manifest, manifest.shards[idx], planes);
    for (const uint32_t device : placement.shards[idx].devices) scan_bytes[device] = std::max(scan_bytes[device], need);
  }
  return scan_bytes;
}

std::string MemoryLine(std::string_view name, uint64_t needed, const MemoryLedger::Availability& memory) {
  if (!memory.status.ok()) return Cat("  ", name, ": lost: ", std::string(memory.status.message()), "\n");
  return Cat("  ", name, ": needs ", FormatBytesExactly(needed), " of ", FormatBytesExactly(memory.available_bytes),
             " available (budget ",
             memory.budget_bytes == 0 ? std::string("none") : FormatBytesExactly(memory.budget_bytes),
             ", held by collections ", FormatBytesExactly(memory.held_bytes), ", free ",
             FormatBytesExactly(memory.free_bytes), ", kept free ", FormatBytesExactly(memory.reserve_bytes),
             "): ", needed <= memory.available_bytes ? "fits" : "DOES NOT FIT", "\n");
}

// Holds one row of the table.
struct Row {
  std::string shard;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  uint64_t file_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
  std::string tier = {};
  std::string device = {};
};

std::string FormatRows(const std::vector<Row>& rows, bool is_gpu, size_t hidden) {
  size_t width = sizeof("shard");
  for (const Row& row : rows) width = std::max(width, row.shard.size());
  const auto file_width = static_cast<int>(width);
  std::string text = absl::StrFormat("  %-*s  %15s  %19s  %21s  %21s", file_width, "shard", "documents", "tokens",
                                     "file bytes", is_gpu ? "device bytes" : "memory bytes");
  if (is_gpu) absl::StrAppendFormat(&text, "  %21s", "pinned bytes");
  text += is_gpu ? "  tier  device\n" : "  tier\n";
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    const Row& row = rows[idx];
    if (idx + 1 == rows.size() && hidden > 0) text += Cat("  and ", hidden, " more shards\n");
    absl::StrAppendFormat(&text, "  %-*s  %15s  %19s  %21s  %21s", file_width, row.shard,
                          FormatCount(row.num_documents), FormatCount(row.num_tokens), FormatTotal(row.file_bytes),
                          FormatTotal(row.device_bytes));
    if (is_gpu) absl::StrAppendFormat(&text, "  %21s", FormatTotal(row.host_bytes));
    if (!row.tier.empty()) text += Cat("  ", row.tier, is_gpu ? Cat("  ", row.device) : std::string());
    text += "\n";
  }
  return text;
}

// Returns the expected seconds of a scan of all codes for one query, if all devices scan in parallel. Returns nullopt
// if there are no codes, if the device's speed is not known, or if the plan covers only some of the shards, because a
// reload keeps the others.
std::optional<double> ScanSeconds(const DeviceSet& devices, const collection::Manifest& manifest,
                                  const MemoryPlan& plan) {
  if (plan.code_planes == 0) return std::nullopt;
  std::vector<ScanSize> sizes(devices.size(), {.num_parts = 0});
  for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
    // If a shard is copied to several devices, only one of them scans it. So the shard counts for the first device
    // only.
    ScanSize& size = sizes[plan.placement.shards[idx].devices.front()];
    ++size.num_parts;
    size.num_documents += manifest.shards[idx].num_documents;
    size.num_tokens += manifest.shards[idx].num_tokens;
  }
  int64_t num_documents = 0;
  for (const ScanSize& size : sizes) num_documents += size.num_documents;
  if (num_documents != manifest.num_documents || num_documents == 0) return std::nullopt;
  double longest = 0;
  for (size_t device = 0; device < sizes.size(); ++device) {
    if (sizes[device].num_parts == 0) continue;
    const std::optional<double> seconds = ExpectedScanSeconds(
        devices.backend(device).info(), collection::CodeShapeOf(manifest), plan.code_planes, sizes[device]);
    if (!seconds.has_value()) return std::nullopt;
    longest = std::max(longest, *seconds);
  }
  return longest;
}

std::string DeviceNumbers(const DeviceSet& devices, const std::vector<uint32_t>& indices) {
  return absl::StrJoin(indices, ",",
                       [&](std::string* out, uint32_t device) { absl::StrAppend(out, devices.number(device)); });
}

}  // namespace

bool MemoryPlan::fits() const {
  for (size_t device = 0; device < placement.demand.device_bytes.size(); ++device) {
    if (memory.Needed(placement.demand, device) > memory.devices[device].available_bytes) return false;
  }
  return placement.demand.host_bytes <= memory.host.available_bytes;
}

uint64_t FieldIndexBytes(const collection::Manifest& manifest, const collection::ShardEntry& entry) {
  if (manifest.fields.empty()) return 0;
  // A manifest may have wrong numbers. No real shard exceeds this limit.
  constexpr auto kMost = int64_t{1} << 56;
  return static_cast<uint64_t>(
      collection::MaxIndexBytes(manifest.fields, std::clamp<int64_t>(entry.num_documents, 0, kMost),
                                std::clamp<int64_t>(collection::FieldFileBytes(entry), 0, kMost)));
}

MemoryNeed ShardNeed(const DeviceSet& devices, const collection::Manifest& manifest,
                     const collection::ShardEntry& entry, Residency tier, int code_planes) {
  MemoryNeed need = devices.backend(0).BytesNeeded(manifest.storage, manifest.dim, entry.num_documents,
                                                   entry.num_tokens, TierOf(tier));
  if (devices.is_gpu()) {
    if (IsResidual(manifest.storage)) {
      const MemoryNeed codebook =
          devices.backend(0).CodebookBytesNeeded(manifest.storage, manifest.dim, manifest.num_centroids);
      need.device_bytes = SaturatingAdd(need.device_bytes, codebook.device_bytes);
      need.host_bytes = SaturatingAdd(need.host_bytes, codebook.host_bytes);
    }
    if (code_planes == 0) return need;
    const MemoryNeed codes = devices.backend(0).CodeBytesNeeded(collection::CodeShapeOf(manifest), code_planes,
                                                                entry.num_documents, entry.num_tokens);
    need.device_bytes = SaturatingAdd(need.device_bytes, codes.device_bytes);
    need.host_bytes = SaturatingAdd(need.host_bytes, codes.host_bytes);
    return need;
  }
  // The CPU backend scores documents where the shard already has them in memory, so the shard's bytes count as device
  // memory.
  const int64_t own = tier == Residency::kHost ? entry.num_bytes : collection::BytesBesideTokens(manifest, entry);
  need.device_bytes = SaturatingAdd(need.device_bytes, static_cast<uint64_t>(own));
  need.device_bytes = SaturatingAdd(need.device_bytes, FieldIndexBytes(manifest, entry));
  if (code_planes > 0) {
    need.device_bytes = SaturatingAdd(need.device_bytes, OwnCodeBytes(manifest, entry, tier, code_planes));
  }
  return need;
}

uint64_t ScanNeed(const DeviceSet& devices, const collection::Manifest& manifest, const collection::ShardEntry& entry,
                  int code_planes) {
  if (code_planes == 0) return 0;
  return devices.ScanBytesNeeded(collection::CodeShapeOf(manifest), entry.num_documents);
}

MemoryNeed CollectionNeed(const DeviceSet& devices, const collection::Manifest& manifest, Residency tier,
                          int code_planes) {
  MemoryNeed all;
  for (const collection::ShardEntry& entry : manifest.shards) {
    const MemoryNeed need = ShardNeed(devices, manifest, entry, tier, code_planes);
    all.device_bytes = SaturatingAdd(all.device_bytes, need.device_bytes);
    all.host_bytes = SaturatingAdd(all.host_bytes, need.host_bytes);
  }
  return all;
}

absl::StatusOr<MemoryPlan> PlanMemory(const DeviceSet& devices, const collection::Manifest& manifest,
                                      Residency residency, Replication replication, const StoreOptions& options,
                                      MemoryLedger::Memory memory) {
  if (manifest.dim > options.max_dim) {
    return absl::FailedPreconditionError(Cat("dimension ", manifest.dim, " of collection ", manifest.name,
                                             " is beyond engine.max_dim, which is ", options.max_dim));
  }
  const absl::StatusOr<std::vector<Residency>> tiers = TiersFor(devices, residency);
  if (!tiers.ok()) return tiers.status();
  Capacity capacity{.device_bytes = {}, .host_bytes = memory.host.available_bytes};
  if (memory.host.budget_bytes == 0) {
    // Ids, offsets, payloads and the id index are in the same memory as the tokens.
    const uint64_t beside_bytes =
        SaturatingAdd(BytesBeside(manifest), IndexBytes(static_cast<uint64_t>(manifest.num_documents)));
    capacity.host_bytes -= std::min(capacity.host_bytes, beside_bytes);
  }
  const uint64_t field_bytes = devices.is_gpu() ? AllFieldIndexBytes(manifest) : 0;
  capacity.host_bytes -= std::min(capacity.host_bytes, field_bytes);
  absl::Status lost;
  for (const MemoryLedger::Availability& device : memory.devices) {
    lost.Update(device.status);
    capacity.device_bytes.push_back(device.status.ok() ? std::optional(device.available_bytes) : std::nullopt);
  }
  const bool any = std::any_of(memory.devices.begin(), memory.devices.end(),
                               [](const MemoryLedger::Availability& device) { return device.status.ok(); });
  if (!any) return lost;

  MemoryPlan plan;
  plan.memory = std::move(memory);
  for (const int planes : PlanesToTry(manifest, options.max_code_planes)) {
    std::vector<ShardToPlace> shards;
    shards.reserve(manifest.shards.size());
    for (const collection::ShardEntry& entry : manifest.shards) {
      ShardToPlace& shard = shards.emplace_back();
      shard.token_bytes = static_cast<uint64_t>(std::max<int64_t>(entry.num_tokens, 0)) *
                          static_cast<uint64_t>(RowBytes(manifest.storage, manifest.dim));
      for (const Residency tier : *tiers) {
        shard.choices.push_back({tier, ShardNeed(devices, manifest, entry, tier, planes)});
      }
    }
    plan.code_planes = planes;
    plan.replicated =
        IsReplicated(devices, manifest, tiers->front(), planes, replication, options.replicate_below_bytes);
    plan.placement =
        PlaceShards(shards, WithoutScans(capacity, devices, manifest, planes, plan.memory), plan.replicated);
    plan.placement.demand.scan_bytes = ScanDemand(devices, manifest, planes, plan.placement);
    plan.placement.demand.host_bytes = SaturatingAdd(plan.placement.demand.host_bytes, field_bytes);
    if (plan.fits()) break;
  }
  return plan;
}

std::string FormatMemoryPlan(const DeviceSet& devices, const collection::Manifest& manifest, const MemoryPlan& plan,
                             size_t max_shards) {
  std::vector<Row> rows;
  Row total{.shard = "total", .num_documents = manifest.num_documents, .num_tokens = manifest.num_tokens};
  for (size_t idx = 0; idx < manifest.shards.size(); ++idx) {
    const collection::ShardEntry& entry = manifest.shards[idx];
    const ShardPlacement& placement = plan.placement.shards[idx];
    const auto num_replicas = static_cast<uint64_t>(placement.devices.size());
    total.file_bytes = SaturatingAdd(total.file_bytes, static_cast<uint64_t>(entry.num_bytes));
    if (idx >= max_shards) continue;
    rows.push_back({entry.file, entry.num_documents, entry.num_tokens, static_cast<uint64_t>(entry.num_bytes),
                    placement.tier.need.device_bytes * num_replicas, placement.tier.need.host_bytes * num_replicas,
                    std::string(Name(placement.tier.tier)), DeviceNumbers(devices, placement.devices)});
  }
  const MemoryDemand& demand = plan.placement.demand;
  for (const uint64_t bytes : demand.device_bytes) total.device_bytes = SaturatingAdd(total.device_bytes, bytes);
  total.host_bytes = demand.host_bytes;
  rows.push_back(std::move(total));

  std::string text = absl::StrFormat("collection %s, generation %d: %s documents, %s tokens of %d x %s, %d %s%s\n",
                                     manifest.name, manifest.generation, FormatCount(manifest.num_documents),
                                     FormatCount(manifest.num_tokens), manifest.dim, Name(manifest.storage),
                                     manifest.shards.size(), manifest.shards.size() == 1 ? "shard" : "shards",
                                     plan.replicated ? ", each on every device" : "");
  if (manifest.codes.has_value()) {
    text += Cat("  with ", plan.code_planes, " of ", manifest.codes->planes, " planes of codes\n");
    if (const std::optional<double> seconds = ScanSeconds(devices, manifest, plan); seconds.has_value()) {
      const double ms = *seconds * 1e3;
      absl::StrAppendFormat(&text, "  a scan of the codes for one query of 32 tokens: about %.*f ms\n", ms < 10 ? 1 : 0,
                            ms);
    }
  }
  text += FormatRows(rows, devices.is_gpu(), manifest.shards.size() - (rows.size() - 1));
  if (devices.is_gpu()) {
    text += Cat("  ids, offsets and payloads (host memory, outside the budget): ",
                FormatBytesExactly(BytesBeside(manifest)), "\n");
  }
  if (!manifest.fields.empty()) {
    text +=
        Cat("  indexes of ", manifest.fields.size(), manifest.fields.size() == 1 ? " field" : " fields",
            devices.is_gpu() ? " (host memory, within the budget of pinned memory): " : " (within the bytes above): ",
            FormatBytesExactly(AllFieldIndexBytes(manifest)), "\n");
  }
  text += Cat("  id index and lengths (host memory, outside the budget): ",
              FormatBytesExactly(IndexBytes(static_cast<uint64_t>(manifest.num_documents))), "\n");
  const uint64_t scan_bytes = *std::max_element(demand.scan_bytes.begin(), demand.scan_bytes.end());
  if (scan_bytes > 0) {
    text += Cat("  scans of codes by ", devices.num_lanes(), devices.num_lanes() == 1 ? " lane" : " lanes",
                " (device memory, which all collections share): ", FormatBytesExactly(scan_bytes),
                devices.size() == 1 ? "" : " on a device", "\n");
  }
  for (size_t device = 0; device < devices.size(); ++device) {
    const std::string name = Cat(devices.backend(device).info().name, " memory",
                                 devices.size() == 1 ? std::string() : Cat(" of device ", devices.number(device)));
    text += MemoryLine(name, plan.memory.Needed(demand, device), plan.memory.devices[device]);
  }
  if (devices.is_gpu()) text += MemoryLine("pinned host memory", demand.host_bytes, plan.memory.host);
  return text;
}

}  // namespace maxsim::store
