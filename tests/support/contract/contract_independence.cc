// Tests that a score depends only on its query and its document. Its bits must be the same, whatever else is in the
// call or in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

constexpr int32_t kOddAndEvenDims[] = {9, 50, 96, 129};

std::vector<uint32_t> Shuffled(uint64_t seed, uint32_t count) {
  std::vector<uint32_t> ordinals(count);
  std::iota(ordinals.begin(), ordinals.end(), 0);
  std::shuffle(ordinals.begin(), ordinals.end(), std::mt19937_64(seed));
  return ordinals;
}

// Tests that the backend reads only the candidates and the query. All other documents and rows are NaN or extreme
// values, which would change the scores if they were read.
void PoisonedNeighbours(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : kOddAndEvenDims) {
      if (!TakesDim(type, dim)) continue;
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      std::vector<int64_t> lengths;
      std::vector<uint32_t> listed;
      for (int64_t length : BoundaryLengths()) {
        lengths.push_back(1 + length % 3);  // to be poisoned
        listed.push_back(static_cast<uint32_t>(lengths.size()));
        lengths.push_back(length);
      }
      lengths.push_back(2);  // to be poisoned
      RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);

      // Surrounds the query's rows and weights with values that must not be read.
      RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 3 + 37 + 3);
      std::vector<float> weights = MixedWeights(TestSeed(), 1 + 37 + 1);
      Query call = query.view(kMaxTopK, &listed);
      call.tokens = query.tokens.row(3);
      call.num_tokens = 37;
      call.weights = weights.data() + 1;
      runner.Load(documents);
      const std::vector<Scored> expected = runner.TopK(call);
      ExpectMatchesReference(documents, call, expected);

      for (uint32_t document = 0; document < lengths.size(); document += 2) {
        documents.Poison(document);
      }
      query.tokens.Poison(0, 3);
      query.tokens.Poison(40, 43);
      weights.front() = weights.back() = std::numeric_limits<float>::quiet_NaN();
      runner.Load(documents);
      ExpectSameBits(expected, runner.TopK(call));
    }
  }
}

void AnyAlignment(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : kOddAndEvenDims) {
      if (!TakesDim(type, dim)) continue;
      std::vector<Scored> expected;
      for (size_t misalignment : {0, 2, 6, 10, 62}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << misalignment << " bytes off");
        const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, BoundaryLengths(), misalignment);
        const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 33, misalignment);
        runner.Load(documents);
        const std::vector<Scored> results = runner.TopK(query.view(kMaxTopK));
        if (misalignment == 0) expected = results;
        ExpectSameBits(expected, results);
      }
    }
  }
}

void Reruns(Backend& backend) {
  constexpr int kReruns = kSanitized ? 3 : 10;
  constexpr int64_t kDocuments = kSanitized ? 20 : 120;
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    if (!TakesDim(type, 100)) continue;
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), type, 100, RandomLengths(TestSeed(), kDocuments, 1, 150));
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 100, 33);
    runner.Load(documents);
    const std::vector<Scored> expected = runner.TopK(query.view(kMaxTopK));
    for (int run = 0; run < kReruns; ++run) ExpectSameBits(expected, runner.TopK(query.view(kMaxTopK)));
  }
}

// Tests that a document's score is the same in a list of one, in a longer list, in a permuted list, and when the whole
// set is searched.
void AnyCandidates(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 72, RandomLengths(TestSeed(), 60, 1, 140));
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 72, 20);
    runner.Load(documents);
    const std::vector<uint32_t> whole = ScoreBits(runner.TopK(query.view(kMaxTopK)));
    const std::vector<uint32_t> permuted = Shuffled(TestSeed(), 60);
    const std::vector<uint32_t> listed = ScoreBits(runner.TopK(query.view(kMaxTopK, &permuted)));
    ASSERT_EQ(whole.size(), 60u);
    ASSERT_EQ(listed.size(), 60u);
    for (uint32_t position = 0; position < 60; ++position) {
      EXPECT_EQ(listed[position], whole[permuted[position]]);
      const std::vector<uint32_t> alone = {position};
      EXPECT_EQ(ScoreBits(runner.TopK(query.view(1, &alone))).at(0), whole[position]);
    }
  }
}

