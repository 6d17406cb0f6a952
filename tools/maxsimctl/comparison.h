// How far answers are from the truth. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/reference.h"

namespace maxsim::ctl {

// One answer of a server: a document it returned.
struct Answered {
  float score = 0;
  uint64_t position = 0;  // index into the truth's scores
};

// Over all queries that were added.
struct Comparison {
  int64_t num_queries = 0;
  int64_t num_results = 0;        // documents returned
  int64_t num_expected = 0;       // documents of the truth's top k
  int64_t num_shared = 0;         // returned, and of the truth's top k
  int64_t num_in_place = 0;       // at the truth's rank
  int64_t num_disordered = 0;     // of a score above that of the document before it
  int64_t num_near_ties = 0;      // not shared, but within rounding of the truth's last
  double error_by_magnitude = 0;  // largest |score - truth| / magnitude (kernels/reference.h)
  double error_by_score = 0;      // largest |score - truth| / |truth|, over truths that are not 0

  double overlap() const {
    return num_expected == 0 ? 1.0 : static_cast<double>(num_shared) / static_cast<double>(num_expected);
  }

  // Compares one query's answer, in rank order, with the scores of all of its candidates. `top_k` is what the server
  // was asked for. Positions must be less than truth.size(). A score that is not finite is an infinite error.
  void Add(absl::Span<const Answered> answer, absl::Span<const ReferenceScore> truth, int32_t top_k);
};

// The contract of kernels/maxsim.h.
inline constexpr double kErrorLimit = 1e-5;

}  // namespace maxsim::ctl
