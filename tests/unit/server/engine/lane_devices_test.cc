// Tests the engine's lanes (a lane is the thread and the executors that score one batch) with several devices: which
// device scores which documents, which devices work at the same time, and that the number of devices does not change
// the bits of scores.
#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/devices_fixture.h"

namespace maxsim::engine {
namespace {

using testing::SizeIs;

// --- These tests use the CPU backend.

class DeviceBitsTest : public testing::TestWithParam<ScalarType> {
 protected:
  static constexpr int32_t kDim = 24;
  static constexpr int64_t kNumDocuments = 300;

  DeviceBitsTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        values_(test::SmallDocuments(seed_, kNumDocuments, QueryType(GetParam()), kDim)),
        documents_(test::StoredAs(values_, GetParam())) {
    test::BuildCorpus(whole_folder_.path(), values_, {.storage = GetParam()});
    test::BuildCorpus(folder_.path(), values_,
                      {.max_shard_bytes = collection::kMinMaxShardBytes, .storage = GetParam()});
    for (int idx = 0; idx < 3; ++idx) backends_.push_back(MakeCpuBackend());
  }

  std::vector<JobQuery> AllKinds() const {
    std::vector<uint64_t> ordinals(kNumDocuments);
    std::iota(ordinals.begin(), ordinals.end(), uint64_t{0});
    std::mt19937_64 random(seed_);
    std::shuffle(ordinals.begin(), ordinals.end(), random);
    ordinals.resize(170);
    const CandidatesPtr list = Ordinals(ordinals, 2);
    const auto query = [this](uint64_t number, int32_t num_tokens) {
      return test::MakeQuery(seed_ + number, GetParam(), kDim, num_tokens);
    };
    return {MakeJobQuery(query(1, 5), WholeCollection(), 20, true),
            MakeJobQuery(query(2, 33), list, 15, true),
            MakeJobQuery(query(3, 1), list, 400),
            MakeJobQuery(query(4, 17), Inline(documents_), 30, true),
            MakeJobQuery(query(5, 32), WholeCollection(), 1),
            MakeJobQuery(query(6, 9), WholeCollection(), 1000, true),
            MakeJobQuery(query(7, 4), Ordinals({299, 0, 150}), 3),
            MakeJobQuery(query(8, 3), Inline(documents_), 7)};
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  const test::RandomDocuments values_;
  const test::RandomDocuments documents_;  // in the collection's storage type
  const test::TemporaryFolder whole_folder_;
  const test::TemporaryFolder folder_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_P(DeviceBitsTest, TheSameBitsComeOutOfAnyNumberOfDevices) {
  const auto whole = test::LoadCorpus(whole_folder_.path(), backends_[0].get());
  ASSERT_EQ(whole->generation().parts().size(), 1u);
  const auto one = MakeEngine(backends_[0].get());
  const std::vector<JobQuery> queries = AllKinds();
  std::vector<JobQueryResult> expected;
  for (const JobQuery& query : queries) expected.push_back(ExecuteOne(one->lane(0), whole, query));

  for (const size_t num_devices : {1, 2, 3}) {
    std::vector<Backend*> pointers;
    for (size_t idx = 0; idx < num_devices; ++idx) pointers.push_back(backends_[idx].get());
    const auto devices = MakeDeviceSet(pointers, store::OnDeviceLoss::kDegrade);
    const auto engine = MakeEngine(devices.get());
    for (const auto replication : {store::Replication::kOff, store::Replication::kOn}) {
      const auto collection = LoadOn(devices.get(), folder_.path(), replication);
      ASSERT_GE(collection->generation().parts().size(), 4u);
      EXPECT_EQ(collection->generation().parts()[0].replicas.size(),
                replication == store::Replication::kOn ? num_devices : 1);
      // Scores all queries in one job, and then each in a job of its own.
      std::vector<std::unique_ptr<Job>> jobs;
      jobs.push_back(MakeJob(collection, queries));
      const auto together = Execute(engine->lane(0), jobs);
      ASSERT_TRUE(together[0].ok()) << together[0].status();
      for (size_t idx = 0; idx < queries.size(); ++idx) {
        SCOPED_TRACE(num_devices);
        ExpectSameResult(expected[idx], together[0]->queries[idx]);
        ExpectSameResult(expected[idx], ExecuteOne(engine->lane(0), collection, queries[idx]));
        EXPECT_EQ(together[0]->queries[idx].num_unavailable, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, DeviceBitsTest, testing::Values(ScalarType::kF16, ScalarType::kI8),
                         [](const auto& storage) { return std::string(Name(storage.param)); });

// --- These tests use fake backends.

class LaneDevicesTest : public FakeDevicesTest {};

TEST_F(LaneDevicesTest, EveryPartIsScoredOnceWhereItLies) {
  Start(3);
  BatchStats stats;
  const auto result = Run(OneQuery(spread_, WholeCollection()), &stats);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->queries[0].hits, SizeIs(kNumDocuments));
  size_t num_calls_in_all = 0;
  for (uint32_t device = 0; device < 3; ++device) {
    EXPECT_EQ(num_calls(device), static_cast<size_t>(std::count_if(
                                     spread_->generation().parts().begin(), spread_->generation().parts().end(),
                                     [&](const auto& part) { return part.DocumentsOn(device) != nullptr; })));
    num_calls_in_all += num_calls(device);
  }
  EXPECT_EQ(num_calls_in_all, spread_->generation().parts().size());
  EXPECT_EQ(stats.token_pairs, 2 * spread_->num_tokens());
  EXPECT_EQ(stats.document_tokens, spread_->num_tokens());
}

TEST_F(LaneDevicesTest, TimesAreThoseOfTheSlowestDeviceAndMetricsHaveTheSum) {
  Start(2);
  BatchStats stats;
  const auto result = Run(OneQuery(spread_, WholeCollection()), &stats);
  ASSERT_TRUE(result.ok());
  const double calls[] = {static_cast<double>(num_calls(0)), static_cast<double>(num_calls(1))};
  EXPECT_EQ(result->kernel_time, absl::Seconds(0.5 * std::max(calls[0], calls[1])));
  EXPECT_EQ(result->copy_time, absl::Seconds(0.25 * std::max(calls[0], calls[1])));
  EXPECT_DOUBLE_EQ(stats.timings.kernel_seconds, 0.5 * (calls[0] + calls[1]));
  ASSERT_THAT(stats.devices, SizeIs(2));
  for (size_t device = 0; device < 2; ++device) {
    EXPECT_EQ(stats.devices[device].device, device);
    EXPECT_DOUBLE_EQ(stats.devices[device].timings.kernel_seconds, 0.5 * calls[device]);
  }
  EXPECT_EQ(stats.devices[0].token_pairs + stats.devices[1].token_pairs, stats.token_pairs);
}

TEST_F(LaneDevicesTest, DevicesWorkSideBySide) {
  Start(3);
  for (const auto& fake : backends_) fake->Close();
  std::future<absl::StatusOr<JobResult>> result =
      std::async(std::launch::async, [this] { return Run(OneQuery(spread_, WholeCollection())); });
  // All devices must get their first call before any of them answers, because they work in parallel.
  for (const auto& fake : backends_) EXPECT_TRUE(fake->WaitForCalls(1));
  for (size_t device = 0; device < 3; ++device) EXPECT_EQ(engine_->lanes_busy(device), 1);
  for (const auto& fake : backends_) fake->Open();
  EXPECT_TRUE(result.get().ok());
  for (size_t device = 0; device < 3; ++device) EXPECT_EQ(engine_->lanes_busy(device), 0);
}

TEST_F(LaneDevicesTest, ABatchForOneDeviceStaysOnTheCallersThread) {
  Start(2);
  for (uint32_t device = 0; device < 2; ++device) {
    std::thread::id seen;
    backend(device).OnTopK([&seen](absl::Span<const maxsim::Query>) {
      seen = std::this_thread::get_id();
      return absl::OkStatus();
    });
    const size_t others = num_calls(1 - device);
    ASSERT_TRUE(Run(OneQuery(spread_, Ordinals({OrdinalsOn(*spread_, device).front()}))).ok());
    EXPECT_EQ(seen, std::this_thread::get_id());
    EXPECT_EQ(num_calls(1 - device), others);
    backend(device).OnTopK(nullptr);
  }
}

TEST_F(LaneDevicesTest, IdleDevicesWithCopiesTakeTurns) {
  Start(3);
  const size_t parts = copied_->generation().parts().size();
  for (int round = 0; round < 6; ++round) {
    BatchStats stats;
    ASSERT_TRUE(Run(OneQuery(copied_, WholeCollection()), &stats).ok());
    EXPECT_THAT(stats.devices, SizeIs(1)) << "a batch is not split where it need not be";
  }
  for (size_t device = 0; device < 3; ++device) EXPECT_EQ(num_calls(device), 2 * parts);
  // Requests with their own documents are spread, too.
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(Run(OneQuery(copied_, Inline(documents_))).ok());
  for (size_t device = 0; device < 3; ++device) EXPECT_EQ(num_calls(device), 2 * parts + 1);
}

TEST_F(LaneDevicesTest, ABusyDeviceIsLeftAlone) {
  Start(2, store::OnDeviceLoss::kDegrade, 2);
  backend(0).Close();
  backend(1).Close();
  std::future<absl::StatusOr<JobResult>> first =
      std::async(std::launch::async, [this] { return Run(OneQuery(copied_, WholeCollection())); });
  size_t busy = 0;
  while (num_calls(0) + num_calls(1) == 0) std::this_thread::yield();
  if (num_calls(1) > 0) busy = 1;
  backend(1 - busy).Open();
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(OneQuery(copied_, Ordinals({3})));
    ASSERT_TRUE(Execute(engine_->lane(1), jobs)[0].ok());
  }
  EXPECT_EQ(num_calls(busy), 1u);
  EXPECT_EQ(num_calls(1 - busy), 4u);
  backend(busy).Open();
  EXPECT_TRUE(first.get().ok());
}

TEST_F(LaneDevicesTest, AFailedCallFailsItsJobAndNoOtherWhateverTheDevice) {
  Start(2);
  backend(1).OnTopK([](absl::Span<const maxsim::Query> queries) {
    return std::any_of(queries.begin(), queries.end(), [](const auto& query) { return query.num_tokens == 3; })
               ? absl::InternalError("3 is unlucky")
               : absl::OkStatus();
  });
  std::vector<std::unique_ptr<Job>> jobs;
  for (const int32_t num_tokens : {2, 3, 4}) {
    std::vector<JobQuery> queries;
    queries.push_back(Query(num_tokens, WholeCollection()));
    jobs.push_back(MakeJob(spread_, std::move(queries)));
  }
  const auto results = Execute(engine_->lane(0), jobs);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(results[2].ok());
  EXPECT_THAT(results[2]->queries[0].hits, SizeIs(kNumDocuments));
  EXPECT_TRUE(devices_->alive(1));
}

TEST_F(LaneDevicesTest, AnExecutorThatCannotBeMadeNamesItsDevice) {
  Start(2);
  backend(1).FailExecutors(absl::ResourceExhaustedError("out of device memory"));
  const absl::Status status = Engine::Create(devices_.get(), EngineOptions{.executor = {}}).status();
  EXPECT_EQ(status.message(), "lane 0 of 2: device 1: out of device memory");
}

}  // namespace
}  // namespace maxsim::engine
