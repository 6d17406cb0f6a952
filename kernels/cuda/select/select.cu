// Large selections in one launch. Each thread block has a split of a query's scores:
//
//   1. It takes the maxima of its buckets. The k-th largest of all buckets' maxima is a lower bound of the k-th score.
//   2. It gathers the candidates that reach the bound, a little more than k of all.
//   3. It ranks its share of them: they are counted into bins, a bin's keys come to lie together, and a key's rank is
//      that of its bin and the larger keys in it. Few are ranked by counting all larger ones.
//
// Scores that are neighbours fall into different buckets and mostly different splits, so that sorted scores stay cheap,
// and keys hold the position, so that equal scores do. Where a split finds more candidates than its list takes all the
// same, and where k is too large for step 1, histograms narrow a window of keys around the k-th one, pass by pass.
//
// Between the steps blocks wait for one another, through the query's workspace. NOTES:
//  - Nobody waits for a block that may not be running. A block waits for splits, and a split that no block has taken it
//    takes itself: after a while, as such a block is usually about to start. So the grid needs no guarantee that all of
//    its blocks run at once: kernels of other streams may hold any part of the device, and one block alone comes to an
//    end too. A block whose split is gone when it starts has nothing to do. Splits are taken in step 1 only, so that
//    afterwards every split's block is one that runs.
//  - What a split's block writes depends on the split alone, so results do not depend on who did what.
//  - Step 1 begins with reading scores while the claim is still on its way.
#include <limits>

#include "kernels/cuda/call/completion.cuh"
#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/select/block_scan.cuh"
#include "kernels/cuda/select/key.cuh"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kThreads = kSelectThreads;
constexpr int kWarps = kSelectWarps;
static_assert(kWarps == 32, "a lane a warp");
static_assert(kSelectBins == 2 * kThreads, "a thread has two bins");
constexpr int kBinBits = 11;
static_assert(kSelectBins == 1 << kBinBits && kSelectPasses * kBinBits >= 64);

constexpr int kKeysInShared = 4096;
// Copies of a histogram, one for each lane number modulo 4: a warp's atomics on one address go one by one.
constexpr int kCopies = 4;
static_assert(kCopies * kSelectBins * sizeof(uint32_t) <= kKeysInShared * sizeof(uint64_t));
// Bins with more keys than this make ranking within bins slow; then all keys are ranked against all.
constexpr int kMostKeysOfBin = 512;
// Ranks that are dealt with at once; bins begin among them and end up to a bin's size later.
constexpr int kRanksOfPiece = kKeysInShared - kMostKeysOfBin;
// Keys that a warp ranks at once against all others.
constexpr int kKeysOfWarp = 4;
// Polls, of 0.7 us each, before a block takes a split that is not its own.
constexpr int kPatience = 16;
// Groups a thread looks at.
constexpr int kBucketsOfThread = kMaxSelectBuckets / kThreads;

struct Shared {
  uint64_t keys[kKeysInShared];
  uint32_t histogram[kSelectBins];
  uint32_t first_ranks[kSelectBins];
  ScanSpace scan;
  ScanSpace scan2;
  SelectQuery query;  // here, as registers are scarce
  uint64_t* lists;
  DeviceScored* results;
  CallTimes* times;
  uint32_t list_begins[kMaxSelectSplits + 1];
  int32_t splits[kMaxSelectSplits];  // of this block
  int32_t claim;                     // what thread 0 has found out, for all
  uint32_t list_size;
  uint32_t bin;
  uint32_t above;  // keys in the bins above
  uint32_t in_bin;
};

// The `size` keys from `low` up, in bins of 2^shift.
struct Window {
  uint64_t low;
  uint64_t size;
  int shift;

