#include "server/store/collection/changes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "server/store/collection/id_hash.h"
#include "server/store/collection/id_index.h"

namespace maxsim::store {
namespace {

constexpr uint64_t kNoDocument = IdIndex::kUnknown;  // the ordinal of a delete
constexpr size_t kFirstTableSlots = 1024;
// The number of ids that are looked up together, so that their hash-table slots are fetched from memory at the same
// time.
constexpr size_t kResolveBatch = 32;

template <typename Id>
Id IdOf(const collection::LogRecord& record) {
  if constexpr (std::is_same_v<Id, int64_t>) {
    return record.int_id;
  } else {
    return record.string_id;
  }
}

bool HasStringIds(const Generation& generation) { return generation.manifest().id_type == collection::IdType::kString; }

}  // namespace

// A write of an id. The entries of an id form a chain from the newest to the oldest write.
struct Changes::Entry {
  uint64_t sequence = 0;
  uint64_t ordinal = kNoDocument;  // in the collection; kNoDocument for a delete
  uint64_t hash = 0;
  const Entry* older = nullptr;
  int64_t int_id = 0;               // collections with int64 ids
  std::string_view string_id = {};  // the id in a collection with string ids; views an element of ids_

  template <typename Id>
  Id id() const {
    if constexpr (std::is_same_v<Id, int64_t>) {
      return int_id;
    } else {
      return string_id;
    }
  }
};

// A hash table with open addressing and linear probing. At most half of its slots are used.
struct Changes::Table {
  explicit Table(size_t size)
      : num_slots(size),
        shift(64 - std::countr_zero(size)),
        slots(std::make_unique<std::atomic<const Entry*>[]>(size)) {}

  const size_t num_slots;  // a power of two
  const int shift;
  const std::unique_ptr<std::atomic<const Entry*>[]> slots;

  // Uses the high bits of the hash, because all ids of a partition may agree in the low bits, which choose the
  // partition (collection/slots.h).
  size_t Home(uint64_t hash) const { return static_cast<size_t>(hash >> shift); }

  // Returns the id's slot, or the empty slot where the id would be stored.
  template <typename Id>
  std::atomic<const Entry*>& SlotOf(Id id, uint64_t hash) const {
    for (size_t idx = Home(hash);; idx = (idx + 1) & (num_slots - 1)) {
      const Entry* const entry = slots[idx].load(std::memory_order_acquire);
      if (entry == nullptr || (entry->hash == hash && entry->id<Id>() == id)) return slots[idx];
    }
  }
};

Changes::Changes(std::shared_ptr<const Generation> generation)
    : generation_(std::move(generation)),
      touched_(std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(generation_->num_ordinals() / 64 + 1))),
      num_documents_(generation_->num_ordinals()),
      num_tokens_(static_cast<uint64_t>(generation_->manifest().num_tokens)) {
  tables_.push_back(std::make_unique<Table>(kFirstTableSlots));
  table_.store(tables_.back().get(), std::memory_order_release);
  for (size_t part_idx = 0; part_idx < generation_->parts().size(); ++part_idx) {
    const Part& part = generation_->parts()[part_idx];
    shard_tombstones_.push_back(std::make_unique<PartTombstones>());
    if (part_idx >= generation_->tombstones().size()) continue;
    for (const uint32_t ordinal : generation_->tombstones()[part_idx]) {
      shard_tombstones_.back()->list.Append({.sequence = 0, .ordinal = ordinal});
      --num_documents_;
      num_tokens_ -= static_cast<uint64_t>(part.view.offsets[ordinal + 1] - part.view.offsets[ordinal]);
      ++num_tombstones_;
    }
  }
}

Changes::~Changes() = default;

void Changes::AddSegment(std::shared_ptr<Segment> segment) {
  uint64_t first_ordinal = generation_->num_ordinals();
  if (const size_t count = segments_.size(); count > 0) {
    const SegmentEntry& last = segments_[count - 1];
    first_ordinal = last.first_ordinal + static_cast<uint64_t>(last.segment->num_documents());
  }
  segments_.Append({.segment = std::move(segment),
                    .first_ordinal = first_ordinal,
                    .tombstones = std::make_unique<PartTombstones>(),
                    .part = {}});
}

const Changes::PartTombstones& Changes::TombstonesOf(size_t part_idx) const {
  const size_t num_shards = shard_tombstones_.size();
  return part_idx < num_shards ? *shard_tombstones_[part_idx] : *segments_[part_idx - num_shards].tombstones;
}

