#include "collection/partition/choose_sources.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace maxsim::collection {
namespace {

// A choice of sources for the wanted slots from `wanted.first` up to some end.
struct Cover {
  int64_t num_bytes = 0;
  uint64_t lowest_sequence = std::numeric_limits<uint64_t>::max();
  std::vector<SlotShare> shares;

  bool IsBetterThan(const Cover& other) const {
    const auto key = [](const Cover& one) {
      return std::tuple(one.num_bytes, ~one.lowest_sequence, one.shares.size());
    };
    return key(*this) < key(other);
  }
};

Cover Extend(const Cover& cover, const SlotSource& source, const SlotShare& share) {
  Cover longer = cover;
  longer.num_bytes += source.num_bytes;
  longer.lowest_sequence = std::min(longer.lowest_sequence, source.sequence);
  longer.shares.push_back(share);
  return longer;
}

// Returns INVALID_ARGUMENT with the first slots that no source has.
absl::Status Missing(absl::Span<const SlotSource> sources, const SlotRange& wanted) {
  const auto is_held = [&](int32_t slot) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const SlotSource& source) { return source.slots.contains(slot); });
  };
  int32_t first = wanted.first;
  while (first < wanted.end && is_held(first)) ++first;
  int32_t end = first;
  while (end < wanted.end && !is_held(end)) ++end;
  return Invalid("slots: ", DescribeSlots(wanted), " are wanted, but none of the ", sources.size(), " sources has ",
                 DescribeSlots({first, end}));
}

}  // namespace

absl::StatusOr<std::vector<SlotShare>> ChooseSources(absl::Span<const SlotSource> sources, const SlotRange& wanted) {
  // Dynamic programming: takes the sources in the order of their ends, so that all covers that a source can extend are
  // already known.
  std::vector<size_t> by_end;
  for (size_t idx = 0; idx < sources.size(); ++idx) by_end.push_back(idx);
  std::stable_sort(by_end.begin(), by_end.end(),
                   [&](size_t a, size_t b) { return sources[a].slots.end < sources[b].slots.end; });
  std::map<int32_t, Cover> covers = {{wanted.first, Cover()}};  // the best one for each end
  for (const size_t idx : by_end) {
    SlotSource source = sources[idx];
    if (source.slots == wanted) source.num_bytes = 0;
    const int32_t end = std::min(source.slots.end, wanted.end);
    const Cover* best = nullptr;
    Cover found;
    for (const auto& [begin, cover] : covers) {
      if (begin < source.slots.first || begin >= end) continue;
      if (source.slots.is_whole() && begin != wanted.first) continue;
      Cover longer = Extend(cover, source, {idx, {begin, end}});
      if (best != nullptr && !longer.IsBetterThan(*best)) continue;
      found = std::move(longer);
      best = &found;
    }
    if (best == nullptr) continue;
    const auto [place, is_new] = covers.try_emplace(end, found);
    if (!is_new && found.IsBetterThan(place->second)) place->second = std::move(found);
  }
  const auto whole = covers.find(wanted.end);
  if (whole == covers.end()) return Missing(sources, wanted);
  return std::move(whole->second.shares);
}

}  // namespace maxsim::collection
