#include "server/cluster/parts/merge_documents.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

namespace maxsim::cluster {
namespace {

template <typename Response>
Response MergeWrites(const std::vector<absl::StatusOr<Response>>& answers, const std::vector<Positions>& positions,
                     bool one_log) {
  Response merged;
  size_t count = 0;
  for (const Positions& of_part : positions) count += of_part.size();
  for (size_t i = 0; i < count; ++i) merged.add_results();
  for (size_t part = 0; part < answers.size(); ++part) {
    const Response& answer = *answers[part];
    for (int i = 0; i < answer.results_size(); ++i) {
      *merged.mutable_results(static_cast<int>(positions[part][static_cast<size_t>(i)])) = answer.results(i);
    }
    if (one_log) merged.set_sequence(std::max(merged.sequence(), answer.sequence()));
  }
  return merged;
}

template <typename Ids>
bool HasId(const Ids& ids, int idx, const v1::StoredDocument& document) {
  if constexpr (std::is_same_v<Ids, v1::IntIds>) {
    return document.int_id() == ids.ids(idx);
  } else {
    return document.string_id() == ids.ids(idx);
  }
}

// A part returns its documents in the order of its ids, and also lists its missing ids in that order.
template <typename Ids>
void MergeInOrder(const Ids& ids, const std::vector<Positions>& positions,
                  std::vector<absl::StatusOr<v1::GetResponse>>& answers, v1::GetResponse& merged) {
  struct Place {
    size_t part = 0;
    int idx = 0;
  };
  std::map<uint32_t, Place> found;  // by position of the id
  for (size_t part = 0; part < answers.size(); ++part) {
    int next = 0;
    for (const uint32_t position : positions[part]) {
      if (next == answers[part]->documents_size()) break;
      if (HasId(ids, static_cast<int>(position), answers[part]->documents(next))) found[position] = {part, next++};
    }
  }
  for (const auto& [position, place] : found) {
    *merged.add_documents() = std::move(*answers[place.part]->mutable_documents(place.idx));
  }
  std::set<uint32_t> missing;  // positions of ids
  for (size_t part = 0; part < answers.size(); ++part) {
    int next = 0;
    const auto& list = [&]() -> const auto& {
      if constexpr (std::is_same_v<Ids, v1::IntIds>) {
        return answers[part]->missing_int_ids();
      } else {
        return answers[part]->missing_string_ids();
      }
    }
    ();
    for (const uint32_t position : positions[part]) {
      if (next == list.ids_size()) break;
      if (list.ids(next) != ids.ids(static_cast<int>(position))) continue;
      missing.insert(position);
      ++next;
    }
  }
  for (const uint32_t position : missing) {
    if constexpr (std::is_same_v<Ids, v1::IntIds>) {
      merged.mutable_missing_int_ids()->add_ids(ids.ids(static_cast<int>(position)));
    } else {
      *merged.mutable_missing_string_ids()->add_ids() = ids.ids(static_cast<int>(position));
    }
  }
}

}  // namespace

v1::UpsertResponse MergeUpserts(const std::vector<absl::StatusOr<v1::UpsertResponse>>& answers,
                                const std::vector<Positions>& positions, bool one_log) {
  v1::UpsertResponse merged = MergeWrites(answers, positions, one_log);
  for (const absl::StatusOr<v1::UpsertResponse>& answer : answers) {
    merged.set_encoded_tokens(merged.encoded_tokens() + answer->encoded_tokens());
  }
  return merged;
}

v1::DeleteResponse MergeDeletes(const std::vector<absl::StatusOr<v1::DeleteResponse>>& answers,
                                const std::vector<Positions>& positions, bool one_log) {
  v1::DeleteResponse merged = MergeWrites(answers, positions, one_log);
  for (const absl::StatusOr<v1::DeleteResponse>& answer : answers) {
    merged.set_num_deleted(merged.num_deleted() + answer->num_deleted());
    merged.set_num_missing(merged.num_missing() + answer->num_missing());
    merged.set_num_stale(merged.num_stale() + answer->num_stale());
    merged.set_has_more(merged.has_more() || answer->has_more());
  }
  return merged;
}

v1::GetResponse MergeGets(const v1::GetRequest& request, std::vector<absl::StatusOr<v1::GetResponse>> answers,
                          const std::vector<Positions>& positions, bool one_log) {
  v1::GetResponse merged;
  for (size_t part = 0; part < answers.size(); ++part) {
    const v1::GetResponse& answer = *answers[part];
    merged.set_generation(std::max(merged.generation(), answer.generation()));
    if (!one_log) continue;
    merged.set_sequence(part == 0 ? answer.sequence() : std::min(merged.sequence(), answer.sequence()));
  }
  if (request.has_int_ids()) {
    MergeInOrder(request.int_ids(), positions, answers, merged);
  } else {
    MergeInOrder(request.string_ids(), positions, answers, merged);
  }
  return merged;
}

}  // namespace maxsim::cluster
