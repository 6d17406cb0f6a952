// Makes scans skip the documents of a live collection that were replaced or deleted.
#include <algorithm>
#include <utility>

#include "server/store/collection/changes.h"

namespace maxsim::store {
namespace {

// Returns the number of 64-bit words that hold a bit for each document of the part.
size_t MaskWords(const Part& part) { return (static_cast<size_t>(part.num_documents()) + 63) / 64; }

}  // namespace

size_t Changes::NumTombstones(size_t part_idx, uint64_t sequence) const {
  const AppendOnlyList<Tombstone>& list = TombstonesOf(part_idx).list;
  // Searches from the end, because only the last few tombstones are newer than a snapshot.
  size_t count = list.size();
  while (count > 0 && list[count - 1].sequence > sequence) --count;
  return count;
}

std::vector<uint32_t> Changes::Tombstones(size_t part_idx, uint64_t sequence, size_t begin) const {
  const AppendOnlyList<Tombstone>& list = TombstonesOf(part_idx).list;
  const size_t count = NumTombstones(part_idx, sequence);
  std::vector<uint32_t> ordinals;
  for (size_t idx = begin; idx < count; ++idx) ordinals.push_back(list[idx].ordinal);
  return ordinals;
}

// Makes the list of the part's documents, except those that its first `count` tombstones mark.
std::shared_ptr<const Changes::FilteredList> Changes::MakeList(const PartTombstones& tombstones, const Part& part,
                                                               size_t count) {
  auto list = std::make_shared<FilteredList>();
  list->num_tombstones = count;
  list->num_documents = part.num_documents();
  list->num_tokens = static_cast<uint64_t>(part.num_tokens());
  std::vector<bool> gone(static_cast<size_t>(part.num_documents()));
  for (size_t idx = 0; idx < count; ++idx) {
    const uint32_t ordinal = tombstones.list[idx].ordinal;
    gone[ordinal] = true;
    list->num_tokens -= static_cast<uint64_t>(part.view.offsets[ordinal + 1] - part.view.offsets[ordinal]);
  }
  list->ordinals.reserve(gone.size() - count);
  for (size_t ordinal = 0; ordinal < gone.size(); ++ordinal) {
    if (!gone[ordinal]) list->ordinals.push_back(static_cast<uint32_t>(ordinal));
  }
  return list;
}

// Returns a copy of the list that also has the documents which were added to the part after the list was made. These
// documents are newer than the list's tombstones, so none of these tombstones is for one of them.
std::shared_ptr<const Changes::FilteredList> Changes::ExtendList(const FilteredList& list, const Part& part) {
  auto longer = std::make_shared<FilteredList>();
  longer->num_tombstones = list.num_tombstones;
  longer->num_documents = part.num_documents();
  longer->num_tokens =
      list.num_tokens + static_cast<uint64_t>(part.num_tokens() - part.view.offsets[list.num_documents]);
  longer->ordinals.reserve(list.ordinals.size() + static_cast<size_t>(part.num_documents() - list.num_documents));
  longer->ordinals = list.ordinals;
  for (int64_t ordinal = list.num_documents; ordinal < part.num_documents(); ++ordinal) {
    longer->ordinals.push_back(static_cast<uint32_t>(ordinal));
  }
  return longer;
}

// Returns a list of the part's documents, except those that its first `count` tombstones mark. May return a list, made
// earlier, that still has up to `max_extra` of the marked documents; the scan then drops these itself.
std::shared_ptr<const Changes::FilteredList> Changes::ListFor(const PartTombstones& tombstones, const Part& part,
                                                              size_t count, size_t max_extra) {
  std::shared_ptr<const FilteredList> known;
  {
    const MutexLock lock(&tombstones.mutex);
    known = tombstones.filtered;
  }
  const bool fits = known != nullptr && known->num_documents <= part.num_documents() &&
                    known->num_tombstones <= count && count - known->num_tombstones <= max_extra;
  if (fits && known->num_documents == part.num_documents()) return known;
  std::shared_ptr<const FilteredList> made = fits ? ExtendList(*known, part) : MakeList(tombstones, part, count);
  // Later snapshots have more tombstones, so the list with the most tombstones is the most useful one. The old list
  // is freed after the lock is released.
  const MutexLock lock(&tombstones.mutex);
  std::shared_ptr<const FilteredList>& latest = tombstones.filtered;
  if (latest == nullptr ||
      std::pair(latest->num_tombstones, latest->num_documents) < std::pair(made->num_tombstones, made->num_documents)) {
    known.swap(latest);
    latest = made;
  }
  return made;
}

ScanFilter Changes::Filter(size_t part_idx, const Part& part, uint64_t sequence, size_t max_extra) const {
  const PartTombstones& tombstones = TombstonesOf(part_idx);
  const size_t count = NumTombstones(part_idx, sequence);
  max_extra = std::min(max_extra, ScanFilter::kMaxExtraResults);
  ScanFilter filter;
  size_t filtered = 0;  // number of tombstones whose documents filter.ordinals excludes
  if (count > max_extra) {
    const std::shared_ptr<const FilteredList> list = ListFor(tombstones, part, count, max_extra);
    filter.ordinals = std::shared_ptr<const std::vector<uint32_t>>(list, &list->ordinals);
    filter.num_tokens = list->num_tokens;
    filtered = list->num_tombstones;
  } else {
    filter.num_tokens = static_cast<uint64_t>(part.num_tokens());
  }
  for (size_t idx = filtered; idx < count; ++idx) filter.tombstones.push_back(tombstones.list[idx].ordinal);
  std::sort(filter.tombstones.begin(), filter.tombstones.end());
  return filter;
}

// Makes the mask of a part that excludes the documents that its first `count` tombstones mark. Starts from `known` (may
// be null), a mask for the first `count` tombstones or fewer.
std::shared_ptr<const Changes::PartMask> Changes::MakeMask(const PartMask* known, const PartTombstones& tombstones,
                                                           const Part& part, size_t count) {
  auto mask = std::make_shared<PartMask>();
  size_t idx = 0;
  if (known != nullptr) {
    *mask = *known;
    idx = known->num_tombstones;
  }
  if (mask->words.size() < MaskWords(part)) mask->words.resize(MaskWords(part), ~uint64_t{0});
  for (; idx < count; ++idx) {
    const uint32_t ordinal = tombstones.list[idx].ordinal;
    mask->words[ordinal / 64] &= ~(uint64_t{1} << (ordinal % 64));
    mask->masked_tokens += static_cast<uint64_t>(part.view.offsets[ordinal + 1] - part.view.offsets[ordinal]);
  }
  mask->num_tombstones = count;
  return mask;
}

ScanMask Changes::Mask(size_t part_idx, const Part& part, uint64_t sequence) const {
  const PartTombstones& tombstones = TombstonesOf(part_idx);
  const size_t count = NumTombstones(part_idx, sequence);
  std::shared_ptr<const PartMask> mask;
  {
    const MutexLock lock(&tombstones.mutex);
    mask = tombstones.mask;
  }
  const bool is_older = mask != nullptr && mask->num_tombstones <= count;
  if (!is_older || mask->num_tombstones < count || mask->words.size() < MaskWords(part)) {
    mask = MakeMask(is_older ? mask.get() : nullptr, tombstones, part, count);
    std::shared_ptr<const PartMask> replaced = mask;  // freed outside of the mutex
    const MutexLock lock(&tombstones.mutex);
    // Later snapshots have more tombstones, so the mask with the most tombstones is the most useful one.
    if (tombstones.mask == nullptr || tombstones.mask->num_tombstones <= count) replaced.swap(tombstones.mask);
  }
  return {.words = std::shared_ptr<const std::vector<uint64_t>>(mask, &mask->words),
          .num_tokens = static_cast<uint64_t>(part.num_tokens()) - mask->masked_tokens};
}

}  // namespace maxsim::store
