// Tests calls whose candidates are copied to the device as a bitmap (Query::mask).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "kernels/candidate_mask.h"
#include "kernels/cuda/candidates/expand_mask.h"
#include "kernels/cuda/cuda_executor.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

constexpr int64_t kDocumentsOfGroup = cuda::kRankWords * 64;

struct Candidates {
  std::vector<uint32_t> list;
  std::vector<uint64_t> mask;
};

// Chooses about `percent` % of the documents, the last one among them. Whole stretches have none, and others have all.
Candidates Choose(int64_t num_documents, int percent) {
  Candidates candidates;
  candidates.mask.resize(static_cast<size_t>(MaskWords(num_documents)));
  std::mt19937 random(TestSeed());
  for (int64_t document = 0; document < num_documents; ++document) {
    const int64_t stretch = document / 1500 % 10;
    const bool chosen = stretch == 3 ? false : stretch == 7 || random() % 100 < static_cast<uint32_t>(percent);
    if (!chosen && document + 1 < num_documents) continue;
    candidates.list.push_back(static_cast<uint32_t>(document));
    candidates.mask[static_cast<size_t>(document / 64)] |= uint64_t{1} << (document % 64);
  }
  return candidates;
}

TEST_F(GpuTest, ABitmapGivesTheResultsOfItsList) {
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  constexpr int64_t kLeast = 2 * kMinMaskedCandidates;
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    for (const int64_t num_documents : {kLeast - 1, kLeast, kLeast + 1, kLeast + 63, kLeast + 64, kLeast + 65,
                                        kLeast + kDocumentsOfGroup - 1, kLeast + kDocumentsOfGroup + 1}) {
      SCOPED_TRACE(testing::Message() << Name(type) << ", " << num_documents << " documents");
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, 16, RandomLengths(1, num_documents, 1, 3));
      const std::unique_ptr<Documents> loaded = Load(documents);
      const Candidates candidates = Choose(num_documents, 70);
      const RandomQuery first = MakeQuery(TestSeed() + 1, type, 16, 5),
                        second = MakeQuery(TestSeed() + 2, type, 16, 40);
      std::vector<Query> queries = {first.view(100, &candidates.list), second.view(kMaxTopK, &candidates.list)};
      const std::vector<std::vector<Scored>> expected = TopK(*executor, *loaded, queries);
      // A bitmap is read instead of the list, so the list's values do not count.
      const std::vector<uint32_t> wrong(candidates.list.size());
      for (Query& query : queries) {
        query.ordinals = wrong.data();
        query.mask = candidates.mask.data();
      }
      for (int run = 0; run < 3; ++run) {
        executor->tuning().stage_events = run == 2;  // then a kernel copies the bitmap
        const std::vector<std::vector<Scored>> results = TopK(*executor, *loaded, queries);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
      }
      executor->tuning().stage_events = false;
      // Queries with different lists are copied as lists, although they have bitmaps.
      const std::vector<uint32_t> half(candidates.list.begin() + kMinMaskedCandidates / 2, candidates.list.end());
      queries = {first.view(100, &candidates.list), first.view(100, &half)};
      for (Query& query : queries) query.mask = candidates.mask.data();
      const std::vector<std::vector<Scored>> listed = TopK(*executor, *loaded, queries);
      ExpectSameBits(expected[0], listed[0]);
      queries[1].mask = nullptr;
      ExpectSameBits(TopK(*executor, *loaded, {queries[1]})[0], listed[1]);
    }
  }
}

TEST_F(GpuTest, WrongBitmapsAreRefused) {
  constexpr int64_t kDocuments = 2 * kMinMaskedCandidates + 7;
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, RandomLengths(1, kDocuments, 1, 1));
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  Candidates candidates = Choose(kDocuments, 90);
  candidates.mask.back() |= uint64_t{1} << 7;
  const RandomQuery tokens = MakeQuery(TestSeed() + 1, ScalarType::kF16, 16, 5);
  Query query = tokens.view(10, &candidates.list);
  query.mask = candidates.mask.data();
  std::vector<std::vector<Scored>> results(1);
  EXPECT_EQ(executor->TopK(*loaded, {&query, 1}, absl::MakeSpan(results), nullptr).code(),
            absl::StatusCode::kInvalidArgument)
      << "a document too many";
  ++query.num_candidates;
  EXPECT_EQ(executor->TopK(*loaded, {&query, 1}, absl::MakeSpan(results), nullptr).code(),
            absl::StatusCode::kInvalidArgument)
      << "a document that does not exist";
}

}  // namespace
}  // namespace maxsim::test
