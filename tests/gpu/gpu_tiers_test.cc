// Tests that documents in host memory and in files give the same bits as in device memory. The document batches
// (documents copied to the device at once) are so small that every call takes many.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <numeric>
#include <random>
#include <utility>

#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/tier_backend.h"

namespace maxsim::test {
namespace {

constexpr ScalarType kTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8,
                                 ScalarType::kResidual8};
constexpr Tier kStreamedTiers[] = {Tier::kHost, Tier::kDisk};

// Returns a backend with document batches of `block_bytes` bytes. Makes it once per size.
cuda::CudaBackend* BackendWithBlocks(int64_t block_bytes) {
  static auto* const backends = new std::vector<std::pair<int64_t, std::unique_ptr<cuda::CudaBackend>>>;
  for (const auto& [bytes, backend] : *backends) {
    if (bytes == block_bytes) return backend.get();
  }
  absl::StatusOr<std::unique_ptr<cuda::CudaBackend>> made =
      cuda::CudaBackend::Create({.stream_block_bytes = block_bytes});
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return nullptr;
  return backends->emplace_back(block_bytes, *std::move(made)).second.get();
}

struct TierCase {
  Tier tier;
  ContractCase contract;
};

std::vector<TierCase> TierCases() {
  std::vector<TierCase> cases;
  for (const Tier tier : kStreamedTiers) {
    for (const ContractCase& contract : BackendContract()) cases.push_back({tier, contract});
  }
  return cases;
}

class GpuTierContractTest : public testing::TestWithParam<TierCase> {};

TEST_P(GpuTierContractTest, Holds) {
  if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  SCOPED_TRACE(SeedTrace(TestSeed()));
  TierBackend backend(*BackendWithBlocks(int64_t{64} << 20), GetParam().tier);
  GetParam().contract.run(backend);
}

TEST_P(GpuTierContractTest, HoldsOnTilesOfLongCalls) {
  if (!GpuBackend().ok()) GTEST_SKIP() << "needs a GPU: " << GpuBackend().status().message();
  SCOPED_TRACE(SeedTrace(TestSeed()));
  cuda::CudaBackend& cuda_backend = *BackendWithBlocks(int64_t{64} << 20);
  const TilesAllowed tiles(cuda_backend, kTilesOfLongCalls);
  TierBackend backend(cuda_backend, GetParam().tier);
  GetParam().contract.run(backend);
}

std::string TierCaseName(const testing::TestParamInfo<TierCase>& tier_case) {
  return std::string(tier_case.param.tier == Tier::kHost ? "Host" : "Disk") + tier_case.param.contract.name;
}

INSTANTIATE_TEST_SUITE_P(Contract, GpuTierContractTest, testing::ValuesIn(TierCases()), TierCaseName);

class GpuTiersTest : public GpuTest {
 protected:
  static constexpr int64_t kBlockBytes = int64_t{128} << 10;

  // Runs the queries on the documents in device memory. Checks that the other tiers give the same bits.
  void ExpectSameInEveryTier(const RandomDocuments& documents, const std::vector<Query>& queries) {
    cuda::CudaBackend& backend = *BackendWithBlocks(kBlockBytes);
    ExecutorOptions options;
    options.max_dim = kMaxDim;
    const std::unique_ptr<Executor> executor = *backend.CreateExecutor(options);
    const std::unique_ptr<Documents> resident = *backend.Load(documents.view(), Tier::kDevice, nullptr);
    const auto expected = TopK(*executor, *resident, queries);
    for (const Tier tier : kStreamedTiers) {
      SCOPED_TRACE(tier == Tier::kHost ? "host" : "disk");
      const std::unique_ptr<Documents> streamed = *backend.Load(documents.view(), tier, nullptr);
      // A codebook is on the device in every tier.
      const DocumentsView& view = documents.view();
      EXPECT_EQ(streamed->memory().device_bytes,
                backend.CodebookBytesNeeded(view.type, view.dim, view.codebook.num_centroids).device_bytes);
      for (const uint32_t allowed : {kAnyTile, kAnyTile, kTilesOfLongCalls}) {
        const TilesAllowed tiles(backend, allowed);
        const auto actual = TopK(*executor, *streamed, queries);
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], actual[i]);
      }
    }
  }
};

