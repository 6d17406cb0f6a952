#include "kernels/plan/list_join.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace maxsim {
namespace {

// A list's sample should have kSampleOfList ordinals on average, and a list is compared with at most kCompared others.
constexpr double kSampleOfList = 48;
constexpr size_t kCompared = 64;

// A list joins other lists if at least this part of its sample is among their samples.
constexpr double kLeastInCommon = 0.25;

// A Sketch holds the sampled ordinals of one or more lists as a bitmap: each ordinal sets one bit, its mark. Samples
// are so small that two ordinals hardly ever set the same bit.
class Sketch {
 public:
  void Add(uint32_t hash) { words_[hash / 64 % kWords] |= uint64_t{1} << hash % 64; }

  void Add(const Sketch& other) {
    for (size_t w = 0; w < kWords; ++w) words_[w] |= other.words_[w];
  }

  // Counts the marks. Must be called after the last Add and before marks, Count and InCommon.
  void Finish() { marks_ = static_cast<double>(CountMarks(words_)); }

  double marks() const { return marks_; }

  // Returns the most likely number of ordinals that made the marks (linear counting).
  double Count() const { return -kMarks * std::log1p(-std::min(marks_, kMarks - 1) / kMarks); }

  // Returns the number of marks that both sketches have, minus the number that would be expected by chance.
  double InCommon(const Sketch& other) const {
    Words both;
    for (size_t w = 0; w < kWords; ++w) both[w] = words_[w] & other.words_[w];
    return static_cast<double>(CountMarks(both)) - marks_ * other.marks_ / kMarks;
  }

 private:
  static constexpr size_t kWords = 8;
  static constexpr double kMarks = 64 * kWords;
  using Words = std::array<uint64_t, kWords>;

  // Counts the marks of all words together, which compilers turn into vector instructions; std::popcount would be a
  // function call.
  static uint64_t CountMarks(const Words& words) {
    uint64_t of_bytes = 0;  // counts of marks by byte, at most 8 for each of 8 words
    for (uint64_t word : words) {
      word -= word >> 1 & 0x5555555555555555u;
      word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
      of_bytes += (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    }
    // Neighbouring counts are added first, so that the sum of four fits 16 bits.
    const uint64_t of_pairs = (of_bytes & 0x00ff00ff00ff00ffu) + (of_bytes >> 8 & 0x00ff00ff00ff00ffu);
    return of_pairs * 0x0001000100010001u >> 48;
  }

  Words words_{};
  double marks_ = 0;
};

// Returns a hash of the value: if two values differ in a few bits, their hashes differ in about half of the bits.
uint32_t Mixed(uint32_t value) {
  value = (value ^ value >> 16) * 0x85ebca6bu;
  value = (value ^ value >> 13) * 0xc2b2ae35u;
  return value ^ value >> 16;
}

// Returns the sketch of a sample of the list: those ordinals whose product with a constant, modulo 2^32, is at most
// `threshold`.
Sketch SketchOf(absl::Span<const uint32_t> ordinals, uint32_t threshold) {
  constexpr size_t kSampledAtOnce = 256;
  Sketch sketch;
  std::array<uint32_t, kSampledAtOnce> sampled;
  while (!ordinals.empty()) {
    const absl::Span<const uint32_t> part = ordinals.first(std::min(ordinals.size(), kSampledAtOnce));
    ordinals.remove_prefix(part.size());
    // The loop has no branch for the processor to guess.
    size_t count = 0;
    for (const uint32_t ordinal : part) {
      sampled[count] = ordinal;
      count += ordinal * 0x9e3779b1u <= threshold ? 1 : 0;
    }
    for (size_t i = 0; i < count; ++i) sketch.Add(Mixed(sampled[i]));
  }
  sketch.Finish();
  return sketch;
}

}  // namespace

std::vector<ListJoin> FindJoins(absl::Span<const CandidateList> lists) {
  double total = 0;
  for (const CandidateList& list : lists) total += static_cast<double>(list.ordinals.size());
  if (lists.size() < 2 || total == 0) return {};
  const double rate = std::min(kSampleOfList * static_cast<double>(lists.size()) / total, 1.0);
  const auto threshold = static_cast<uint32_t>(rate * 0xffffffffu);
  std::vector<Sketch> sketches;
  sketches.reserve(lists.size());
  for (const CandidateList& list : lists) sketches.push_back(SketchOf(list.ordinals, threshold));

  std::vector<ListJoin> joins;
  std::vector<bool> taken(lists.size());
  for (size_t first = 0; first < lists.size(); ++first) {
    if (taken[first]) continue;
    ListJoin join{{static_cast<int32_t>(first)}, lists[first].num_query_tiles, 0, 0};
    Sketch sketch = sketches[first];
    int64_t longest = static_cast<int64_t>(lists[first].ordinals.size());
    join.most = longest;
    while (static_cast<int64_t>(join.lists.size()) < kMaxJoinedLists && join.num_query_tiles < kJoinedQueryTiles) {
      size_t best = first;
      double best_in_common = 0;
      for (size_t i = first + 1; i < std::min(lists.size(), first + kCompared); ++i) {
        if (taken[i] || join.num_query_tiles + lists[i].num_query_tiles > kJoinedQueryTiles) continue;
        const double in_common = sketch.InCommon(sketches[i]);
        if (in_common <= best_in_common || in_common < kLeastInCommon * sketches[i].marks()) continue;
        best = i;
        best_in_common = in_common;
      }
      if (best == first) break;
      taken[best] = true;
      sketch.Add(sketches[best]);
      sketch.Finish();
      const auto length = static_cast<int64_t>(lists[best].ordinals.size());
      join.lists.push_back(static_cast<int32_t>(best));
      join.num_query_tiles += lists[best].num_query_tiles;
      join.most += length;
      longest = std::max(longest, length);
    }
    if (join.lists.size() < 2) continue;
    join.expected = std::clamp(static_cast<int64_t>(sketch.Count() / rate), longest, join.most);
    joins.push_back(std::move(join));
  }
  return joins;
}

}  // namespace maxsim
