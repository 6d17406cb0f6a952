// Converts the options of a search with codes (RefinementOptions) to those of a job, and its outcome (Refinement) to a
// message.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Checks the options as far as possible without the collection. Returns INVALID_ARGUMENT for `documents` below
// `num_ranked`, and for a budget below `documents`, above kMaxScanResults, or without require_proof. `num_ranked` is
// the number of best documents that the request needs: Page::num_ranked x GroupSizeOf.
absl::Status CheckRefinement(const v1::RefinementOptions& options, int64_t num_ranked);

// Estimates the bytes of the vectors of `num_documents` documents, from the collection's mean length. Returns nullopt
// if a shard is not in GPU memory.
std::optional<uint64_t> GpuBytes(const store::Collection& collection, uint64_t num_documents);

// If the vectors of all candidates are in GPU memory and take at most this many bytes, all candidates are scored
// without a scan of their codes. A scan reads a sixteenth of the bytes, but adds a second step of about 0.7 ms with 32
// query tokens, less with fewer. On an H200, which reads 4.8 TB/s, both ways take equally long at 4 GB of F16 with 32
// query tokens, and at 2 GB with 10.
inline constexpr uint64_t kMaxScoredBytes = uint64_t{3} << 30;

// Returns the scan options of a query with `num_candidates` candidates, after CheckRefinement. Returns the default
// options, which mean no scan, in two cases: if `documents` (or its default) is at least num_candidates, or if
// `documents` is 0 and the vectors of all candidates take at most kMaxScoredBytes of GPU memory. `gpu_bytes` is the
// size of these vectors, nullopt if some are not in GPU memory. Returns INVALID_ARGUMENT if `documents` is above
// kMaxScanResults and below num_candidates.
absl::StatusOr<engine::RefinementOptions> RefinementFor(const v1::RefinementOptions& options, int64_t num_ranked,
                                                        uint64_t num_candidates, std::optional<uint64_t> gpu_bytes);

// Sets the certificate (`proven`: whether the answer is proven to be exact) and the margin: `last_score` minus the
// outside score, if `refinement` has one. Both are scores as the answer shows them, after any normalization.
void SetCertificate(bool proven, double last_score, v1::Refinement& refinement);

// Adds to `sum` another scan for the same answer, over other candidates. The answer is proven only if all scans are
// proven, and its margin is the smallest of theirs.
void AddScan(const v1::Refinement& scan, v1::Refinement& sum);

// Converts a query's refinement to a message, with scores / `divisor`.
v1::Refinement ToWire(const engine::JobQueryResult& result, float divisor);

}  // namespace maxsim::service
