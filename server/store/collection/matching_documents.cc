#include "server/store/collection/matching_documents.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "absl/types/span.h"
#include "base/text.h"
#include "collection/filters/evaluate.h"
#include "collection/filters/field_index.h"
#include "collection/filters/ordinal_bitmap.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/part_fields.h"
#include "server/store/collection/slot_masks.h"

namespace maxsim::store {
namespace {

template <typename T>
uint64_t BytesOf(const std::shared_ptr<const std::vector<T>>& values) {
  return values == nullptr ? 0 : sizeof(*values) + values->capacity() * sizeof(T);
}

std::vector<uint32_t> ListOf(const std::vector<uint64_t>& mask, uint64_t count) {
  std::vector<uint32_t> ordinals;
  ordinals.reserve(static_cast<size_t>(count));
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      ordinals.push_back(static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
  return ordinals;
}

absl::StatusOr<collection::OrdinalBitmap> EvaluateOnPart(const Collection& collection, const Part& part,
                                                         const collection::Filter& filter, const StopCheck& check) {
  SlotReader slots(part, check);
  if (part.fields != nullptr) return part.fields->Evaluate(filter, check, &slots);
  const std::vector<collection::Field>& no_fields = collection.manifest().fields;
  if (!no_fields.empty()) return absl::InternalError("a part of the collection has no fields");
  // All comparisons of the filter are with slots.
  const int64_t num_documents = part.num_documents();
  return collection::EvaluateFilter(
      filter, collection::ShardIndex(no_fields, {}, num_documents), check,
      [&](const collection::SlotRange& range) { return slots.Find(range, 0, num_documents); });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MatchingDocuments>> MatchingDocuments::Find(const Collection& collection,
                                                                                 const collection::Filter& filter,
                                                                                 const MatchingDocuments* known,
                                                                                 const StopCheck& check) {
  const std::shared_ptr<MatchingDocuments> found(new MatchingDocuments(collection.sequence()));
  found->parts_.reserve(collection.num_parts());
  for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
    const Part& part = collection.part(idx);
    const size_t num_tombstones = collection.num_tombstones(idx);
    MatchingPart matching;
    if (known != nullptr && idx < known->parts_.size() && known->parts_[idx].num_looked_at == part.num_documents() &&
        known->parts_[idx].num_tombstones <= num_tombstones) {
      matching = known->parts_[idx];
    } else {
      absl::StatusOr<MatchingPart> evaluated = Evaluate(collection, part, filter, check);
      if (!evaluated.ok()) return evaluated.status();
      matching = *std::move(evaluated);
    }
    if (matching.num_tombstones < num_tombstones) {
      LeaveOut(collection, part, collection.tombstones(idx, matching.num_tombstones), matching);
      matching.num_tombstones = num_tombstones;
    }
    found->num_documents_ += matching.num_documents;
    found->num_tokens_ += matching.num_tokens;
    found->memory_bytes_ += BytesOf(matching.list) + BytesOf(matching.mask);
    found->parts_.push_back(std::move(matching));
  }
  found->memory_bytes_ += found->parts_.capacity() * sizeof(MatchingPart);
  return std::shared_ptr<const MatchingDocuments>(found);
}

// Finds the documents of a part that match the filter, including those with a tombstone.
absl::StatusOr<MatchingDocuments::MatchingPart> MatchingDocuments::Evaluate(const Collection& collection,
                                                                            const Part& part,
                                                                            const collection::Filter& filter,
                                                                            const StopCheck& check) {
  const absl::StatusOr<collection::OrdinalBitmap> set = EvaluateOnPart(collection, part, filter, check);
  if (!set.ok()) return set.status();
  MatchingPart found;
  found.num_looked_at = part.num_documents();
  found.num_documents = static_cast<uint64_t>(set->size());
  const bool has_mask =
      part.segment == nullptr && found.num_documents * kSparseShare >= static_cast<uint64_t>(part.num_documents());
  const bool has_list = !has_mask || collection.code_planes() == 0;
  if (has_list) found.list = std::make_shared<const std::vector<uint32_t>>(set->ToVector());
  if (has_mask) found.mask = std::make_shared<const std::vector<uint64_t>>(set->ToMask(part.num_documents()));
  if (part.segment == nullptr && part.view.document_tokens > 0) {
    found.num_tokens = found.num_documents * static_cast<uint64_t>(part.view.document_tokens);
  } else {
    set->ForEachBlock(
        [&](absl::Span<const uint32_t> ordinals) { found.num_tokens += collection.num_tokens(part, ordinals); });
  }
  return found;
}

// Removes the documents `ordinals` (in any order) from the matches of a part.
void MatchingDocuments::LeaveOut(const Collection& collection, const Part& part, std::vector<uint32_t> ordinals,
                                 MatchingPart& found) {
  std::sort(ordinals.begin(), ordinals.end());
  std::erase_if(ordinals, [&](uint32_t ordinal) { return !Contains(found, ordinal); });
  if (ordinals.empty()) return;
  found.num_documents -= ordinals.size();
  found.num_tokens -= collection.num_tokens(part, ordinals);
  if (found.mask != nullptr) {
    std::vector<uint64_t> mask = *found.mask;
    for (const uint32_t ordinal : ordinals) mask[ordinal / 64] &= ~(uint64_t{1} << (ordinal % 64));
    found.mask = std::make_shared<const std::vector<uint64_t>>(std::move(mask));
  }
  if (found.list != nullptr) {
    std::vector<uint32_t> list;
    list.reserve(static_cast<size_t>(found.num_documents));
    std::set_difference(found.list->begin(), found.list->end(), ordinals.begin(), ordinals.end(),
                        std::back_inserter(list));
    found.list = std::make_shared<const std::vector<uint32_t>>(std::move(list));
  }
}

bool MatchingDocuments::Contains(const MatchingPart& part, uint32_t ordinal) {
  if (part.mask != nullptr) return ((*part.mask)[ordinal / 64] >> (ordinal % 64) & 1) != 0;
  return std::binary_search(part.list->begin(), part.list->end(), ordinal);
}

std::shared_ptr<const std::vector<uint32_t>> MatchingDocuments::List(size_t part) const {
  if (parts_[part].list != nullptr) return parts_[part].list;
  return std::make_shared<const std::vector<uint32_t>>(ListOf(*parts_[part].mask, parts_[part].num_documents));
}

}  // namespace maxsim::store
