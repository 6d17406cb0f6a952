#include "server/store/id_index.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "server/shard/text.h"

namespace maxsim::store {
namespace {

// A slot packs an ordinal (low 40 bits) and a fingerprint of the id's hash (high 24 bits). Comparing fingerprints first
// keeps a probe inside the table: the id's bytes in the shard are read for one wrong slot in 16 million.
constexpr int kOrdinalBits = 40;
constexpr uint64_t kOrdinalMask = (uint64_t{1} << kOrdinalBits) - 1;
constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();

uint64_t HashOf(std::string_view id) { return XXH3_64bits(id.data(), id.size()); }

// The finaliser of splitmix64: a bijection, so that no two integers collide in all 64 bits.
uint64_t HashOf(int64_t id) {
  auto value = static_cast<uint64_t>(id) + 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

// Maps a hash to 0 .. num_slots - 1 by its high bits; the fingerprint takes the low ones.
uint64_t HomeSlot(uint64_t hash, uint64_t num_slots) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * num_slots >> 64);
}

std::string Printed(std::string_view id) { return shard::Quote(id); }
std::string Printed(int64_t id) { return std::to_string(id); }

}  // namespace

struct IdIndex::State {
  std::vector<std::shared_ptr<const shard::Shard>> shards;
  std::vector<uint64_t> first_ordinals;  // of each shard
  std::vector<uint64_t> slots;           // 3 slots for every 2 documents, linear probing

  std::pair<size_t, int64_t> Place(uint64_t ordinal) const {
    const auto next = std::upper_bound(first_ordinals.begin(), first_ordinals.end(), ordinal);
    const auto shard_idx = static_cast<size_t>(next - first_ordinals.begin()) - 1;
    return {shard_idx, static_cast<int64_t>(ordinal - first_ordinals[shard_idx])};
  }

  bool Holds(uint64_t ordinal, std::string_view id) const {
    const auto [shard_idx, local] = Place(ordinal);
    return shards[shard_idx]->string_id(local) == id;
  }
  bool Holds(uint64_t ordinal, int64_t id) const {
    const auto [shard_idx, local] = Place(ordinal);
    return shards[shard_idx]->int_id(local) == id;
  }

  template <typename Id>
  std::optional<uint64_t> Find(Id id) const {
    if (slots.empty()) return std::nullopt;
    const uint64_t hash = HashOf(id);
    for (uint64_t slot = HomeSlot(hash, slots.size());; slot = slot + 1 == slots.size() ? 0 : slot + 1) {
      const uint64_t value = slots[slot];
      if (value == kEmpty) return std::nullopt;
      if (((value ^ hash << kOrdinalBits) & ~kOrdinalMask) == 0 && Holds(value & kOrdinalMask, id)) {
        return value & kOrdinalMask;
      }
    }
  }

  // Adds an id; the ordinal that already holds it, when one does.
  template <typename Id>
  std::optional<uint64_t> Insert(Id id, uint64_t ordinal) {
    const uint64_t hash = HashOf(id);
    uint64_t slot = HomeSlot(hash, slots.size());
    for (; slots[slot] != kEmpty; slot = slot + 1 == slots.size() ? 0 : slot + 1) {
      const uint64_t value = slots[slot];
      if (((value ^ hash << kOrdinalBits) & ~kOrdinalMask) == 0 && Holds(value & kOrdinalMask, id)) {
        return value & kOrdinalMask;
      }
    }
    slots[slot] = hash << kOrdinalBits | ordinal;
    return std::nullopt;
  }
};

IdIndex::IdIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
IdIndex::IdIndex(IdIndex&&) noexcept = default;
IdIndex& IdIndex::operator=(IdIndex&&) noexcept = default;
IdIndex::~IdIndex() = default;

uint64_t IdIndex::NumBytes(uint64_t num_documents) {
  return num_documents == 0 ? 0 : (num_documents + num_documents / 2 + 1) * sizeof(uint64_t);
}

absl::StatusOr<IdIndex> IdIndex::Build(absl::Span<const std::shared_ptr<const shard::Shard>> shards) {
  auto state = std::make_unique<State>();
  uint64_t num_documents = 0;
  for (const auto& shard : shards) {
    // A shard without documents would share its first ordinal with the next one.
    if (shard->documents().num_documents == 0) continue;
    state->shards.push_back(shard);
    state->first_ordinals.push_back(num_documents);
    num_documents += static_cast<uint64_t>(shard->documents().num_documents);
  }
  if (num_documents >= kOrdinalMask) {
    return absl::ResourceExhaustedError(
        shard::Cat("the collection has ", num_documents, " documents; an id index holds ", kOrdinalMask - 1));
  }
  state->slots.assign(NumBytes(num_documents) / sizeof(uint64_t), kEmpty);

  const auto insert = [&state](auto id, uint64_t ordinal) -> absl::Status {
    const std::optional<uint64_t> earlier = state->Insert(id, ordinal);
    if (!earlier.has_value()) return absl::OkStatus();
    const auto [first_shard, first_local] = state->Place(*earlier);
    const auto [second_shard, second_local] = state->Place(ordinal);
    return absl::DataLossError(shard::Cat("document id ", Printed(id), " stands twice: document ", first_local, " of ",
                                          state->shards[first_shard]->path(), " and document ", second_local, " of ",
                                          state->shards[second_shard]->path()));
  };
  for (size_t shard_idx = 0; shard_idx < state->shards.size(); ++shard_idx) {
    const shard::Shard& shard = *state->shards[shard_idx];
    const bool has_strings = shard.id_type() == shard::IdType::kString;
    for (int64_t local = 0; local < shard.documents().num_documents; ++local) {
      const uint64_t ordinal = state->first_ordinals[shard_idx] + static_cast<uint64_t>(local);
      const absl::Status status =
          has_strings ? insert(shard.string_id(local), ordinal) : insert(shard.int_id(local), ordinal);
      if (!status.ok()) return status;
    }
  }
  return IdIndex(std::move(state));
}

std::optional<uint64_t> IdIndex::Find(std::string_view id) const { return state_->Find(id); }
std::optional<uint64_t> IdIndex::Find(int64_t id) const { return state_->Find(id); }
size_t IdIndex::num_bytes() const { return state_->slots.size() * sizeof(uint64_t); }

}  // namespace maxsim::store
