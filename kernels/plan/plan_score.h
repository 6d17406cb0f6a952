// The functions that plan a scoring call (kernels/plan/score.h). They are pure and thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/score.h"
#include "kernels/scalar_type.h"

namespace maxsim {

// Plans a scoring call. `document_bytes` is the mean size of a document in device memory. The size decides whether a
// stream kernel scores a short call, and how many thread blocks of a stream kernel may share a few documents. 0 means
// that the call is so long that the time to start and end it does not matter; documents are then not divided among
// thread blocks. Returns INVALID_ARGUMENT for a dimension outside the limits, and FAILED_PRECONDITION when the device
// has too little shared memory for the smallest plan.
absl::StatusOr<ScorePlan> PlanScore(ScalarType type, int32_t dim, absl::Span<const QueryGroupShape> groups,
                                    const DeviceLimits& limits, double document_bytes = 0);

// Plans the search for matching tokens of one query of `num_query_tiles` query tiles in `num_documents` documents.
absl::StatusOr<ScorePlan> PlanAlign(ScalarType type, int32_t dim, int64_t num_query_tiles, int64_t num_documents,
                                    const DeviceLimits& limits);

}  // namespace maxsim
