// Parameters of the scoring kernels: plain structs that host and device code share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/call/single_launch_call.h"
#include "kernels/cuda/score/hopper_wide/config.h"
#include "kernels/plan/order.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

inline constexpr int kMaxQueryTilesOfRowTile = 8;

// Candidates of one pass: the Hopper kernels count them in 32 bits, and may claim more than there are.
inline constexpr int64_t kMaxPassCandidates = int64_t{1} << 31;

inline constexpr int kMaxQueriesOfQueryTile = kQueryTileTokens / kShortQueryTokens;

// Where a query tile's sums go: element [offset + p] for the candidate at position p.
struct QueryTileOutput {
  int64_t offsets[kMaxQueriesOfQueryTile];  // into `partials` or into `scores`, of every query that has rows in the
                                            // query tile
  int32_t num_queries;                      // 1, 2 or 4: of 32, 16 or 8 rows each; fewer may be there (offset -1)
  // 1: what the query tile gives is added to, or picked from, afterwards (PartialSums), and p counts from the pass's
  // first.
  int32_t to_partials;
};

// One row tile: up to eight query tiles of 32 rows that are scored against the same candidates.
struct RowTile {
  int64_t first_row;        // into query_rows and row_weights
  int64_t ordinals_begin;   // into `ordinals`; -1: the candidates are the documents 0 .. num_candidates
  int64_t num_candidates;   // of joined lists: set on the device
  int32_t num_query_tiles;  // 1 .. kMaxQueryTilesOfRowTile
  int32_t order_begin;      // the list's part of a CandidateOrder; the same in all row tiles of a list
  QueryTileOutput outputs[kMaxQueryTilesOfRowTile];

  // For the wide kernels: documents go to the two warpgroups in turn.
  constexpr bool IsHalf() const { return num_query_tiles <= kHalfTileQueryTiles; }
};

// TokenMatch (kernels/maxsim.h) as the device writes it.
struct DeviceMatch {
  int32_t document_token;
  float similarity;
};

// What the Hopper kernels are told of candidates and their documents, so that their first copies wait for as few reads
// as possible (docs/internals/kernels-stream.md).
struct KnownPlaces {
  // Candidates of every row tile in this pass, where all have as many and row tile t's ordinals begin at
  // ordinals_begin + t * ordinals_stride (-1 and 0: all documents); 0: the row tiles say.
  uint32_t regular;
  uint32_t unused;
  int64_t ordinals_begin;
  int64_t ordinals_stride;
  int64_t document_tokens;  // of every document; 0: the offsets say
};

// Which row tiles of a wide call are half ones (RowTile::IsHalf).
enum HalfTiles : int32_t { kNoHalfTiles, kAllHalfTiles, kSomeHalfTiles };

// In which row tile a thread block of a wide or deep kernel begins: thread block b in b % num_row_tiles. A division is
// some twenty instructions, and until a block's first copies every one of them is fetched from memory: so the host
// divides.
struct HomeTiles {
  uint32_t inverse;   // 2^32 / num_row_tiles, rounded up: for block numbers; 0: there is one row tile
  int32_t blocks;     // that begin in a row tile ...
  int32_t extra;      // ... and one more in this many first ones
  uint32_t dealt[2];  // where KnownPlaces::regular: candidates dealt to each of `blocks`, and of one more
  uint32_t quarters;  // of their share that blocks are dealt

  // Candidates dealt to each of `readers` blocks, one at least.
  constexpr uint32_t Dealt(uint32_t candidates, int32_t readers) const {
    if (readers == 0) return 0;
    const uint32_t each = candidates / 4 * quarters / static_cast<uint32_t>(readers);
    return each == 0 ? 1 : each;
  }

