// Tests collections with codes on a GPU. A scan of the codes must select the same documents as on the CPU backend. A
// proven answer must equal exact scoring on the GPU, whether the original vectors are on the GPU, on the host or on
// disk.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/store/collection_store.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/values/clustered_documents.h"

namespace maxsim::engine {
namespace {

constexpr int64_t kNumDocuments = 3000;
constexpr int32_t kDim = 128;
constexpr int32_t kTopK = 10;

class GpuRefinementTest : public test::GpuTest {
 protected:
  void Build(ScalarType storage, int planes, bool factors) {
    clustered_ = std::make_unique<test::ClusteredDocuments>(test::TestSeed(), kNumDocuments, kDim, storage);
    folder_ = std::make_unique<test::TemporaryFolder>();
    test::BuildCorpus(folder_->path(), storage == ScalarType::kI8 ? clustered_->values : clustered_->documents,
                      {.max_shard_bytes = 4'000'000,
                       .storage = storage,
                       .codes = {.planes = planes, .rotation_seed = 11, .factors = factors}});
  }

  std::shared_ptr<const store::Collection> LoadOn(Backend* on, store::Residency residency, int max_code_planes = 4) {
    store::CollectionStore store(on, {.memory_reserve_bytes = 0, .max_code_planes = max_code_planes});
    auto loaded = store.Load("corpus", folder_->path(), residency);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  JobQuery Query(CandidatesPtr candidates = WholeCollection(), bool want_alignments = false) {
    return MakeJobQuery(clustered_->Query(), std::move(candidates), kTopK, want_alignments);
  }
  static JobQuery With(JobQuery query, RefinementOptions options) {
    query.refinement = options;
    return query;
  }

  std::unique_ptr<test::ClusteredDocuments> clustered_;
  std::unique_ptr<test::TemporaryFolder> folder_;
};

TEST_F(GpuRefinementTest, ScansChooseWhatTheCpuChooses) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  for (const ScalarType storage : {ScalarType::kF16, ScalarType::kI8}) {
    for (const bool factors : {false, true}) {
      Build(storage, 4, factors);
      for (const int planes : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << Name(storage) << ", " << planes << " planes, factors " << factors);
        const auto on_gpu = LoadOn(&backend(), store::Residency::kGpu, planes);
        const auto on_cpu = LoadOn(cpu.get(), store::Residency::kHost, planes);
        ASSERT_EQ(on_gpu->code_planes(), planes);
        const std::unique_ptr<Engine> gpu_engine = MakeEngine(&backend());
        const std::unique_ptr<Engine> cpu_engine = MakeEngine(cpu.get());
        for (int idx = 0; idx < 5; ++idx) {
          for (const JobQuery& query : {With(Query(), {.documents = 200}),
                                        With(Query(), {.documents = 300, .require_proof = true, .budget = 300})}) {
            const JobQueryResult by_gpu = ExecuteOne(gpu_engine->lane(0), on_gpu, query);
            const JobQueryResult by_cpu = ExecuteOne(cpu_engine->lane(0), on_cpu, query);
            ASSERT_TRUE(by_gpu.refinement.has_value() && by_cpu.refinement.has_value());
            EXPECT_EQ(by_gpu.refinement->outside, by_cpu.refinement->outside);
            EXPECT_EQ(by_gpu.refinement->num_documents, by_cpu.refinement->num_documents);
            EXPECT_EQ(by_gpu.refinement->outside_is_bound, by_cpu.refinement->outside_is_bound);
          }
        }
      }
    }
  }
}

TEST_F(GpuRefinementTest, ProvenAnswersAreThoseOfExactScoringInEveryTier) {
  int num_proven = 0;
  for (const ScalarType storage : {ScalarType::kF16, ScalarType::kI8}) {
    Build(storage, 4, /*factors=*/false);
    const std::unique_ptr<Engine> engine = MakeEngine(&backend());
    Lane& lane = engine->lane(0);
    const auto plain = LoadOn(&backend(), store::Residency::kGpu, /*max_code_planes=*/0);
    std::vector<std::shared_ptr<const store::Collection>> tiers;
    for (const store::Residency tier : {store::Residency::kGpu, store::Residency::kHost, store::Residency::kDisk}) {
      tiers.push_back(LoadOn(&backend(), tier));
      EXPECT_EQ(tiers.back()->code_planes(), 4);
    }
    std::vector<uint64_t> ordinals;
    for (uint64_t ordinal = 0; ordinal < kNumDocuments; ordinal += 2) ordinals.push_back(ordinal);
    for (int idx = 0; idx < 10; ++idx) {
      for (const CandidatesPtr& candidates : {WholeCollection(), Ordinals(ordinals, 3)}) {
        const JobQuery query = Query(candidates, true);
        const JobQueryResult exact = ExecuteOne(lane, plain, query);
        const JobQuery proven = With(query, {.documents = 50, .require_proof = true, .budget = 1200});
        std::vector<JobQueryResult> answers;
        for (const auto& collection : tiers) answers.push_back(ExecuteOne(lane, collection, proven));
        for (const JobQueryResult& answer : answers) {
          ASSERT_TRUE(answer.refinement.has_value());
          ExpectSameResult(answers.front(), answer);
          if (!answer.refinement->is_proven) continue;
          ++num_proven;
          ExpectSameResult(exact, answer);
        }
      }
    }
  }
  EXPECT_GT(num_proven, 0);
}

TEST_F(GpuRefinementTest, ABatchIsAnsweredAsEachAlone) {
  Build(ScalarType::kF16, 2, /*factors=*/false);
  const auto collection = LoadOn(&backend(), store::Residency::kGpu);
  const std::unique_ptr<Engine> engine = MakeEngine(&backend());
  std::vector<JobQuery> queries;
  for (int idx = 0; idx < 40; ++idx) {
    queries.push_back(With(Query(), {.documents = 100 + idx, .require_proof = idx % 3 == 0, .budget = 400}));
  }
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(collection, queries));
  BatchStats stats;
  const auto results = Execute(engine->lane(0), jobs, &stats);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(stats.refinements.scans, (std::array<uint64_t, 3>{0, 40, 0}));
  EXPECT_GT(stats.timings.kernel_seconds, 0);
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    const JobQueryResult alone = ExecuteOne(engine->lane(0), collection, queries[idx]);
    ExpectSameResult(alone, results[0]->queries[idx]);
    EXPECT_EQ(alone.refinement->outside, results[0]->queries[idx].refinement->outside);
  }
}

}  // namespace
}  // namespace maxsim::engine
