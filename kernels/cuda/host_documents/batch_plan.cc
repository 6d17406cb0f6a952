#include "kernels/cuda/host_documents/batch_plan.h"

#include <algorithm>

namespace maxsim::cuda {

int64_t EndOfBatch(const int64_t* offsets, int64_t begin, int64_t num_documents, const BatchCapacity& capacity) {
  const int64_t last = std::min(num_documents, begin + capacity.documents);
  // `beyond` is the first offset that the batch has no room for. All documents that end before it fit.
  const int64_t* const beyond =
      std::upper_bound(offsets + begin + 1, offsets + last + 1, offsets[begin] + capacity.rows);
  return std::max<int64_t>(beyond - offsets - 1, begin + 1);
}

ListPass& ListPasses::NextPass(int64_t first) {
  if (passes_.size() == num_passes_) passes_.emplace_back();
  ListPass& pass = passes_[num_passes_++];
  pass.first = pass.end = first;
  pass.num_rows = 0;
  pass.slots.clear();
  slot_of_document_.clear();
  return pass;
}

bool ListPasses::AddPosition(int64_t position, const int64_t* offsets, const BatchCapacity& capacity, ListPass& pass) {
  const size_t slots_before = pass.slots.size();
  const int64_t rows_before = pass.num_rows;
  for (const List& list : lists_) {
    if (position >= list.num_candidates) continue;
    const uint32_t document = list.ordinals[position];
    const auto [found, inserted] = slot_of_document_.try_emplace(document, static_cast<uint32_t>(pass.slots.size()));
    if (inserted) {
      pass.slots.push_back({document, pass.num_rows});
      pass.num_rows += offsets[document + size_t{1}] - offsets[document];
    }
    locations_[static_cast<size_t>(list.locations_begin + position)] = 2 * found->second;
  }
  if (pass.num_rows <= capacity.rows && static_cast<int64_t>(pass.slots.size()) * 2 <= capacity.documents) return true;
  pass.slots.resize(slots_before);
  pass.num_rows = rows_before;
  return false;
}

bool ListPasses::Plan(absl::Span<const Query> queries, const int64_t* offsets, const BatchCapacity& capacity) {
  lists_.clear();
  list_of_query_.clear();
  num_passes_ = 0;
  int64_t num_locations = 0, longest = 0;
  for (const Query& query : queries) {
    const auto known = std::find_if(lists_.begin(), lists_.end(), [&](const List& list) {
      return list.ordinals == query.ordinals && list.num_candidates == query.num_candidates;
    });
    list_of_query_.push_back(static_cast<size_t>(known - lists_.begin()));
    if (known != lists_.end()) continue;
    lists_.push_back({query.ordinals, query.num_candidates, num_locations});
    num_locations += query.num_candidates;
    longest = std::max(longest, query.num_candidates);
  }
  locations_.resize(static_cast<size_t>(num_locations));
  if (longest == 0) return true;
  ListPass* pass = &NextPass(0);
  for (int64_t position = 0; position < longest; ++position) {
    if (!AddPosition(position, offsets, capacity, *pass)) {
      if (pass->first == position) return false;
      pass = &NextPass(position);
      if (!AddPosition(position, offsets, capacity, *pass)) return false;
    }
    pass->end = position + 1;
  }
  return true;
}

}  // namespace maxsim::cuda
