#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

class ReloadTest : public testing::Test {
 protected:
  ReloadTest() { Publish(1, 100); }

  collection::Manifest Publish(uint64_t seed, int64_t count) {
    return test::BuildCorpus(folder_.path(), test::SmallDocuments(seed, count), {.max_shard_bytes = 10'000});
  }

  static uint64_t FileBytes(const collection::Manifest& manifest) {
    uint64_t bytes = 0;
    for (const collection::ShardEntry& entry : manifest.shards) bytes += static_cast<uint64_t>(entry.num_bytes);
    return bytes;
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
};

TEST_F(ReloadTest, SwapsGenerationsAndFreesTheOldOneAfterItsLastRequest) {
  CollectionStore store(&backend_, {});
  std::shared_ptr<const Collection> first = *store.Load("a", folder_.path(), Residency::kAuto);
  const int64_t first_parts = static_cast<int64_t>(first->generation().parts().size());
  ASSERT_GT(first_parts, 1);
  EXPECT_EQ(backend_.num_documents_alive(), first_parts);
  Publish(2, 40);

  bool changed = false;
  const auto second = store.Reload("a", &changed);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(changed);
  EXPECT_EQ((*second)->manifest().generation, 2);
  EXPECT_EQ((*second)->num_documents(), 40u);
  EXPECT_EQ(*store.Find("a"), *second);

  // A request that began on the first generation must still be able to read it.
  EXPECT_EQ(first->manifest().generation, 1);
  EXPECT_EQ(first->string_id(99), "doc-99");
  const int64_t second_parts = static_cast<int64_t>((*second)->generation().parts().size());
  EXPECT_EQ(backend_.num_documents_alive(), first_parts + second_parts);
  first = nullptr;
  EXPECT_EQ(backend_.num_documents_alive(), second_parts);
}

TEST_F(ReloadTest, TheServedGenerationIsNotLoadedAgain) {
  CollectionStore store(&backend_, {});
  const auto first = *store.Load("a", folder_.path(), Residency::kAuto);
  const int64_t loads = backend_.num_loads();
  bool changed = true;
  EXPECT_EQ(*store.Reload("a", &changed), first);
  EXPECT_FALSE(changed);
  EXPECT_EQ(backend_.num_loads(), loads);
}

// A folder that is deleted and built again starts with generation 1 again. A reload must notice the other contents.
TEST_F(ReloadTest, OtherContentsUnderTheSameGenerationNumberAreLoaded) {
  CollectionStore store(&backend_, {});
  const auto first = *store.Load("a", folder_.path(), Residency::kDisk);
  const test::TemporaryFolder other;
  test::BuildCorpus(other.path(), test::SmallDocuments(9, 7), {.max_shard_bytes = 10'000});
  ASSERT_EQ(collection::ReadManifest(other.path())->generation, first->manifest().generation);
  for (const char* file : {"collection.json", "shard-000001-00000.safetensors"}) {
    test::WriteFile(folder_ / file, test::ReadFile(other / file));
  }
  bool changed = false;
  const auto second = store.Reload("a", &changed);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(changed);
  EXPECT_EQ((*second)->num_documents(), 7u);
}

TEST_F(ReloadTest, AFailedReloadKeepsTheOldGenerationAndSaysWhy) {
  CollectionStore store(&backend_, {});
  const auto first = *store.Load("a", folder_.path(), Residency::kAuto);
  const collection::Manifest next = Publish(2, 40);
  const std::string path = folder_ / next.shards[0].file;
  const std::string bytes = test::ReadFile(path);
  test::WriteFile(path, bytes.substr(0, bytes.size() - 1));

  bool changed = true;
  EXPECT_EQ(store.Reload("a", &changed).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(changed);
  EXPECT_EQ(*store.Find("a"), first);
  EXPECT_EQ(store.List()[0].state, CollectionStatus::State::kReady);
  EXPECT_THAT(store.List()[0].error, HasSubstr(next.shards[0].file));
  EXPECT_EQ(backend_.num_documents_alive(), static_cast<int64_t>(first->generation().parts().size()));

  test::WriteFile(path, bytes);
  EXPECT_TRUE(store.Reload("a", &changed).ok());
  EXPECT_TRUE(changed);
  EXPECT_EQ(store.List()[0].error, "");
}

TEST_F(ReloadTest, BothGenerationsMustFitAndTheErrorSaysSo) {
  const uint64_t second_bytes = FileBytes(Publish(2, 100));
  const uint64_t first_bytes = FileBytes(Publish(1, 100));  // generation 3
  CollectionStore store(&backend_, {.memory_budget_bytes = first_bytes + second_bytes - 1});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kHost).ok());
  Publish(2, 100);
  const absl::Status status = store.Reload("a", nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("a reload holds both generations until the swap; generation 3 holds"));
  EXPECT_EQ((*store.Find("a"))->manifest().generation, 3);
}

// The memory suffices for one of two loads. Only one may succeed.
TEST_F(ReloadTest, TwoLoadsAtTheSameTimeCannotBothTakeTheLastMemory) {
  const uint64_t bytes = FileBytes(collection::ReadManifest(folder_.path()).value());
  for (int turn = 0; turn < 20; ++turn) {
    CollectionStore store(&backend_, {.memory_budget_bytes = bytes + bytes / 2});
    std::atomic<int> arrived{0};
    std::vector<absl::Status> results(2);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
        results[i] = store.Load("c" + std::to_string(i), folder_.path(), Residency::kHost).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(results[0].ok() + results[1].ok(), 1) << results[0] << "; " << results[1];
    const absl::Status& refused = results[0].ok() ? results[1] : results[0];
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  }
}

TEST_F(ReloadTest, AStoppedLoadGivesItsMemoryBackAndAStoppedReloadKeepsTheOldGeneration) {
  CollectionStore store(&backend_, {.memory_budget_bytes = FileBytes(Publish(2, 100)) * 3});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kHost).ok());
  const int64_t alive = backend_.num_documents_alive();
  Publish(3, 100);
  for (int turn = 0; turn < 5; ++turn) {
    StopSignal stop;
    backend_.OnLoad([&] { stop.Request(absl::StatusCode::kCancelled); });  // the stop comes at the first shard
    const absl::Status load = store.Load("b", folder_.path(), Residency::kHost, Replication::kAuto, "", &stop).status();
    EXPECT_EQ(load.code(), absl::StatusCode::kCancelled) << load;
    StopSignal late(StopSignal::Clock::now());
    const absl::Status reload = store.Reload("a", nullptr, &late).status();
    EXPECT_EQ(reload.code(), absl::StatusCode::kDeadlineExceeded) << reload;
    EXPECT_EQ(backend_.num_documents_alive(), alive);
  }
  backend_.OnLoad(nullptr);
  EXPECT_EQ((*store.Find("a"))->manifest().generation, 2);
  EXPECT_TRUE(store.Load("b", folder_.path(), Residency::kHost).ok()) << "nothing is held by the five before";
}

TEST_F(ReloadTest, AFailedCollectionCanBeReloaded) {
  CollectionStore store(&backend_, {});
  backend_.FailLoads(absl::InternalError("broken"));
  EXPECT_FALSE(store.Load("a", folder_.path(), Residency::kAuto).ok());
  EXPECT_FALSE(store.Reload("a", nullptr).ok());
  EXPECT_EQ(store.List()[0].state, CollectionStatus::State::kFailed);
  backend_.FailLoads(absl::OkStatus());
  bool changed = false;
  EXPECT_TRUE(store.Reload("a", &changed).ok());
  EXPECT_TRUE(changed);
  EXPECT_TRUE(store.Find("a").ok());
}

TEST_F(ReloadTest, ACollectionIsInvisibleUntilItIsWholeAndFindDoesNotWait) {
  CollectionStore store(&backend_, {});
  std::atomic<int> checks{0};
  backend_.OnLoad([&] {
    EXPECT_EQ(store.Find("a").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(store.Find("a").status().message(), HasSubstr("still loading"));
    EXPECT_EQ(store.List()[0].state, CollectionStatus::State::kLoading);
    ++checks;
  });
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
  EXPECT_GT(checks, 0);
  // During a reload the old generation is served.
  const auto first = *store.Find("a");
  Publish(2, 40);
  checks = 0;
  backend_.OnLoad([&] {
    EXPECT_EQ(*store.Find("a"), first);
    ++checks;
  });
  ASSERT_TRUE(store.Reload("a", nullptr).ok());
  EXPECT_GT(checks, 0);
}

TEST_F(ReloadTest, LoadsOfOneNameFollowEachOther) {
  CollectionStore store(&backend_, {.load_threads = 1});
  std::atomic<int> loading{0};
  std::atomic<bool> overlapped{false};
  backend_.OnLoad([&] {
    if (loading.fetch_add(1) != 0) overlapped = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    loading.fetch_sub(1);
  });
  std::atomic<int> loaded{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&] {
      const absl::Status status = store.Load("a", folder_.path(), Residency::kAuto).status();
      if (status.ok()) ++loaded;
      if (status.code() == absl::StatusCode::kAlreadyExists) ++taken;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loaded, 1);
  EXPECT_EQ(taken, 3);
  EXPECT_FALSE(overlapped);
}

TEST_F(ReloadTest, ParallelLoadsOfDifferentNamesCannotOvercommit) {
  const uint64_t needed = FileBytes(Publish(1, 100));
  CollectionStore store(&backend_, {.memory_budget_bytes = 2 * needed + needed / 2});
  std::atomic<int> loaded{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 6; ++idx) {
    threads.emplace_back([&, idx] {
      const absl::Status status =
          store.Load(std::string(1, static_cast<char>('a' + idx)), folder_.path(), Residency::kHost).status();
      if (status.ok()) ++loaded;
      if (status.code() == absl::StatusCode::kResourceExhausted) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loaded, 2);
  EXPECT_EQ(refused, 4);
}

TEST_F(ReloadTest, LoadsReloadsUnloadsAndReadersMix) {
  CollectionStore store(&backend_, {});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int idx = 0; idx < 2; ++idx) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto found = store.Find("a");
        if (found.ok()) {
          const uint64_t last = (*found)->num_documents() - 1;
          EXPECT_EQ((*found)->Find((*found)->string_id(last)), last);
        }
        store.List();
      }
    });
  }
  std::thread unloader([&] {
    for (int round = 0; round < 10; ++round) {
      store.Unload("a").IgnoreError();
      store.Load("a", folder_.path(), Residency::kAuto).IgnoreError();
    }
  });
  for (int round = 0; round < 5; ++round) {
    Publish(static_cast<uint64_t>(round), 30 + round);
    store.Reload("a", nullptr).IgnoreError();
  }
  unloader.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  ASSERT_TRUE(store.Reload("a", nullptr).ok());
  EXPECT_EQ((*store.Find("a"))->num_documents(), 34u);
}

}  // namespace
}  // namespace maxsim::store
