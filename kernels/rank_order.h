// The rank order of a query's candidates. Every selection and every merge uses it.
#pragma once

namespace maxsim {

// Compares two candidates of one query, each a struct with members `score` and `position`: the higher score ranks
// first; if scores are equal (-0 equals +0), the smaller position does. The order is total as long as no two positions
// are equal and no score is NaN. RankOrder is a function object so that algorithms can inline it.
//
// Devices sort by keys of the same order (kernels/cuda/select/key.cuh).
struct RankOrder {
  template <typename Candidate>
  constexpr bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score != b.score ? a.score > b.score : a.position < b.position;
  }
};
inline constexpr RankOrder RanksBefore;

}  // namespace maxsim
