// Tests collections with codes on several devices when one device is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/codes/scan_executor.h"
#include "tests/support/collection/coded_collection.h"
#include "tests/support/devices_fixture.h"
#include "tests/support/values/clustered_documents.h"

namespace maxsim::engine {
namespace {

using store::OnDeviceLoss;

// A backend that computes on the CPU but is treated as a GPU. A test can make it lose its device.
class LosableBackend final : public Backend {
 public:
  LosableBackend() : cpu_(MakeCpuBackend()), info_(cpu_->info()) { info_.name = "cuda"; }

  // Makes the device be lost after `count` more scans, or after `count` more scoring calls.
  void LoseAfterScans(int count) { scans_left_ = count; }
  void LoseAfterCalls(int count) { calls_left_ = count; }
  int num_scans() const { return num_scans_; }

  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<size_t> FreeBytes() const override { return size_t{1} << 40; }
  MemoryNeed BytesNeeded(ScalarType, int32_t, int64_t, int64_t, Tier) const override { return {}; }
  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                  std::shared_ptr<const void> keep_alive) override {
    // The store frees the rows once a GPU has copied them, so this backend must copy them.
    auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(documents.num_tokens() * documents.dim) *
                                                         SizeOf(documents.type));
    std::memcpy(copy->data(), documents.tokens, copy->size());
    DocumentsView view = documents;
    view.tokens = copy->data();
    view.source = nullptr;
    auto both = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
        std::move(keep_alive), std::move(copy));
    return cpu_->Load(view, tier, std::move(both));
  }
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override {
    return cpu_->CreateAppendable(shape);
  }
  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) override {
    return std::make_unique<LosableExecutor>(*this, *cpu_->CreateExecutor(options));
  }
  absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                         std::shared_ptr<const void> keep_alive) override {
    return cpu_->LoadCodes(codes, planes, std::move(keep_alive));
  }
  absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor() override {
    return std::make_unique<LosableScans>(*this, *cpu_->CreateScanExecutor());
  }
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  static absl::Status Gone() { return absl::UnavailableError("Xid 79"); }

  class LosableExecutor final : public Executor {
   public:
    LosableExecutor(LosableBackend& owner, std::unique_ptr<Executor> cpu) : owner_(owner), cpu_(std::move(cpu)) {}
    absl::Status TopK(const Documents& documents, absl::Span<const maxsim::Query> queries,
                      absl::Span<std::vector<Scored>> results, CallTimings* timings) override {
      if (owner_.calls_left_-- <= 0) return Gone();
      return cpu_->TopK(documents, queries, results, timings);
    }
    absl::Status Align(const Documents& documents, const maxsim::Query& query, absl::Span<const uint32_t> ordinals,
                       absl::Span<TokenMatch> matches) override {
      return cpu_->Align(documents, query, ordinals, matches);
    }
    absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override { return cpu_->Stage(documents); }

   private:
    LosableBackend& owner_;
    const std::unique_ptr<Executor> cpu_;
  };

  class LosableScans final : public ScanExecutor {
   public:
    LosableScans(LosableBackend& owner, std::unique_ptr<ScanExecutor> cpu) : owner_(owner), cpu_(std::move(cpu)) {}
    absl::Status Scan(absl::Span<const ScanCall> calls, CallTimings* timings) override {
      for (const ScanCall& call : calls) {
        ++owner_.num_scans_;
        if (owner_.scans_left_-- <= 0) return Gone();
        if (absl::Status status = cpu_->Scan({&call, 1}, timings); !status.ok()) return status;
      }
      return absl::OkStatus();
    }

   private:
    LosableBackend& owner_;
    const std::unique_ptr<ScanExecutor> cpu_;
  };

  const std::unique_ptr<Backend> cpu_;
  BackendInfo info_;
  std::atomic<int> scans_left_{1 << 30};
  std::atomic<int> calls_left_{1 << 30};
  std::atomic<int> num_scans_{0};
};

class LaneCodesDevicesTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 32;
  static constexpr int64_t kNumDocuments = 400;
  static constexpr int32_t kTopK = 5;

  LaneCodesDevicesTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        clustered_(seed_, kNumDocuments, kDim, ScalarType::kF16) {
    test::BuildCorpus(folder_.path(), clustered_.documents, {.max_shard_bytes = collection::kMinMaxShardBytes});
    std::vector<Backend*> pointers;
    for (size_t idx = 0; idx < 3; ++idx) {
      backends_.push_back(std::make_unique<LosableBackend>());
      pointers.push_back(backends_.back().get());
    }
    devices_ = MakeDeviceSet(pointers, OnDeviceLoss::kDegrade);
    plain_ = LoadOn(devices_.get(), folder_.path());
    const DocumentsView view = clustered_.documents.view();
    const auto copied = LoadOn(devices_.get(), folder_.path(), store::Replication::kOn);
    spread_ = test::WithCodes(*plain_, *devices_, 4, /*factors=*/false, &view);
    copied_ = test::WithCodes(*copied, *devices_, 4, /*factors=*/false, &view);
    engine_ = MakeEngine(devices_.get());
    EXPECT_GE(plain_->num_parts(), 6u);
  }

  JobQuery Query(CandidatesPtr candidates = WholeCollection()) {
    JobQuery query = MakeJobQuery(clustered_.Query(), std::move(candidates), kTopK);
    query.refinement = {.documents = 60, .require_proof = true, .budget = 200};
    return query;
  }
  absl::StatusOr<JobResult> Run(const std::shared_ptr<const store::Collection>& collection, const JobQuery& query,
                                bool fail_on_unavailable = false) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(MakeJob(collection, {query}));
    jobs.back()->fail_on_unavailable = fail_on_unavailable;
    return std::move(Execute(engine_->lane(0), jobs)[0]);
  }
  JobQueryResult RunOk(const std::shared_ptr<const store::Collection>& collection, const JobQuery& query) {
    absl::StatusOr<JobResult> result = Run(collection, query);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? std::move(result->queries[0]) : JobQueryResult{};
  }
  static JobQuery Exact(JobQuery query) {
    query.refinement = {};
    return query;
  }
  uint64_t CountOn(uint32_t device) const {
    uint64_t count = 0;
    for (const store::Part& part : spread_->generation().parts()) {
      if (part.DocumentsOn(device) != nullptr) count += static_cast<uint64_t>(part.num_documents());
    }
    return count;
  }

  // Checks that an answer lacks the documents of device 1 and only those.
  void ExpectWithoutDevice1(const JobQuery& query, const JobQueryResult& answer) {
    EXPECT_FALSE(devices_->alive(1));
    EXPECT_EQ(answer.num_unavailable, CountOn(1));
    const JobQueryResult exact = RunOk(plain_, Exact(query));
    EXPECT_EQ(exact.num_unavailable, CountOn(1));
    ASSERT_TRUE(answer.refinement.has_value());
    ASSERT_TRUE(answer.refinement->is_proven);
    ExpectSameResult(exact, answer);
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  test::ClusteredDocuments clustered_;
  const test::TemporaryFolder folder_;
  std::vector<std::unique_ptr<LosableBackend>> backends_;
  std::unique_ptr<store::DeviceSet> devices_;
  std::shared_ptr<const store::Collection> plain_;
  std::shared_ptr<const store::Collection> spread_;
  std::shared_ptr<const store::Collection> copied_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(LaneCodesDevicesTest, AllDevicesScanTheirShards) {
  for (int idx = 0; idx < 5; ++idx) {
    const JobQuery query = Query();
    const JobQueryResult answer = RunOk(spread_, query);
    EXPECT_EQ(answer.num_unavailable, 0u);
    ASSERT_TRUE(answer.refinement.has_value());
    if (answer.refinement->is_proven) ExpectSameResult(RunOk(plain_, Exact(query)), answer);
  }
  for (const auto& backend : backends_) EXPECT_GT(backend->num_scans(), 0);
}

TEST_F(LaneCodesDevicesTest, AReplicatedCollectionIsScannedByOneDevice) {
  RunOk(copied_, Query());
  EXPECT_EQ(std::count_if(backends_.begin(), backends_.end(), [](const auto& one) { return one->num_scans() > 0; }), 1);
}

TEST_F(LaneCodesDevicesTest, DocumentsWithoutAScanAreUnavailable) {
  backends_[1]->LoseAfterScans(1);
  const JobQuery query = Query();
  ExpectWithoutDevice1(query, RunOk(spread_, query));
  // It is not asked any more.
  const int scans = backends_[1]->num_scans();
  ExpectWithoutDevice1(query, RunOk(spread_, query));
  EXPECT_EQ(backends_[1]->num_scans(), scans);
}

TEST_F(LaneCodesDevicesTest, ADeviceThatIsLostBehindTheScanLosesItsDocuments) {
  backends_[1]->LoseAfterCalls(0);
  // Every device has chosen candidates.
  JobQuery query = Query();
  query.refinement.documents = 300;
  query.refinement.budget = 399;
  ExpectWithoutDevice1(query, RunOk(spread_, query));
}

TEST_F(LaneCodesDevicesTest, DocumentsThatWereDeletedAreNotUnavailable) {
  std::vector<uint64_t> on_lost;
  for (const store::Part& part : spread_->generation().parts()) {
    if (part.DocumentsOn(1) == nullptr) continue;
    for (int64_t n = 0; n < part.num_documents(); ++n) on_lost.push_back(part.first_ordinal + static_cast<uint64_t>(n));
  }
  const std::vector<uint64_t> deleted(on_lost.begin(), on_lost.begin() + 9);
  const auto some = WithDeleted(*spread_, deleted);
  const auto all = WithDeleted(*spread_, on_lost);
  backends_[1]->LoseAfterScans(0);
  // In the first round the device is lost during the scan. In the second it is lost already.
  for (int round = 0; round < 2; ++round) {
    const JobQueryResult answer = RunOk(some, Query());
    EXPECT_EQ(answer.num_unavailable, CountOn(1) - 9);
    EXPECT_TRUE(answer.refinement.has_value());
    EXPECT_FALSE(devices_->alive(1));
  }
  const absl::StatusOr<JobResult> whole = Run(all, Query(), /*fail_on_unavailable=*/true);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->queries[0].num_unavailable, 0u);
  EXPECT_TRUE(whole->queries[0].refinement.has_value());
}

TEST_F(LaneCodesDevicesTest, ReplicasTakeOver) {
  // Whichever device is chosen first is lost.
  for (const auto& backend : backends_) backend->LoseAfterScans(2);
  backends_[2]->LoseAfterScans(1 << 30);
  for (int idx = 0; idx < 3; ++idx) {
    const JobQuery query = Query();
    const JobQueryResult answer = RunOk(copied_, query);
    EXPECT_EQ(answer.num_unavailable, 0u);
    EXPECT_EQ(answer.hits.size(), static_cast<size_t>(kTopK));
  }
}

TEST_F(LaneCodesDevicesTest, AJobThatWantsAllFails) {
  backends_[1]->LoseAfterScans(0);
  const absl::StatusOr<JobResult> result = Run(spread_, Query(), /*fail_on_unavailable=*/true);
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr("candidates are on a device that is lost"));
}

TEST_F(LaneCodesDevicesTest, WithoutAnyDeviceEveryJobFails) {
  for (const auto& backend : backends_) backend->LoseAfterScans(0);
  EXPECT_TRUE(absl::IsUnavailable(Run(spread_, Query()).status()));
  EXPECT_FALSE(devices_->Health().ok());
}

}  // namespace
}  // namespace maxsim::engine
