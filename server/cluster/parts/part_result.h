// Holds the answers of a collection's parts to one query, and ranks the documents of all parts together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/rank_order.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/parts/split.h"

namespace maxsim::cluster {

// A part's result for one query.
struct PartResult {
  const PartRequest* part = nullptr;
  size_t sub_query = 0;  // index of the query in the part's request
  v1::QueryResult* result = nullptr;

  const Positions* positions() const { return part->positions[sub_query].get(); }
  // Returns the hit's position in the client's list of candidates, or in the whole collection if there is no list.
  uint64_t PositionOf(int hit) const {
    const uint64_t position = result->positions(hit);
    return positions() == nullptr ? position : (*positions())[position];
  }
};

// One document of a part's result.
struct PartHit {
  float score = 0;
  uint64_t position = 0;
  uint32_t from = 0;  // index of its PartResult
  int32_t idx = 0;    // index in that result
};

// Orders hits by rank. Documents of parts that have separate logs may have equal scores and positions. Then the order
// of their groups decides, so that the ranking is the same for every top_k.
inline bool MergesBefore(const PartHit& a, const PartHit& b) {
  return RanksBefore(a, b) || (!RanksBefore(b, a) && a.from < b.from);
}

// Returns all documents of the results, in no order.
inline std::vector<PartHit> HitsOf(const std::vector<PartResult>& results) {
  std::vector<PartHit> hits;
  for (size_t from = 0; from < results.size(); ++from) {
    for (int i = 0; i < results[from].result->scores_size(); ++i) {
      hits.push_back({results[from].result->scores(i), results[from].PositionOf(i), static_cast<uint32_t>(from), i});
    }
  }
  return hits;
}

// The documents of one value of the field that a request groups by.
struct HitGroup {
  std::string_view value;     // in the result of the first hit
  std::vector<PartHit> hits;  // ranked
};

// Returns the groups of all documents of the results, ranked by their best documents.
inline std::vector<HitGroup> GroupsOf(const std::vector<PartResult>& results) {
  std::vector<PartHit> hits = HitsOf(results);
  std::sort(hits.begin(), hits.end(), MergesBefore);
  std::vector<HitGroup> groups;
  std::unordered_map<std::string_view, size_t> by_value;
  for (const PartHit& hit : hits) {
    const std::string_view value = results[hit.from].result->group_values(hit.idx);
    const auto [known, is_new] = by_value.emplace(value, groups.size());
    if (is_new) groups.push_back({.value = value, .hits = {}});
    groups[known->second].hits.push_back(hit);
  }
  return groups;
}

}  // namespace maxsim::cluster
