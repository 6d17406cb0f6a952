#include "server/store/collection/slot_masks.h"

#include <algorithm>
#include <string_view>

#include "collection/manifest.h"
#include "collection/shard.h"
#include "server/store/collection/part.h"
#include "server/store/collection/segment.h"

namespace maxsim::store {
namespace {

// `check` is called each time this many ids have been hashed, which takes about 2 ms.
constexpr int64_t kIdsPerSlotCheck = 65'536;

// Sets the bits of the documents `next` .. end - 1 whose ids have slots in the range, and moves `next` to the first
// document that was not looked at. `slot_of` returns the slot of the document with an ordinal.
template <typename SlotOfOrdinal>
absl::Status SetSlotBits(int64_t& next, int64_t end, const collection::SlotRange& slots, const StopCheck& check,
                         SlotOfOrdinal slot_of, std::vector<uint64_t>& words) {
  while (next < end) {
    if (check != nullptr) {
      if (absl::Status status = check(); !status.ok()) return status;
    }
    const int64_t block_end = std::min(end, next + kIdsPerSlotCheck);
    for (int64_t ordinal = next; ordinal < block_end; ++ordinal) {
      const uint64_t bit = slots.contains(slot_of(ordinal)) ? 1 : 0;
      words[static_cast<size_t>(ordinal) / 64] |= bit << (ordinal % 64);
    }
    next = block_end;
  }
  return absl::OkStatus();
}

absl::Status HashIds(const Part& part, int64_t& next, const collection::SlotRange& slots, const StopCheck& check,
                     std::vector<uint64_t>& words) {
  const auto hash = [&](auto slot_of) { return SetSlotBits(next, part.num_documents(), slots, check, slot_of, words); };
  if (part.shard != nullptr) {
    const collection::ShardIds ids = part.shard->ids();
    if (ids.ints != nullptr) return hash([&ids](int64_t ordinal) { return collection::SlotOf(ids.ints[ordinal]); });
    return hash([&ids](int64_t ordinal) {
      const int64_t id_begin = ids.offsets[ordinal];
      const auto size = static_cast<size_t>(ids.offsets[ordinal + 1] - id_begin);
      return collection::SlotOf(std::string_view(ids.bytes + id_begin, size));
    });
  }
  const Segment& segment = *part.segment;
  if (segment.shape().id_type == collection::IdType::kInt64) {
    return hash(
        [&segment](int64_t ordinal) { return collection::SlotOf(segment.int_id(static_cast<uint32_t>(ordinal))); });
  }
  return hash(
      [&segment](int64_t ordinal) { return collection::SlotOf(segment.string_id(static_cast<uint32_t>(ordinal))); });
}

// Returns the bits first .. first + count - 1 of a mask as bits 0 .. count - 1. The mask must have all of them.
std::vector<uint64_t> BitsOf(const std::vector<uint64_t>& mask, int64_t first, int64_t count) {
  std::vector<uint64_t> words((static_cast<size_t>(count) + 63) / 64);
  const auto from = static_cast<size_t>(first) / 64;
  const int shift = static_cast<int>(first % 64);
  for (size_t idx = 0; idx < words.size(); ++idx) {
    words[idx] = mask[from + idx] >> shift;
    const bool has_next = shift > 0 && from + idx + 1 < mask.size();
    if (has_next) words[idx] |= mask[from + idx + 1] << (64 - shift);
  }
  if (count % 64 != 0) words.back() &= (uint64_t{1} << (count % 64)) - 1;
  return words;
}

}  // namespace

absl::StatusOr<SlotMask> SlotMasks::Find(const Part& part, const collection::SlotRange& slots, const StopCheck& check) {
  const int64_t num_documents = part.num_documents();
  Entry made{.slots = slots, .num_documents = 0, .mask = nullptr};
  std::vector<uint64_t> words;
  int64_t num_known = 0;
  {
    const MutexLock lock(&mutex_);
    if (const Entry* const known = Touch(slots); known != nullptr) {
      if (known->num_documents >= num_documents) return known->mask;
      words = *known->mask;
      num_known = made.num_documents = known->num_documents;
    }
  }
  // The mutex is not held while ids are hashed. So two threads may hash the same ids, which is rare, but no thread
  // waits for another one that may be stopped.
  words.resize((static_cast<size_t>(num_documents) + 63) / 64);
  const absl::Status status = HashIds(part, made.num_documents, slots, check, words);
  if (made.num_documents == num_known && !status.ok()) return status;
  words.shrink_to_fit();
  made.mask = std::make_shared<const std::vector<uint64_t>>(std::move(words));
  SlotMask mask = made.mask;
  Keep(std::move(made));
  if (!status.ok()) return status;
  return mask;
}

const SlotMasks::Entry* SlotMasks::Touch(const collection::SlotRange& slots) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.slots == slots; });
  if (found == entries_.end()) return nullptr;
  std::rotate(entries_.begin(), found, found + 1);
  return &entries_.front();
}

void SlotMasks::Keep(Entry entry) {
  SlotMask dropped;  // freed outside of the lock
  const MutexLock lock(&mutex_);
  if (Touch(entry.slots) != nullptr) {
    if (entries_.front().num_documents >= entry.num_documents) return;
    dropped = std::move(entries_.front().mask);
    entries_.front() = std::move(entry);
    return;
  }
  entries_.insert(entries_.begin(), std::move(entry));
  if (entries_.size() <= kMaxRanges) return;
  dropped = std::move(entries_.back().mask);
  entries_.pop_back();
}

uint64_t SlotMasks::memory_bytes() const {
  const MutexLock lock(&mutex_);
  uint64_t bytes = entries_.capacity() * sizeof(Entry);
  for (const Entry& entry : entries_) bytes += sizeof(*entry.mask) + entry.mask->capacity() * sizeof(uint64_t);
  return bytes;
}

absl::StatusOr<collection::OrdinalBitmap> SlotReader::Find(const collection::SlotRange& slots, int64_t first,
                                                           int64_t count) {
  auto known = std::find_if(masks_.begin(), masks_.end(), [&](const auto& one) { return one.first == slots; });
  if (known == masks_.end()) {
    absl::StatusOr<SlotMask> mask = part_.slot_masks != nullptr ? part_.slot_masks->Find(part_, slots, check_)
                                                                : SlotMasks().Find(part_, slots, check_);
    if (!mask.ok()) return mask.status();
    known = masks_.insert(masks_.end(), {slots, *std::move(mask)});
  }
  return collection::OrdinalBitmap::FromMask(BitsOf(*known->second, first, count));
}

}  // namespace maxsim::store