// Tests that queries in one call have the same results as each query in a call of its own. The queries have different
// lengths, and candidate lists that are equal, overlap, or name all documents.
void AnyBatch(Backend& backend) {
  constexpr uint32_t kDocuments = kSanitized ? 10 : 50;
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), type, 128, RandomLengths(TestSeed(), kDocuments, 1, 140));
    runner.Load(documents);
    const std::vector<uint32_t> first_list = Shuffled(TestSeed(), kDocuments);
    const std::vector<uint32_t> second_list(first_list.begin() + kDocuments / 5,
                                            first_list.begin() + kDocuments * 7 / 10);
    const std::vector<uint32_t> copy_of_second = second_list;
    const std::vector<uint32_t>* const lists[] = {nullptr, &first_list, &second_list, &copy_of_second};
    std::vector<RandomQuery> queries;
    for (int32_t num_tokens : {5, 32, 1, 33, 64, 7, 31, 100, 3, 13, 65, 2}) {
      queries.push_back(MakeQuery(TestSeed() + queries.size(), type, 128, num_tokens));
      if (queries.size() % 3 == 0) queries.back().weights = MixedWeights(TestSeed(), num_tokens);
    }
    std::vector<Query> calls;
    for (const RandomQuery& query : queries) {
      calls.push_back(query.view(1 + static_cast<int32_t>(7 * calls.size()), lists[calls.size() % 4]));
    }
    const Results together = runner.TopK(calls);
    for (size_t idx = 0; idx < calls.size(); ++idx) ExpectSameBits(runner.TopK(calls[idx]), together[idx]);

    std::vector<Query> reversed(calls.rbegin(), calls.rend());
    const Results backwards = runner.TopK(reversed);
    for (size_t idx = 0; idx < calls.size(); ++idx) ExpectSameBits(together[idx], backwards[calls.size() - 1 - idx]);
  }
}

// Tests that results have the same bits alone and in a batch if all products are zeros of either sign. The products of
// 1e-30 underflow to +0 or -0. Which zero a maximum keeps depends on the order of comparisons.
void SignedZeros(Backend& backend) {
  ContractRunner runner(backend);
  RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF32, 8, {2, 7, 13, 30});
  for (int64_t token = 0; token < documents.tokens.num_tokens(); ++token) {
    documents.tokens.SetRow(token, std::vector<float>(8, token % 2 == 0 ? 1e-30f : -1e-30f));
  }
  runner.Load(documents);
  RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF32, 8, 5);
  for (int64_t token = 0; token < 5; ++token) {
    query.tokens.SetRow(token, std::vector<float>(8, token % 2 == 0 ? 1e-30f : -1e-30f));
  }
  query.weights = {-1, -1, -1, -1, -1};
  const RandomQuery other = MakeQuery(TestSeed(), ScalarType::kF32, 8, 27);
  const std::vector<Scored> alone = runner.TopK(query.view(4));
  for (const Scored& scored : alone) EXPECT_EQ(scored.score, 0.0f);
  const Query together[] = {other.view(4), query.view(4)};
  ExpectSameBits(alone, runner.TopK(together)[1]);

  // Tests that scores are +0 with negative weights if all elements and scales of the documents, or all elements of the
  // query, are zero.
  const RandomDocuments full = MakeDocuments(TestSeed(), ScalarType::kI8, 8, {2, 7});
  RandomDocuments empty = full;
  empty.tokens = TokenMatrix(ScalarType::kI8, 8, full.tokens.num_tokens());
  empty.scales.assign(empty.scales.size(), 0.0f);
  RandomQuery negative = MakeQuery(TestSeed(), ScalarType::kI8, 8, 5);
  negative.weights = {-1, -1, -1, -1, -1};
  RandomQuery zeros = negative;
  zeros.tokens = TokenMatrix(ScalarType::kF32, 8, 5);
  const auto expect_zeros = [&runner](const RandomDocuments& some, const RandomQuery& any) {
    runner.Load(some);
    for (const Scored& scored : runner.TopK(any.view(4))) EXPECT_EQ(std::bit_cast<uint32_t>(scored.score), 0u);
  };
  expect_zeros(empty, negative);
  expect_zeros(full, zeros);
}

void ConcurrentExecutors(Backend& backend) {
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 64, RandomLengths(TestSeed(), kSanitized ? 70 : 200, 1, 60));
  ContractRunner runner(backend);
  const Documents& loaded = runner.Load(documents);
  std::vector<RandomQuery> queries;
  std::vector<std::vector<Scored>> expected;
  for (int32_t idx = 0; idx < 4; ++idx) {
    queries.push_back(MakeQuery(TestSeed() + idx, ScalarType::kF16, 64, 10 + 9 * idx));
    expected.push_back(runner.TopK(queries.back().view(100)));
  }
  std::vector<std::thread> threads;
  for (int32_t idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&, idx] {
      absl::StatusOr<std::unique_ptr<Executor>> executor = backend.CreateExecutor({});
      ASSERT_TRUE(executor.ok()) << executor.status();
      const Query call = queries[idx].view(100);
      for (int run = 0; run < 10; ++run) {
        std::vector<std::vector<Scored>> results(1);
        const absl::Status status = (*executor)->TopK(loaded, {&call, 1}, absl::MakeSpan(results), nullptr);
        ASSERT_TRUE(status.ok()) << status;
        ExpectSameBits(expected[idx], results[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<ContractCase> IndependenceCases() {
  return {
      {"NothingBesideTheCandidatesIsRead", &PoisonedNeighbours},
      {"AnyTwoByteAlignmentGivesTheSameBits", &AnyAlignment},
      {"RerunsGiveTheSameBits", &Reruns},
      {"AnyCandidateListGivesTheSameBits", &AnyCandidates},
      {"AnyBatchGivesTheSameBits", &AnyBatch},
      {"SignedZerosGiveTheSameBits", &SignedZeros},
      {"ConcurrentExecutorsGiveTheSameBits", &ConcurrentExecutors},
  };
}

}  // namespace maxsim::test
