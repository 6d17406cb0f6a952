// Tests collections on several devices: parts that are spread over them or copied to all, and loads during which a
// device is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ManyDevicesTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 32;  // bytes of memory that a token takes

  ManyDevicesTest() : documents_(test::SmallDocuments(7, 300)) {
    manifest_ = Publish(7);
    for (test::FakeBackend& backend : backends_) backend.SetBytesPerToken(kBytes);
  }

  collection::Manifest Publish(uint64_t seed) {
    return test::BuildCorpus(folder_.path(), test::SmallDocuments(seed, 300),
                             {.max_shard_bytes = collection::kMinMaxShardBytes});
  }

  uint64_t CollectionBytes() const { return kBytes * static_cast<uint64_t>(manifest_.num_tokens); }
  static uint64_t TokensOn(const Collection& collection, uint32_t device) {
    uint64_t tokens = 0;
    for (const Part& part : collection.generation().parts()) {
      if (part.DocumentsOn(device) != nullptr) tokens += static_cast<uint64_t>(part.num_tokens());
    }
    return tokens;
  }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  collection::Manifest manifest_;
  test::FakeBackend backends_[3] = {test::FakeBackend("cuda"), test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  DeviceSet devices_{{{&backends_[0], 0}, {&backends_[1], 1}, {&backends_[2], 2}}, OnDeviceLoss::kDegrade};
};

TEST_F(ManyDevicesTest, ShardsAreSpreadByBytes) {
  ASSERT_GE(manifest_.shards.size(), 9u);
  CollectionStore store(&devices_, {});
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  uint64_t largest = 0;
  for (const collection::ShardEntry& entry : manifest_.shards) {
    largest = std::max(largest, static_cast<uint64_t>(entry.num_tokens));
  }
  for (uint32_t device = 0; device < 3; ++device) {
    EXPECT_NEAR(static_cast<double>(TokensOn(**loaded, device)), static_cast<double>((*loaded)->num_tokens()) / 3,
                static_cast<double>(largest));
    EXPECT_EQ(backends_[device].num_documents_alive(),
              static_cast<int64_t>((*loaded)->tier_usage()[device].num_shards));
  }
  ASSERT_THAT((*loaded)->tier_usage(), SizeIs(3));
  EXPECT_EQ((*loaded)->tiers(), "gpu");
  // A second store must place the collection as the first one does, and as the memory plan says.
  CollectionStore other(&devices_, {});
  const auto again = other.Load("a", folder_.path(), Residency::kAuto);
  for (size_t part = 0; part < manifest_.shards.size(); ++part) {
    EXPECT_EQ((*again)->generation().parts()[part].replicas[0].device,
              (*loaded)->generation().parts()[part].replicas[0].device);
  }
  const absl::StatusOr<std::string> plan = other.MemoryPlan(folder_.path(), Residency::kAuto);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(*plan, HasSubstr("cuda memory of device 2: needs "));
}

TEST_F(ManyDevicesTest, EachDeviceHasTheBudget) {
  const uint64_t third = CollectionBytes() / 3;
  CollectionStore store(&devices_, {.memory_budget_bytes = third + kBytes * 500});
  const auto loaded = store.Load("a", folder_.path(), Residency::kGpu);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  CollectionStore small(&devices_, {.memory_budget_bytes = third - kBytes});
  const absl::Status refused = small.Load("a", folder_.path(), Residency::kGpu).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("of cuda memory of device "));
}

TEST_F(ManyDevicesTest, CopiesGoToEveryDevice) {
  CollectionStore store(&devices_, {});
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto, Replication::kOn);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (uint32_t device = 0; device < 3; ++device) {
    EXPECT_EQ(TokensOn(**loaded, device), (*loaded)->num_tokens());
    EXPECT_EQ(backends_[device].num_loads(), static_cast<int64_t>(manifest_.shards.size()));
  }
  EXPECT_EQ((*loaded)->resident_bytes(), 3 * CollectionBytes());
  EXPECT_THAT(*store.MemoryPlan(folder_.path(), Residency::kAuto, Replication::kOn),
              HasSubstr("each on every device\n"));
}

