// The plan of a CUDA scoring call: which kernel, how it is tiled, how much shared memory it takes, how it fills the
// device. A pure function of the call's shape and the device's limits, so that it can be printed, and tested on a
// machine without a GPU. Nothing here affects results: every plan gives a document the same bits. Kernels compute with
// the same constants and layouts; so what nvcc would take seconds to read is in plan_score.h.
//
// Vocabulary. A query's tokens are cut into *blocks* of 32 rows (the last one padded with zero rows). Queries that
// score the same documents form a *group*, and a group's blocks, stacked, are cut into *row tiles*: a row tile is what
// one thread block holds against the documents it streams. A document is streamed in *token tiles*, and a token tile in
// *chunks* of its columns; one stage of the shared-memory ring holds one chunk of one token tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/scalar_type.h"
#include "kernels/token_tile.h"

namespace maxsim {

// Query tokens whose weighted maxima are added by one butterfly. Part of the order of additions, so never to be tuned.
inline constexpr int32_t kBlockTokens = 32;

// What is left of queries over the same documents behind their whole blocks, all of a short one, may share blocks: four
// of up to so many tokens, or two of up to twice as many. Absent tokens add zeros, so that a part of the butterfly
// gives the same bits.
inline constexpr int32_t kShortQueryTokens = 8;

// Rows that a query takes where blocks are shared: whole blocks, and 8 or 16 of a shared one.
constexpr int64_t PackedRows(int64_t num_tokens) {
  const int64_t rest = num_tokens % kBlockTokens;
  if (rest == 0) return num_tokens;
  if (rest <= kShortQueryTokens) return num_tokens - rest + kShortQueryTokens;
  if (rest <= 2 * kShortQueryTokens) return num_tokens - rest + 2 * kShortQueryTokens;
  return num_tokens - rest + kBlockTokens;
}

// Bytes that one step of the inner loop takes of a row: 16 half-precision columns (the k of one tensor-core
// instruction, and the group of columns whose sum the order of additions is made of), 32 INT8 columns, or 8 FP32 ones.
inline constexpr int32_t kStepBytes = 32;

// Columns whose products are added in one chain. Wider rows are cut into pieces of this many columns, whose sums are
// added in order: a chain of 4,096 FP32 additions (or of 256 tensor-core steps, which truncate) drifts by more than
// 1e-5 when all products have one sign. Part of the order of additions too. (Not of INT8's, whose sums are exact.)
inline constexpr int32_t kPieceColumns = 1024;

// Rows of documents and queries in device memory are padded with zero columns to a multiple of this, so that they are
// whole pieces of 16 bytes.
inline constexpr int32_t kRowAlignColumns = 8;
inline constexpr int32_t kRowAlignColumnsI8 = 16;

// Bytes of one row in device memory.
constexpr int64_t DeviceRowBytes(ScalarType type, int32_t dim) {
  const int32_t align = type == ScalarType::kI8 ? kRowAlignColumnsI8 : kRowAlignColumns;
  return int64_t{(dim + align - 1) / align * align} * static_cast<int64_t>(SizeOf(type));
}

// The tilings that the scoring kernels are compiled for.
enum class ScoreTile : uint8_t {
  kRows32Narrow,  // one block of rows, rows of at most 128 bytes
  kRows32,        // one block of rows: the memory-bound short query
  kRows64,        // two blocks: short queries stacked by two, or a query of up to 64 tokens
  kRows128,       // four blocks: long or stacked queries, bound by the tensor cores; rows of one piece only
  kWide128,       // Hopper, not F32, rows of at most 256 bytes: four blocks; documents go to two warpgroups in turn
  kWide256,       // the same, eight blocks over both warpgroups; those of half a tile or less as above
  kStream32,      // Hopper, not F32, rows of at most 4,064 bytes: one block, at the memory's pace; short calls
  kDeep128,  // Hopper, not F32, rows of 257 to 2,048 bytes: four blocks; each of two warpgroups has its own document
  kDeep256,  // the same, eight blocks over both warpgroups
};

inline constexpr ScoreTile kAllScoreTiles[] = {ScoreTile::kRows32Narrow, ScoreTile::kRows32,  ScoreTile::kRows64,
                                               ScoreTile::kRows128,      ScoreTile::kWide128, ScoreTile::kWide256,
                                               ScoreTile::kStream32,     ScoreTile::kDeep128, ScoreTile::kDeep256};

constexpr bool IsStream(ScoreTile tile) { return tile == ScoreTile::kStream32; }

// Tokens of a wide tile, and of a deep one at most.
inline constexpr int32_t kWideTokens = 128;
inline constexpr int32_t kDeepTokens = 192;

// Of a wide kernel's row tile of at most so many blocks, half of the largest one, both warpgroups hold all rows, and
// documents go to one and the other in turn.
inline constexpr int32_t kHalfTileBlocks = 4;

constexpr bool IsWide(ScoreTile tile) { return tile == ScoreTile::kWide128 || tile == ScoreTile::kWide256; }
constexpr bool IsDeep(ScoreTile tile) { return tile == ScoreTile::kDeep128 || tile == ScoreTile::kDeep256; }

// Several short queries, or ends of longer ones, may share a block.
constexpr bool MayShareBlocks(ScoreTile tile) { return IsWide(tile) || IsDeep(tile); }

// The kernels for Hopper (kernels/cuda/sm90/{score,deep,stream}_kernel.cuh); the others run on everything from sm_80
// on.
constexpr bool IsHopper(ScoreTile tile) { return IsWide(tile) || IsDeep(tile) || IsStream(tile); }

// Constants of a tiling of the portable kernels. Kernel and plan read the same ones. Of Hopper's only the rows mean
// anything.
struct TileTraits {
  int32_t rows;          // of a row tile
  int32_t tokens;        // of a token tile
  int32_t chunk_bytes;   // of a row, in one stage
  int32_t warps_rows;    // warps side by side along the rows ...
  int32_t warps_tokens;  // ... and along the tokens
  int32_t min_blocks;    // thread blocks that fit a multiprocessor by registers (__launch_bounds__)