  // Blocks are dealt three quarters of their share; two where many row tiles, but not all, are half ones, which take
  // half the time: the blocks that begin with those are to help.
  static constexpr HomeTiles Of(int32_t grid, int32_t num_row_tiles, int32_t num_half_tiles, uint32_t regular) {
    HomeTiles homes{};
    homes.quarters = num_half_tiles > num_row_tiles / 3 && num_half_tiles < num_row_tiles ? 2 : 3;
    const uint64_t tiles = static_cast<uint64_t>(num_row_tiles);
    homes.inverse = tiles == 1 ? 0 : static_cast<uint32_t>(((uint64_t{1} << 32) + tiles - 1) / tiles);
    homes.blocks = grid / num_row_tiles;
    homes.extra = grid % num_row_tiles;
    homes.dealt[0] = homes.Dealt(regular, homes.blocks);
    homes.dealt[1] = homes.Dealt(regular, homes.blocks + 1);
    return homes;
  }

  // block / num_row_tiles, where the product of the two is below 2^32.
  constexpr uint32_t Quotient(uint32_t block) const {
    return inverse == 0 ? block : static_cast<uint32_t>(uint64_t{block} * inverse >> 32);
  }
};

// A candidate whose document has been looked up.
struct PlacedCandidate {
  uint32_t position;  // in its list
  int32_t begin;      // first row in the token array, which has kWideMaxTokens at most
  int32_t tokens;
  float scale;  // of a quantised document
};

// The order in which the wide and deep kernels take the candidates of a list, longest documents first, and the work
// work units in which they do (order_candidates.cu). What there is of a list begins at its row tiles' order_begin, and
// has num_candidates + kOrderEntries elements of each array.
inline constexpr int32_t kOrderEntries = 2;
struct CandidateOrder {
  PlacedCandidate* placed;  // null: candidates are taken as they come in the list
  // The number of work units; the place in `placed` where each begins, counted from the list's first; num_candidates.
  uint32_t* units;
  int32_t early_octets;  // OrderPlan's
  int32_t unused;
};

// How a stream kernel's work is shared out, as StreamShares in kernels/plan/shares.h says.
struct StreamWork {
  int64_t total;
  int64_t dealt;
  int64_t each;
  int64_t coarse_claims;
  int32_t extra_until;
  int32_t coarse;
  int32_t fine;
  int32_t blocks;  // thread blocks of the launch

  static constexpr StreamWork Of(const StreamShares& shares) {
    return {shares.total,       shares.dealt,  shares.each, shares.coarse_claims,
            shares.extra_until, shares.coarse, shares.fine, shares.blocks};
  }
};

// Teams of a stream kernel's thread blocks. A document that several of them have parts of has an element of both
// arrays, by the number of its candidate, counted through all row tiles: what they have found meets there. The arrays
// are zero between launches.
struct StreamTeams {
  uint32_t* maxima;  // [kMostTeamCandidates, kQueryTileTokens], as Rising (sums.cuh) makes them
  uint32_t* tiles;   // [kMostTeamCandidates] that have been added
  int32_t blocks;    // of a team; 1: there are no teams
  uint32_t inverse;  // 2^32 / blocks, rounded up: for block numbers

  // How many of uint32_t there are of both arrays.
  static constexpr size_t kWords = size_t{kMostTeamCandidates} * (kQueryTileTokens + 1);

  static constexpr StreamTeams Of(const StreamShares& shares, uint32_t* words) {
    const uint64_t blocks = static_cast<uint64_t>(shares.team_blocks);
    return {words, words + kMostTeamCandidates * kQueryTileTokens, shares.team_blocks,
            static_cast<uint32_t>(((uint64_t{1} << 32) + blocks - 1) / blocks)};
  }
};

