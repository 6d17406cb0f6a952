#include "server/store/collection/id_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "server/store/collection/id_hash.h"
#include "server/store/collection/parts.h"

namespace maxsim::store {
namespace {

// A slot packs an ordinal (low 40 bits) and a fingerprint of the id's hash (high 24 bits). A lookup compares
// fingerprints first and reads the id in the shard only if they are equal. Two different ids have the same fingerprint
// in one of 16 million cases.
constexpr int kOrdinalBits = 40;
constexpr uint64_t kOrdinalMask = (uint64_t{1} << kOrdinalBits) - 1;
constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();

// Maps a hash to 0 .. num_slots - 1 by its high bits, because the fingerprint uses the low bits.
uint64_t HomeSlot(uint64_t hash, uint64_t num_slots) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * num_slots >> 64);
}

// Sets `slots` to `count` elements of `value`. Asks for huge pages first, if the table is large: lookups hit random
// pages, so with pages of 4 KiB most lookups also walk through the page table.
void AssignSlots(size_t count, uint64_t value, std::vector<uint64_t>* slots) {
  constexpr size_t kHugePageBytes = size_t{2} << 20;
  slots->reserve(count);
  void* begin = slots->data();
  size_t num_bytes = count * sizeof(uint64_t);
  if (std::align(kHugePageBytes, kHugePageBytes, begin, num_bytes) != nullptr) {
    // The result is ignored, because lookups only become slower without huge pages.
    madvise(begin, num_bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  }
  slots->assign(count, value);
}

// Number of ids that are looked up together: enough to hide the latency of memory, few enough for the first-level
// cache. For 100,000 random string ids of a million documents, one core of a busy EPYC takes 313 to 340 ns per id one
// by one, and 93, 86 and 93 ns in batches of 16, 32 and 64 (maxsim_bench_front).
constexpr size_t kLookupBatch = 32;

// Prefetches the cache lines of the first and the last byte of an id, which must not be empty. These two lines hold all
// of an id of up to 65 bytes.
void Prefetch(std::string_view id) {
  __builtin_prefetch(id.data());
  __builtin_prefetch(id.data() + id.size() - 1);
}

std::string Printed(std::string_view id) { return Quote(id); }
std::string Printed(int64_t id) { return std::to_string(id); }

}  // namespace

struct IdIndex::State {
  // How an id is found in `slots`.
  enum class Kind {
    kHashed,      // 3 slots for every 2 documents, linear probing
    kDirect,      // slots[id - first_id] is the ordinal
    kSequential,  // no slots: the ordinal is id - first_id
  };

  std::vector<std::shared_ptr<const collection::Shard>> shards;
  std::vector<collection::ShardIds> ids;  // of each shard
  std::vector<uint64_t> first_ordinals;   // of each shard
  uint64_t num_documents = 0;
  Kind kind = Kind::kHashed;
  int64_t first_id = 0;
  std::vector<uint64_t> slots;  // kEmpty if unused

  std::pair<size_t, int64_t> Locate(uint64_t ordinal) const {
    const size_t shard_idx = PartOf(first_ordinals, ordinal);
    return {shard_idx, static_cast<int64_t>(ordinal - first_ordinals[shard_idx])};
  }

  template <typename Id>
  Id IdAt(uint64_t ordinal) const {
    const auto [shard_idx, local] = Locate(ordinal);
    return Read<Id>(ids[shard_idx], local);
  }

  template <typename Id>
  static Id Read(const collection::ShardIds& from, int64_t local) {
    if constexpr (std::is_same_v<Id, int64_t>) {
      return from.ints[local];
    } else if (from.size > 0) {
      // If all ids have the same length, the offset need not be read. Reading it would miss the caches.
      return {from.bytes + local * from.size, static_cast<size_t>(from.size)};
    } else {
      const int64_t begin = from.offsets[local];
      return {from.bytes + begin, static_cast<size_t>(from.offsets[local + 1] - begin)};
    }
  }

