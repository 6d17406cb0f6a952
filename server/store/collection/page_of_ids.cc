#include "server/store/collection/page_of_ids.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <type_traits>

#include "collection/shard.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/collection/part.h"
#include "server/store/collection/segment.h"

namespace maxsim::store {
namespace {

// `check` is called each time this many documents have been looked at, which takes about a millisecond.
constexpr uint32_t kDocumentsPerCheck = 65'536;

// The number of calls of an IdCheck between two calls of `check`. An IdCheck may read a database, which takes some
// microseconds.
constexpr uint32_t kAcceptsPerCheck = 1024;

// Calls `take` with the ordinal (within the part) of each document that matches. If `matching` is null, does so for
// each document that is alive.
template <typename Take>
absl::Status ForEachMatching(const Collection& collection, const MatchingDocuments* matching, size_t part_idx,
                             const StopCheck& check, Take take) {
  const auto num_documents = static_cast<uint32_t>(collection.part(part_idx).num_documents());
  std::shared_ptr<const std::vector<uint64_t>> mask;
  if (matching != nullptr) {
    mask = matching->mask(part_idx);
  } else if (collection.num_tombstones(part_idx) > 0) {
    mask = collection.scan_mask(part_idx).words;
  }
  std::shared_ptr<const std::vector<uint32_t>> list;
  if (matching != nullptr && mask == nullptr) list = matching->List(part_idx);
  const auto num_steps = list != nullptr ? static_cast<uint32_t>(list->size()) : num_documents;
  for (uint32_t begin = 0; begin < num_steps; begin += std::min(kDocumentsPerCheck, num_steps - begin)) {
    if (check != nullptr) {
      if (absl::Status status = check(); !status.ok()) return status;
    }
    const uint32_t end = begin + std::min(kDocumentsPerCheck, num_steps - begin);
    if (list != nullptr) {
      for (uint32_t idx = begin; idx < end; ++idx) take((*list)[idx]);
    } else if (mask == nullptr) {
      for (uint32_t ordinal = begin; ordinal < end; ++ordinal) take(ordinal);
    } else {
      for (uint32_t word = begin / 64; word * 64 < end; ++word) {
        for (uint64_t bits = (*mask)[word]; bits != 0; bits &= bits - 1) {
          const uint32_t ordinal = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
          if (ordinal < end) take(ordinal);  // A mask has bits beyond the last document.
        }
      }
    }
  }
  return absl::OkStatus();
}

template <typename Id>
Id IdIn(const Part& part, uint32_t ordinal) {
  if constexpr (std::is_same_v<Id, int64_t>) {
    return part.shard != nullptr ? part.shard->int_id(ordinal) : part.segment->int_id(ordinal);
  } else {
    return part.shard != nullptr ? part.shard->string_id(ordinal) : part.segment->string_id(ordinal);
  }
}

}  // namespace

// Calls an IdCheck. After the first error of the IdCheck or of `check`, accepts no more documents, and status() is that
// error. The class is outside of the unnamed namespace, because lambdas of functions with external linkage capture it.
template <typename Id>
class IdAcceptance {
 public:
  IdAcceptance(const IdCheck<Id>& accepts, const StopCheck& check, uint64_t max_calls)
      : accepts_(accepts), check_(check), max_calls_(max_calls) {}

  bool Accepts(const Id& id) {
    if (accepts_ == nullptr) return true;
    if (!status_.ok()) return false;
    absl::StatusOr<bool> accepted = accepts_(id);
    ++num_calls_;
    if (!accepted.ok()) {
      status_ = accepted.status();
    } else if (num_calls_ % kAcceptsPerCheck == 0 && check_ != nullptr) {
      status_ = check_();
    }
    if (!status_.ok() || !*accepted) return false;
    if (num_calls_to_first_ == 0) num_calls_to_first_ = num_calls_;
    return true;
  }

  const absl::Status& status() const { return status_; }

  // Returns whether the search should end early.
  bool IsEnough() const {
    return num_calls_to_first_ > 0 && num_calls_ >= max_calls_ && num_calls_ / 2 >= num_calls_to_first_;
  }

 private:
  const IdCheck<Id>& accepts_;
  const StopCheck& check_;
  const uint64_t max_calls_;
  absl::Status status_;
  uint64_t num_calls_ = 0;
  uint64_t num_calls_to_first_ = 0;  // num_calls_ when the first document was accepted; 0 before
};

template <typename Id>
absl::StatusOr<PageOfIds<Id>> FindPageOfIds(const Collection& collection, const MatchingDocuments* matching,
                                            const std::optional<Id>& after, size_t limit, const StopCheck& check,
                                            const IdCheck<Id>& accepts, uint64_t max_accepts) {
  using Document = typename PageOfIds<Id>::Document;
  const auto is_before = [](const Document& a, const Document& b) { return a.id < b.id; };
  IdAcceptance<Id> acceptance(accepts, check, max_accepts);
  const StopCheck check_both = [&]() -> absl::Status {
    if (!acceptance.status().ok() || check == nullptr) return acceptance.status();
    return check();
  };
  PageOfIds<Id> page;
  std::vector<Document>& smallest = page.documents;  // a heap, with the largest of them at the front
  for (size_t part_idx = 0; part_idx < collection.num_parts(); ++part_idx) {
    const Part& part = collection.part(part_idx);
    absl::Status status = ForEachMatching(collection, matching, part_idx, check_both, [&](uint32_t ordinal) {
      if (acceptance.IsEnough()) {
        page.has_more = true;
        return;
      }
      const Id id = IdIn<Id>(part, ordinal);
      if (after.has_value() && id <= *after) return;
      // Does not call `accepts` for a document that could only set has_more if has_more is set already.
      const bool is_beyond = smallest.size() == limit && id > smallest.front().id;
      if ((is_beyond && page.has_more) || !acceptance.Accepts(id)) return;
      if (smallest.size() == limit) {
        page.has_more = true;
        if (is_beyond) return;
        std::pop_heap(smallest.begin(), smallest.end(), is_before);
        smallest.pop_back();
      }
      smallest.push_back({id, part.first_ordinal + ordinal});
      std::push_heap(smallest.begin(), smallest.end(), is_before);
    });
    if (!status.ok()) return status;
    if (!acceptance.status().ok()) return acceptance.status();
  }
  std::sort_heap(smallest.begin(), smallest.end(), is_before);
  return page;
}

template absl::StatusOr<PageOfIds<std::string_view>> FindPageOfIds(const Collection&, const MatchingDocuments*,
                                                                   const std::optional<std::string_view>&, size_t,
                                                                   const StopCheck&, const IdCheck<std::string_view>&,
                                                                   uint64_t);
template absl::StatusOr<PageOfIds<int64_t>> FindPageOfIds(const Collection&, const MatchingDocuments*,
                                                          const std::optional<int64_t>&, size_t, const StopCheck&,
                                                          const IdCheck<int64_t>&, uint64_t);

}  // namespace maxsim::store