// Teams of thread blocks must divide documents of every document batch, and not only of the first one.
TEST_F(GpuTiersTest, TeamsOfLaterBlocksGiveTheSameBits) {
  cuda::CudaBackend& backend = *BackendWithBlocks(kBlockBytes);
  if (!backend.device()->limits.hopper) GTEST_SKIP() << "needs a Hopper GPU";
  const std::unique_ptr<cuda::CudaExecutor> executor = *cuda::CudaExecutor::Create(backend.device(), {}),
                                            reference = *cuda::CudaExecutor::Create(backend.device(), {});
  executor->tuning().stream = {.teams = 1};
  executor->tuning().tiles = 1u << static_cast<uint32_t>(ScoreTile::kStream32);
  reference->tuning().tiles = 1u << static_cast<uint32_t>(ScoreTile::kRows32);
  for (const int32_t dim : {40, 160}) {
    // A document batch of 128 KiB holds 1,638 rows of 80 bytes, or 409 of 320.
    const RandomDocuments documents =
        MakeDocuments(TestSeed(), ScalarType::kF16, dim, RandomLengths(TestSeed() + 5, 200, 1, 400));
    const std::unique_ptr<Documents> resident = *backend.Load(documents.view(), Tier::kDevice, nullptr);
    std::vector<uint32_t> list(150);
    for (uint32_t i = 0; i < list.size(); ++i) list[i] = i * 77u % 200u;
    const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, dim, 32);
    for (const Tier tier : kStreamedTiers) {
      const std::unique_ptr<Documents> streamed = *backend.Load(documents.view(), tier, nullptr);
      for (const Query& call : {query.view(200), query.view(150, &list)}) {
        const auto actual = TopK(*executor, *streamed, {call});
        EXPECT_GT(executor->trace().team_blocks, 1);
        ExpectSameBits(TopK(*reference, *resident, {call})[0], actual[0]);
      }
    }
  }
}

// The call mixes queries of several query tiles and short ones, over all documents or over lists.
TEST_F(GpuTiersTest, ScansAndListsHaveTheSameBitsInEveryTier) {
  std::mt19937_64 random(TestSeed());
  for (const ScalarType type : kTypes) {
    for (const int32_t dim : {24, 100, 128, 300}) {
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const int64_t longest = std::min<int64_t>(kBlockBytes / DeviceRowBytes(type, dim), 90);
      const RandomDocuments documents =
          MakeDocuments(TestSeed(), type, dim, RandomLengths(TestSeed() + 5, 700, 1, longest));
      std::vector<RandomQuery> random_queries;
      std::vector<std::vector<uint32_t>> lists;
      for (const int32_t num_tokens : {1, 8, 32, 33, 200}) {
        random_queries.push_back(MakeQuery(random(), type, dim, num_tokens));
        random_queries.back().weights = MixedWeights(random(), num_tokens);
        auto& list = lists.emplace_back(1 + random() % 500);
        for (uint32_t& ordinal : list) ordinal = static_cast<uint32_t>(random() % 700);
      }
      std::vector<Query> queries;
      for (size_t i = 0; i < lists.size(); ++i)
        queries.push_back(random_queries[i].view(700, i % 2 ? &lists[i] : nullptr));
      for (size_t i = 0; i < lists.size(); ++i) queries.push_back(random_queries[i].view(20, &lists[0]));
      for (size_t i = 0; i < lists.size(); ++i) queries.push_back(random_queries[i].view(20, &lists[i]));
      ExpectSameInEveryTier(documents, queries);
    }
  }
}

