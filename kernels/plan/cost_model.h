// The cost model of the planners: all measured paces, and the comparisons that use them. Its functions are pure; they
// choose among kernels and never affect results.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/score.h"
#include "kernels/plan/shares.h"

namespace maxsim {

// Returns the estimated time of a call over `groups` with the tiling. The unit is the time that the memory takes to
// deliver one candidate.
double EstimatedReads(absl::Span<const QueryGroupShape> groups, ScoreTile tile);

// Returns whether the stream kernel finishes before the wide or deep row tiles `other`. It reads documents anew for
// every query tile, but begins and ends sooner. `document_bytes` is the mean size of a document's rows.
bool StreamIsSooner(int64_t row_bytes, absl::Span<const QueryGroupShape> groups, ScoreTile other, double document_bytes,
                    int32_t num_sms);

// Returns whether thread blocks should claim up to half of their share while they run: the documents' lengths differ
// much, and each of `grid` thread blocks has many documents.
bool IsUnequal(const ScorePlan& plan, const StreamCandidates& candidates, int64_t grid);

// Returns whether teams of thread blocks finish sooner than thread blocks that take whole documents. The latter finish
// with the thread block that has the most documents, which has only its own pace; teams have the memory's pace.
bool TeamsAreSooner(const ScorePlan& plan, const StreamCandidates& candidates);

// Returns whether ordering `total` candidates saves more time at the end of a wide or deep kernel than it takes.
bool OrderingIsWorthwhile(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens);

}  // namespace maxsim
