// The cost model of the planners: all measured rates, and the functions that compare kernels by them. The functions are
// pure. They affect which kernel runs, never its results.
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

// Returns whether the stream kernel finishes before the wide or deep kernel with the tiling `other`. The stream kernel
// reads the documents again for every query tile, but starts and ends faster. `document_bytes` is the mean size of a
// document's rows.
bool StreamIsSooner(int64_t row_bytes, absl::Span<const QueryGroupShape> groups, ScoreTile other, double document_bytes,
                    int32_t num_sms);

// Returns whether the documents' lengths differ much and each of `grid` thread blocks has many documents. If so, thread
// blocks should claim up to half of their share while they run.
bool IsUnequal(const ScorePlan& plan, const StreamCandidates& candidates, int64_t grid);

// Returns whether teams of thread blocks finish sooner than thread blocks that take whole documents. Without teams, the
// call ends when the thread block with the most tokens ends, and this one reads at a single block's rate. With teams,
// all thread blocks end together and read at the memory's rate.
bool TeamsAreSooner(const ScorePlan& plan, const StreamCandidates& candidates);

// Returns whether ordering `total` candidates saves more time at the end of a wide or deep kernel than the ordering
// takes.
bool OrderingIsWorthwhile(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens);

}  // namespace maxsim
