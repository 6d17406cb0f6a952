#include "server/store/collection/collection.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/text.h"
#include "collection/filters/canonical.h"
#include "collection/filters/filter_text.h"
#include "collection/positions.h"
#include "server/store/collection/changes.h"
#include "server/store/collection/filter_cache.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/collection/part_fields.h"
#include "server/store/collection/segment.h"
#include "server/store/collection/slot_masks.h"

namespace maxsim::store {
namespace {

// Counts the ordinals of shards and segments.
uint64_t NumOrdinals(const Generation& generation, const std::vector<Part>& segments) {
  if (segments.empty()) return generation.num_ordinals();
  return segments.back().first_ordinal + static_cast<uint64_t>(segments.back().num_documents());
}

int CodePlanes(const Generation& generation, const std::vector<Part>& segments) {
  int planes = generation.code_planes();
  for (const Part& segment : segments) planes = std::min(planes, segment.code_planes());
  return planes;
}

}  // namespace

Collection::Collection(std::shared_ptr<const Generation> generation)
    : generation_(std::move(generation)),
      num_documents_(static_cast<uint64_t>(generation_->manifest().num_documents)),
      num_tokens_(static_cast<uint64_t>(generation_->manifest().num_tokens)),
      num_ordinals_(num_documents_),
      code_planes_(generation_->code_planes()) {}

Collection::Collection(std::shared_ptr<const Generation> generation, Change change)
    : generation_(std::move(generation)),
      change_(std::move(change)),
      num_documents_(change_.num_documents),
      num_tokens_(change_.num_tokens),
      num_ordinals_(NumOrdinals(*generation_, change_.segments)),
      code_planes_(CodePlanes(*generation_, change_.segments)) {}

size_t Collection::num_tombstones(size_t part_idx) const {
  return is_live() ? change_.changes->NumTombstones(part_idx, sequence()) : 0;
}

std::vector<uint32_t> Collection::tombstones(size_t part_idx, size_t begin) const {
  return is_live() ? change_.changes->Tombstones(part_idx, sequence(), begin) : std::vector<uint32_t>();
}

ScanFilter Collection::scan_filter(size_t part_idx, size_t max_extra) const {
  return change_.changes->Filter(part_idx, part(part_idx), sequence(), max_extra);
}

ScanMask Collection::scan_mask(size_t part_idx) const {
  return change_.changes->Mask(part_idx, part(part_idx), sequence());
}

std::vector<Collection::TierUsage> Collection::tier_usage() const {
  std::map<std::pair<Residency, uint32_t>, TierUsage> usages;
  for (size_t idx = 0; idx < num_parts(); ++idx) {
    const Part& one = part(idx);
    for (const Replica& replica : one.replicas) {
      TierUsage& usage = usages[{one.tier, replica.device}];
      usage.tier = one.tier;
      usage.device = replica.device;
      usage.num_shards += one.shard == nullptr ? 0 : 1;
      usage.token_bytes += static_cast<uint64_t>(one.num_tokens() * RowBytes(storage(), dim()));
      if (one.segment != nullptr) {
        (generation_->on_gpu() ? usage.device_bytes : usage.host_bytes) += one.segment->reserved_bytes();
        continue;
      }
      const MemoryNeed held = replica.documents->memory();
      usage.device_bytes += held.device_bytes;
      usage.host_bytes += held.host_bytes;
      if (replica.codes != nullptr) {
        usage.device_bytes += replica.codes->memory().device_bytes;
        usage.host_bytes += replica.codes->memory().host_bytes;
      }
      // The replicas share the shard's host memory, so it counts only once.
      if (!generation_->on_gpu() && &replica == &one.replicas.front()) {
        usage.host_bytes += static_cast<uint64_t>(one.shard->host_bytes());
        if (one.codes != nullptr) usage.host_bytes += static_cast<uint64_t>(one.codes->host_bytes());
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
  const std::vector<Part>& shards = generation_->parts();
  for (const Residency tier : {Residency::kGpu, Residency::kHost, Residency::kDisk}) {
    const bool used = std::any_of(shards.begin(), shards.end(), [tier](const Part& one) { return one.tier == tier; });
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
  size_t bytes = generation_->index().num_bytes() + generation_->lengths().num_bytes();
  if (is_live()) bytes += change_.changes->num_bytes();
  for (const Part& segment : change_.segments) bytes += segment.segment->host_bytes();
  for (const Part& one : generation_->parts()) {
    if (one.fields != nullptr) bytes += static_cast<size_t>(one.fields->memory_bytes());
  }
  for (size_t idx = 0; idx < num_parts(); ++idx) {
    if (part(idx).slot_masks != nullptr) bytes += static_cast<size_t>(part(idx).slot_masks->memory_bytes());
  }
  if (!generation_->on_gpu()) return bytes;
  for (const Part& one : generation_->parts()) bytes += static_cast<size_t>(one.shard->host_bytes());
  return bytes;
}

uint64_t Collection::num_unavailable(const DeviceSet& devices) const {
  uint64_t count = 0;
  for (size_t idx = 0; idx < num_parts(); ++idx) {
    if (part(idx).IsAvailable(devices)) continue;
    count += static_cast<uint64_t>(part(idx).num_documents()) - num_tombstones(idx);
  }
  return count;
}

void Collection::FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const {
  generation_->index().FindAll(ids, ordinals);
  if (is_live()) change_.changes->Resolve(sequence(), ids, ordinals);
}

void Collection::FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const {
  generation_->index().FindAll(ids, ordinals);
  if (is_live()) change_.changes->Resolve(sequence(), ids, ordinals);
}

std::optional<uint64_t> Collection::Find(std::string_view id) const {
  const std::string owned(id);
  const std::string* const pointer = &owned;
  uint64_t ordinal = IdIndex::kUnknown;
  FindAll(absl::MakeConstSpan(&pointer, 1), absl::MakeSpan(&ordinal, 1));
  return ordinal == IdIndex::kUnknown ? std::nullopt : std::optional(ordinal);
}

std::optional<uint64_t> Collection::Find(int64_t id) const {
  uint64_t ordinal = IdIndex::kUnknown;
  FindAll(absl::MakeConstSpan(&id, 1), absl::MakeSpan(&ordinal, 1));
  return ordinal == IdIndex::kUnknown ? std::nullopt : std::optional(ordinal);
}

absl::StatusOr<std::shared_ptr<const MatchingDocuments>> Collection::FindMatching(const collection::Filter& filter,
                                                                                  const StopCheck& check) const {
  const absl::StatusOr<collection::Filter> canonical =
      collection::CanonicalFilter(filter, manifest().fields, manifest().slots());
  if (!canonical.ok()) return canonical.status();
  return FindCanonical(*canonical, FilterUse::kRepeated, check);
}

absl::StatusOr<std::shared_ptr<const MatchingDocuments>> Collection::FindCanonical(const collection::Filter& filter,
                                                                                   FilterUse use,
                                                                                   const StopCheck& check) const {
  FilterCache* const cache = generation_->filter_cache();
  if (cache == nullptr || use == FilterUse::kOnce) return MatchingDocuments::Find(*this, filter, nullptr, check);
  const std::string text = collection::FormatFilter(filter);
  std::shared_ptr<const MatchingDocuments> known = cache->Find(generation_->number_in_filter_cache(), text);
  if (known != nullptr && known->sequence() == sequence()) return known;
  absl::StatusOr<std::shared_ptr<const MatchingDocuments>> found =
      MatchingDocuments::Find(*this, filter, known.get(), check);
  if (found.ok()) cache->Add(generation_->number_in_filter_cache(), text, *found);
  return found;
}

absl::StatusOr<uint64_t> Collection::CountInSlots(const collection::SlotRange& slots, const StopCheck& check) const {
  uint64_t count = 0;
  for (size_t idx = 0; idx < num_parts(); ++idx) {
    const Part& counted = part(idx);
    const auto num_documents = static_cast<size_t>(counted.num_documents());
    const absl::StatusOr<SlotMask> found = counted.slot_masks != nullptr
                                               ? counted.slot_masks->Find(counted, slots, check)
                                               : SlotMasks().Find(counted, slots, check);
    if (!found.ok()) return found.status();
    const std::vector<uint64_t>& mask = **found;
    for (size_t word = 0; word < num_documents / 64; ++word) count += static_cast<uint64_t>(std::popcount(mask[word]));
    if (const size_t rest = num_documents % 64; rest != 0) {
      count += static_cast<uint64_t>(std::popcount(mask[num_documents / 64] & ((uint64_t{1} << rest) - 1)));
    }
    if (num_tombstones(idx) == 0) continue;
    for (const uint32_t ordinal : tombstones(idx, 0)) {
      if (ordinal < num_documents) count -= mask[ordinal / 64] >> (ordinal % 64) & 1;
    }
  }
  return count;
}

Location Collection::Locate(uint64_t ordinal) const { return generation_->Locate(ordinal, change_.segments); }

std::string_view Collection::string_id(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  const Part& holder = part(location.part);
  return holder.shard != nullptr ? holder.shard->string_id(location.ordinal)
                                 : holder.segment->string_id(location.ordinal);
}

int64_t Collection::int_id(uint64_t ordinal) const {
  if (ordinal < generation_->num_ordinals()) return generation_->index().int_id(ordinal);
  const Location location = Locate(ordinal);
  return part(location.part).segment->int_id(location.ordinal);
}

std::string_view Collection::payload(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  const Part& holder = part(location.part);
  return holder.shard != nullptr ? holder.shard->payload(location.ordinal) : holder.segment->payload(location.ordinal);
}

int64_t Collection::num_document_tokens(uint64_t ordinal) const {
  if (ordinal < generation_->num_ordinals()) return generation_->lengths().Of(ordinal);
  const Location location = Locate(ordinal);
  return part(location.part).segment->document_tokens(location.ordinal);
}

uint64_t Collection::position(uint64_t ordinal) const {
  if (!is_partition()) return ordinal;
  const Location location = Locate(ordinal);
  const Part& holder = part(location.part);
  return static_cast<uint64_t>(holder.shard != nullptr
                                   ? holder.shard->ordinals()[location.ordinal]
                                   : collection::PositionOfWrite(holder.segment->sequence(location.ordinal)));
}

uint64_t Collection::num_tokens(absl::Span<const uint64_t> ordinals) const {
  if (change_.segments.empty()) return generation_->lengths().Sum(ordinals);
  uint64_t sum = 0;
  for (const uint64_t ordinal : ordinals) sum += static_cast<uint64_t>(num_document_tokens(ordinal));
  return sum;
}

uint64_t Collection::num_tokens(const Part& part, absl::Span<const uint32_t> ordinals) const {
  if (part.segment == nullptr) return generation_->lengths().Sum(part.first_ordinal, ordinals);
  uint64_t sum = 0;
  for (const uint32_t ordinal : ordinals) sum += static_cast<uint64_t>(part.segment->document_tokens(ordinal));
  return sum;
}

absl::StatusOr<Collection::StoredDocument> Collection::ReadDocument(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  const Part& holder = part(location.part);
  StoredDocument document;
  if (storage() == ScalarType::kI8) document.scale = holder.view.scales[location.ordinal];
  document.codebook = holder.view.codebook;
  if (holder.shard != nullptr) {
    absl::StatusOr<std::vector<std::byte>> rows = holder.shard->ReadDocument(location.ordinal);
    if (!rows.ok()) return rows.status();
    document.rows = *std::move(rows);
    return document;
  }
  const int64_t first_token = holder.view.offsets[location.ordinal];
  const int64_t num_tokens = holder.view.offsets[location.ordinal + 1] - first_token;
  document.rows.resize(static_cast<size_t>(num_tokens * RowBytes(storage(), dim())));
  if (absl::Status status = holder.segment->ReadRows(first_token, num_tokens, document.rows.data()); !status.ok()) {
    return status;
  }
  return document;
}

uint64_t Collection::sequence_of(uint64_t ordinal) const {
  const Location location = Locate(ordinal);
  const Part& holder = part(location.part);
  return holder.segment == nullptr ? 0 : holder.segment->sequence(location.ordinal);
}

}  // namespace maxsim::store