  constexpr int32_t warps() const { return warps_rows * warps_tokens; }
  constexpr int32_t threads() const { return 32 * warps(); }
  constexpr int32_t blocks() const { return rows / kBlockTokens; }
  // A row of a stage in shared memory. 16 bytes of padding put eight consecutive rows into different banks, which is
  // what ldmatrix reads at once (row bytes are a multiple of 32, so the pitch is an odd multiple of 16).
  constexpr int32_t pitch() const { return chunk_bytes + 16; }
};

constexpr TileTraits TraitsOf(ScoreTile tile) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return {32, 128, 128, 1, 4, 3};
    case ScoreTile::kRows32:
      return {32, 64, 256, 1, 4, 3};
    case ScoreTile::kRows64:
      return {64, 64, 256, 2, 2, 3};
    case ScoreTile::kRows128:
      return {128, 128, 128, 2, 4, 2};
    case ScoreTile::kWide128:
      return {128, kWideTokens, 0, 0, 0, 1};
    case ScoreTile::kWide256:
      return {256, kWideTokens, 0, 0, 0, 1};
    case ScoreTile::kStream32:
      return {32, 0, 0, 0, 0, 1};
    case ScoreTile::kDeep128:
      return {128, kDeepTokens, 0, 0, 0, 1};
    case ScoreTile::kDeep256:
      return {256, kDeepTokens, 0, 0, 0, 1};
  }
  return {};
}

// Stages of the ring. Two are the least that overlaps loading with arithmetic; beyond eight nothing was left to gain,
// and the candidate table below relies on it.
inline constexpr int32_t kMinStages = 2;
inline constexpr int32_t kMaxStages = 8;

// Candidates whose place in the token array is held in shared memory, filled half by half ahead of the loads.
inline constexpr int32_t kCandidateTableSize = 128;
inline constexpr int32_t kCandidateTableEntryBytes = 16;

// Bytes of one row of a resident query tile: whole steps, and 16 bytes against bank conflicts.
constexpr int32_t ResidentQueryPitch(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes) + 16;
}

// Where the parts of a thread block's shared memory begin, in bytes. The kernel computes its pointers with this and the
// launch takes `total`, so the two cannot disagree.
struct SharedLayout {
  int32_t query;        // resident query tile; empty when the query is streamed with the documents
  int32_t stages;       // ring: per stage the document chunk and, when streamed, the query chunk
  int32_t stage_bytes;  // size of one stage
  int32_t table;        // [kCandidateTableSize] candidates
  int32_t maxima;       // [2][warps_tokens][rows] values, then as many indices where matches are wanted
  int32_t weights;      // [rows]
  int32_t total;
};

