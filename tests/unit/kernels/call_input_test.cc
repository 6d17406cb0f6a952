#include "kernels/cuda/call/planning/call_input.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/candidate_mask.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/order.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda {
namespace {

constexpr DeviceLimits kHopper{132, 232448, 233472, 1024, 2048, /*hopper=*/true};
constexpr int32_t kDim = 40;
constexpr int64_t kNumDocuments = 1000;

// Plans calls. Neighbouring bytes of a query differ, so that a wrong offset shows. A list of n candidates names
// documents 0 to n - 1.
class CallInputTest : public testing::Test {
 protected:
  CallInputTest() : tokens_(size_t{600} * kDim * 2), ordinals_(kNumDocuments) {
    std::iota(tokens_.begin(), tokens_.end(), uint8_t{1});
    std::iota(ordinals_.begin(), ordinals_.end(), 0u);
  }

  // Adds a query to the call. Its candidates are the first `num_candidates` documents, or all documents if that is 0.
  void Add(int32_t num_tokens, int64_t num_candidates) {
    Query query;
    query.tokens = tokens_.data();
    query.num_tokens = num_tokens;
    query.top_k = 10;
    if (num_candidates > 0) {
      lists_.emplace_back(ordinals_.begin(), ordinals_.begin() + num_candidates);
      query.num_candidates = num_candidates;
    }
    queries_.push_back(query);
  }

  const CallInput& Plan(const DeviceLimits& limits = kHopper, int64_t partials = 1 << 20,
                        int64_t num_documents = kNumDocuments) {
    for (size_t i = 0, list = 0; i < queries_.size(); ++i) {
      if (queries_[i].num_candidates > 0) queries_[i].ordinals = lists_[list++].data();
    }
    EXPECT_TRUE(
        input_.PlanScores(queries_, ScalarType::kF16, kDim, num_documents, limits, {.partials = partials}).ok());
    return input_;
  }

  // Writes the call's input. Returns, for each row tile (query rows scored together), where its list begins in the
  // array of ordered candidates.
  std::vector<int32_t> OrderBegins() const {
    std::vector<uint8_t> memory(input_.layout().total);
    input_.Write(memory.data());
    std::vector<int32_t> begins;
    for (int64_t t = 0; t < input_.score_plan().num_row_tiles; ++t) {
      RowTile tile;
      std::memcpy(&tile, memory.data() + input_.layout().row_tiles + static_cast<size_t>(t) * sizeof(tile),
                  sizeof(tile));
      begins.push_back(tile.order_begin);
    }
    return begins;
  }

  void Clear() {
    queries_.clear();
    lists_.clear();
  }