Changes::PartTombstones& Changes::TombstonesOf(size_t part_idx) {
  return const_cast<PartTombstones&>(std::as_const(*this).TombstonesOf(part_idx));
}

// Allocates the memory that Bury needs.
void Changes::ReserveTombstone(uint64_t ordinal) {
  TombstonesOf(generation_->Locate(ordinal, segments_).part).list.Reserve();
}

void Changes::Bury(uint64_t sequence, uint64_t ordinal) {
  const Location location = generation_->Locate(ordinal, segments_);
  TombstonesOf(location.part).list.Append({.sequence = sequence, .ordinal = location.ordinal});
  const size_t num_shards = shard_tombstones_.size();
  const bool in_shard = location.part < num_shards;
  int64_t num_tokens = 0;
  if (in_shard) {
    const DocumentsView& view = generation_->parts()[location.part].view;
    num_tokens = view.offsets[location.ordinal + 1] - view.offsets[location.ordinal];
    touched_[ordinal / 64].fetch_or(uint64_t{1} << (ordinal % 64), std::memory_order_release);
  } else {
    num_tokens = segments_[location.part - num_shards].segment->document_tokens(location.ordinal);
    --num_changed_;
  }
  --num_documents_;
  num_tokens_ -= static_cast<uint64_t>(num_tokens);
  ++num_tombstones_;
}

template <typename Id>
const Changes::Entry* Changes::NewestOf(Id id) const {
  return tables_.back()->SlotOf(id, HashOfId(id)).load(std::memory_order_relaxed);
}

template <typename Id>
std::optional<uint64_t> Changes::FindNow(Id id) const {
  if (const Entry* const entry = NewestOf(id); entry != nullptr) {
    return entry->ordinal == kNoDocument ? std::nullopt : std::optional(entry->ordinal);
  }
  return generation_->index().Find(id);
}

bool Changes::Holds(const collection::LogRecord& record) const {
  return HasStringIds(*generation_) ? FindNow(record.string_id).has_value() : FindNow(record.int_id).has_value();
}

void Changes::Grow() {
  const Table& old = *tables_.back();
  auto larger = std::make_unique<Table>(old.num_slots * 2);
  for (size_t idx = 0; idx < old.num_slots; ++idx) {
    const Entry* const entry = old.slots[idx].load(std::memory_order_relaxed);
    if (entry == nullptr) continue;
    size_t slot = larger->Home(entry->hash);
    while (larger->slots[slot].load(std::memory_order_relaxed) != nullptr) slot = (slot + 1) & (larger->num_slots - 1);
    larger->slots[slot].store(entry, std::memory_order_relaxed);
  }
  tables_.push_back(std::move(larger));
  table_.store(tables_.back().get(), std::memory_order_release);
}

template <typename Id>
void Changes::Add(Id id, uint64_t sequence, uint64_t ordinal) {
  if (2 * (num_ids_ + 1) > tables_.back()->num_slots) Grow();
  const uint64_t hash = HashOfId(id);
  std::atomic<const Entry*>& slot = tables_.back()->SlotOf(id, hash);
  const Entry* const older = slot.load(std::memory_order_relaxed);
  Entry entry{.sequence = sequence, .ordinal = ordinal, .hash = hash, .older = older};
  if constexpr (std::is_same_v<Id, int64_t>) {
    entry.int_id = id;
  } else {
    entry.string_id = older != nullptr ? older->string_id : std::string_view(ids_.Append(std::string(id)));
    if (older == nullptr) id_bytes_.fetch_add(sizeof(std::string) + id.size(), std::memory_order_relaxed);
  }
  slot.store(&entries_.Append(entry), std::memory_order_release);
  if (older == nullptr) ++num_ids_;
}

void Changes::Upsert(const collection::LogRecord& record, size_t segment_idx, uint32_t ordinal) {
  const auto upsert = [&](auto id) {
    const std::optional<uint64_t> replaced = FindNow(id);
    if (replaced.has_value()) ReserveTombstone(*replaced);
    Add(id, record.sequence, segments_[segment_idx].first_ordinal + ordinal);
    ++num_documents_;
    ++num_changed_;
    num_tokens_ += static_cast<uint64_t>(record.num_tokens);
    if (replaced.has_value()) Bury(record.sequence, *replaced);
  };
  if (HasStringIds(*generation_)) {
    upsert(record.string_id);
  } else {
    upsert(record.int_id);
  }
}