constexpr SharedLayout LayoutOf(ScoreTile tile, bool query_resident, bool align, int64_t row_bytes, int32_t stages) {
  const TileTraits traits = TraitsOf(tile);
  SharedLayout layout{};
  layout.query = 0;
  layout.stages = query_resident ? traits.rows * ResidentQueryPitch(row_bytes) : 0;
  layout.stage_bytes = (traits.tokens + (query_resident ? 0 : traits.rows)) * traits.pitch();
  layout.table = layout.stages + stages * layout.stage_bytes;
  layout.maxima = layout.table + kCandidateTableSize * kCandidateTableEntryBytes;
  layout.weights = layout.maxima + 2 * traits.warps_tokens * traits.rows * (align ? 8 : 4);
  layout.total = layout.weights + traits.rows * 4;
  return layout;
}

// The wide kernels. Bytes of a row in one swizzled half of a stage; threads, of which two warpgroups multiply.
inline constexpr int32_t kWideHalfBytes = 128;
inline constexpr int32_t kWideMaxRowBytes = 2 * kWideHalfBytes;
inline constexpr int32_t kWideThreads = 384;
inline constexpr int32_t kWideMultipliers = 8;   // warps
inline constexpr int32_t kWideAlignment = 1024;  // of the stages, and so of all of it
// A row is named by a signed 32-bit number.
inline constexpr int64_t kWideMaxTokens = (int64_t{1} << 31) - 1 - kWideTokens;

// Halves of a row of `steps` steps, and stages of the ring, which takes nearly all of the shared memory.
constexpr int32_t WideHalves(int32_t steps) { return steps * kStepBytes <= kWideHalfBytes ? 1 : 2; }
constexpr int32_t WideStages(int32_t halves) { return halves == 1 ? 11 : 6; }

// Documents that may end in a wide tile, and so its pieces: once a piece goes on in the next tile, this one is full.
// What a multiplying warp keeps of each until it is summed: a lane's two maxima of both sets of rows.
inline constexpr int32_t kWideMostEnds = 8;
inline constexpr int32_t kWideEndBytes = 2 * 2 * 32 * 4;

// Where the parts of a wide kernel's shared memory begin, in bytes.
struct WideLayout {
  int32_t stage_bytes;
  int32_t entries;    // [stages] descriptions of token tiles
  int32_t notes;      // [stages] of the pieces of token tiles
  int32_t scratch;    // [kWideMultipliers][kWideMostEnds] documents that have ended
  int32_t weights;    // [kWideMultipliers][kBlockTokens] of the rows that a warp has
  int32_t slot;       // of the chunk that is handed over
  int32_t described;  // [stages] barriers of 8 bytes
  int32_t full;       // [stages] barriers
  int32_t whole;      // [stages] barriers
  int32_t empty;      // [stages] barriers
  int32_t slot_barriers;
  int32_t total;
};

constexpr WideLayout WideLayoutOf(int32_t halves) {
  const int32_t stages = WideStages(halves);
  WideLayout layout{};
  layout.stage_bytes = halves * kWideTokens * kWideHalfBytes;
  layout.entries = stages * layout.stage_bytes;
  layout.notes = layout.entries + stages * TileEntryBytes(kWideMostEnds);
  layout.scratch = layout.notes + stages * kWideMostEnds * kPieceNoteBytes;
  layout.weights = layout.scratch + kWideMultipliers * kWideMostEnds * kWideEndBytes;
  layout.slot = layout.weights + kWideMultipliers * kBlockTokens * 4;
  layout.described = layout.slot + kChunkSlotBytes;
  layout.full = layout.described + stages * 8;
  layout.whole = layout.full + stages * 8;
  layout.empty = layout.whole + stages * 8;
  layout.slot_barriers = layout.empty + stages * 8;
  layout.total = layout.slot_barriers + kChunkBarrierBytes;
  return layout;
}

// The stream kernels. Documents whose maxima can meet at once, no fewer than the stages of any ring; bytes beside a
// tile that describe it; warps that multiply at most, each a whole tile: with the loading one as
// many as leave 168 registers a thread.
inline constexpr int32_t kStreamSlots = 32;
inline constexpr int32_t kStreamEntryBytes = 16;
inline constexpr int32_t kStreamMaxWarps = 11;
// Rows of at most this many bytes keep the query in registers, and tiles take about 8 KB.
inline constexpr int32_t kStreamRegisterRowBytes = 256;
inline constexpr int32_t kStreamTileBytes = 8192;
// Wider rows keep it in shared memory. What a thread block may have of that on Hopper, and the least stages that keep
// the memory busy: one tile is multiplied while two are on their way.
inline constexpr int32_t kStreamSharedBytes = 227 * 1024;
inline constexpr int32_t kStreamMinStages = 3;