TEST_F(ManyDevicesTest, SmallCollectionsAreCopiedUnlessTheySayNo) {
  CollectionStore never(&devices_, {.replicate_below_bytes = CollectionBytes()});
  EXPECT_THAT((*never.Load("a", folder_.path(), Residency::kAuto))->generation().parts()[0].replicas, SizeIs(1));
  CollectionStore store(&devices_, {.replicate_below_bytes = CollectionBytes() + 1});
  EXPECT_THAT((*store.Load("a", folder_.path(), Residency::kAuto))->generation().parts()[0].replicas, SizeIs(3));
  EXPECT_THAT((*store.Load("b", folder_.path(), Residency::kAuto, Replication::kOff))->generation().parts()[0].replicas,
              SizeIs(1));
  EXPECT_THAT((*store.Load("c", folder_.path(), Residency::kHost))->generation().parts()[0].replicas, SizeIs(3));
  // A reload must keep the replication that the load has asked for.
  Publish(8);
  EXPECT_THAT((*store.Reload("b", nullptr))->generation().parts()[0].replicas, SizeIs(1));
}

TEST_F(ManyDevicesTest, ADeviceThatIsLostDuringALoadIsLeftOut) {
  CollectionStore store(&devices_, {.load_threads = 3});
  std::atomic<int> loads{0};
  backends_[1].OnLoad([&] {
    if (++loads == 2) backends_[1].FailLoads(absl::UnavailableError("Xid 79"));
  });
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(TokensOn(**loaded, 1), 0u);
  EXPECT_EQ((*loaded)->num_unavailable(devices_), 0u);
  EXPECT_FALSE(devices_.alive(1));
  EXPECT_EQ(backends_[1].num_documents_alive(), 0);
}

TEST_F(ManyDevicesTest, UnderExitALossFailsTheLoad) {
  DeviceSet devices({{&backends_[0], 0}, {&backends_[1], 1}}, OnDeviceLoss::kExit);
  CollectionStore store(&devices, {});
  backends_[1].FailLoads(absl::UnavailableError("Xid 79"));
  const absl::Status status = store.Load("a", folder_.path(), Residency::kAuto).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("Xid 79"));
  EXPECT_EQ(devices.Health().message(), "device 1: Xid 79");
}

TEST_F(ManyDevicesTest, WithoutADeviceNothingLoads) {
  CollectionStore store(&devices_, {});
  for (size_t device = 0; device < 3; ++device) devices_.MarkLost(device, absl::UnavailableError("gone"));
  EXPECT_EQ(store.Load("a", folder_.path(), Residency::kAuto).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ManyDevicesTest, AReloadMovesWhatALostDeviceHadEvenOfTheSameGeneration) {
  CollectionStore store(&devices_, {});
  const auto first = *store.Load("a", folder_.path(), Residency::kAuto);
  bool changed = true;
  ASSERT_TRUE(store.Reload("a", &changed).ok());
  EXPECT_FALSE(changed);
  devices_.MarkLost(2, absl::UnavailableError("Xid 79"));
  EXPECT_GT(first->num_unavailable(devices_), 0u);
  const auto second = store.Reload("a", &changed);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(changed);
  EXPECT_EQ((*second)->num_unavailable(devices_), 0u);
  EXPECT_EQ(TokensOn(**second, 2), 0u);
  EXPECT_EQ((*second)->manifest().generation, first->manifest().generation);
  ASSERT_TRUE(store.Reload("a", &changed).ok());
  EXPECT_FALSE(changed);
}

TEST_F(ManyDevicesTest, CopiesThatAreLeftNeedNoReload) {
  CollectionStore store(&devices_, {});
  const auto loaded = *store.Load("a", folder_.path(), Residency::kAuto, Replication::kOn);
  devices_.MarkLost(0, absl::UnavailableError("Xid 79"));
  EXPECT_EQ(loaded->num_unavailable(devices_), 0u);
  bool changed = true;
  ASSERT_TRUE(store.Reload("a", &changed).ok());
  EXPECT_FALSE(changed);
}

}  // namespace
}  // namespace maxsim::store
