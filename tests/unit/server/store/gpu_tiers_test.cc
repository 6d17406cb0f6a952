// Tests in which tiers (gpu, host, disk) a GPU's collection is placed, and how much memory each tier takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class GpuTiersTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 32;  // bytes of memory that a token takes

  GpuTiersTest() : documents_(test::SmallDocuments(7, 300)) {
    manifest_ = test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = 20'000, .payloads = true});
    gpu_.SetBytesPerToken(kBytes);
  }

  uint64_t FileBytes() const {
    uint64_t bytes = 0;
    for (const collection::ShardEntry& entry : manifest_.shards) bytes += static_cast<uint64_t>(entry.num_bytes);
    return bytes;
  }
  uint64_t TokensOf(size_t shard) const { return static_cast<uint64_t>(manifest_.shards[shard].num_tokens); }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  collection::Manifest manifest_;
  test::FakeBackend gpu_{"cuda"};
};

TEST_F(GpuTiersTest, EveryTierCanBeAskedFor) {
  CollectionStore store(&gpu_, {});
  const uint64_t bytes = kBytes * static_cast<uint64_t>(manifest_.num_tokens);
  const Tier tiers[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};
  const char* const names[] = {"gpu", "host", "disk"};
  for (size_t idx = 0; idx < 3; ++idx) {
    const auto loaded = store.Load(names[idx], folder_.path(), *ResidencyFromName(names[idx]));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->tiers(), names[idx]);
    EXPECT_EQ(gpu_.loads().back().tier, tiers[idx]);
    ASSERT_THAT((*loaded)->tier_usage(), SizeIs(1));
    const Collection::TierUsage share = (*loaded)->tier_usage()[0];
    EXPECT_EQ(share.device_bytes, idx == 0 ? bytes : 0);
    EXPECT_EQ(share.host_bytes, idx == 1 ? bytes : 0);
    EXPECT_EQ(share.num_shards, manifest_.shards.size());
    // The host keeps everything except the tokens. Only kDisk keeps the file mapped.
    EXPECT_EQ((*loaded)->index_bytes(),
              IdIndex::NumBytes(300) + DocumentLengths::NumBytes(300) + FileBytes() - (*loaded)->num_tokens() * 16 * 2);
    EXPECT_EQ((*loaded)->generation().parts()[0].shard->documents().tokens != nullptr, idx == 2);
    EXPECT_EQ((*loaded)->num_document_tokens(299), documents_.length(299));
  }
}

TEST_F(GpuTiersTest, AutoFillsTheDeviceThenTheHostAndLeavesTheRestOnDisk) {
  const size_t shards = manifest_.shards.size();
  ASSERT_GE(shards, 3u);
  CollectionStore store(&gpu_,
                        {.memory_budget_bytes = kBytes * TokensOf(0), .host_budget_bytes = kBytes * TokensOf(1)});
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->tiers(), "gpu+host+disk");
  const Residency expected[] = {Residency::kGpu, Residency::kHost, Residency::kDisk};
  for (size_t part = 0; part < shards; ++part) {
    EXPECT_EQ((*loaded)->generation().parts()[part].tier, expected[std::min<size_t>(part, 2)]) << part;
  }
  const absl::StatusOr<std::string> plan = store.MemoryPlan(folder_.path(), Residency::kDisk);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(*plan, HasSubstr("pinned host memory: needs 0 bytes of 0 bytes available (budget "));
}

TEST_F(GpuTiersTest, PinnedHostMemoryHasABudgetOfItsOwn) {
  const uint64_t bytes = kBytes * static_cast<uint64_t>(manifest_.num_tokens);
  CollectionStore store(&gpu_, {.host_budget_bytes = bytes - 1});
  const absl::Status refused = store.Load("a", folder_.path(), Residency::kHost).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr(" of pinned host memory but only "));
  EXPECT_EQ(gpu_.num_loads(), 0);
  EXPECT_TRUE(store.Load("a", folder_.path(), Residency::kGpu).ok()) << "the device's memory is another";

  // Without a budget, the capacity is the free memory minus the reserve.
  std::atomic<uint64_t> free{bytes + 99};
  CollectionStore unbudgeted(&gpu_, {.host_reserve_bytes = 100, .free_host_bytes = [&] { return free.load(); }});
  EXPECT_EQ(unbudgeted.Load("a", folder_.path(), Residency::kHost).status().code(),
            absl::StatusCode::kResourceExhausted);
  free = bytes + 100;
  EXPECT_TRUE(unbudgeted.Load("a", folder_.path(), Residency::kHost).ok());
}

TEST_F(GpuTiersTest, WithoutABudgetPinnedMemoryLeavesRoomForWhatIsBesideTheTokens) {
  const uint64_t pinned = kBytes * static_cast<uint64_t>(manifest_.num_tokens);
  const uint64_t beside = FileBytes() - static_cast<uint64_t>(manifest_.num_tokens) * 16 * 2 + IdIndex::NumBytes(300) +
                          DocumentLengths::NumBytes(300);
  for (const uint64_t missing : {0, 1}) {
    CollectionStore store(&gpu_, {.memory_budget_bytes = 1, .host_reserve_bytes = 100, .free_host_bytes = [&] {
                                    return pinned + beside + 100 - missing;
                                  }});
    EXPECT_EQ((*store.Load("a", folder_.path(), Residency::kAuto))->tiers(), missing == 0 ? "host" : "host+disk");
  }
}

TEST_F(GpuTiersTest, ThePlanShowsTierDeviceAndBothMemories) {
  CollectionStore store(&gpu_, {.memory_budget_bytes = kBytes * TokensOf(0), .host_budget_bytes = 1 << 30});
  const absl::StatusOr<std::string> plan = store.MemoryPlan(folder_.path(), Residency::kAuto);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(*plan, testing::ContainsRegex(manifest_.shards[0].file + " .* gpu  0\n"));
  EXPECT_THAT(*plan, testing::ContainsRegex(manifest_.shards[1].file + " .* host  0\n"));
  EXPECT_THAT(*plan, HasSubstr("device bytes"));
  EXPECT_THAT(*plan, HasSubstr("pinned bytes"));
  EXPECT_THAT(*plan, HasSubstr("ids, offsets and payloads (host memory"));
}

}  // namespace
}  // namespace maxsim::store