// Query rows as the stream kernels read them, in device memory and in shared memory: whole steps, zero past a row's
// end, and a block of kBlockTokens rows in the order of the products' operands. Of every step and 16 rows a lane finds
// its operand of mma.sync in 16 bytes: of its quarter of the step, two rows' first words and their second ones.
constexpr int32_t StreamQueryPitch(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes);
}

// Where byte `byte` of row `row` lies in its block.
constexpr int32_t StreamQueryOffset(int32_t row, int32_t byte) {
  const int32_t operand = byte / kStepBytes * (kBlockTokens / 16) + row / 16;
  const int32_t lane = row % 8 * 4 + byte % kStepBytes / 8;
  const int32_t word = byte % 8 / 4 * 2 + row % 16 / 8;
  return (operand * 32 + lane) * 16 + word * 4 + byte % 4;
}

// Where the parts of a stream kernel's shared memory begin, in bytes; the token tiles come first.
struct StreamLayout {
  int32_t query;       // kBlockTokens rows of StreamQueryPitch bytes; none where registers hold them
  int32_t entries;     // [stages]
  int32_t full;        // [stages] barriers of 8 bytes
  int32_t empty;       // [stages] barriers
  int32_t query_full;  // a barrier
  int32_t maxima;      // [kStreamSlots][kBlockTokens]
  int32_t counts;      // [kStreamSlots]
  int32_t cuts;        // [stages]
  int32_t total;
};

constexpr StreamLayout StreamLayoutOf(int32_t stages, int32_t stage_bytes, int32_t query_bytes) {
  StreamLayout layout{};
  layout.query = stages * stage_bytes;
  layout.entries = layout.query + query_bytes;
  layout.full = layout.entries + stages * kStreamEntryBytes;
  layout.empty = layout.full + stages * 8;
  layout.query_full = layout.empty + stages * 8;
  layout.maxima = layout.query_full + 8;
  layout.counts = layout.maxima + kStreamSlots * kBlockTokens * 4;
  layout.cuts = layout.counts + kStreamSlots * 4;
  layout.total = layout.cuts + stages * 4;
  return layout;
}

// The ring of a stream kernel. A stage is always the same warp's, so that their number divides the stages'.
struct StreamShape {
  int32_t tile_tokens = 0;
  int32_t stage_bytes = 0;
  int32_t stages = 0;  // 0: no ring for such rows
  int32_t warps = 0;   // that multiply
  int32_t query_bytes = 0;

  constexpr StreamLayout Layout() const { return StreamLayoutOf(stages, stage_bytes, query_bytes); }
  constexpr int32_t threads() const { return 32 * (warps + 1); }
};

inline constexpr StreamShape kStreamRegisterShape{0, kStreamTileBytes, 2 * kStreamMaxWarps, kStreamMaxWarps, 0};

// The ring for wide rows with tiles of so many tokens.
constexpr StreamShape StreamSharedShape(int64_t row_bytes, int32_t tile_tokens) {
  StreamShape shape{tile_tokens, static_cast<int32_t>(tile_tokens * row_bytes), 0, 0,
                    kBlockTokens * StreamQueryPitch(row_bytes)};
  while (shape.stages < kStreamSlots &&
         StreamLayoutOf(shape.stages + 1, shape.stage_bytes, shape.query_bytes).total <= kStreamSharedBytes) {
    ++shape.stages;
  }
  if (shape.stages < kStreamMinStages) return {};
  // One a warp where they are few, else as many warps as leave an eighth of the stages at most without one: with few
  // warps it is their latency that sets the pace.
  const int32_t fit = shape.stages;
  shape.warps = std::min(fit, kStreamMaxWarps);
  while (fit % shape.warps > fit / 8) --shape.warps;
  shape.stages -= fit % shape.warps;
  return shape;
}

// Tokens of a tile are what mma.sync takes, 16, where as many fit: a half of that reads the query twice as often. Tiles
// of short rows take 32, which is 8 KB or more.
constexpr StreamShape StreamShapeOf(int64_t row_bytes) {
  if (row_bytes <= kStreamRegisterRowBytes) {
    StreamShape shape = kStreamRegisterShape;
    shape.tile_tokens = static_cast<int32_t>(kStreamTileBytes / row_bytes / 8 * 8);
    return shape;
  }
  for (const int32_t tokens : {32, 16, 8}) {
    if (tokens == 32 && tokens * row_bytes > kStreamTileBytes * 3 / 2) continue;
    if (const StreamShape shape = StreamSharedShape(row_bytes, tokens); shape.stages > 0) return shape;
  }
  return {};
}