struct ScoreParams {
  const uint8_t* tokens;      // [offsets[num_documents], row_bytes] packed rows of the documents
  const int64_t* offsets;     // [num_documents + 1] in rows
  const float* scales;        // [num_documents] of quantised documents; else null
  const uint8_t* query_rows;  // [.., row_bytes], query tiles of 32 rows, absent rows zero; for a stream kernel tiles
                              // of [32, StreamQueryPitch(row_bytes)] in the order of StreamQueryOffset
  const float* row_weights;   // [..], zero for absent rows; quantised: weight times scale of the row
  const RowTile* row_tiles;   // [num_row_tiles]; not there in a single-launch call
  const uint32_t* ordinals;   // lists of candidates, in a single-launch call in pinned memory; may be null when every
                              // row tile takes all documents
  float* scores;              // output; null when matches are wanted
  float* partials;            // output of the query tiles of queries with several; null when there are none
  DeviceMatch* matches;       // output [num_candidates, query_tokens] in place of scores; else null
  int64_t pass_first;         // candidates pass_first .. pass_first + pass_count of every row tile are scored
  int64_t pass_count;
  int32_t query_tokens;  // columns of `matches`; a row tile's first_row is then its first query token
  int32_t num_row_tiles;
  int32_t row_tiles_at_once;
  int32_t blocks_per_row_tile;
  int32_t row_bytes;   // multiple of 16
  int32_t num_steps;   // of 32 bytes in a row
  int32_t num_chunks;  // of the tiling's chunk_bytes in a row
  int32_t chunks_of_chain;
  int32_t stages;

  // The Hopper kernels' alone.
  int32_t tile_tokens;  // the stream kernels': of a token tile
  KnownPlaces places;
  uint32_t* claims;          // [num_row_tiles + 2], see hopper_common/work_queue.cuh and hopper_stream/share.cuh
  int32_t claim_candidates;  // candidates of a claim, 1 .. 32; of an order a claim is one chunk
  HalfTiles half_tiles;      // the wide kernels'
  int32_t query_resident;    // the deep kernels': 1: query rows stay in shared memory; 0: they come with every tile
  int32_t read_once;         // the stream kernels': 1: the documents are more than the L2 cache keeps
  HomeTiles homes;           // the wide and deep kernels'
  CandidateOrder order;      // the same
  StreamWork work;           // the stream kernels'
  SingleLaunchCall single_launch;  // the stream kernels' with rows in registers
  StreamTeams teams;               // the stream kernels'; behind what is read where there are none
};

// What the wide and deep kernels read is in the lines that the wide kernel's four warps ask for (fetch_params.cuh).
static_assert(offsetof(ScoreParams, work) <= 4 * 64);

// The row tile that a thread block of a wide or deep kernel begins in.
constexpr int32_t HomeOf(uint32_t block, const ScoreParams& params) {
  return static_cast<int32_t>(block - params.homes.Quotient(block) * static_cast<uint32_t>(params.num_row_tiles));
}

// So that launches can be compared.
static_assert(std::has_unique_object_representations_v<ScoreParams>);

// A query whose scores are made of partial sums: of several query tiles, added in order, or of joined lists.
struct PartialSums {
  int64_t partials_offset;  // of the first query tile; query tile b is at partials_offset + b * query_tile_stride
  int64_t query_tile_stride;
  int64_t scores_offset;
  int64_t num_candidates;
  int64_t num_query_tiles;
  int64_t ordinals_begin;  // the query's list, and its join's words: the partial sums are those of the union;
  int64_t words_begin;     // -1: they are the candidates' own
};

// Joined lists (kernels/plan/list_join.h) on the device. The documents that they name are marked, 32 to a word; a
// document is in the union behind those of its word that are marked before it.
struct JoinWord {
  uint32_t marks;
  uint32_t before;  // documents of the union before the word's first
};

struct JoinedList {
  int64_t ordinals_begin;
  int64_t num_candidates;
  int64_t words_begin;  // of its join
};

struct JoinedUnion {
  int64_t words_begin;
  int64_t num_words;
  int64_t ordinals_begin;  // where the union goes, in no particular order
  int32_t first_row_tile;  // row tiles that score it: num_candidates becomes its size
  int32_t num_row_tiles;
};

}  // namespace maxsim::cuda