// A long list of consecutive documents is copied as one range of memory, once for all queries with this list.
TEST_F(GpuTiersTest, ListsOfConsecutiveDocumentsHaveTheSameBitsInEveryTier) {
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 128, RandomLengths(TestSeed() + 5, 10'000, 1, 6));
    std::vector<RandomQuery> random_queries;
    for (const int32_t num_tokens : {8, 32, 40}) {
      random_queries.push_back(MakeQuery(TestSeed() + 1, type, 128, num_tokens));
    }
    std::vector<std::vector<uint32_t>> lists;
    for (const auto& [first, count] : {std::pair(0, 4'096), {3, 4'095}, {5'000, 5'000}, {9'999, 1}}) {
      auto& list = lists.emplace_back(count);
      std::iota(list.begin(), list.end(), static_cast<uint32_t>(first));
    }
    lists.push_back(lists[0]);
    std::swap(lists.back()[4'000], lists.back()[4'001]);
    std::vector<Query> queries;
    for (const std::vector<uint32_t>& list : lists) {
      for (const RandomQuery& query : random_queries) queries.push_back(query.view(300, &list));
    }
    queries.push_back(random_queries[0].view(300));
    queries.push_back(random_queries[0].view(300, &lists[2]));
    ExpectSameInEveryTier(documents, queries);
  }
}

TEST_F(GpuTiersTest, QueriesOfOneRangeCopyItOnce) {
  cuda::CudaBackend& backend = *BackendWithBlocks(kBlockBytes);
  const std::unique_ptr<Executor> executor = *backend.CreateExecutor({});
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, RandomLengths(TestSeed() + 5, 6'000, 1, 6));
  std::vector<uint32_t> list(5'000);
  std::iota(list.begin(), list.end(), 700u);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
  const int64_t rows = documents.offsets[5'700] - documents.offsets[700];
  for (const Tier tier : kStreamedTiers) {
    const std::unique_ptr<Documents> streamed = *backend.Load(documents.view(), tier, nullptr);
    CallTimings timings;
    std::vector<std::vector<Scored>> results(20);
    const std::vector<Query> queries(20, query.view(10, &list));
    ASSERT_TRUE(executor->TopK(*streamed, queries, absl::MakeSpan(results), &timings).ok());
    EXPECT_EQ(timings.streamed_bytes, rows * 256);
  }
}

// Some documents fill a document batch to its last row, and many lists contain such documents.
TEST_F(GpuTiersTest, DocumentsAsLongAsABlockAreScored) {
  const int64_t longest = kBlockBytes / 256;
  const RandomDocuments documents =
      MakeDocuments(TestSeed(), ScalarType::kF16, 128, {longest, 1, longest, longest - 1, 1, longest, longest});
  std::vector<RandomQuery> random_queries;
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t i = 0; i < 7; ++i) {
    random_queries.push_back(MakeQuery(TestSeed() + i, ScalarType::kF16, 128, 40));
    lists.push_back({i, (i + 2) % 7, (i + 4) % 7});
  }
  std::vector<Query> queries;
  for (size_t i = 0; i < lists.size(); ++i) queries.push_back(random_queries[i].view(3, &lists[i]));
  queries.push_back(random_queries[0].view(7));
  ExpectSameInEveryTier(documents, queries);
}

TEST_F(GpuTiersTest, ADocumentLongerThanABlockIsRefusedWhenItIsLoaded) {
  Backend& backend = *BackendWithBlocks(kBlockBytes);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, {2, kBlockBytes / 256 + 1});
  for (const Tier tier : kStreamedTiers) {
    const absl::Status status = backend.Load(documents.view(), tier, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("document 1 takes 131328 bytes"), std::string::npos) << status;
    EXPECT_NE(status.message().find("131072"), std::string::npos) << status;
  }
  EXPECT_TRUE(backend.Load(documents.view(), Tier::kDevice, nullptr).ok());
}

TEST_F(GpuTiersTest, AlignmentsAreTheSameInEveryTier) {
  Backend& backend = *BackendWithBlocks(kBlockBytes);
  const std::unique_ptr<Executor> executor = *backend.CreateExecutor({});
  for (const ScalarType type : kTypes) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 128, RandomLengths(TestSeed() + 5, 300, 1, 100));
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 128, 45);
    std::vector<uint32_t> ordinals;
    for (uint32_t n = 0; n < 300; n += 2) ordinals.push_back(299 - n);
    std::vector<TokenMatch> expected(ordinals.size() * 45);
    const std::unique_ptr<Documents> resident = *backend.Load(documents.view(), Tier::kDevice, nullptr);
    ASSERT_TRUE(executor->Align(*resident, query.view(1), ordinals, absl::MakeSpan(expected)).ok());
    for (const Tier tier : kStreamedTiers) {
      const std::unique_ptr<Documents> streamed = *backend.Load(documents.view(), tier, nullptr);
      std::vector<TokenMatch> actual(expected.size(), TokenMatch{-7, -7});
      ASSERT_TRUE(executor->Align(*streamed, query.view(1), ordinals, absl::MakeSpan(actual)).ok());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(expected[i].document_token, actual[i].document_token) << i;
        EXPECT_EQ(std::bit_cast<uint32_t>(expected[i].similarity), std::bit_cast<uint32_t>(actual[i].similarity)) << i;
      }
    }
  }
}