// The mean length of the document that a token is in, less the mean length of a document: 0 where all are equally long.
// A document of more than sixteen times the mean counts as one of that many tokens, so that a few which calls will
// hardly name do not decide. `offsets` of `num_documents` documents, as in DocumentsView.
int64_t SpreadTokens(const int64_t* offsets, int64_t num_documents);

// How the candidates of a call are shared out to a stream kernel's thread blocks. They are counted through all row
// tiles, each row tile's of the pass in order. Every block is dealt consecutive ones, the first blocks one more than
// the others; what is left is claimed, in coarse pieces first and in fine ones at the end.
//
// Or blocks form *teams*, of which each is dealt consecutive candidates: so few that a team knows all their lengths
// before it begins, and cuts their tokens into even parts, one a block. A document that is cut has maxima in several
// blocks, which meet in device memory. Nothing is claimed then.
struct StreamShares {
  int64_t total = 0;
  int64_t dealt = 0;
  int64_t each = 0;         // dealt to every block, or team ...
  int32_t extra_until = 0;  // ... and one more to those before this one
  int32_t blocks = 1;       // that take part: the plan's, but no more than there are candidates, or whole teams of them
  int32_t team_blocks = 1;  // 1: there are no teams
  int32_t coarse = 1;       // candidates of a claim
  int32_t fine = 1;
  int64_t coarse_claims = 0;

  bool all_dealt() const { return dealt == total; }
  std::string ToString() const;
};

// Choices of PlanStreamShares that measurements may make; negative: its own. With dealt_percent there are no teams
// unless `teams` asks for them.
struct StreamTuning {
  int32_t dealt_percent = -1;
  int32_t coarse = -1;
  int32_t fine = -1;
  int32_t teams = -1;  // 0: never; else wherever they can be
};

// Chunks that a team's candidates are in at most, of 32 or fewer of one row tile. All blocks of a team look up all of
// them first: with four a call begins up to a microsecond later (kernels/README.md).
inline constexpr int32_t kTeamChunks = 2;

// Candidates of a call that has teams: what 64 teams, two blocks each of an H200, have room for.
inline constexpr int64_t kMostTeamCandidates = 64 * 32 * kTeamChunks;

// What the plan needs to know of a device.
struct DeviceLimits {
  int32_t num_sms = 0;
  int32_t shared_bytes_per_block = 0;  // opt-in maximum
  int32_t shared_bytes_per_sm = 0;
  int32_t reserved_shared_bytes = 1024;  // of every block, by the system
  int32_t max_threads_per_sm = 0;
  bool hopper = false;            // compute capability 9.0
  bool tensor_maps = true;        // the documents in question have them (the wide and deep tiles need them)
  uint32_t tiles = ~uint32_t{0};  // tilings that may be chosen, bit 1 << ScoreTile; for tests and measurements

  constexpr bool Allows(ScoreTile tile) const { return (tiles >> static_cast<uint32_t>(tile) & 1) != 0; }
  std::string ToString() const;
};

// Queries that score the same candidates.
struct ScoreGroup {
  int64_t num_blocks = 0;      // blocks of kBlockTokens rows, all queries together
  int64_t num_candidates = 0;  // documents each of them is scored against
  int64_t packed_blocks = 0;   // where short queries, and longer ones' ends, share blocks; 0: as many
};

// Whether the group's queries share blocks, where the tile lets them: not if that saves next to nothing, as blocks that
// are shared take longer to sum.
bool SharesBlocks(const ScoreGroup& group, ScoreTile tile);

// Blocks that the group's rows take on the tile.
int64_t BlocksOf(const ScoreGroup& group, ScoreTile tile);

