// RefinementOptions of the wire contract -> those of a job, and a job's Refinement -> the wire contract's.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"

namespace maxsim::service {

// Checks the options as far as that needs no collection. INVALID_ARGUMENT for `documents` below `top_k`; for a budget
// below `documents`, above kMaxScanResults, or without require_proof. `top_k` is the request's, or the default.
absl::Status CheckRefinement(const v1::RefinementOptions& options, int64_t top_k);

// Returns the options of a query of `num_candidates` candidates, after CheckRefinement. INVALID_ARGUMENT where more
// documents are asked for than can be chosen, and fewer than there are candidates.
absl::StatusOr<engine::RefinementOptions> RefinementFor(const v1::RefinementOptions& options, int64_t top_k,
                                                        uint64_t num_candidates);

// Fills in certificate and margin of an answer from its planes, documents, outside score and last result. `last_score`
// is that of the last result, as is outside_score: before a normalization. `proven` says what is known.
void SetCertificate(bool proven, double last_score, v1::Refinement& refinement);

// Returns the wire's refinement of a query with `result`. Scores are divided by `divisor`.
v1::Refinement ToWire(const engine::JobQueryResult& result, float divisor);

}  // namespace maxsim::service
