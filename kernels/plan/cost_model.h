// The cost model of the planners: all measured rates, and the functions that compare kernels by them. The functions are
// pure. The cost model affects which kernel runs, never the results.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/row_tiles.h"
#include "kernels/plan/score.h"
#include "kernels/plan/shares.h"

namespace maxsim {

// Returns the estimated time of a call over the query groups `groups` if the kernel `tile` scores it. The unit is the
// time that the memory takes to deliver the tokens of one candidate.
double EstimatedReads(absl::Span<const QueryGroupShape> groups, ScoreTile tile);

// Returns whether the stream kernel finishes before the wide or deep kernel that `other` names. The stream kernel reads
// the documents again for every query tile (32 query tokens), but starts and ends faster. `document_bytes` is the mean
// size of a document's rows.
bool StreamIsSooner(int64_t row_bytes, absl::Span<const QueryGroupShape> groups, ScoreTile other, double document_bytes,
                    int32_t num_sms);

// Returns whether the documents' lengths differ much and each of `grid` thread blocks has many documents (at least
// seven on average). If so, up to half of the candidates should not be assigned to thread blocks in advance; thread
// blocks claim these while they run.
bool IsUnequal(const ScorePlan& plan, const StreamCandidates& candidates, int64_t grid);

// Returns whether a call ends sooner if thread blocks form teams, which cut documents into equal parts (StreamShares),
// than if each takes whole documents. Without teams, the call ends when the thread block with the most tokens ends, and
// that one reads at a single thread block's rate. With teams, all thread blocks end together and read at the memory's
// rate.
bool TeamsAreSooner(const ScorePlan& plan, const StreamCandidates& candidates);

// Returns whether ordering `total` candidates, longest documents first, saves more time at the end of a wide or deep
// kernel than the ordering takes.
bool OrderingIsWorthwhile(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens);

}  // namespace maxsim