struct ScorePlan {
  ScalarType type = ScalarType::kF16;
  ScoreTile tile = ScoreTile::kRows32;
  bool query_resident =
      false;                // the query tile stays in shared memory; otherwise its chunks travel with the documents'
  bool align = false;       // finds the matching tokens instead of scores
  int32_t row_bytes = 0;    // of a document in device memory; of a query row too, but StreamQueryPitch
  int32_t num_steps = 0;    // of kStepBytes in a row, the last one zero-filled
  int32_t num_chunks = 0;   // of a token tile
  int32_t tile_tokens = 0;  // of a token tile
  int32_t chunks_of_piece = 0;  // of kPieceColumns columns
  int32_t stages = 0;
  int32_t threads = 0;
  int32_t shared_bytes = 0;
  int32_t blocks_per_sm = 0;
  int64_t num_row_tiles = 0;        // of all groups
  int64_t num_half_tiles = 0;       // wide: of those, of at most kHalfTileBlocks blocks
  int32_t row_tiles_at_once = 0;    // row tiles the grid works on side by side; it strides over the rest
  int32_t blocks_per_row_tile = 0;  // thread blocks that share one row tile's candidates; wide: all, at first;
                                    // stream: StreamShares says how many take part

  int32_t grid() const { return row_tiles_at_once * blocks_per_row_tile; }
  std::string ToString() const;
};

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

// Where candidates differ in length, and a thread block of a wide or deep kernel has few of them, blocks that take them
// as they come would end far apart. So a kernel orders them first, the longest documents at the beginning, and makes
// chunks of about as many tokens, which blocks claim one by one (kernels/cuda/order_candidates.h).
//
// Candidates of a list that it takes, and what it has room for: candidates and kOrderEntries a list
// (kernels/cuda/score_params.h).
inline constexpr int64_t kMostOrderedCandidates = 16384;
inline constexpr int64_t kMostPlacedCandidates = 65536;
inline constexpr int32_t kMostEarlyGroups = 0x3fffffff;

struct OrderPlan {
  int32_t chunk_groups = 0;  // of tokens to a chunk: a power of two, 32 at least; 0: candidates are taken as they come
  int32_t early_groups = 0;  // a thread block claims chunks ahead until it has so many; kMostEarlyGroups at most
};

// For `total` candidates of all row tiles, among documents of `mean_tokens`, of which the longest has `longest_tokens`.
// They are taken as they come where ordering would take longer than it saves, unless `always`.
OrderPlan PlanOrder(const ScorePlan& plan, int64_t total, int64_t mean_tokens, int64_t longest_tokens, bool always);

// Selection. Up to this many candidates every one is ranked against all others at once. Of more, a lower bound of the
// k-th score is found first; the candidates that reach it are gathered, and those are ranked.
//
// Vocabulary. A query's scores are cut into *chunks*, one a thread block, and a chunk into *groups*, each with scores
// from all over the query. The k-th largest of the groups' maxima is such a bound: k groups reach it. Of G groups it
// lets about -G ln(1 - k / G) candidates through, 1.2 k where G = 3 k. Where so many groups would be too small or too
// many, and where a chunk finds more candidates than its list takes, the bound comes from histograms instead.
inline constexpr int64_t kRankAllCandidates = 4096;
inline constexpr int64_t kBlockSelectCandidates = 2048;  // by one thread block (kernels/cuda/lone_call.h)
inline constexpr int32_t kMaxSelectChunks = 256;         // of a query
inline constexpr int32_t kMaxSelectGroups = 8192;        // of a query
inline constexpr int32_t kSelectThreads = 1024;          // of a thread block; the most groups of a chunk
inline constexpr int32_t kSelectBins = 2048;             // of a histogram
inline constexpr int32_t kSelectPasses = 6;              // histograms that settle 64-bit keys: 11 bits each
inline constexpr int32_t kSelectAlignment = 4;           // a query's scores begin at a multiple of this

struct SelectPlan {
  int32_t chunks = 0;       // 0: every candidate is ranked against all others
  int32_t groups = 0;       // of a chunk: a power of two from 32 to kSelectThreads; 0: histograms at once
  int32_t list_keys = 0;    // candidates that a chunk's list takes
  int32_t rank_blocks = 0;  // thread blocks that rank all candidates, where chunks is 0

  bool large() const { return chunks > 0; }
  int64_t keys() const { return int64_t{chunks} * list_keys; }  // room for candidates
  std::string ToString() const;
};

// Plans the selection of the best k of `num_candidates`, beside others in a call of `num_queries` queries.
SelectPlan PlanSelect(int64_t num_candidates, int64_t k, int64_t num_queries, const DeviceLimits& limits);

// What the plans of `num_queries` queries with `num_results` results in all ask for together at most: sum of keys().
int64_t MostSelectKeys(int64_t num_queries, int64_t num_results, const DeviceLimits& limits);

// Name of a tiling in logs: "rows32".
std::string Name(ScoreTile tile);

}  // namespace maxsim
