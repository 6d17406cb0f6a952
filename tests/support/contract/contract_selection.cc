// Tests which candidates are returned, and in which order.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/rank_order.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

std::vector<uint32_t> Range(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> ordinals(end - begin);
  std::iota(ordinals.begin(), ordinals.end(), begin);
  return ordinals;
}

// Returns the scores of all documents in rank order, from several calls with at most kMaxTopK candidates each.
std::vector<Scored> RankEverything(ContractRunner& runner, const RandomQuery& query, uint32_t num_documents) {
  std::vector<Scored> all;
  for (uint32_t begin = 0; begin < num_documents; begin += kMaxTopK) {
    const std::vector<uint32_t> ordinals = Range(begin, std::min<uint32_t>(begin + kMaxTopK, num_documents));
    for (const Scored& scored : runner.TopK(query.view(kMaxTopK, &ordinals))) {
      all.push_back({scored.score, scored.position + begin});
    }
  }
  std::sort(all.begin(), all.end(), RanksBefore);
  return all;
}

void CheckEveryK(ContractRunner& runner, const RandomQuery& query, uint32_t num_documents,
                 absl::Span<const int32_t> ks) {
  const std::vector<Scored> ranked = RankEverything(runner, query, num_documents);
  ASSERT_EQ(ranked.size(), num_documents);
  const std::vector<uint32_t> listed = Range(0, num_documents);
  for (int32_t k : ks) {
    SCOPED_TRACE(testing::Message() << "k " << k << " of " << num_documents);
    std::vector<Scored> expected = ranked;
    expected.resize(std::min<size_t>(k, expected.size()));
    ExpectSameBits(expected, runner.TopK(query.view(k)));
    ExpectSameBits(expected, runner.TopK(query.view(k, &listed)));
  }
}

void EveryK(Backend& backend) {
  ContractRunner runner(backend);
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, 16, 3);
  for (int64_t count : {1, 2, 31, 32, 33, 63, 64, 65, 1023, 1025}) {
    const RandomDocuments documents =
        MakeDocuments(TestSeed() + 1, ScalarType::kF16, 16, RandomLengths(TestSeed(), count, 1, 3));
    runner.Load(documents);
    CheckEveryK(runner, query, static_cast<uint32_t>(count), {1, 2, 31, 32, 33, 63, 64, 65, 1000, 10000});
  }
}

void LargestK(Backend& backend) {
  ContractRunner runner(backend);
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kBF16, 16, 2);
  constexpr uint32_t kDocuments = kSanitized ? 10500 : 25000;
  const RandomDocuments documents =
      MakeDocuments(TestSeed() + 1, ScalarType::kBF16, 16, std::vector<int64_t>(kDocuments, 1));
  runner.Load(documents);
  if (kSanitized) return CheckEveryK(runner, query, kDocuments, {1, 9999, 10000});
  CheckEveryK(runner, query, kDocuments, {1, 64, 1024, 4096, 9999, 10000});
}

// Tests values of top_k that cut through a run of equal scores.
void Ties(Backend& backend) {
  ContractRunner runner(backend);
  RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, std::vector<int64_t>(3000, 2));
  std::mt19937_64 generator(TestSeed());
  for (int64_t document = 0; document < documents.num_documents(); ++document) {
    const int64_t original = static_cast<int64_t>(generator() % 3);
    documents.tokens.CopyRow(documents.tokens, 2 * original, 2 * document);
    documents.tokens.CopyRow(documents.tokens, 2 * original + 1, 2 * document + 1);
  }
  runner.Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 5);
  CheckEveryK(runner, query, 3000, {1, 31, 32, 33, 64, 65, 999, 1000, 1001, 2999, 3000, 3001});
}

// Tests that a query of zeros scores zero for every document, with either sign of the products.
void ZeroScores(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF32, 24, RandomLengths(TestSeed(), 100, 1, 20));
  runner.Load(documents);
  RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF32, 24, 4);
  for (int64_t token = 0; token < 4; ++token) query.tokens.SetRow(token, std::vector<float>(24, 0.0f));
  const std::vector<Scored> results = runner.TopK(query.view(10));
  ASSERT_EQ(results.size(), 10u);
  for (uint32_t rank = 0; rank < 10; ++rank) EXPECT_EQ(results[rank], (Scored{0.0f, rank}));
}

void RepeatedCandidates(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 48, BoundaryLengths());
  runner.Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 48, 9);
  const std::vector<uint32_t> once = {3, 5};
  const std::vector<Scored> single = runner.TopK(query.view(10, &once));
  const std::vector<uint32_t> repeated = {5, 3, 3, 5, 3};
  const std::vector<Scored> results = runner.TopK(query.view(10, &repeated));
  ASSERT_EQ(results.size(), 5u);
  const bool three_wins = single[0].position == 0;
  const std::vector<uint32_t> winners = three_wins ? std::vector<uint32_t>{1, 2, 4} : std::vector<uint32_t>{0, 3};
  const std::vector<uint32_t> losers = three_wins ? std::vector<uint32_t>{0, 3} : std::vector<uint32_t>{1, 2, 4};
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const bool won = rank < winners.size();
    EXPECT_EQ(results[rank].position, won ? winners[rank] : losers[rank - winners.size()]);
    EXPECT_EQ(results[rank].score, single[won ? 0 : 1].score);
  }
}

void NoCandidates(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 48, {4, 5});
  runner.Load(documents);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 48, 9);
  const std::vector<uint32_t> none;
  const std::vector<uint32_t> one = {1};
  const Query queries[] = {query.view(3, &none), query.view(3, &one), query.view(3, &none)};
  const Results results = runner.TopK(queries);
  EXPECT_TRUE(results[0].empty());
  EXPECT_EQ(results[1].size(), 1u);
  EXPECT_TRUE(results[2].empty());
  EXPECT_TRUE(runner.TopK(absl::Span<const Query>()).empty());

  runner.Load(MakeDocuments(TestSeed(), ScalarType::kF16, 48, {}));
  EXPECT_TRUE(runner.TopK(query.view(3)).empty());
}

}  // namespace

std::vector<ContractCase> SelectionCases() {
  return {
      {"TopKIsTheSortedListCutAtK", &EveryK},
      {"TopKGoesUpToTheLargestK", &LargestK},
      {"TiesAreOrderedByPosition", &Ties},
      {"ZeroScoresAreOrderedByPosition", &ZeroScores},
      {"RepeatedCandidatesAllComeBack", &RepeatedCandidates},
      {"NoCandidatesGiveNoResults", &NoCandidates},
  };
}

}  // namespace maxsim::test
