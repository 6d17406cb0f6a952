// Divides the candidates of a call among the thread blocks of a stream kernel.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/score.h"

namespace maxsim {

inline constexpr double kMaxSpreadMeans = 16;

// Returns how much document lengths differ, in tokens: the mean length of the document that a token is in, minus the
// mean length of a document. It is 0 if all documents are equally long. A document that is longer than kMaxSpreadMeans
// times the mean counts as if it had that length, so that a few very long documents, which calls rarely name, do not
// dominate the result. `offsets` [num_documents + 1] is that of DocumentsView.
int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents);

// The shares of a stream kernel's thread blocks. Candidates are numbered across row tiles (32 query rows each): first
// the pass's candidates of the first row tile, in order, then those of the second, and so on. Every thread block is
// assigned consecutive candidates before the kernel begins, and the first thread blocks get one more than the others.
// Thread blocks claim the remaining candidates while they run, in coarse claims first and in fine claims at the end.
//
// Alternatively, thread blocks form *teams*. Each team is assigned consecutive candidates, so few that it looks up all
// their lengths before it begins. The team cuts the tokens of its documents into equal parts, one per thread block. If
// a document is cut, several thread blocks have maxima of the document, and combine these in device memory. With teams,
// all candidates are assigned and none is claimed.
struct StreamShares {
  int64_t total = 0;        // candidates of all row tiles
  int64_t assigned = 0;     // candidates that are assigned; the others are claimed
  int64_t each = 0;         // candidates that are assigned to every thread block, or team
  int32_t extra_until = 0;  // thread blocks or teams before this one are assigned one more
  // The number of thread blocks that take part: those of the plan, but not more than there are candidates. With teams,
  // only thread blocks of whole teams take part.
  int32_t blocks = 1;
  int32_t team_blocks = 1;  // thread blocks of a team; 1: there are no teams
  int32_t coarse = 1;       // candidates of a coarse claim
  int32_t fine = 1;         // candidates of a fine claim
  int64_t coarse_claims = 0;

  bool all_assigned() const { return assigned == total; }
  std::string ToString() const;
};

// Overrides for PlanStreamShares, for measurements. A negative value leaves the choice to the plan. If assigned_percent
// is set, there are no teams, unless `teams` is above 0.
struct StreamTuning {
  int32_t assigned_percent = -1;
  int32_t coarse = -1;
  int32_t fine = -1;
  int32_t teams = -1;  // 0: never teams; above 0: teams wherever they are possible
};

// A team's candidates are in at most kTeamUnits work units (32 or fewer candidates of one row tile). Each thread block
// of a team looks up all candidates of the team before it starts. With four work units instead of two, this would delay
// a call by up to a microsecond (docs/internals/kernels-stream.md).
inline constexpr int32_t kTeamUnits = 2;

// Maximum number of candidates of a call that has teams: the candidates of 64 teams. An H200 has 64 teams of two thread
// blocks each.
inline constexpr int64_t kMaxTeamCandidates = 64 * 32 * kTeamUnits;

// The properties of a call's candidates that their shares depend on.
struct StreamCandidates {
  int64_t total = 0;          // candidates of all row tiles
  int64_t regular = 0;        // candidates of each row tile if all row tiles have equally many; else 0
  int64_t mean_tokens = 0;    // mean tokens of a document
  int64_t spread_tokens = 0;  // SpreadTokens of all documents, or 0
};

// Divides the candidates among the thread blocks of `plan`.
StreamShares PlanStreamShares(const ScorePlan& plan, const StreamCandidates& candidates,
                              const StreamTuning& tuning = {});

}  // namespace maxsim