  static bool Matches(uint64_t slot, uint64_t hash) { return ((slot ^ hash << kOrdinalBits) & ~kOrdinalMask) == 0; }
  uint64_t Next(uint64_t slot) const { return slot + 1 == slots.size() ? 0 : slot + 1; }

  // Returns the first slot, starting at `slot`, that is empty or has the hash's fingerprint.
  uint64_t Probe(uint64_t slot, uint64_t hash) const {
    while (slots[slot] != kEmpty && !Matches(slots[slot], hash)) slot = Next(slot);
    return slot;
  }

  // Finds an id in an index of kind kHashed that has slots. The search starts at the slot that Probe returned. Returns
  // kUnknown if no document has the id.
  template <typename Id>
  uint64_t FindFrom(uint64_t slot, uint64_t hash, Id id) const {
    for (; slots[slot] != kEmpty; slot = Probe(Next(slot), hash)) {
      if (IdAt<Id>(slots[slot] & kOrdinalMask) == id) return slots[slot] & kOrdinalMask;
    }
    return kUnknown;
  }

  template <typename Id>
  uint64_t Find(Id id) const {
    if constexpr (std::is_same_v<Id, int64_t>) {
      // Subtract unsigned numbers, which cannot overflow. If the id is below the first one, the difference is large.
      const uint64_t distance = static_cast<uint64_t>(id) - static_cast<uint64_t>(first_id);
      if (kind == Kind::kSequential) return distance < num_documents ? distance : kUnknown;
      if (kind == Kind::kDirect) return distance < slots.size() ? slots[distance] : kUnknown;
    }
    if (slots.empty()) return kUnknown;
    const uint64_t hash = HashOfId(id);
    return FindFrom(Probe(HomeSlot(hash, slots.size()), hash), hash, id);
  }