  // Keys low .. high, in bins as small as their number allows.
  static __device__ __forceinline__ Window Over(uint64_t low, uint64_t high) {
    return {low, high - low + 1, max(0, 64 - __clzll(static_cast<long long>(high - low)) - kBinBits)};
  }
  __device__ __forceinline__ bool Holds(uint64_t key) const { return key - low < size; }
  __device__ __forceinline__ uint32_t BinOf(uint64_t key) const { return static_cast<uint32_t>((key - low) >> shift); }
  // One bin of it.
  __device__ __forceinline__ Window Narrowed(uint32_t bin) const {
    return {low + (static_cast<uint64_t>(bin) << shift), uint64_t{1} << shift, max(0, shift - kBinBits)};
  }
};

// What a thread knows of the scores it has read.
struct Seen {
  float highest = -kInfinity;
  uint32_t position = 0xffffffffu;  // of the first of the highest; so: there were no scores
  float lowest = kInfinity;

  __device__ __forceinline__ bool any() const { return position != 0xffffffffu; }
  __device__ __forceinline__ uint64_t Key() const { return any() ? MakeKey(highest, position) : 0; }
};

class Selection {
 public:
  // `shared.query` and what belongs to it can be read.
  __device__ __forceinline__ Selection(const float* all_scores, SelectWorkspace& workspace, Shared& shared)
      : query_(shared.query),
        scores_(all_scores + query_.scores_offset),
        workspace_(workspace),
        shared_(shared),
        thread_(threadIdx.x),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        k_(static_cast<uint32_t>(query_.k)),
        num_splits_(static_cast<uint32_t>(query_.splits)) {}

  __device__ __forceinline__ void Run() {
    if (Begin()) {
      Finish();
    } else {
      Depart();
    }
    CleanUp();
  }

 private:
  // Step 1. False when others have done the block's split.
  __device__ __forceinline__ bool Begin() {
    const uint32_t split = blockIdx.x;
    uint32_t taken = 0;
    if (thread_ == 0) taken = atomicExch(&workspace_.claimed[split], 1u);
    const Seen seen = Scan(split);
    own_ = seen.Key();
    if (thread_ == 0) {
      shared_.claim = taken == 0 ? 1 : 0;
      shared_.splits[0] = static_cast<int32_t>(split);
    }
    num_own_ = 1;
    __syncthreads();
    if (shared_.claim == 0) return false;
    Publish(split, seen);
    Arrive(1);
    return true;
  }

  // The other steps.
  __device__ __forceinline__ void Finish() {
    WaitForStep</*kHelp=*/true>();
    uint64_t bound = 0;
    bool gathered = false;
    if (query_.buckets > 0) {
      bound = FindBound();
      Gather(bound);
      Arrive(num_own_);
      WaitForStep<false>();
      gathered = LookUpLists();
    }
    if (!gathered) {
      bound = Narrow(query_.buckets > 0 ? Window::Over(bound, Highest()) : WholeWindow());
      GatherTogether(bound);
      Arrive(num_own_);
      WaitForStep<false>();
      if (thread_ == 0) {
        shared_.list_begins[0] = 0;
        shared_.list_begins[1] = __ldcg(&workspace_.num_keys);
      }
      num_lists_ = 1;
      __syncthreads();
    }
    Depart();
    Rank(Window::Over(bound, Highest()));
  }

  // Called when the block needs no more of the workspace than its lists, with a barrier between the last use and here.
  // The answer is wanted at the end only.
  __device__ __forceinline__ void Depart() {
    if (thread_ != 0) return;
    __threadfence();
    departed_before_ = atomicAdd(&workspace_.num_left, 1u);
  }

  // The block that departed last leaves the workspace as it was found. The first query's notes the time.
  __device__ __forceinline__ void CleanUp() {
    __syncthreads();
    if (thread_ == 0) {
      shared_.claim = departed_before_ + 1 == num_splits_ ? 1 : 0;
      __threadfence();
    }
    __syncthreads();
    if (shared_.claim == 0) return;
    const uint32_t used = __ldcg(&workspace_.num_histograms);
    for (uint32_t pass = 0; pass < used; ++pass) {
      for (int bin = thread_; bin < kSelectBins; bin += kThreads) workspace_.histograms[pass][bin] = 0;
    }
    if (thread_ < num_splits_) workspace_.claimed[thread_] = 0;
    __syncthreads();
    if (thread_ == 0) {
      workspace_.num_done = workspace_.num_left = workspace_.num_keys = workspace_.num_histograms = 0;
      if (blockIdx.y == 0 && shared_.times != nullptr) NoteTime(&shared_.times->results_end);
    }
  }

