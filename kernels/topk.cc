#include "kernels/topk.h"

#include <algorithm>

namespace maxsim {
namespace {

// Shrinking costs O(capacity), so it must make room for about as many pushes; with a smaller capacity it is not worth
// the call.
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

void MergeTopK(absl::Span<const absl::Span<const Scored>> lists, int32_t k, std::vector<Scored>* merged) {
  merged->clear();
  // The cursors are a heap, with the list whose head ranks first on top.
  struct Cursor {
    const Scored* head;
    const Scored* end;
  };
  std::vector<Cursor> heap;
  heap.reserve(lists.size());
  for (absl::Span<const Scored> list : lists) {
    if (!list.empty()) heap.push_back({list.data(), list.data() + list.size()});
  }
  const auto ranks_after = [](const Cursor& a, const Cursor& b) { return RanksBefore(*b.head, *a.head); };
  std::make_heap(heap.begin(), heap.end(), ranks_after);
  while (!heap.empty() && merged->size() < static_cast<size_t>(std::max(k, 0))) {
    std::pop_heap(heap.begin(), heap.end(), ranks_after);
    Cursor& first = heap.back();
    merged->push_back(*first.head);
    if (++first.head == first.end) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), ranks_after);
    }
  }
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