  // Finds `count` ids, where `get(n)` returns the n-th. Lookups miss the caches, so each loop prefetches the memory
  // that the next loop reads.
  template <typename Id, typename Get>
  void FindBatch(size_t count, Get get, uint64_t* ordinals) const {
    std::array<uint64_t, kLookupBatch> hashes;
    std::array<uint64_t, kLookupBatch> at;
    std::array<std::pair<size_t, int64_t>, kLookupBatch> locations;
    std::array<Id, kLookupBatch> stored_ids;
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = HashOfId(get(i));
      at[i] = HomeSlot(hashes[i], slots.size());
      __builtin_prefetch(&slots[at[i]]);
    }
    for (size_t i = 0; i < count; ++i) {
      at[i] = Probe(at[i], hashes[i]);
      ordinals[i] = slots[at[i]] == kEmpty ? kUnknown : slots[at[i]] & kOrdinalMask;
      if (ordinals[i] == kUnknown) continue;
      locations[i] = Locate(ordinals[i]);
      const collection::ShardIds& from = ids[locations[i].first];
      if constexpr (std::is_same_v<Id, int64_t>) {
        __builtin_prefetch(&from.ints[locations[i].second]);
      } else if (from.size > 0) {
        Prefetch(Read<Id>(from, locations[i].second));
      } else {
        __builtin_prefetch(&from.offsets[locations[i].second]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (ordinals[i] == kUnknown) continue;
      stored_ids[i] = Read<Id>(ids[locations[i].first], locations[i].second);
      if constexpr (!std::is_same_v<Id, int64_t>) Prefetch(stored_ids[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      // Two ids may have the same fingerprint. In this case the search continues.
      if (ordinals[i] != kUnknown && stored_ids[i] != get(i))
        ordinals[i] = FindFrom(Probe(Next(at[i]), hashes[i]), hashes[i], get(i));
    }
  }

  template <typename Id, typename Get>
  void FindAll(size_t count, Get get, uint64_t* ordinals) const {
    if (kind != Kind::kHashed || slots.empty()) {
      for (size_t i = 0; i < count; ++i) ordinals[i] = Find<Id>(get(i));
      return;
    }
    for (size_t begin = 0; begin < count; begin += kLookupBatch) {
      FindBatch<Id>(
          std::min(kLookupBatch, count - begin), [&](size_t i) { return get(begin + i); }, ordinals + begin);
    }
  }

  // Adds an id, or returns the ordinal of the document that has it already.
  template <typename Id>
  std::optional<uint64_t> Insert(Id id, uint64_t ordinal) {
    if constexpr (std::is_same_v<Id, int64_t>) {
      if (kind == Kind::kDirect) {
        uint64_t& slot = slots[static_cast<uint64_t>(id) - static_cast<uint64_t>(first_id)];
        if (slot != kEmpty) return slot;
        slot = ordinal;
        return std::nullopt;
      }
    }
    const uint64_t hash = HashOfId(id);
    uint64_t slot = Probe(HomeSlot(hash, slots.size()), hash);
    for (; slots[slot] != kEmpty; slot = Probe(Next(slot), hash)) {
      if (IdAt<Id>(slots[slot] & kOrdinalMask) == id) return slots[slot] & kOrdinalMask;
    }
    slots[slot] = hash << kOrdinalBits | ordinal;
    return std::nullopt;
  }

  // Sets kind, first_id and the number of slots for integer ids. If some documents have a tombstone, even consecutive
  // ids need a table, because the ids of these documents must not be found.
  void ChooseIntegerTable(bool has_tombstones) {
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t most = std::numeric_limits<int64_t>::min();
    bool sequential = !has_tombstones;
    for (size_t shard_idx = 0; shard_idx < shards.size(); ++shard_idx) {
      const int64_t count = shards[shard_idx]->documents().num_documents;
      for (int64_t local = 0; local < count; ++local) {
        const int64_t id = shards[shard_idx]->int_id(local);
        const uint64_t ordinal = first_ordinals[shard_idx] + static_cast<uint64_t>(local);
        if (ordinal == 0) first_id = id;
        sequential = sequential && static_cast<uint64_t>(id) - static_cast<uint64_t>(first_id) == ordinal;
        least = std::min(least, id);
        most = std::max(most, id);
      }
    }
    // Checks `most` and `least`, because `sequential` is also true for ids that wrap around from the largest integer
    // to the smallest.
    if (sequential && most >= first_id && least == first_id) {
      kind = Kind::kSequential;
      return;
    }
    const uint64_t distance = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
    if (distance < NumBytes(num_documents) / sizeof(uint64_t)) {
      kind = Kind::kDirect;
      first_id = least;
      AssignSlots(distance + 1, kEmpty, &slots);
    }
  }
};

IdIndex::IdIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
IdIndex::IdIndex(IdIndex&&) noexcept = default;
IdIndex& IdIndex::operator=(IdIndex&&) noexcept = default;
IdIndex::~IdIndex() = default;

uint64_t IdIndex::NumBytes(uint64_t num_documents) {
  return num_documents == 0 ? 0 : (num_documents + num_documents / 2 + 1) * sizeof(uint64_t);
}

absl::StatusOr<IdIndex> IdIndex::Build(absl::Span<const std::shared_ptr<const collection::Shard>> shards,
                                       const StopSignal* stop, const collection::Tombstones& tombstones) {
  auto state = std::make_unique<State>();
  uint64_t num_documents = 0;
  std::vector<absl::Span<const uint32_t>> left_out;  // the ordinals with a tombstone, per shard, ascending
  for (size_t idx = 0; idx < shards.size(); ++idx) {
    const auto& shard = shards[idx];
    // Skip a shard without documents: it would have the same first ordinal as the next shard.
    if (shard->documents().num_documents == 0) continue;
    left_out.push_back(idx < tombstones.size() ? absl::MakeConstSpan(tombstones[idx]) : absl::Span<const uint32_t>());
    state->shards.push_back(shard);
    state->ids.push_back(shard->ids());
    state->first_ordinals.push_back(num_documents);
    num_documents += static_cast<uint64_t>(shard->documents().num_documents);
  }
  if (num_documents >= kOrdinalMask) {
    return absl::ResourceExhaustedError(
        Cat("the collection has ", num_documents, " documents; an id index holds ", kOrdinalMask - 1));
  }
  state->num_documents = num_documents;
  if (num_documents > 0 && state->shards.front()->id_type() == collection::IdType::kInt64) {
    state->ChooseIntegerTable(
        std::any_of(left_out.begin(), left_out.end(), [](absl::Span<const uint32_t> some) { return !some.empty(); }));
  }
  if (state->kind == State::Kind::kSequential) return IdIndex(std::move(state));
  if (state->kind == State::Kind::kHashed) {
    AssignSlots(static_cast<size_t>(NumBytes(num_documents) / sizeof(uint64_t)), kEmpty, &state->slots);
  }

  const auto insert = [&state](auto id, uint64_t ordinal) -> absl::Status {
    const std::optional<uint64_t> earlier = state->Insert(id, ordinal);
    if (!earlier.has_value()) return absl::OkStatus();
    const auto [first_shard, first_local] = state->Locate(*earlier);
    const auto [second_shard, second_local] = state->Locate(ordinal);
    return absl::DataLossError(Cat("document id ", Printed(id), " appears twice: document ", first_local, " of ",
                                   state->shards[first_shard]->path(), " and document ", second_local, " of ",
                                   state->shards[second_shard]->path()));
  };
  for (size_t shard_idx = 0; shard_idx < state->shards.size(); ++shard_idx) {
    const collection::Shard& shard = *state->shards[shard_idx];
    const bool has_strings = shard.id_type() == collection::IdType::kString;
    absl::Span<const uint32_t> skipped = left_out[shard_idx];
    for (int64_t local = 0; local < shard.documents().num_documents; ++local) {
      if (local % kStopBlockDocuments == 0) {
        if (absl::Status status = StopStatus(stop); !status.ok()) return status;
      }
      if (!skipped.empty() && skipped.front() == static_cast<uint32_t>(local)) {
        skipped.remove_prefix(1);
        continue;
      }
      const uint64_t ordinal = state->first_ordinals[shard_idx] + static_cast<uint64_t>(local);
      const absl::Status status =
          has_strings ? insert(shard.string_id(local), ordinal) : insert(shard.int_id(local), ordinal);
      if (!status.ok()) return status;
    }
  }
  return IdIndex(std::move(state));
}

std::optional<uint64_t> IdIndex::Find(std::string_view id) const {
  const uint64_t ordinal = state_->Find(id);
  return ordinal == kUnknown ? std::nullopt : std::optional(ordinal);
}

std::optional<uint64_t> IdIndex::Find(int64_t id) const {
  const uint64_t ordinal = state_->Find(id);
  return ordinal == kUnknown ? std::nullopt : std::optional(ordinal);
}

void IdIndex::FindAll(absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const {
  state_->FindAll<std::string_view>(
      ids.size(), [ids](size_t i) { return std::string_view(*ids[i]); }, ordinals.data());
}

void IdIndex::FindAll(absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const {
  state_->FindAll<int64_t>(
      ids.size(), [ids](size_t i) { return ids[i]; }, ordinals.data());
}

int64_t IdIndex::int_id(uint64_t ordinal) const {
  // If the ids are consecutive, the shard need not be read.
  if (state_->kind == State::Kind::kSequential)
    return static_cast<int64_t>(static_cast<uint64_t>(state_->first_id) + ordinal);
  return state_->IdAt<int64_t>(ordinal);
}

size_t IdIndex::num_bytes() const { return state_->slots.size() * sizeof(uint64_t); }

}  // namespace maxsim::store
