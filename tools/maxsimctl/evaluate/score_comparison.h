// Compares a server's answers with FP64 reference scores. Only computes: reads no files and asks no server.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/reference.h"

namespace maxsim::ctl {

// One document of a server's answer.
struct ReturnedDocument {
  float score = 0;
  uint64_t position = 0;  // index into the reference scores
};

// Over all queries that were added.
struct ScoreComparison {
  int64_t num_queries = 0;
  int64_t num_results = 0;        // documents returned
  int64_t num_expected = 0;       // documents of the reference's top k
  int64_t num_shared = 0;         // returned documents that are in the reference's top k
  int64_t num_in_place = 0;       // returned documents at the reference's rank
  int64_t num_disordered = 0;     // documents with a higher score than the one before them
  int64_t num_near_ties = 0;      // not shared, but score equals the reference's k-th score within rounding
  double error_by_magnitude = 0;  // largest |score - reference| / magnitude (kernels/reference.h)
  double error_by_score = 0;      // largest |score - reference| / |reference|, over references that are not 0

  double overlap() const {
    return num_expected == 0 ? 1.0 : static_cast<double>(num_shared) / static_cast<double>(num_expected);
  }

  // Compares one query's answer, in rank order, with the scores of all of its candidates. `top_k` is what the server
  // was asked for. Positions must be less than reference.size(). A score that is not finite is an infinite error.
  void Add(absl::Span<const ReturnedDocument> answer, absl::Span<const ReferenceScore> reference, int32_t top_k);
};

// The bound on a score's error in the contract of kernels/maxsim.h.
inline constexpr double kErrorLimit = 1e-5;

}  // namespace maxsim::ctl