  std::vector<uint8_t> tokens_;
  std::vector<uint32_t> ordinals_;
  std::vector<std::vector<uint32_t>> lists_;
  std::vector<Query> queries_;
  CallInput input_;
};

TEST_F(CallInputTest, AllDocumentsHaveARegularPattern) {
  Add(600, 0);  // three row tiles
  const ListPattern pattern = Plan().Pattern(0, kNumDocuments, 180);
  EXPECT_TRUE(IsWide(input_.score_plan().tile));
  EXPECT_EQ(input_.score_plan().num_row_tiles, 3);
  EXPECT_EQ(pattern.regular, kNumDocuments);
  EXPECT_EQ(pattern.ordinals_begin, -1);
  EXPECT_EQ(pattern.ordinals_stride, 0);
  EXPECT_EQ(pattern.document_tokens, 180);
}

TEST_F(CallInputTest, AShortCallIsPlannedAsOne) {
  Add(60, 100);
  EXPECT_TRUE(IsWide(Plan().score_plan().tile)) << "of documents of unknown length";
  const auto tile = [&](int64_t document_tokens) {
    const ScoreRoom room{.partials = 1 << 20, .document_bytes = static_cast<double>(document_tokens * kDim * 2)};
    EXPECT_TRUE(input_.PlanScores(queries_, ScalarType::kF16, kDim, kNumDocuments, kHopper, room).ok());
    return input_.score_plan().tile;
  };
  EXPECT_TRUE(IsStream(tile(180)));
  EXPECT_TRUE(IsWide(tile(18000)));
}

TEST_F(CallInputTest, ListsOfEqualLengthHaveARegularPattern) {
  for (int i = 0; i < 3; ++i) Add(200, 70);
  const ListPattern pattern = Plan().Pattern(0, 70, 0);
  EXPECT_EQ(input_.score_plan().num_row_tiles, 3);
  EXPECT_EQ(pattern.regular, 70u);
  EXPECT_EQ(pattern.ordinals_begin, 0);
  EXPECT_EQ(pattern.ordinals_stride, 70);
  EXPECT_EQ(pattern.document_tokens, 0);
}

TEST_F(CallInputTest, ABitmapIsWrittenInsteadOfItsList) {
  constexpr int64_t kNumCandidates = 2 * kMinMaskedCandidates, kDocuments = kNumCandidates + 100;
  ordinals_.resize(kNumCandidates);
  std::iota(ordinals_.begin(), ordinals_.end(), 40u);
  std::vector<uint64_t> words(MaskWords(kDocuments));
  for (const uint32_t ordinal : ordinals_) words[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
  Add(60, kNumCandidates);
  queries_[0].mask = words.data();
  const InputLayout& layout = Plan(kHopper, 1 << 20, kDocuments).layout();
  ASSERT_EQ(input_.mask_words(), static_cast<int64_t>(words.size()));
  EXPECT_GE(layout.ordinals, layout.total);
  EXPECT_GE(layout.device_total, layout.ordinals + kNumCandidates * sizeof(uint32_t));
  EXPECT_EQ(input_.num_ordinals(), kNumCandidates);
  std::vector<uint8_t> memory(layout.total);
  input_.Write(memory.data());
  EXPECT_EQ(std::memcmp(memory.data() + layout.mask, words.data(), words.size() * sizeof(uint64_t)), 0);
  const auto rank = [&](int64_t group) {
    uint32_t value = 0;
    std::memcpy(&value, memory.data() + layout.mask_ranks + static_cast<size_t>(group) * sizeof(value), sizeof(value));
    return value;
  };
  EXPECT_EQ(rank(0), 0u);
  EXPECT_EQ(rank(1), kRankWords * 64 - 40);
  EXPECT_EQ(rank(5), 5 * kRankWords * 64 - 40);

  const size_t with_mask = layout.total;
  queries_[0].mask = nullptr;
  Plan(kHopper, 1 << 20, kDocuments);
  EXPECT_EQ(input_.mask_words(), 0);
  EXPECT_LT(layout.ordinals, layout.total);
  EXPECT_LT(with_mask, layout.total / 4);
}

TEST_F(CallInputTest, APassHasItsPart) {
  for (int i = 0; i < 3; ++i) Add(200, 70);
  Plan();
  EXPECT_EQ(input_.Pattern(0, 30, 0).regular, 30u);
  EXPECT_EQ(input_.Pattern(30, 30, 0).regular, 30u);
  EXPECT_EQ(input_.Pattern(60, 30, 0).regular, 10u);
  EXPECT_EQ(input_.Pattern(90, 30, 0).regular, 0u);
}

TEST_F(CallInputTest, OtherListsDoNot) {
  Add(200, 70);
  Add(200, 71);
  EXPECT_EQ(Plan().Pattern(0, 71, 0).regular, 0u) << "of unequal length";
  EXPECT_EQ(input_.Pattern(0, 70, 0).regular, 70u) << "as far as they are equal";

  Clear();
  Add(600, 70);  // three row tiles of one list, before other lists
  Add(200, 70);
  EXPECT_EQ(Plan().Pattern(0, 70, 0).regular, 0u) << "at unequal distances";

  Clear();
  Add(200, 0);
  Add(200, kNumDocuments);
  EXPECT_EQ(Plan().Pattern(0, kNumDocuments, 0).regular, 0u) << "everything, and a list as long";
}

// Candidates are ordered by length only if one pass scores the whole call. Then the candidate lists lie one after the
// other in one array, and all row tiles of a list have the list's begin in that array.
TEST_F(CallInputTest, OrdersWhatOnePassScores) {
  const auto is_ordered = [&] { return input_.Order(100, 5000, /*always=*/true).unit_octets > 0; };
  Add(600, 70);  // three row tiles of one list
  Add(200, 0);
  Add(200, 90);
  Plan();
  EXPECT_TRUE(is_ordered());
  EXPECT_EQ(OrderBegins(), (std::vector<int32_t>{0, 0, 0, 70 + kOrderEntries, 70 + kNumDocuments + 2 * kOrderEntries}));

  EXPECT_GT(input_.Order(100, 5000, /*always=*/false).unit_octets, 0);
  EXPECT_EQ(input_.Order(100, 101, /*always=*/false).unit_octets, 0) << "would save nothing";

  Plan(kHopper, /*partials=*/500);
  EXPECT_LT(input_.pass_candidates(), kNumDocuments);
  EXPECT_FALSE(is_ordered()) << "several passes";

  Clear();
  Add(30, 0);
  Plan();
  EXPECT_FALSE(is_ordered()) << "a stream kernel";

  for (const int64_t documents : {kMaxOrderedCandidates, kMaxOrderedCandidates + 1}) {
    Clear();
    Add(200, 0);
    Plan(kHopper, 1 << 20, documents);
    EXPECT_EQ(is_ordered(), documents == kMaxOrderedCandidates);
  }

  Clear();
  const int64_t fit = kMaxPlacedCandidates / (kNumDocuments + kOrderEntries);
  for (int64_t i = 0; i < fit; ++i) Add(200, kNumDocuments);
  Plan();
  EXPECT_TRUE(is_ordered());
  Add(200, kNumDocuments);
  Plan();
  EXPECT_FALSE(is_ordered()) << "more than there is room for";
}

TEST(DocumentsShapeTest, SaysHowLengthsDiffer) {
  const auto shape = [](const std::vector<int64_t>& offsets) {
    DocumentsView view;
    view.dim = kDim;
    view.num_documents = static_cast<int64_t>(offsets.size()) - 1;
    view.offsets = offsets.data();
    return CudaDocuments::Shape::Of(view);
  };
  EXPECT_EQ(shape({0, 100, 200, 300}).document_tokens, 100);
  EXPECT_EQ(shape({0, 100, 200, 300}).spread_tokens, 0);
  const CudaDocuments::Shape unequal = shape({0, 100, 400, 600});
  EXPECT_EQ(unequal.document_tokens, 0);
  EXPECT_EQ(unequal.longest_tokens, 300);
  EXPECT_EQ(unequal.spread_tokens, 33);
  EXPECT_EQ(shape({0}).spread_tokens, 0);
}

TEST(StartTilesTest, EveryBlockHasOne) {
  for (const int32_t grid : {1, 2, 131, 132, 144}) {
    for (const int32_t tiles : {1, 2, 3, 5, 7, 64, 66, 131, 132, 133, 1000, 65536, 1 << 20}) {
      const StartTiles start = StartTiles::Of(grid, tiles, 0, 1000);
      WorkQueueParams params{};
      params.num_row_tiles = tiles;
      params.start_tiles = start;
      std::vector<int32_t> blocks(static_cast<size_t>(tiles));
      for (uint32_t block = 0; block < static_cast<uint32_t>(grid); ++block) {
        ASSERT_EQ(start.Quotient(block), block / static_cast<uint32_t>(tiles)) << block << " of " << tiles;
        ++blocks[static_cast<size_t>(StartTileOf(block, params))];
      }
      for (int32_t t = 0; t < tiles; ++t) {
        ASSERT_EQ(blocks[static_cast<size_t>(t)], start.blocks + (t < start.extra ? 1 : 0)) << t << " of " << tiles;
      }
    }
  }
  EXPECT_EQ(StartTiles::Of(132, 5, 0, 1000).assigned[0], 750u / 26);
  EXPECT_EQ(StartTiles::Of(132, 5, 0, 1000).assigned[1], 750u / 27);
  EXPECT_EQ(StartTiles::Of(132, 1, 0, 3).assigned[0], 1u) << "fewer candidates than blocks";
  EXPECT_EQ(StartTiles::Of(132, 200, 0, 1000).assigned[0], 0u) << "row tiles without a block";
  EXPECT_EQ(StartTiles::Of(132, 5, 2, 1000).assigned[0], 500u / 26) << "those of half tiles are to help";
  EXPECT_EQ(StartTiles::Of(132, 5, 1, 1000).assigned[0], 750u / 26) << "they are few";
  EXPECT_EQ(StartTiles::Of(132, 5, 5, 1000).assigned[0], 750u / 26) << "all are";
}

// The rows of a query must lie where its kernel reads them. Rows of the last query tile (32 rows) that have no token
// are zeros.
TEST_F(CallInputTest, QueryRowsLieAsTheirKernelReadsThem) {
  constexpr int32_t kTokens = 37;
  constexpr int32_t kRowBytes = kDim * 2;
  for (const bool stream : {false, true}) {
    Clear();
    Add(kTokens, 0);
    DeviceLimits limits = kHopper;
    limits.tiles = 1u << static_cast<uint32_t>(stream ? ScoreTile::kStream32 : ScoreTile::kWide128);
    ASSERT_EQ(Plan(limits).operand_order(), stream);
    std::vector<uint8_t> memory(input_.layout().total, 0xee);
    input_.Write(memory.data());
    const uint8_t* const rows = memory.data() + input_.layout().query_rows;
    const float* const weights = reinterpret_cast<const float*>(memory.data() + input_.layout().row_weights);
    const int32_t pitch = stream ? StreamQueryPitch(kRowBytes) : kRowBytes;
    for (int32_t row = 0; row < 2 * kQueryTileTokens; ++row) {
      EXPECT_EQ(weights[row], row < kTokens ? 1.0f : 0.0f);
      for (int32_t byte = 0; byte < pitch; ++byte) {
        const int32_t first_row = row / kQueryTileTokens * kQueryTileTokens;
        const int32_t offset =
            stream ? first_row * pitch + StreamQueryOffset(row - first_row, byte) : row * pitch + byte;
        const uint8_t expected =
            row < kTokens && byte < kRowBytes ? tokens_[static_cast<size_t>(row) * kRowBytes + byte] : 0;
        ASSERT_EQ(rows[offset], expected) << "stream " << stream << ", row " << row << ", byte " << byte;
      }
    }
  }
}

// The tail of a query is the rest of its tokens after full query tiles of 32. Tails of several queries share a query
// tile if that saves row tiles: first tails of up to 16 rows, then those of up to 8. Each tail must still have an
// output of its own.
TEST_F(CallInputTest, TailsShareQueryTiles) {
  constexpr int32_t kRowBytes = kDim * 2;
  DeviceLimits limits = kHopper;
  limits.tiles = 1u << static_cast<uint32_t>(ScoreTile::kWide256);
  for (int32_t num_tokens : {44, 33, 70, 12, 40}) Add(num_tokens, 0);
  ASSERT_EQ(Plan(limits).score_plan().num_row_tiles, 1);
  std::vector<uint8_t> memory(input_.layout().total, 0xee);
  input_.Write(memory.data());
  RowTile tile;
  std::memcpy(&tile, memory.data() + input_.layout().row_tiles, sizeof(tile));
  // The row tile has eight query tiles. Five are full: those of the queries of 44, 33, 70 (twice) and 40 tokens. Two
  // tails of 12 tokens (the whole fourth query, and the end of the first one) have a query tile each. The tails of 1,
  // 6 and 8 tokens share the last one.
  ASSERT_EQ(tile.num_query_tiles, 8);
  EXPECT_EQ(input_.num_rows(), 8 * kQueryTileTokens);
  struct Part {
    int32_t query, first, tokens;
  };
  const std::vector<Part> parts[] = {{{0, 0, 32}}, {{1, 0, 32}}, {{2, 0, 32}},  {{2, 32, 32}},
                                     {{4, 0, 32}}, {{3, 0, 12}}, {{0, 32, 12}}, {{1, 32, 1}, {2, 64, 6}, {4, 32, 8}}};
  // Each query with more than one query tile (32 tokens) has an entry in `sums`. The partial sums of its query tiles
  // follow one another.
  std::vector<PartialSums> sums(static_cast<size_t>(input_.num_partial_sums()));
  std::memcpy(sums.data(), memory.data() + input_.layout().partial_sums, sums.size() * sizeof(PartialSums));
  ASSERT_EQ(sums.size(), 4u);
  const int64_t sum_of_query[] = {0, 1, 2, -1, 3};
  const uint8_t* const rows = memory.data() + input_.layout().query_rows;
  const float* const weights = reinterpret_cast<const float*>(memory.data() + input_.layout().row_weights);
  for (int32_t query_tile = 0; query_tile < tile.num_query_tiles; ++query_tile) {
    SCOPED_TRACE(testing::Message() << "query tile " << query_tile);
    const QueryTileOutput& output = tile.outputs[query_tile];
    const int32_t rows_of_part = kQueryTileTokens / output.num_queries;
    for (int32_t i = 0; i < output.num_queries; ++i) {
      const bool there = i < static_cast<int32_t>(parts[query_tile].size());
      const Part part = there ? parts[query_tile][static_cast<size_t>(i)] : Part{0, 0, 0};
      const int64_t sum = sum_of_query[part.query];
      if (there && sum >= 0) {
        EXPECT_EQ(output.to_partials, 1);
        EXPECT_EQ(output.offsets[i],
                  sums[static_cast<size_t>(sum)].partials_offset +
                      part.first / kQueryTileTokens * sums[static_cast<size_t>(sum)].query_tile_stride);
      } else {
        EXPECT_EQ(output.offsets[i], there ? 3 * kNumDocuments : -1);
      }
      for (int32_t row = 0; row < rows_of_part; ++row) {
        const int32_t tile_row = query_tile * kQueryTileTokens + i * rows_of_part + row;
        EXPECT_EQ(weights[tile_row], row < part.tokens ? 1.0f : 0.0f);
        for (int32_t byte = 0; byte < kRowBytes; ++byte) {
          const uint8_t expected =
              row < part.tokens ? tokens_[static_cast<size_t>(part.first + row) * kRowBytes + byte] : 0;
          ASSERT_EQ(rows[tile_row * kRowBytes + byte], expected) << "row " << tile_row << ", byte " << byte;
        }
      }
    }
  }
}

TEST_F(CallInputTest, TailsShareNothingWhereThatSavesNoQueryTile) {
  DeviceLimits limits = kHopper;
  limits.tiles = 1u << static_cast<uint32_t>(ScoreTile::kWide256);
  for (int32_t num_tokens : {44, 320, 40, 64}) Add(num_tokens, 0);  // leaves tails of 12 and of 8 tokens
  Plan(limits);
  std::vector<uint8_t> memory(input_.layout().total);
  input_.Write(memory.data());
  for (int64_t t = 0; t < input_.score_plan().num_row_tiles; ++t) {
    RowTile tile;
    std::memcpy(&tile, memory.data() + input_.layout().row_tiles + static_cast<size_t>(t) * sizeof(tile), sizeof(tile));
    for (int32_t query_tile = 0; query_tile < tile.num_query_tiles; ++query_tile)
      EXPECT_EQ(tile.outputs[query_tile].num_queries, 1);
  }
  EXPECT_EQ(input_.num_rows(), (2 + 10 + 2 + 2) * kQueryTileTokens);
  // Here, sharing a query tile would not save a row tile, so the tails do not share.
  Clear();
  for (int32_t num_tokens : {44, 44, 320}) Add(num_tokens, 0);
  Plan(limits);
  EXPECT_EQ(input_.score_plan().num_row_tiles, 2);
  EXPECT_EQ(input_.num_rows(), (2 + 2 + 10) * kQueryTileTokens);
}

}  // namespace
}  // namespace maxsim::cuda
