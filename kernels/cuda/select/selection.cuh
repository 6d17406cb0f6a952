// The large selection of one query in one launch. Each thread block has a split of the query's scores, and all blocks
// go through three phases:
//
//   1. Scan: a block takes the maxima of its split's buckets (selection_scan.cuh). The k-th largest of all buckets'
//      maxima is a lower bound of the k-th score (selection_bound.cuh).
//   2. Gather: a block writes the candidates of its split that reach the bound to a list (selection_gather.cuh). All
//      lists together hold a little more than k candidates.
//   3. Rank: a block ranks its part of the gathered candidates and writes the results (selection_rank.cuh). Candidates
//      are counted into bins, a bin's keys come to lie together, and a key's rank is that of its bin plus the number of
//      larger keys in it. If there are few candidates, a key's rank is the number of all larger keys.
//
// Neighbouring scores are in different buckets and mostly in different splits, so that sorted scores are not slower.
// Keys contain the position, so that equal scores are not slower either. If more candidates of a split reach the bound
// than its list can hold, or if k is too large for buckets, histograms find the k-th key instead: each pass narrows a
// window of keys around it, and each pass is a phase of its own.
//
// Between the phases blocks wait for one another, through the query's workspace (selection_sync.cuh). NOTES:
//  - No block waits for a block that may not be running. A block waits for splits. If no block has taken a split, a
//    waiting block takes it itself, but only after some time, because the split's own block is usually about to start.
//    So not all blocks of the grid need to run at the same time: kernels of other CUDA streams may hold any part of the
//    device, and even a single running block finishes the selection. A block whose split was taken before the block
//    started has nothing to do. Splits are taken only in the scan, so after the scan every split belongs to a running
//    block.
//  - The data written for a split depends only on the split, so results do not depend on which block took it.
//  - The scan begins to read scores before the claim of the split has been answered.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/completion.cuh"
#include "kernels/cuda/select/selection_state.cuh"

namespace maxsim::cuda::selection {

// One thread's part in a thread block's work. All threads of a block call every function together, except where a
// function is said to be for thread 0.
class Selection {
 public:
  // Before Run is called, `shared.query` must be set, and the scores of that query must have been written.
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

  __device__ __forceinline__ void Run();

 private:
  // Scans the block's own split. Returns false when another block has taken it.
  __device__ __forceinline__ bool ScanOwnSplit();
  // Gathers and ranks.
  __device__ __forceinline__ void GatherAndRank();

  // Waiting for other blocks: selection_sync.cuh.

  // Adds `count` to the number of splits that have finished the phase, which other blocks wait for. Everything that
  // this block has written for these splits is then visible to those blocks.
  __device__ __forceinline__ void Arrive(uint32_t count);
  // Returns how many splits have finished a phase, summed over the phases so far.
  __device__ __forceinline__ uint32_t NumDone() const;
  // Waits until all splits have finished the phase. With kHelp, the block meanwhile takes splits that no block has
  // taken, and scans them.
  template <bool kHelp>
  __device__ __forceinline__ void WaitForPhase();
  // Returns -1 when the phase is done. For thread 0.
  __device__ __forceinline__ int32_t WaitOnly() const;
  // Returns -1 when the phase is done, or a split that this block has just claimed. For thread 0.
  __device__ __forceinline__ int32_t WaitOrClaim() const;
  // Scans a split that another block would have scanned. The split then belongs to this block.
  __device__ __forceinline__ void ScanForAnother(int32_t split);
  // Counts this block as departed: from now on it reads nothing of the workspace except the lists. The caller must have
  // passed a barrier since the last other use of the workspace. Only CleanUp reads the count, so nothing waits for it
  // here.
  __device__ __forceinline__ void Depart();
  // If this block departed last, zeroes the workspace for the next launch and, for the launch's first query, stores the
  // time.
  __device__ __forceinline__ void CleanUp();

  // Reading scores: selection_scan.cuh. A thread reads four neighbouring scores (a quad), a warp 128; the next 128
  // scores belong to the next split.

  __device__ __forceinline__ uint32_t NumScores() const;
  __device__ __forceinline__ uint32_t FirstQuad(uint32_t split) const;
  __device__ __forceinline__ uint32_t QuadStride() const;
  // Returns whether this thread reads one of the last one to three scores, which make no quad. They belong to the
  // first split.
  __device__ __forceinline__ bool HasLastScore(uint32_t split) const;
  __device__ __forceinline__ ScanResult Scan(uint32_t split) const;
  // Scan's loop; it finds the lowest score only with kLowest.
  template <bool kLowest>
  __device__ __forceinline__ ScanResult ScanScores(uint32_t split) const;
  // Calls visit(key) for every score of a split that this thread reads. A thread starts kLoads reads together. Two are
  // enough if all threads read; if only a few threads read, more reads together save time.
  template <int kLoads, class Visit>
  __device__ __forceinline__ void ForEachKey(uint32_t split, Visit visit) const;
  // Writes the maxima of a split's buckets to the workspace, or the split's extremes if the plan has no buckets.
  __device__ __forceinline__ void PublishScan(uint32_t split, const ScanResult& result);

  // Lower bounds of the k-th key: selection_bound.cuh.

