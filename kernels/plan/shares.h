// Sharing out the candidates of a call to the thread blocks of a stream kernel.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/score.h"

namespace maxsim {

inline constexpr double kMaxSpreadMeans = 16;

// Returns the mean length of the document that a token is in, less the mean length of a document, in tokens: 0 if all
// are equally long. A document of more than kMaxSpreadMeans times the mean counts as one of that many tokens, so that a
// few documents that calls will hardly name do not decide. `offsets` [num_documents + 1] is that of DocumentsView.
int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents);

// The shares of a stream kernel's thread blocks. Candidates are counted through all row tiles, each row tile's
// candidates of the pass in order. Every thread block is assigned consecutive candidates before the kernel begins, the
// first thread blocks one more than the others; what is left is claimed, in coarse claims first and in fine claims at
// the end.
//
// Alternatively thread blocks form *teams*. A team is assigned consecutive candidates, so few that it knows all their
// lengths before it begins, and cuts their tokens into even parts, one per thread block. A document that is cut has
// maxima in several thread blocks, which meet in device memory. Nothing is claimed then.
struct StreamShares {
  int64_t total = 0;        // candidates of all row tiles
  int64_t assigned = 0;     // candidates that are assigned; the others are claimed
  int64_t each = 0;         // candidates that are assigned to every thread block, or team
  int32_t extra_until = 0;  // thread blocks or teams before this one are assigned one more
  // The number of thread blocks that take part: those of the plan, but no more than there are candidates, and only as
  // many as make whole teams.
  int32_t blocks = 1;
  int32_t team_blocks = 1;  // thread blocks of a team; 1: there are no teams
  int32_t coarse = 1;       // candidates of a coarse claim
  int32_t fine = 1;         // candidates of a fine claim
  int64_t coarse_claims = 0;

  bool all_assigned() const { return assigned == total; }
  std::string ToString() const;
};

// Choices that measurements may override in PlanStreamShares; a negative value overrides nothing. If assigned_percent
// is set, there are no teams unless `teams` asks for them.
struct StreamTuning {
  int32_t assigned_percent = -1;
  int32_t coarse = -1;
  int32_t fine = -1;
  int32_t teams = -1;  // 0: never; above 0: wherever they can be
};

// A team's candidates are in at most kTeamUnits work units (32 or fewer candidates of one row tile). All thread blocks
// of a team look up all of them first: with four units a call begins up to a microsecond later
// (docs/internals/kernels-stream.md).
inline constexpr int32_t kTeamUnits = 2;

// Maximum number of candidates of a call that has teams: 64 teams, of two thread blocks each on an H200, have room for
// them.
inline constexpr int64_t kMaxTeamCandidates = 64 * 32 * kTeamUnits;

// The candidates of a call, as far as their shares depend on them.
struct StreamCandidates {
  int64_t total = 0;          // candidates of all row tiles
  int64_t regular = 0;        // candidates of each row tile, where all have as many; else 0
  int64_t mean_tokens = 0;    // mean tokens of a document
  int64_t spread_tokens = 0;  // SpreadTokens of all documents, or 0
};

// Shares out the candidates to the thread blocks of `plan`.
StreamShares PlanStreamShares(const ScorePlan& plan, const StreamCandidates& candidates,
                              const StreamTuning& tuning = {});

}  // namespace maxsim
