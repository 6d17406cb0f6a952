// Computes how many candidates a thread block of a wide or deep kernel claims at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace maxsim {

// A thread block claims documents of about `tokens` tokens at a time, because each claim costs some instructions. If
// that would give a thread block fewer than `per_block` claims, claims are smaller, so that all thread blocks end at
// about the same time. But they have at least `least_tokens` tokens, because the answer to a claim takes as long as
// multiplying two token tiles of INT8.
struct ClaimTuning {
  int64_t tokens = 1024;
  int64_t per_block = 24;
  int64_t least_tokens = 256;
};

// Returns how many candidates a claim has: 1 to 32, because each lane of a warp looks up one. `candidates` is the
// number of candidates of the whole launch, summed over all row tiles. `mean_tokens` is the mean length of their
// documents.
constexpr int32_t ClaimCandidates(int64_t mean_tokens, int64_t candidates, int32_t grid,
                                  const ClaimTuning& tuning = {}) {
  const int64_t tokens = std::max<int64_t>(mean_tokens, 1);
  const int64_t by_blocks = candidates / (int64_t{grid} * tuning.per_block);
  // A claim has at most as many candidates as an even share gives each thread block. This limit matters if a call has
  // few short documents.
  const int64_t even = candidates / grid;
  const int64_t wanted = std::max(std::min(tuning.tokens / tokens, by_blocks), tuning.least_tokens / tokens);
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, even), 1, 32));
}

}  // namespace maxsim
