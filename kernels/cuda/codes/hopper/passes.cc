#include "kernels/cuda/codes/hopper/passes.h"

#include <numeric>

namespace maxsim::cuda::sm90 {
namespace {

// Divides the queries into passes (launches), in their order. A pass ends when the next query would give it more than
// `most_tiles` row tiles (16 query tokens each). No query is split.
std::vector<ManyPass> Fill(absl::Span<const int32_t> query_tiles, int32_t most_tiles) {
  std::vector<ManyPass> passes;
  ManyPass pass{};
  for (const int32_t tiles : query_tiles) {
    if (pass.num_tiles + tiles > most_tiles) {
      passes.push_back(pass);
      pass = {pass.first_tile + pass.num_tiles, 0, pass.first_query + pass.num_queries, 0};
    }
    pass.num_tiles += tiles;
    ++pass.num_queries;
  }
  passes.push_back(pass);
  return passes;
}

}  // namespace

std::vector<ManyPass> CutIntoPasses(absl::Span<const int32_t> query_tiles) {
  std::vector<ManyPass> passes = Fill(query_tiles, kMaxManyTiles);
  const size_t fewest = passes.size();
  const int32_t all = std::accumulate(query_tiles.begin(), query_tiles.end(), 0);
  // The time of a pass grows with its blocks of row tiles. So the loop finds the smallest passes with which the number
  // of passes is still `fewest`.
  for (int32_t blocks = all / static_cast<int32_t>(fewest) / kGroupWarps; blocks * kGroupWarps < kMaxManyTiles;
       ++blocks) {
    bool has_room = blocks > 0;
    for (const int32_t tiles : query_tiles) has_room = has_room && tiles <= blocks * kGroupWarps;
    if (!has_room) continue;
    std::vector<ManyPass> even = Fill(query_tiles, blocks * kGroupWarps);
    if (even.size() == fewest) return even;
  }
  return passes;
}

}  // namespace maxsim::cuda::sm90
