// Selection of the best k on the host, in rank order. The rank order is total as long as positions differ and no score
// is NaN, so the result of every function here does not depend on the order of its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "kernels/rank_order.h"

namespace maxsim {

// Reduces `scored` to its best `k`, in rank order, in O(n + k log k).
void SelectTopK(int32_t k, std::vector<Scored>* scored);

// Selects the best k of a stream of results. Keeps at most max(2 k, 1024) results at a time, in memory that grows in
// powers of two as results arrive. Push is amortised O(1). Not thread-safe.
class TopKSelector {
 public:
  // Forgets everything and starts to select the best `k` >= 1.
  void Reset(int32_t k);

  void Push(const Scored& scored) {
    if (full_ && !RanksBefore(scored, threshold_)) return;
    kept_.push_back(scored);
    if (kept_.size() >= capacity_) Shrink();
  }

  // Returns the results kept so far, in no particular order. The results include the best k of everything pushed. The
  // span is valid until the next call of a function that is not const.
  absl::Span<const Scored> kept() const { return kept_; }

  // Overwrites `best` with the best k of everything pushed, in rank order.
  void Finish(std::vector<Scored>* best);

  // Forgets everything. Frees the memory if it has room for more than 1,024 results; otherwise keeps it for the next
  // use.
  void Clear();

 private:
  // Drops all but the best k and stores the worst of these in threshold_: a result that ranks after it cannot be among
  // the best k.
  void Shrink();

  size_t k_ = 0;
  size_t capacity_ = 0;
  bool full_ = false;  // whether `threshold_` is valid
  Scored threshold_;
  std::vector<Scored> kept_;
};

}  // namespace maxsim
