// The parameters of the stream kernels, which host and device share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_stream/single_launch_call.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Divides the work of a stream kernel among thread blocks. StreamShares in kernels/plan/shares.h explains the
// members.
struct StreamWork {
  int64_t total;
  int64_t assigned;
  int64_t each;
  int64_t coarse_claims;
  int32_t extra_until;
  int32_t coarse;
  int32_t fine;
  int32_t blocks;  // thread blocks of the launch

  static constexpr StreamWork Of(const StreamShares& shares) {
    return {shares.total,       shares.assigned, shares.each, shares.coarse_claims,
            shares.extra_until, shares.coarse,   shares.fine, shares.blocks};
  }
};

// Teams of a stream kernel's thread blocks, which share documents. If several thread blocks have parts of a document,
// they combine their results in the document's elements of both arrays. The elements' index is the number of the
// candidate, counted over all row tiles. The arrays are zero between launches.
struct StreamTeams {
  uint32_t* maxima;  // [kMaxTeamCandidates, kQueryTileTokens], as Rising (sums.cuh) makes them
  uint32_t* tiles;   // [kMaxTeamCandidates] token tiles that have been added
  int32_t blocks;    // thread blocks of a team; 1: there are no teams
  uint32_t inverse;  // 2^32 / blocks, rounded up, with which OwnTeam divides

  // The number of uint32_t in both arrays.
  static constexpr size_t kWords = size_t{kMaxTeamCandidates} * (kQueryTileTokens + 1);

  static constexpr StreamTeams Of(const StreamShares& shares, uint32_t* words) {
    const uint64_t blocks = static_cast<uint64_t>(shares.team_blocks);
    return {words, words + kMaxTeamCandidates * kQueryTileTokens, shares.team_blocks,
            static_cast<uint32_t>(((uint64_t{1} << 32) + blocks - 1) / blocks)};
  }
};

struct StreamParams : HopperParams {
  int32_t stages;       // pipeline stages of the ring
  int32_t tile_tokens;  // tokens of a token tile
  int32_t read_once;    // 1: the documents do not fit the L2 cache, so it evicts them first
  int32_t unused;
  StreamWork work;
  SingleLaunchCall single_launch;  // for kernels with query rows in registers
  StreamTeams teams;               // last, because calls without teams do not read it
};

// Launches can be compared byte by byte (RepeatedLaunch).
static_assert(std::is_trivially_copyable_v<StreamParams> && std::has_unique_object_representations_v<StreamParams>);

}  // namespace maxsim::cuda
