// How the candidates of a call are shared out to the thread blocks of a stream kernel.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/score.h"

namespace maxsim {

// Returns the mean length of the document that a token is in, less the mean length of a document: 0 where all are
// equally long.
// A document of more than sixteen times the mean counts as one of that many tokens, so that a few which calls will
// hardly name do not decide. `offsets` of `num_documents` documents, as in DocumentsView.
int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents);

// How the candidates of a call are shared out to a stream kernel's thread blocks. Candidates are counted through all
// row tiles, each row tile's of the pass in order. Every thread block is dealt consecutive candidates, the first thread
// blocks one more than the others; what is left is claimed, in coarse claims first and in fine ones at the end.
//
// Alternatively thread blocks form *teams*, each of which is dealt consecutive candidates: so few that a team knows all
// their lengths before it begins, and cuts their tokens into even parts, one a thread block. A document that is cut has
// maxima in several thread blocks, which meet in device memory. Nothing is claimed then.
struct StreamShares {
  int64_t total = 0;
  int64_t dealt = 0;
  int64_t each = 0;         // dealt to every thread block, or team
  int32_t extra_until = 0;  // thread blocks or teams before this one are dealt one more
  int32_t blocks = 1;       // that take part: the plan's, but no more than there are candidates, or whole teams of them
  int32_t team_blocks = 1;  // 1: there are no teams
  int32_t coarse = 1;       // candidates of a claim
  int32_t fine = 1;
  int64_t coarse_claims = 0;

  bool all_dealt() const { return dealt == total; }
  std::string ToString() const;
};

// Choices that measurements may make in place of PlanStreamShares; a negative value leaves the choice to it. With
// dealt_percent there are no teams unless `teams` asks for them.
struct StreamTuning {
  int32_t dealt_percent = -1;
  int32_t coarse = -1;
  int32_t fine = -1;
  int32_t teams = -1;  // 0: never; else wherever they can be
};

// The most work units (32 or fewer candidates of one row tile) that a team's candidates are in. All thread blocks of a
// team look up all of them first: with four a call begins up to a microsecond later (docs/internals/kernels-stream.md).
inline constexpr int32_t kTeamUnits = 2;

// The most candidates of a call that has teams: what 64 teams, of two thread blocks each on an H200, have room for.
inline constexpr int64_t kMostTeamCandidates = 64 * 32 * kTeamUnits;

// Candidates that a call is made of, as far as their shares depend on it.
struct StreamCandidates {
  int64_t total = 0;          // of all row tiles
  int64_t regular = 0;        // of each of them, where all have as many; else 0
  int64_t mean_tokens = 0;    // of a document
  int64_t spread_tokens = 0;  // how far documents' lengths are apart: SpreadTokens of them all, or 0
};

// Shares out the candidates to the `plan`'s thread blocks.
StreamShares PlanStreamShares(const ScorePlan& plan, const StreamCandidates& candidates,
                              const StreamTuning& tuning = {});

}  // namespace maxsim
