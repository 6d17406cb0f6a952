#include "server/store/collection/matching_documents.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/types/span.h"
#include "base/text.h"
#include "collection/filters/evaluate.h"
#include "collection/filters/ordinal_bitmap.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/part_fields.h"

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

}  // namespace

absl::StatusOr<std::shared_ptr<const MatchingDocuments>> MatchingDocuments::Find(const Collection& collection,
                                                                                 const collection::Filter& filter) {
  const std::shared_ptr<MatchingDocuments> found(new MatchingDocuments());
  found->parts_.reserve(collection.num_parts());
  for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
    absl::Status status = found->AddPart(collection, filter, /*keeps_lists=*/collection.code_planes() == 0);
    if (!status.ok()) return status;
  }
  found->memory_bytes_ += found->parts_.capacity() * sizeof(MatchingPart);
  return std::shared_ptr<const MatchingDocuments>(found);
}

absl::Status MatchingDocuments::AddPart(const Collection& collection, const collection::Filter& filter,
                                        bool keeps_lists) {
  const Part& part = collection.part(parts_.size());
  if (part.fields == nullptr) return absl::InternalError("a part of the collection has no fields");
  const absl::StatusOr<collection::OrdinalBitmap> set = collection::EvaluateFilter(filter, part.fields->index());
  if (!set.ok()) return set.status();
  MatchingPart& added = parts_.emplace_back();
  added.num_documents = static_cast<uint64_t>(set->size());
  const bool is_sparse = added.num_documents * kSparseShare < static_cast<uint64_t>(part.num_documents());
  if (is_sparse || keeps_lists) added.list = std::make_shared<const std::vector<uint32_t>>(set->ToVector());
  if (!is_sparse) added.mask = std::make_shared<const std::vector<uint64_t>>(set->ToMask(part.num_documents()));
  if (part.view.document_tokens > 0) {
    added.num_tokens = added.num_documents * static_cast<uint64_t>(part.view.document_tokens);
  } else {
    set->ForEachBlock(
        [&](absl::Span<const uint32_t> ordinals) { added.num_tokens += collection.num_tokens(part, ordinals); });
  }
  num_documents_ += added.num_documents;
  num_tokens_ += added.num_tokens;
  memory_bytes_ += BytesOf(added.list) + BytesOf(added.mask);
  return absl::OkStatus();
}

bool MatchingDocuments::Contains(Location location) const {
  const MatchingPart& part = parts_[location.part];
  if (part.mask != nullptr) return ((*part.mask)[location.ordinal / 64] >> (location.ordinal % 64) & 1) != 0;
  return std::binary_search(part.list->begin(), part.list->end(), location.ordinal);
}

std::shared_ptr<const std::vector<uint32_t>> MatchingDocuments::List(size_t part) const {
  if (parts_[part].list != nullptr) return parts_[part].list;
  return std::make_shared<const std::vector<uint32_t>>(ListOf(*parts_[part].mask, parts_[part].num_documents));
}

}  // namespace maxsim::store