  // Waiting. A step is done when all splits are done with it.

  // All that the block has written for `count` splits can be seen by those who wait for the step.
  __device__ __forceinline__ void Arrive(uint32_t count) {
    __syncthreads();
    if (num_splits_ == 1 || thread_ != 0) return;
    __threadfence();
    atomicAdd(&workspace_.num_done, count);
  }

  __device__ __forceinline__ uint32_t NumDone() const {
    uint32_t done;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(&workspace_.num_done) : "memory");
    return done;
  }

  template <bool kHelp>
  __device__ __forceinline__ void WaitForStep() {
    steps_done_ += num_splits_;
    if (num_splits_ == 1) return;  // Arrive's barrier was enough
    while (true) {
      if (thread_ == 0) shared_.claim = kHelp ? WaitOrClaim() : WaitOnly();
      __syncthreads();
      const int32_t split = shared_.claim;
      __syncthreads();
      if (split < 0) return;
      if constexpr (kHelp) Help(split);
    }
  }

  // Both return -1 when the step is done.
  __device__ __forceinline__ int32_t WaitOnly() const {
    while (NumDone() < steps_done_) {
    }
    return -1;
  }
  // A split that nobody else has taken when there is one after a while.
  __device__ __forceinline__ int32_t WaitOrClaim() const {
    while (true) {
      for (int poll = 0; poll < kPatience; ++poll) {
        if (NumDone() >= steps_done_) return -1;
      }
      for (uint32_t i = 1; i < num_splits_; ++i) {
        const uint32_t split = (blockIdx.x + i) % num_splits_;
        if (__ldcg(&workspace_.claimed[split]) == 0 && atomicExch(&workspace_.claimed[split], 1u) == 0) {
          return static_cast<int32_t>(split);
        }
      }
    }
  }

  // Does step 1 of somebody else's split, which is this block's from now on.
  __device__ __forceinline__ void Help(int32_t split) {
    if (thread_ == 0) shared_.splits[num_own_] = split;
    ++num_own_;
    Publish(split, Scan(split));
    Arrive(1);
  }

  // Reading. Four neighbouring scores are a thread's; 128 are a warp's; the next 128 are the next split's.

  __device__ __forceinline__ uint32_t NumScores() const { return static_cast<uint32_t>(query_.num_candidates); }
  __device__ __forceinline__ uint32_t FirstQuad(uint32_t split) const {
    return (warp_ * num_splits_ + split) * 32 + lane_;
  }
  __device__ __forceinline__ uint32_t QuadStep() const { return num_splits_ * kThreads; }
  // The last one to three scores are the first split's.
  __device__ __forceinline__ bool HasRest(uint32_t split) const { return split == 0 && thread_ < NumScores() % 4; }

  __device__ __forceinline__ Seen Scan(uint32_t split) const {
    return query_.buckets > 0 ? ScanScores<false>(split) : ScanScores<true>(split);
  }

  template <bool kLowest>
  __device__ __forceinline__ Seen ScanScores(uint32_t split) const {
    Seen seen;
    const auto look = [&seen](const float4& quad, uint32_t i) {
      const float highest = fmaxf(fmaxf(quad.x, quad.y), fmaxf(quad.z, quad.w));
      if (highest > seen.highest) {
        seen.highest = highest;
        seen.position = 4 * i + (quad.x == highest ? 0 : quad.y == highest ? 1 : quad.z == highest ? 2 : 3);
      }
      if (kLowest) seen.lowest = fminf(seen.lowest, fminf(fminf(quad.x, quad.y), fminf(quad.z, quad.w)));
    };
    const float4* quads = reinterpret_cast<const float4*>(scores_);
    const uint32_t num_quads = NumScores() / 4, step = QuadStep();
    constexpr int kLoads = 4;
    uint32_t i = FirstQuad(split);
    for (; i + (kLoads - 1) * step < num_quads; i += kLoads * step) {
      float4 quad[kLoads];
#pragma unroll
      for (int r = 0; r < kLoads; ++r) quad[r] = quads[i + r * step];
#pragma unroll
      for (int r = 0; r < kLoads; ++r) look(quad[r], i + r * step);
    }
    float4 quad[kLoads - 1];
#pragma unroll
    for (int r = 0; r < kLoads - 1; ++r) {
      if (i + r * step < num_quads) quad[r] = quads[i + r * step];
    }
#pragma unroll
    for (int r = 0; r < kLoads - 1; ++r) {
      if (i + r * step < num_quads) look(quad[r], i + r * step);
    }
    if (HasRest(split)) {
      const uint32_t position = num_quads * 4 + thread_;
      const float score = scores_[position];
      if (score > seen.highest) {
        seen.highest = score;
        seen.position = position;
      }
      if (kLowest) seen.lowest = fminf(seen.lowest, score);
    }
    return seen;
  }

  // Calls visit(key) for every score of a split that is the thread's. kLoads reads are under way together: a few
  // suffice where all threads read, but a thread that reads nearly alone waits for each of them.
  template <int kLoads, class Visit>
  __device__ __forceinline__ void ForEachKey(uint32_t split, Visit visit) const {
    const float4* quads = reinterpret_cast<const float4*>(scores_);
    const uint32_t num_quads = NumScores() / 4, step = QuadStep();
    for (uint32_t i = FirstQuad(split); i < num_quads; i += kLoads * step) {
      float4 quad[kLoads];
#pragma unroll
      for (int r = 0; r < kLoads; ++r) {
        if (i + r * step < num_quads) quad[r] = quads[i + r * step];
      }
#pragma unroll
      for (int r = 0; r < kLoads; ++r) {
        const uint32_t position = 4 * (i + r * step);
        if (i + r * step >= num_quads) continue;
        visit(MakeKey(quad[r].x, position));
        visit(MakeKey(quad[r].y, position + 1));
        visit(MakeKey(quad[r].z, position + 2));
        visit(MakeKey(quad[r].w, position + 3));
      }
    }
    if (HasRest(split)) {
      const uint32_t position = num_quads * 4 + thread_;
      visit(MakeKey(scores_[position], position));
    }
  }

  // Writes what step 1 has found in a split.
  __device__ __forceinline__ void Publish(uint32_t split, const Seen& seen) {
    if (query_.buckets == 0) {
      const uint32_t low = seen.any() ? OrderedBits(seen.lowest) : 0xffffffffu;
      const uint32_t high = seen.any() ? OrderedBits(seen.highest) : 0;
      const uint2 extremes = Extremes(low, high, shared_.scan);
      if (thread_ == 0) {
        __stcg(&workspace_.lowest[split], extremes.x);
        __stcg(&workspace_.highest[split], extremes.y);
      }
      return;
    }
    // Threads whose numbers agree modulo `buckets` make a bucket. Threads t .. t + factor - 1 join the maxima of one.
    const auto place = [](uint32_t thread) { return thread + thread / 32; };  // against bank conflicts
    shared_.keys[place(thread_)] = seen.Key();
    __syncthreads();
    const uint32_t buckets = query_.buckets, factor = kThreads / buckets;
    uint64_t maximum = shared_.keys[place(thread_ % factor * buckets + thread_ / factor)];
    for (uint32_t distance = factor / 2; distance > 0; distance /= 2) {
      maximum = max(maximum, __shfl_xor_sync(kAllLanes, maximum, distance));
    }
    if (thread_ % factor == 0) __stcg(&workspace_.maxima[split * buckets + thread_ / factor], maximum);
  }

  // Finding bounds.

  // The bin of the counted keys that holds the need-th largest; its number, its size and how many lie above are left in
  // shared memory. False when there are fewer keys.
  __device__ __forceinline__ bool FindBin(const uint32_t* histogram, uint32_t need) {
    const uint32_t high = kSelectBins - 1 - 2 * thread_;
    const uint32_t count_high = histogram[high], count_low = histogram[high - 1];
    const uint32_t above = SumBefore(count_high + count_low, shared_.scan);
    const bool here = above < need && need <= above + count_high + count_low;
    if (here) {
      const bool in_high = need <= above + count_high;
      shared_.bin = in_high ? high : high - 1;
      shared_.above = in_high ? above : above + count_high;
      shared_.in_bin = in_high ? count_high : count_low;
    }
    return __syncthreads_or(here);
  }

  // A key that at least k buckets' maxima reach, and hardly more do; 1, which every key reaches, when there are too few
  // buckets. Every block finds the same. Leaves the highest score for Highest.
  __device__ __forceinline__ uint64_t FindBound() {
    const uint32_t num_buckets = num_splits_ * query_.buckets;
    uint64_t maxima[kBucketsOfThread];
    uint32_t low = 0xffffffffu, high = 0;
#pragma unroll
    for (int r = 0; r < kBucketsOfThread; ++r) {
      const uint32_t bucket = thread_ + r * kThreads;
      maxima[r] = bucket < num_buckets ? __ldcg(&workspace_.maxima[bucket]) : 0;
      if (maxima[r] == 0) continue;
      low = min(low, static_cast<uint32_t>(maxima[r] >> 32));
      high = max(high, static_cast<uint32_t>(maxima[r] >> 32));
    }
    const uint2 extremes = Extremes(low, high, shared_.scan2);
    highest_score_ = extremes.y;
    Window window = Window::Over(static_cast<uint64_t>(extremes.x) << 32, Highest());
    const uint32_t slack = max(k_ / 8, 4u);
    uint32_t need = k_;
    while (true) {
      __syncthreads();
      shared_.histogram[thread_] = shared_.histogram[thread_ + kThreads] = 0;
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kBucketsOfThread; ++r) {
        if (maxima[r] != 0 && window.Holds(maxima[r])) atomicAdd(&shared_.histogram[window.BinOf(maxima[r])], 1u);
      }
      __syncthreads();
      if (!FindBin(shared_.histogram, need)) return 1;
      need -= shared_.above;
      const uint64_t bound = window.Narrowed(shared_.bin).low;
      if (shared_.in_bin - need <= slack || window.shift == 0) return bound;
      window = window.Narrowed(shared_.bin);
    }
  }

  // All keys, where there are no buckets.
  __device__ __forceinline__ Window WholeWindow() {
    uint32_t low = 0xffffffffu, high = 0;
    if (thread_ < num_splits_) {
      low = __ldcg(&workspace_.lowest[thread_]);
      high = __ldcg(&workspace_.highest[thread_]);
    }
    const uint2 extremes = Extremes(low, high, shared_.scan2);
    highest_score_ = extremes.y;
    return Window::Over(static_cast<uint64_t>(extremes.x) << 32, Highest());
  }

  // Narrows a window that holds the k best keys by histograms of all scores, until the keys from its low end on fit the
  // common list. Returns that end.
  __device__ __forceinline__ uint64_t Narrow(Window window) {
    const uint32_t room = num_splits_ * static_cast<uint32_t>(query_.list_keys);
    // Fewer candidates are quicker to rank, and a bin more is quicker than another pass.
    const uint32_t enough = min(room, k_ + k_ / 4 + 1024);
    uint32_t* copies = reinterpret_cast<uint32_t*>(shared_.keys);
    uint32_t above = 0;  // keys above the window
    for (int pass = 0; pass < kSelectPasses; ++pass) {
      __syncthreads();
      for (int i = thread_; i < kCopies * kSelectBins; i += kThreads) copies[i] = 0;
      __syncthreads();
      for (uint32_t i = 0; i < num_own_; ++i) {
        ForEachKey<2>(shared_.splits[i], [&](uint64_t key) {
          if (window.Holds(key)) atomicAdd(&copies[window.BinOf(key) * kCopies + lane_ % kCopies], 1u);
        });
      }
      __syncthreads();
      for (int bin = thread_; bin < kSelectBins; bin += kThreads) {
        uint32_t count = 0;
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) count += copies[bin * kCopies + copy];
        if (count != 0) atomicAdd(&workspace_.histograms[pass][bin], count);
      }
      if (thread_ == 0) atomicMax(&workspace_.num_histograms, static_cast<uint32_t>(pass + 1));
      Arrive(num_own_);
      WaitForStep<false>();
      shared_.histogram[thread_] = __ldcg(&workspace_.histograms[pass][thread_]);
      shared_.histogram[thread_ + kThreads] = __ldcg(&workspace_.histograms[pass][thread_ + kThreads]);
      __syncthreads();
      FindBin(shared_.histogram, k_ - above);  // the window holds so many
      above += shared_.above;
      const bool done = above + shared_.in_bin <= enough || window.shift == 0;
      window = window.Narrowed(shared_.bin);
      if (done) break;
    }
    return window.low;
  }

  // Step 2.

  // Each split's candidates from `bound` on to its own list, as far as they fit, and their number.
  __device__ __forceinline__ void Gather(uint64_t bound) {
    for (uint32_t i = 0; i < num_own_; ++i) {
      const uint32_t split = shared_.splits[i];
      __syncthreads();
      if (thread_ == 0) shared_.list_size = 0;
      __syncthreads();
      // The thread knows the largest key of its part of the own split; few threads have to look again.
      if (i > 0 || own_ >= bound) {
        ForEachKey<4>(split, [&](uint64_t key) {
          if (key < bound) return;
          const uint32_t slot = atomicAdd(&shared_.list_size, 1u);
          if (slot >= static_cast<uint32_t>(query_.list_keys)) return;
          __stcg(shared_.lists + static_cast<int64_t>(split) * query_.list_keys + slot, key);
        });
      }
      __syncthreads();
      if (thread_ == 0) __stcg(&workspace_.list_sizes[split], shared_.list_size);
    }
  }

  // Where each split's list begins when they are numbered through. False when a list has not taken all.
  __device__ __forceinline__ bool LookUpLists() {
    const uint32_t size = thread_ < num_splits_ ? __ldcg(&workspace_.list_sizes[thread_]) : 0;
    const uint32_t before = SumBefore(size, shared_.scan2);
    if (thread_ <= num_splits_) shared_.list_begins[thread_] = before;
    num_lists_ = num_splits_;
    return !__syncthreads_or(size > static_cast<uint32_t>(query_.list_keys));
  }

  // All candidates from `bound` on to one list, which has room for them.
  __device__ __forceinline__ void GatherTogether(uint64_t bound) {
    for (uint32_t i = 0; i < num_own_; ++i) {
      ForEachKey<2>(shared_.splits[i], [&](uint64_t key) {
        if (key >= bound) __stcg(shared_.lists + atomicAdd(&workspace_.num_keys, 1u), key);
      });
    }
  }

  // The i-th candidate of all lists.
  __device__ __forceinline__ uint64_t Candidate(uint32_t i) const {
    uint32_t list = 0;
    for (uint32_t past = num_lists_; past - list > 1;) {
      const uint32_t middle = (list + past) / 2;
      (shared_.list_begins[middle] <= i ? list : past) = middle;
    }
    return __ldcg(shared_.lists + static_cast<int64_t>(list) * query_.list_keys + (i - shared_.list_begins[list]));
  }

  // Step 3. All candidates lie in `window`.

  __device__ __forceinline__ void Rank(Window window) {
    const uint32_t count = shared_.list_begins[num_lists_];
    // Against all others: count^2 / splits comparisons of a block; by bins: a few microseconds whatever they are.
    const bool few = count <= 2048 && count * count <= 65536 * num_splits_;
    if (few || !CountBins(window, count)) {
      for (uint32_t i = 0; i < num_own_; ++i) RankAgainstAll(shared_.splits[i], count);
    } else {
      for (uint32_t i = 0; i < num_own_; ++i) RankByBins(window, shared_.splits[i], count);
    }
  }

  // A split's share: every num_splits_-th candidate.
  __device__ __forceinline__ void RankAgainstAll(uint32_t split, uint32_t count) {
    for (uint32_t first = split; first < count; first += num_splits_ * kWarps * kKeysOfWarp) {
      uint64_t mine[kKeysOfWarp];
      uint32_t ranks[kKeysOfWarp];
      int num_mine = 0;
#pragma unroll
      for (int r = 0; r < kKeysOfWarp; ++r) {
        const uint32_t i = first + num_splits_ * (warp_ + kWarps * r);
        mine[r] = i < count ? Candidate(i) : 0;
        ranks[r] = 0;
        if (i < count) num_mine = r + 1;
      }
      for (uint32_t begin = 0; begin < count; begin += kKeysInShared) {
        const uint32_t in_tile = min(count - begin, kKeysInShared);
        __syncthreads();
        for (uint32_t i = thread_; i < in_tile; i += kThreads) shared_.keys[i] = Candidate(begin + i);
        __syncthreads();
        if (num_mine == 1) {
          for (uint32_t i = lane_; i < in_tile; i += 32) ranks[0] += shared_.keys[i] > mine[0] ? 1 : 0;
        } else if (num_mine > 1) {
          for (uint32_t i = lane_; i < in_tile; i += 32) {
            const uint64_t other = shared_.keys[i];
#pragma unroll
            for (int r = 0; r < kKeysOfWarp; ++r) ranks[r] += other > mine[r] ? 1 : 0;
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kKeysOfWarp; ++r) {
        const uint32_t rank = __reduce_add_sync(kAllLanes, ranks[r]);
        if (lane_ == 0 && r < num_mine) Write(mine[r], rank);
      }
    }
  }

  // Counts the candidates into bins, and finds the rank that each bin begins with. False when a bin that matters is too
  // full.
  __device__ __forceinline__ bool CountBins(Window window, uint32_t count) {
    __syncthreads();
    shared_.histogram[thread_] = shared_.histogram[thread_ + kThreads] = 0;
    __syncthreads();
    for (uint32_t i = thread_; i < count; i += kThreads) {
      atomicAdd(&shared_.histogram[window.BinOf(Candidate(i))], 1u);
    }
    __syncthreads();
    const uint32_t high = kSelectBins - 1 - 2 * thread_;
    const uint32_t count_high = shared_.histogram[high], count_low = shared_.histogram[high - 1];
    const uint32_t above = SumBefore(count_high + count_low, shared_.scan);
    shared_.first_ranks[high] = above;
    shared_.first_ranks[high - 1] = above + count_high;
    const bool full =
        (above < k_ && count_high > kMostKeysOfBin) || (above + count_high < k_ && count_low > kMostKeysOfBin);
    return !__syncthreads_or(full);
  }

  // A split's share: the bins that begin in its part of the ranks below k.
  __device__ __forceinline__ void RankByBins(Window window, uint32_t split, uint32_t count) {
    const auto share = [this](uint32_t c) {
      return static_cast<uint32_t>(static_cast<uint64_t>(k_) * c / num_splits_);
    };
    const uint32_t share_end = share(split + 1);
    for (uint32_t begin = share(split); begin < share_end; begin += kRanksOfPiece) {
      const uint32_t end = min(begin + kRanksOfPiece, share_end);
      __syncthreads();
      for (int i = thread_; i < kKeysInShared; i += kThreads) shared_.keys[i] = 0;
      __syncthreads();
      for (uint32_t i = thread_; i < count; i += kThreads) {
        const uint64_t key = Candidate(i);
        const uint32_t bin = window.BinOf(key), first = shared_.first_ranks[bin];
        if (first < begin || first >= end) continue;
        shared_.keys[first - begin + atomicSub(&shared_.histogram[bin], 1u) - 1] = key;
      }
      __syncthreads();
      for (int i = thread_; i < kKeysInShared; i += kThreads) {
        const uint64_t key = shared_.keys[i];
        if (key == 0) continue;
        const uint32_t bin = window.BinOf(key), first = shared_.first_ranks[bin];
        const uint32_t past = bin == 0 ? count : shared_.first_ranks[bin - 1];
        uint32_t rank = first;
        for (uint32_t other = first; other < past; ++other) rank += shared_.keys[other - begin] > key ? 1 : 0;
        Write(key, rank);
      }
    }
  }

  // No key is larger.
  __device__ __forceinline__ uint64_t Highest() const {
    return static_cast<uint64_t>(highest_score_) << 32 | 0xffffffffu;
  }

  __device__ __forceinline__ void Write(uint64_t key, uint32_t rank) const {
    if (rank < k_) StoreResult(shared_.results + rank, ScoreOf(key), PositionOf(key));
  }

  const SelectQuery& query_;
  const float* const scores_;
  SelectWorkspace& workspace_;
  Shared& shared_;
  const uint32_t thread_;
  const uint32_t lane_;
  const uint32_t warp_;
  const uint32_t k_;
  const uint32_t num_splits_;
  uint32_t num_own_ = 0;          // splits of this block, in shared_.splits
  uint32_t num_lists_ = 0;        // that candidates are in
  uint32_t steps_done_ = 0;       // what num_done must reach
  uint64_t own_ = 0;              // the thread's largest key of the block's first split
  uint32_t highest_score_ = 0;    // no key is larger
  uint32_t departed_before_ = 0;  // thread 0: blocks that had departed before this one
};

__global__ void __launch_bounds__(kThreads, 1) SelectKernel(const __grid_constant__ SelectCall call, CallTimes* times) {
  extern __shared__ __align__(16) uint8_t raw[];
  WaitForEarlierGrids();
  NoteTimeOnce(times, &CallTimes::scores_end);
  Shared& shared = *reinterpret_cast<Shared*>(raw);
  if (threadIdx.x == 0) {
    shared.query = call.num_large + call.num_small == 1 ? call.only : call.queries[blockIdx.y];
    shared.lists = call.keys + shared.query.keys_offset;
    shared.results = call.results + shared.query.results_offset;
    shared.times = times;
  }
  __syncthreads();
  if (blockIdx.x < shared.query.splits) Selection(call.scores, call.workspaces[blockIdx.y], shared).Run();
}

}  // namespace

cudaError_t PrepareLargeSelect(bool& overlap) {
  const cudaError_t error =
      cudaFuncSetAttribute(SelectKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  return error == cudaSuccess ? FindGridOrder(SelectKernel, overlap) : error;
}

cudaError_t LaunchLargeSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream) {
  const dim3 grid(call.most_splits, call.num_large);
  return LaunchOverlappingIf(overlap, SelectKernel, grid, kThreads, sizeof(Shared), stream, call, times);
}

cudaError_t PrepareSelect(bool& overlap) {
  const cudaError_t error = PrepareLargeSelect(overlap);
  return error == cudaSuccess ? PrepareRank(overlap) : error;
}

cudaError_t LaunchSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream) {
  if (call.num_large > 0) {
    const bool last = call.num_small == 0;
    const cudaError_t error = LaunchLargeSelect(call, last ? times : nullptr, overlap, stream);
    if (error != cudaSuccess || last) return error;
  }
  return LaunchRank(call, times, overlap, stream);
}

}  // namespace maxsim::cuda
