// Tests the loading of codes: how many planes (bits per value) fit, in which memory they are, and damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "base/units.h"
#include "kernels/codes/encode.h"
#include "server/store/collection_store.h"
#include "server/store/memory_plan.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

class StoreCodesTest : public testing::Test {
 protected:
  StoreCodesTest() : documents_(test::SmallDocuments(3, 400)) {
    manifest_ =
        test::BuildCorpus(folder_.path(), documents_,
                          {.max_shard_bytes = 20'000, .codes = {.planes = 4, .rotation_seed = 7, .factors = true}});
    EXPECT_GE(manifest_.shards.size(), 3u);
    absl::StatusOr<std::unique_ptr<Backend>> cpu = CreateCpuBackend({.num_threads = 1, .isa = ""});
    EXPECT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
  }

  static std::shared_ptr<const Collection> Load(CollectionStore& store, const std::string& folder,
                                                Residency residency = Residency::kAuto) {
    auto loaded = store.Load("corpus", folder, residency);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  // Checks that every replica of every part has the first `planes` planes of its documents' codes.
  static void ExpectCodes(const Collection& collection, int planes) {
    EXPECT_EQ(collection.code_planes(), planes);
    for (const Part& part : collection.generation().parts()) {
      ASSERT_NE(part.codes, nullptr);
      ASSERT_NE(part.CodesOn(0), nullptr);
      EXPECT_EQ(part.CodesOn(0)->planes(), planes);
      EXPECT_EQ(part.CodesOn(0)->num_documents(), part.num_documents());
      for (const int count : {1, 2, 4}) EXPECT_EQ(part.CodesOn(0)->has_bounds(count), count <= planes);
      const CodesView codes = part.codes->view(part.view);
      const auto encoded = EncodedDocuments::Encode(codes.shape, part.view);
      ASSERT_TRUE(encoded.ok()) << encoded.status();
      const auto num_bytes = static_cast<size_t>(codes.num_tokens()) * PlaneRowBytes(codes.shape.dim);
      EXPECT_EQ(std::memcmp(codes.plane0, encoded->view().plane0, num_bytes), 0);
      EXPECT_EQ(codes.scales[0], encoded->view().scales[0]);
    }
  }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  collection::Manifest manifest_;
  std::unique_ptr<Backend> cpu_;
};

TEST_F(StoreCodesTest, CodesAreScannedWhereTheyLie) {
  for (const Residency residency : {Residency::kHost, Residency::kDisk}) {
    for (const int planes : {4, 2, 1}) {
      CollectionStore store(cpu_.get(), {.memory_reserve_bytes = 0, .max_code_planes = planes});
      const auto collection = Load(store, folder_.path(), residency);
      ExpectCodes(*collection, planes);
      const DeviceSet devices(cpu_.get());
      EXPECT_EQ(collection->resident_bytes(), CollectionNeed(devices, manifest_, residency, planes).device_bytes);
      EXPECT_TRUE(collection->Check().ok());
    }
  }
}

TEST_F(StoreCodesTest, WithoutPlanesThereAreNone) {
  CollectionStore store(cpu_.get(), {.memory_reserve_bytes = 0, .max_code_planes = 0});
  EXPECT_EQ(Load(store, folder_.path())->code_planes(), 0);
  const test::TemporaryFolder other;
  test::BuildCorpus(other.path(), documents_);
  CollectionStore plain(cpu_.get(), {.memory_reserve_bytes = 0});
  EXPECT_EQ(Load(plain, other.path())->code_planes(), 0);
  const test::TemporaryFolder one;
  test::BuildCorpus(one.path(), documents_, {.codes = {.planes = 1}});
  CollectionStore of_one(cpu_.get(), {.memory_reserve_bytes = 0});
  EXPECT_EQ(Load(of_one, one.path())->code_planes(), 1);
}

TEST_F(StoreCodesTest, AsManyPlanesAreLoadedAsFit) {
  const DeviceSet devices(cpu_.get());
  const auto planes_within = [&](size_t budget) {
    CollectionStore store(cpu_.get(), {.memory_budget_bytes = budget});
    return Load(store, folder_.path(), Residency::kHost)->code_planes();
  };
  const auto need = [&](int planes) {
    return CollectionNeed(devices, manifest_, Residency::kHost, planes).device_bytes;
  };
  EXPECT_EQ(planes_within(need(4)), 4);
  EXPECT_EQ(planes_within(need(4) - 1), 2);
  EXPECT_EQ(planes_within(need(2) - 1), 1);
  EXPECT_EQ(planes_within(need(1) - 1), 0);
  CollectionStore store(cpu_.get(), {.memory_budget_bytes = need(2)});
  EXPECT_THAT(*store.MemoryPlan(folder_.path(), Residency::kHost), HasSubstr("with 2 of 4 planes of codes"));
}

// On a GPU, planes of codes are placed before the exact vectors. The vectors then may get a slower tier.
TEST_F(StoreCodesTest, PlanesArePlacedBeforeOriginals) {
  test::FakeBackend gpu("cuda");
  gpu.SetBytesPerToken(32);
  const auto tokens = static_cast<size_t>(manifest_.num_tokens);
  CollectionStore store(&gpu, {.memory_budget_bytes = 4 * tokens});
  const auto collection = Load(store, folder_.path());
  EXPECT_EQ(collection->code_planes(), 4);
  EXPECT_EQ(collection->tiers(), "host");
  for (const Part& part : collection->generation().parts()) EXPECT_EQ(part.codes, nullptr) << "the device has a copy";
  CollectionStore larger(&gpu, {.memory_budget_bytes = 36 * tokens});
  EXPECT_EQ(Load(larger, folder_.path())->tiers(), "gpu");
  CollectionStore smaller(&gpu, {.memory_budget_bytes = 4 * tokens - 1});
  EXPECT_EQ(Load(smaller, folder_.path())->code_planes(), 2);
  CollectionStore on_gpu(&gpu, {.memory_budget_bytes = 33 * tokens});
  const auto just = Load(on_gpu, folder_.path(), Residency::kGpu);
  EXPECT_EQ(just->code_planes(), 1);
  EXPECT_EQ(just->resident_bytes(), 33 * tokens);
}

// Memory for the scans of all lanes (scoring threads) is reserved with the codes, once for all collections.
TEST_F(StoreCodesTest, CodesAreLoadedWhereThereIsMemoryForTheirScans) {
  test::FakeBackend gpu("cuda");
  gpu.SetScanBytesPerDocument(1000);
  DeviceSet devices({{&gpu, 0}}, OnDeviceLoss::kExit, /*num_lanes=*/3);
  int64_t largest_shard = 0;
  for (const collection::ShardEntry& entry : manifest_.shards) {
    largest_shard = std::max(largest_shard, entry.num_documents);
  }
  const uint64_t scans = 3 * 1000 * static_cast<uint64_t>(largest_shard);
  const auto tokens = static_cast<uint64_t>(manifest_.num_tokens);
  CollectionStore store(&devices, {.memory_budget_bytes = 2 * 4 * tokens + scans});
  EXPECT_EQ(Load(store, folder_.path())->code_planes(), 4);
  EXPECT_THAT(*store.MemoryPlan(folder_.path(), Residency::kGpu),
              HasSubstr("  scans of codes by 3 lanes (device memory, which all collections share): " +
                        FormatBytesExactly(scans) + "\n"));
  const absl::StatusOr<std::shared_ptr<const Collection>> second =
      store.Load("second", folder_.path(), Residency::kGpu);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->code_planes(), 4) << "it shares the first one's memory for scans";
  // With one byte less, only two planes are loaded. If the budget is only enough for the memory of scans, no plane is
  // loaded.
  CollectionStore smaller(&devices, {.memory_budget_bytes = 4 * tokens + scans - 1});
  EXPECT_EQ(Load(smaller, folder_.path())->code_planes(), 2);
  CollectionStore none(&devices, {.memory_budget_bytes = scans});
  EXPECT_EQ(Load(none, folder_.path())->code_planes(), 0);
}

// The memory plan must state the scan time that scan_cost.h estimates, if it gives an estimate.
TEST(MemoryPlanTest, TellsTheExpectedTimeOfAScan) {
  collection::Manifest manifest;
  manifest.name = "corpus";
  manifest.dim = 128;
  manifest.storage = ScalarType::kF16;
  manifest.num_documents = 10'000'000;
  manifest.num_tokens = 720'000'000;
  for (const char* file : {"a", "b"}) {
    collection::ShardEntry& shard = manifest.shards.emplace_back();
    shard.file = file;
    shard.num_documents = 5'000'000;
    shard.num_tokens = 360'000'000;
  }
  manifest.codes = collection::CodesFormat{4, false, 0};
  test::FakeBackend gpus[2] = {test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  const auto format = [&](const DeviceSet& devices, Replication replication, int max_planes) {
    const MemoryLedger ledger(&devices, {}, {}, nullptr);
    const absl::StatusOr<MemoryPlan> plan = PlanMemory(devices, manifest, Residency::kAuto, replication,
                                                       {.max_code_planes = max_planes}, ledger.Available());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return FormatMemoryPlan(devices, manifest, *plan);
  };
  const DeviceSet one(&gpus[0]);
  const DeviceSet two({{&gpus[0], 0}, {&gpus[1], 1}}, OnDeviceLoss::kDegrade);
  const auto says = [](const std::string& ms) {
    return HasSubstr("  a scan of the codes for one query of 32 tokens: about " + ms + " ms\n");
  };
  const auto says_nothing = testing::Not(HasSubstr("a scan of the codes"));
  EXPECT_THAT(format(one, Replication::kOff, 4), says_nothing) << "a GPU that nobody measured";
  for (test::FakeBackend& gpu : gpus) gpu.SetDevice("NVIDIA H200", "sm_90");
  // The measured rows are for one shard. A second shard takes 0.05 ms more.
  EXPECT_THAT(format(one, Replication::kOff, 1), says("6.5"));
  EXPECT_THAT(format(one, Replication::kOff, 2), says("11"));
  EXPECT_THAT(format(one, Replication::kOff, 4), says("15"));
  EXPECT_THAT(format(two, Replication::kOff, 1), says("3.2"));
  EXPECT_THAT(format(two, Replication::kOn, 1), says("6.5")) << "one device scans all";
  EXPECT_THAT(format(one, Replication::kOff, 0), says_nothing);
  gpus[1].SetDevice("another GPU", "sm_90");
  EXPECT_THAT(format(two, Replication::kOff, 1), says_nothing);
  manifest.dim = 768;
  EXPECT_THAT(format(one, Replication::kOff, 1), says_nothing) << "no such shape was measured";
  manifest.dim = 128;
  manifest.shards.pop_back();
  EXPECT_THAT(format(one, Replication::kOff, 1), says_nothing) << "a reload that keeps a shard";
  const auto cpu = *CreateCpuBackend({.num_threads = 1, .isa = ""});
  EXPECT_THAT(format(DeviceSet(cpu.get()), Replication::kOff, 1), says_nothing);
}

TEST_F(StoreCodesTest, ADamagedFileFailsTheLoad) {
  const std::string path = folder_ / manifest_.shards[1].code_files[2].file;
  std::string bytes = test::ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  test::WriteFile(path, bytes);
  CollectionStore store(cpu_.get(), {.memory_reserve_bytes = 0});
  const absl::Status status = store.Load("corpus", folder_.path(), Residency::kAuto).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(manifest_.shards[1].code_files[2].file));
  // The damaged file has only planes that this load does not need, so this load succeeds.
  CollectionStore two(cpu_.get(), {.memory_reserve_bytes = 0, .max_code_planes = 2});
  EXPECT_EQ(Load(two, folder_.path())->code_planes(), 2);
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  CollectionStore again(cpu_.get(), {.memory_reserve_bytes = 0});
  EXPECT_TRUE(absl::IsDataLoss(again.Load("corpus", folder_.path(), Residency::kAuto).status()));
}

TEST_F(StoreCodesTest, AFileThatIsWrittenToFailsTheCheck) {
  // Waits so that a later change gets a different time: file systems record times in steps of some milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CollectionStore store(cpu_.get(), {.memory_reserve_bytes = 0});
  const auto collection = Load(store, folder_.path(), Residency::kDisk);
  EXPECT_TRUE(collection->Check().ok());
  ASSERT_EQ(::truncate((folder_ / manifest_.shards[0].code_files[0].file).c_str(), 4096), 0);
  EXPECT_TRUE(absl::IsDataLoss(collection->Check())) << collection->Check();
}

}  // namespace
}  // namespace maxsim::store