// Some documents occur in most lists. The document cache is much smaller than all documents of the lists together.
TEST_F(GpuTiersTest, CachedDocumentsHaveTheSameBits) {
  CudaOptions options;
  options.stream_block_bytes = kBlockBytes;
  options.document_cache_bytes = int64_t{3} << 20;
  const std::unique_ptr<Backend> backend = *CreateCudaBackend(options);
  const std::unique_ptr<Executor> executor = *backend->CreateExecutor({});
  std::mt19937_64 random(TestSeed());
  for (const ScalarType type : kTypes) {
    SCOPED_TRACE(Name(type));
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 72, RandomLengths(TestSeed() + 5, 900, 1, 120));
    const std::unique_ptr<Documents> resident = *backend->Load(documents.view(), Tier::kDevice, nullptr);
    const std::unique_ptr<Documents> streamed[] = {*backend->Load(documents.view(), Tier::kHost, nullptr),
                                                   *backend->Load(documents.view(), Tier::kDisk, nullptr)};
    int64_t hits = 0, misses = 0, bytes = 0;
    for (int call = 0; call < 60; ++call) {
      const RandomQuery random_query = MakeQuery(random(), type, 72, 8 + call);
      std::vector<uint32_t> lists[2];
      for (auto& list : lists) {
        list.resize(300);
        // Half of the candidates are among the first thirty documents.
        for (uint32_t& ordinal : list) ordinal = static_cast<uint32_t>(random() % (random() % 2 == 0 ? 30 : 900));
      }
      const std::vector<Query> queries = {random_query.view(300, &lists[0]), random_query.view(300, &lists[1])};
      const auto expected = TopK(*executor, *resident, queries);
      for (const std::unique_ptr<Documents>& documents_of_tier : streamed) {
        std::vector<std::vector<Scored>> results(2);
        CallTimings timings;
        ASSERT_TRUE(executor->TopK(*documents_of_tier, queries, absl::MakeSpan(results), &timings).ok());
        for (size_t i = 0; i < queries.size(); ++i) ExpectSameBits(expected[i], results[i]);
        hits += timings.cache_hits;
        misses += timings.cache_misses;
        bytes += timings.streamed_bytes;
      }
    }
    EXPECT_GT(hits, 1000);
    EXPECT_GT(misses, 1000);
    EXPECT_GT(bytes, 0);
  }
}

// Stands for a file that was changed or cannot be read.
class FailingSource : public MemorySource {
 public:
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override {
    if (fails) return absl::DataLossError("x.safetensors cannot be read");
    return MemorySource::Read(from, num_bytes, to);
  }
  absl::Status Check() const override {
    return changed ? absl::DataLossError("x.safetensors changed") : absl::OkStatus();
  }
  std::atomic<bool> fails = false, changed = false;
};

TEST_F(GpuTiersTest, AFileThatChangesOrCannotBeReadFailsTheCallAndNotTheDevice) {
  Backend& backend = *BackendWithBlocks(kBlockBytes);
  const std::unique_ptr<Executor> executor = *backend.CreateExecutor({});
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, std::vector<int64_t>(100, 60));
  FailingSource source;
  DocumentsView view = documents.view();
  view.source = &source;
  const std::unique_ptr<Documents> streamed = *backend.Load(view, Tier::kDisk, nullptr);
  const RandomQuery random_query = MakeQuery(TestSeed() + 1, ScalarType::kF16, 128, 32);
  const std::vector<uint32_t> list = {5, 99, 3};
  const Query queries[] = {random_query.view(5), random_query.view(5, &list)};
  std::vector<std::vector<Scored>> results(2);
  const auto run = [&] { return executor->TopK(*streamed, queries, absl::MakeSpan(results), nullptr); };
  EXPECT_TRUE(run().ok());
  const std::vector<Scored> right = results[0];
  source.fails = true;
  EXPECT_EQ(run().code(), absl::StatusCode::kDataLoss);
  source.fails = false;
  source.changed = true;
  EXPECT_EQ(run().code(), absl::StatusCode::kDataLoss);
  source.changed = false;
  EXPECT_TRUE(run().ok());
  ExpectSameBits(right, results[0]);
  EXPECT_TRUE(backend.Health().ok());
}

}  // namespace
}  // namespace maxsim::test