void Changes::Delete(const collection::LogRecord& record) {
  const auto remove = [&](auto id) {
    const std::optional<uint64_t> deleted = FindNow(id);
    if (!deleted.has_value()) return;
    ReserveTombstone(*deleted);
    Add(id, record.sequence, kNoDocument);
    Bury(record.sequence, *deleted);
  };
  if (HasStringIds(*generation_)) {
    remove(record.string_id);
  } else {
    remove(record.int_id);
  }
}

std::shared_ptr<const Collection> Changes::Snapshot(uint64_t sequence) {
  Collection::Change change{.changes = shared_from_this(),
                            .sequence = sequence,
                            .num_documents = num_documents_,
                            .num_tokens = num_tokens_,
                            .segments = {}};
  for (size_t idx = 0; idx < segments_.size(); ++idx) {
    SegmentEntry& entry = segments_.at(idx);
    if (entry.segment->num_documents() == 0) continue;  // the last one alone
    if (entry.part.num_documents() != entry.segment->num_documents()) {
      entry.part = entry.segment->MakePart(entry.first_ordinal);
    }
    change.segments.push_back(entry.part);
  }
  return std::make_shared<const Collection>(generation_, std::move(change));
}

// Lookups miss the processor's caches, so the first loop prefetches the hash-table slots that the second loop reads.
template <typename Id, typename Get>
void Changes::ResolveAll(uint64_t sequence, size_t count, Get get, absl::Span<uint64_t> ordinals) const {
  const Table& table = *table_.load(std::memory_order_acquire);
  std::array<size_t, kResolveBatch> asked;  // indices of ids that the table may know
  std::array<uint64_t, kResolveBatch> hashes;
  for (size_t begin = 0; begin < count; begin += kResolveBatch) {
    const size_t end = std::min(begin + kResolveBatch, count);
    size_t num_asked = 0;
    for (size_t i = begin; i < end; ++i) {
      const uint64_t ordinal = ordinals[i];
      // If the id of a document in a shard was not written since the shard was built, its ordinal is still right.
      if (ordinal != IdIndex::kUnknown &&
          (touched_[ordinal / 64].load(std::memory_order_acquire) >> (ordinal % 64) & 1) == 0) {
        continue;
      }
      hashes[num_asked] = HashOfId(get(i));
      __builtin_prefetch(&table.slots[table.Home(hashes[num_asked])]);
      asked[num_asked++] = i;
    }
    for (size_t n = 0; n < num_asked; ++n) {
      const Entry* entry = table.SlotOf<Id>(get(asked[n]), hashes[n]).load(std::memory_order_acquire);
      while (entry != nullptr && entry->sequence > sequence) entry = entry->older;
      if (entry != nullptr) ordinals[asked[n]] = entry->ordinal;
    }
  }
}

void Changes::Resolve(uint64_t sequence, absl::Span<const std::string* const> ids,
                      absl::Span<uint64_t> ordinals) const {
  ResolveAll<std::string_view>(
      sequence, ids.size(), [ids](size_t i) { return std::string_view(*ids[i]); }, ordinals);
}

void Changes::Resolve(uint64_t sequence, absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const {
  ResolveAll<int64_t>(
      sequence, ids.size(), [ids](size_t i) { return ids[i]; }, ordinals);
}

uint64_t Changes::NumBytes(const PartTombstones& tombstones) {
  uint64_t bytes = tombstones.list.size() * sizeof(Tombstone);
  const MutexLock lock(&tombstones.mutex);
  if (tombstones.filtered != nullptr) bytes += tombstones.filtered->ordinals.capacity() * sizeof(uint32_t);
  if (tombstones.mask != nullptr) bytes += tombstones.mask->words.capacity() * sizeof(uint64_t);
  return bytes;
}

uint64_t Changes::num_bytes() const {
  uint64_t bytes = entries_.size() * sizeof(Entry) + generation_->num_ordinals() / 8;
  bytes += id_bytes_.load(std::memory_order_relaxed);
  bytes += table_.load(std::memory_order_acquire)->num_slots * 2 * sizeof(void*);
  for (const std::unique_ptr<PartTombstones>& tombstones : shard_tombstones_) bytes += NumBytes(*tombstones);
  const size_t num_segments = segments_.size();
  for (size_t idx = 0; idx < num_segments; ++idx) bytes += NumBytes(*segments_[idx].tombstones);
  return bytes;
}

}  // namespace maxsim::store
