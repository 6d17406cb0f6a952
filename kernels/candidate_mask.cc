#include "kernels/candidate_mask.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace maxsim {

const uint64_t* SharedMask(absl::Span<const Query> queries, int64_t num_documents) {
  if (queries.empty()) return nullptr;
  const Query& first = queries.front();
  if (first.ordinals == nullptr || first.mask == nullptr || first.num_candidates < kMinMaskedCandidates) return nullptr;
  const int64_t mask_bytes = MaskWords(num_documents) * static_cast<int64_t>(sizeof(uint64_t));
  const int64_t list_bytes = first.num_candidates * static_cast<int64_t>(sizeof(uint32_t));
  if (2 * mask_bytes > list_bytes) return nullptr;
  const bool shared = std::all_of(queries.begin(), queries.end(), [&first](const Query& query) {
    return query.mask == first.mask && query.ordinals == first.ordinals && query.num_candidates == first.num_candidates;
  });
  return shared ? first.mask : nullptr;
}

absl::Status ValidateMask(const Query& query, int64_t num_documents, int64_t query_idx) {
  const int64_t num_words = MaskWords(num_documents);
  int64_t count = 0;
  for (int64_t word = 0; word < num_words; ++word) count += std::popcount(query.mask[word]);
  if (count != query.num_candidates) {
    return absl::InvalidArgumentError(absl::StrCat("queries[", query_idx, "].mask has ", count,
                                                   " documents; must have as many as num_candidates, ",
                                                   query.num_candidates));
  }
  if (num_documents % 64 != 0) {
    const uint64_t last = query.mask[num_words - 1];
    const int64_t end = num_words * 64 - std::countl_zero(last);  // above the last document
    if (last != 0 && end > num_documents) {
      return absl::InvalidArgumentError(absl::StrCat("queries[", query_idx, "].mask has document ", end - 1,
                                                     "; must be below ", num_documents, " documents"));
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim
