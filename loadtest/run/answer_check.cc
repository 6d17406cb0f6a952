#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "loadtest/run/workload.h"
#include "xxhash.h"

namespace maxsim::loadtest {
namespace {

absl::Status Wrong(int query, const std::string& what) {
  return absl::InternalError(absl::StrCat("wrong answer: results[", query, "]: ", what));
}

// Returns 48 bits (not all zero) of a hash of the results. Covers the fields that, by contract, are equal in all
// answers to one request of the same generation.
uint64_t HashOf(const v1::RerankResponse& response) {
  uint64_t hash = 1;
  const auto mix = [&hash](const void* data, size_t size) { hash = XXH3_64bits_withSeed(data, size, hash); };
  for (const v1::QueryResult& result : response.results()) {
    mix(result.scores().data(), static_cast<size_t>(result.scores_size()) * sizeof(float));
    mix(result.positions().data(), static_cast<size_t>(result.positions_size()) * sizeof(uint64_t));
    mix(result.int_ids().ids().data(), static_cast<size_t>(result.int_ids().ids_size()) * sizeof(int64_t));
    for (const std::string& id : result.string_ids().ids()) mix(id.data(), id.size());
  }
  return std::max<uint64_t>(hash >> 16, 1);
}

}  // namespace

PreparedRequest::PreparedRequest(const v1::RerankRequest& request, std::vector<std::vector<uint64_t>> candidates,
                                 uint64_t num_candidates, const IdSet* ids, AnswerCheck check, bool positions_are_open)
    : encoded_(request),
      num_queries_(request.queries_size()),
      num_candidates_(num_candidates),
      max_hits_(static_cast<int>(num_candidates == 0 ? request.top_k()
                                                     : std::min<uint64_t>(request.top_k(), num_candidates))),
      is_filtered_(!request.filter_text().empty() || num_candidates == 0),
      candidates_(std::move(candidates)),
      ids_(ids),
      check_(check),
      positions_are_open_(positions_are_open || num_candidates == 0) {}

absl::Status PreparedRequest::Check(const v1::RerankResponse& response) const {
  if (check_ == AnswerCheck::kNone) return absl::OkStatus();
  if (check_ == AnswerCheck::kOrder) return CheckWhole(response);
  const uint64_t fingerprint = response.generation() << 48 | HashOf(response);
  uint64_t known = known_.load(std::memory_order_relaxed);
  if (known == fingerprint) return absl::OkStatus();
  if (absl::Status whole = CheckWhole(response); !whole.ok()) return whole;
  // The first answer of a generation is kept, and the others are compared with it.
  while (known == 0 || known >> 48 != fingerprint >> 48) {
    if (known_.compare_exchange_weak(known, fingerprint, std::memory_order_relaxed)) return absl::OkStatus();
  }
  if (known == fingerprint) return absl::OkStatus();
  return absl::InternalError("wrong answer: not the same bits as the first answer to the same request");
}

absl::Status PreparedRequest::CheckWhole(const v1::RerankResponse& response) const {
  if (response.results_size() != num_queries_) {
    return absl::InternalError(
        absl::StrCat("wrong answer: ", response.results_size(), " results for ", num_queries_, " queries"));
  }
  for (int query = 0; query < num_queries_; ++query) {
    const v1::QueryResult& result = response.results(query);
    const int num_hits = result.scores_size();
    const bool is_right_number = is_filtered_ ? num_hits <= max_hits_ : num_hits == max_hits_;
    if (!is_right_number || result.positions_size() != num_hits) {
      return Wrong(query, absl::StrCat(num_hits, " scores and ", result.positions_size(), " positions; must be ",
                                       is_filtered_ ? "at most " : "", max_hits_, " of each"));
    }
    absl::flat_hash_set<uint64_t> seen;
    for (int i = 0; i < num_hits; ++i) {
      const uint64_t position = result.positions(i);
      // The ordinals of a live collection have gaps, and grow while it is written to.
      const bool is_known = positions_are_open_ || position < num_candidates_;
      if (!is_known || !seen.insert(position).second) {
        return Wrong(query, absl::StrCat("position ", position, " is none of ", num_candidates_, ", or appears twice"));
      }
      // Every comparison with a NaN is false, so that a NaN is out of order.
      const bool in_order = i == 0
                                ? result.scores(0) == result.scores(0)
                                : result.scores(i - 1) > result.scores(i) ||
                                      (result.scores(i - 1) == result.scores(i) && result.positions(i - 1) < position);
      if (!in_order) return Wrong(query, absl::StrCat("hit ", i, " is out of order"));
    }
    if (candidates_.empty()) continue;
    const std::vector<uint64_t>& list = candidates_[candidates_.size() == 1 ? 0 : static_cast<size_t>(query)];
    const int num_ids = result.string_ids().ids_size() + result.int_ids().ids_size();
    const bool right_kind = ids_->type() == v1::ID_TYPE_STRING ? result.has_string_ids() : result.has_int_ids();
    if (num_ids != num_hits || (num_ids > 0 && !right_kind)) {
      return Wrong(query, absl::StrCat(num_ids, " ids for ", num_hits, " hits, or of the wrong kind"));
    }
    for (int i = 0; i < num_hits; ++i) {
      if (!ids_->Names(result, i, list[result.positions(i)])) {
        return Wrong(query, absl::StrCat("hit ", i, " does not name the id at position ", result.positions(i)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim::loadtest