  // Finds the bin of `histogram` that holds the need-th largest of the counted keys, and leaves it in shared_.bin,
  // .above and .in_bin. Returns false if fewer than `need` keys were counted.
  __device__ __forceinline__ bool FindBin(const uint32_t* histogram, uint32_t need);
  // Returns a key that the maxima of at least k buckets reach, and those of hardly more than k. If fewer than k buckets
  // have scores, returns 1, which every key reaches. Every block finds the same key. Sets highest_score_.
  __device__ __forceinline__ uint64_t FindBoundByBuckets();
  // Returns the window (range) of all keys. For plans without buckets. Sets highest_score_.
  __device__ __forceinline__ KeyWindow WholeWindow();
  // Narrows a window that holds the k best keys, by histograms of all scores, until the keys that reach its low end fit
  // the common list. Returns the low end.
  __device__ __forceinline__ uint64_t NarrowByHistograms(KeyWindow window);
  // Returns a key that no key exceeds.
  __device__ __forceinline__ uint64_t Highest() const;

  // Candidates: selection_gather.cuh.

  // Writes the candidates of this block's splits that reach `bound` to the splits' lists as far as they fit, and the
  // number of all of them to the workspace.
  __device__ __forceinline__ void Gather(uint64_t bound);
  // Numbers the candidates of all lists, one list after the other, and finds the number of each list's first candidate.
  // Returns false if a list could not take all of its candidates.
  __device__ __forceinline__ bool LookUpLists();
  // Writes the candidates of this block's splits that reach `bound` to the common list, which has room for them.
  __device__ __forceinline__ void GatherInOneList(uint64_t bound);
  // Returns the i-th candidate of all lists.
  __device__ __forceinline__ uint64_t Candidate(uint32_t i) const;

  // Ranking: selection_rank.cuh.

  // Writes this block's part of the results. All candidates must lie in `window`.
  __device__ __forceinline__ void Rank(KeyWindow window);
  // Ranks every num_splits_-th of `count` candidates, from the split's number on, by comparing each with all others.
  __device__ __forceinline__ void RankAgainstAll(uint32_t split, uint32_t count);
  // Counts the candidates into the window's bins, and finds the rank that each bin begins with. Returns false when a
  // bin that has ranks below k is too full for RankByBins.
  __device__ __forceinline__ bool CountBins(KeyWindow window, uint32_t count);
  // Ranks the candidates of the bins that begin in the split's part of the ranks below k.
  __device__ __forceinline__ void RankByBins(KeyWindow window, uint32_t split, uint32_t count);
  // Writes a key's candidate to the results if its rank is below k.
  __device__ __forceinline__ void Write(uint64_t key, uint32_t rank) const;

  const SelectQuery& query_;
  const float* const scores_;
  SelectWorkspace& workspace_;
  Shared& shared_;
  const uint32_t thread_;
  const uint32_t lane_;
  const uint32_t warp_;
  const uint32_t k_;
  const uint32_t num_splits_;
  uint32_t num_own_splits_ = 0;   // how many splits this block has, in shared_.splits
  uint32_t num_lists_ = 0;        // how many lists the candidates are in
  uint32_t awaited_done_ = 0;     // the value of num_done at which the phase is done
  uint64_t own_maximum_ = 0;      // the largest key that this thread has read of the block's first split
  uint32_t highest_score_ = 0;    // OrderedBits of the highest score
  uint32_t departed_before_ = 0;  // in thread 0: blocks that had departed before this one
};

__device__ __forceinline__ void Selection::Run() {
  if (ScanOwnSplit()) {
    GatherAndRank();
  } else {
    Depart();
  }
  CleanUp();
}

__device__ __forceinline__ bool Selection::ScanOwnSplit() {
  const uint32_t split = blockIdx.x;
  uint32_t taken = 0;
  if (thread_ == 0) taken = atomicExch(&workspace_.claimed[split], 1u);
  const ScanResult result = Scan(split);
  own_maximum_ = result.Key();
  if (thread_ == 0) {
    shared_.claim = taken == 0 ? 1 : 0;
    shared_.splits[0] = static_cast<int32_t>(split);
  }
  num_own_splits_ = 1;
  __syncthreads();
  if (shared_.claim == 0) return false;
  PublishScan(split, result);
  Arrive(1);
  return true;
}

__device__ __forceinline__ void Selection::GatherAndRank() {
  WaitForPhase</*kHelp=*/true>();
  uint64_t bound = 0;
  bool gathered = false;
  if (query_.buckets > 0) {
    bound = FindBoundByBuckets();
    Gather(bound);
    Arrive(num_own_splits_);
    WaitForPhase<false>();
    gathered = LookUpLists();
  }
  if (!gathered) {
    bound = NarrowByHistograms(query_.buckets > 0 ? KeyWindow::Over(bound, Highest()) : WholeWindow());
    GatherInOneList(bound);
    Arrive(num_own_splits_);
    WaitForPhase<false>();
    if (thread_ == 0) {
      shared_.list_begins[0] = 0;
      shared_.list_begins[1] = __ldcg(&workspace_.num_keys);
    }
    num_lists_ = 1;
    __syncthreads();
  }
  Depart();
  Rank(KeyWindow::Over(bound, Highest()));
}

}  // namespace maxsim::cuda::selection
