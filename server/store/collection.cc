#include "server/store/collection.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "server/store/parts.h"

namespace maxsim::store {

namespace {

std::vector<DocumentsView> ViewsOf(const std::vector<Collection::Part>& parts) {
  std::vector<DocumentsView> views;
  views.reserve(parts.size());
  for (const Collection::Part& part : parts) views.push_back(part.shard->documents());
  return views;
}

std::vector<uint64_t> FirstOrdinals(const std::vector<Collection::Part>& parts) {
  std::vector<uint64_t> ordinals;
  ordinals.reserve(parts.size());
  for (const Collection::Part& part : parts) ordinals.push_back(part.first_ordinal);
  return ordinals;
}

bool AllIn(Residency tier, const std::vector<Collection::Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Collection::Part& part) { return part.tier == tier; });
}

}  // namespace

Collection::Collection(Contents contents)
    : contents_(std::move(contents)),
      is_resident_(AllIn(contents_.on_gpu ? Residency::kGpu : Residency::kHost, contents_.parts)),
      first_ordinals_(FirstOrdinals(contents_.parts)),
      lengths_(ViewsOf(contents_.parts)) {}

const Documents* Collection::Part::DocumentsOn(uint32_t device) const {
  for (const Replica& replica : replicas) {
    if (replica.device == device) return replica.documents.get();
  }
  return nullptr;
}

bool Collection::Part::IsAvailable(const DeviceSet& devices) const {
  return std::any_of(replicas.begin(), replicas.end(),
                     [&](const Replica& replica) { return devices.alive(replica.device); });
}

std::vector<Collection::TierUsage> Collection::tier_usage() const {
  std::map<std::pair<Residency, uint32_t>, TierUsage> usages;
  for (const Part& part : parts()) {
    for (const Replica& replica : part.replicas) {
      TierUsage& usage = usages[{part.tier, replica.device}];
      usage.tier = part.tier;
      usage.device = replica.device;
      usage.num_shards += 1;
      usage.token_bytes += static_cast<uint64_t>(part.num_tokens()) * static_cast<uint64_t>(dim()) * SizeOf(storage());
      const MemoryNeed held = replica.documents->memory();
      usage.device_bytes += held.device_bytes;
      usage.host_bytes += held.host_bytes;
      // Copies usage it, so that it counts once.
      if (!contents_.on_gpu && &replica == &part.replicas.front()) {
        usage.host_bytes += static_cast<uint64_t>(part.shard->host_bytes());
      }
    }
  }
  std::vector<TierUsage> result;
  result.reserve(usages.size());
  for (const auto& [tier_and_device, usage] : usages) result.push_back(usage);
  return result;
}

std::string Collection::tiers() const {
  std::string text;
  for (const Residency tier : {Residency::kGpu, Residency::kHost, Residency::kDisk}) {
    const bool used =
        std::any_of(parts().begin(), parts().end(), [tier](const Part& part) { return part.tier == tier; });
    if (used) text += Cat(text.empty() ? "" : "+", Name(tier));
  }
  return text.empty() ? std::string(Name(Residency::kAuto)) : text;
}

size_t Collection::resident_bytes() const {
  size_t bytes = 0;
  for (const TierUsage& usage : tier_usage()) bytes += usage.resident_bytes();
  return bytes;
}

size_t Collection::index_bytes() const {
  size_t bytes = contents_.index.num_bytes() + lengths_.num_bytes();
  if (!contents_.on_gpu) return bytes;
  for (const Part& part : parts()) bytes += static_cast<size_t>(part.shard->host_bytes());
  return bytes;
}

uint64_t Collection::num_unavailable(const DeviceSet& devices) const {
  uint64_t count = 0;
  for (const Part& part : parts()) {
    if (!part.IsAvailable(devices)) count += static_cast<uint64_t>(part.num_documents());
  }
  return count;
}

absl::Status Collection::Check() const {
  for (const Part& part : parts()) {
    if (absl::Status status = part.shard->Check(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Collection::Location Collection::Locate(uint64_t ordinal) const {
  const size_t part = PartOf(first_ordinals_, ordinal);
  return {static_cast<uint32_t>(part), static_cast<uint32_t>(ordinal - first_ordinals_[part])};
}

std::string_view Collection::string_id(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  return parts()[location.part].shard->string_id(location.ordinal);
}

std::string_view Collection::payload(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  return parts()[location.part].shard->payload(location.ordinal);
}

}  // namespace maxsim::store
