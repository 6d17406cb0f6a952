#include "kernels/topk.h"

#include <algorithm>

namespace maxsim {
namespace {

// The smallest capacity of a selector. Shrink takes O(capacity) time and makes room for at least half as many pushes.
// With a smaller capacity, the cost of calling Shrink would matter.
constexpr size_t kMinSelectorCapacity = 1024;

}  // namespace

void SelectTopK(int32_t k, std::vector<Scored>* scored) {
  const size_t wanted = static_cast<size_t>(std::max(k, 0));
  if (wanted < scored->size()) {
    std::nth_element(scored->begin(), scored->begin() + wanted, scored->end(), RanksBefore);
    scored->resize(wanted);
  }
  std::sort(scored->begin(), scored->end(), RanksBefore);
}

void TopKSelector::Reset(int32_t k) {
  k_ = static_cast<size_t>(std::max(k, 1));
  capacity_ = std::max(2 * k_, kMinSelectorCapacity);
  full_ = false;
  kept_.clear();
}

void TopKSelector::Finish(std::vector<Scored>* best) {
  SelectTopK(static_cast<int32_t>(k_), &kept_);
  best->assign(kept_.begin(), kept_.end());
}

void TopKSelector::Clear() {
  full_ = false;
  kept_.clear();
  if (kept_.capacity() > kMinSelectorCapacity) std::vector<Scored>().swap(kept_);
}

void TopKSelector::Shrink() {
  const auto worst_kept = kept_.begin() + (k_ - 1);
  std::nth_element(kept_.begin(), worst_kept, kept_.end(), RanksBefore);
  threshold_ = *worst_kept;
  full_ = true;
  kept_.resize(k_);
}

}  // namespace maxsim
