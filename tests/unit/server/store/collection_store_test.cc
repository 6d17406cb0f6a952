#include "server/store/collection_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "server/store/memory_plan.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

absl::StatusCode CodeOf(const absl::StatusOr<std::shared_ptr<const Collection>>& result) {
  return result.status().code();
}

class CollectionStoreTest : public testing::Test {
 protected:
  CollectionStoreTest() : documents_(test::SmallDocuments(7, 300)) {
    manifest_ = test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = 20'000, .payloads = true});
  }

  uint64_t FileBytes() const {
    uint64_t bytes = 0;
    for (const collection::ShardEntry& entry : manifest_.shards) bytes += static_cast<uint64_t>(entry.num_bytes);
    return bytes;
  }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  collection::Manifest manifest_;
  test::FakeBackend backend_;
  const DeviceSet devices_{&backend_};
};

TEST_F(CollectionStoreTest, ALoadedCollectionGivesIdsPayloadsAndPlaces) {
  ASSERT_GE(manifest_.shards.size(), 3u);
  CollectionStore store(&backend_, {.memory_reserve_bytes = 0, .load_threads = 3});
  const auto loaded = store.Load("a", folder_.path(), Residency::kHost);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Collection& collection = **loaded;
  EXPECT_EQ(collection.name(), "a");
  EXPECT_EQ(collection.num_documents(), 300u);
  EXPECT_EQ(collection.num_tokens(), static_cast<uint64_t>(documents_.view().num_tokens()));
  EXPECT_EQ(collection.tiers(), "host");
  EXPECT_EQ(collection.resident_bytes(), FileBytes());
  EXPECT_EQ(collection.generation().parts().size(), manifest_.shards.size());
  for (uint64_t ordinal = 0; ordinal < 300; ++ordinal) {
    const auto document = static_cast<int64_t>(ordinal);
    const std::string id = test::CorpusId({}, document);
    EXPECT_EQ(collection.string_id(ordinal), id);
    EXPECT_EQ(collection.Find(id), ordinal);
    EXPECT_EQ(collection.payload(ordinal), "{\"n\":" + std::to_string(ordinal) + "}");
    EXPECT_EQ(collection.num_document_tokens(ordinal), documents_.length(document));
    const Location place = collection.Locate(ordinal);
    EXPECT_EQ(collection.generation().parts()[place.part].first_ordinal + place.ordinal, ordinal);
    EXPECT_LT(place.ordinal, collection.generation().parts()[place.part].shard->documents().num_documents);
  }
  EXPECT_EQ(*store.Find("a"), *loaded);
}

// Tests collections in which all documents have one length, all documents of each shard have one length, or neither.
TEST_F(CollectionStoreTest, TokensOfAListAreThoseOfItsDocuments) {
  const std::vector<int64_t> all_alike(300, 5);
  std::vector<int64_t> last_longer = all_alike, halves = all_alike;
  last_longer.back() = 6;
  std::fill(halves.begin() + 150, halves.end(), 7);
  for (const std::vector<int64_t>& lengths : {all_alike, last_longer, halves}) {
    for (const int64_t max_shard_bytes : {collection::kMinMaxShardBytes, collection::kDefaultMaxShardBytes}) {
      const test::TemporaryFolder folder;
      const test::RandomDocuments documents = test::MakeDocuments(7, ScalarType::kF16, 16, lengths);
      const collection::Manifest manifest =
          test::BuildCorpus(folder.path(), documents, {.max_shard_bytes = max_shard_bytes});
      CollectionStore store(&backend_, {.memory_reserve_bytes = 0});
      const auto loaded = store.Load("a", folder.path(), Residency::kHost);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      SCOPED_TRACE(testing::Message() << "lengths to " << lengths.back() << ", " << manifest.shards.size()
                                      << " shards");
      for (const Part& part : (*loaded)->generation().parts()) {
        const DocumentsView& view = part.shard->documents();
        const bool alike = view.num_tokens() == view.num_documents * view.offsets[1] &&
                           view.offsets[view.num_documents] - view.offsets[view.num_documents - 1] == view.offsets[1];
        EXPECT_EQ(view.document_tokens, alike ? view.offsets[1] : 0);
      }
      const std::vector<uint64_t> none, some = {299, 0, 150, 149, 298}, first = {0};
      for (const std::vector<uint64_t>& list : {none, some, first}) {
        uint64_t expected = 0;
        for (const uint64_t ordinal : list) expected += static_cast<uint64_t>(lengths[ordinal]);
        EXPECT_EQ((*loaded)->num_tokens(list), expected);
      }
    }
  }
}

// The memory plan must count the scales of i8: in host memory as part of the file, and on disk as part of the bytes
// that are copied.
TEST_F(CollectionStoreTest, I8IsLoadedAndItsScalesArePlannedFor) {
  const test::TemporaryFolder folder;
  const test::RandomDocuments values = test::SmallDocuments(7, 300, ScalarType::kF32, 16);
  const collection::Manifest manifest = test::BuildCorpus(folder.path(), values, {.storage = ScalarType::kI8});
  const collection::Manifest f16 = test::BuildCorpus(folder_ / "f16", values, {.storage = ScalarType::kF16});
  ASSERT_EQ(manifest.shards.size(), 1u);
  const auto num_tokens = static_cast<uint64_t>(manifest.num_tokens);
  EXPECT_EQ(CollectionNeed(devices_, manifest, Residency::kHost).device_bytes,
            static_cast<uint64_t>(manifest.shards[0].num_bytes));
  EXPECT_EQ(CollectionNeed(devices_, manifest, Residency::kHost).device_bytes + num_tokens * 16,
            CollectionNeed(devices_, f16, Residency::kHost).device_bytes + 300 * sizeof(float));
  EXPECT_EQ(CollectionNeed(devices_, manifest, Residency::kDisk).device_bytes,
            CollectionNeed(devices_, f16, Residency::kDisk).device_bytes + 300 * sizeof(float));

  CollectionStore store(&backend_, {.memory_reserve_bytes = 0});
  const test::RandomDocuments stored = test::Stored(values, ScalarType::kI8);
  for (const Residency residency : {Residency::kHost, Residency::kDisk}) {
    const auto loaded = store.Load("i8", folder.path(), residency);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->storage(), ScalarType::kI8);
    EXPECT_EQ((*loaded)->resident_bytes(), CollectionNeed(devices_, manifest, residency).device_bytes);
    const DocumentsView& view = (*loaded)->generation().parts()[0].shard->documents();
    EXPECT_EQ(view.rotation_seed, values.rotation_seed);
    for (int64_t document = 0; document < 300; ++document) {
      ASSERT_EQ(view.scales[document], stored.scales[static_cast<size_t>(document)]);
    }
    EXPECT_EQ(std::memcmp(view.tokens, stored.tokens.data(), num_tokens * 16), 0);
    ASSERT_TRUE(store.Unload("i8").ok());
  }
  EXPECT_THAT(*store.MemoryPlan(folder.path(), Residency::kHost), HasSubstr("tokens of 16 x i8"));
  test::FakeBackend gpu("cuda");
  CollectionStore gpu_store(&gpu, {.memory_reserve_bytes = 0});
  const auto on_gpu = gpu_store.Load("i8", folder.path(), Residency::kAuto);
  ASSERT_TRUE(on_gpu.ok()) << on_gpu.status();
  EXPECT_EQ((*on_gpu)->generation().parts()[0].shard->documents().scales[7], stored.scales[7])
      << "copies outlive the mapping";
}

TEST_F(CollectionStoreTest, I8ElementsThatAreNoneFailTheLoad) {
  const test::TemporaryFolder folder;
  const collection::Manifest manifest =
      test::BuildCorpus(folder.path(), test::SmallDocuments(7, 10, ScalarType::kF32, 16), {.storage = ScalarType::kI8});
  std::string bytes = test::ReadFile(folder / manifest.shards[0].file);
  bytes[4096 + 5] = '\x80';
  test::ReplaceShard(folder.path(), 0, bytes);
  CollectionStore store(&backend_, {.verify_checksums = false});
  const auto loaded = store.Load("i8", folder.path(), Residency::kHost);
  EXPECT_EQ(CodeOf(loaded), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("document 0, token 0, column 5 is -128, which is not in -127 .. 127"));
}

TEST_F(CollectionStoreTest, ANameIsTakenUntilItIsUnloaded) {
  CollectionStore store(&backend_, {});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
  EXPECT_EQ(CodeOf(store.Load("a", folder_.path(), Residency::kAuto)), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(store.Unload("a").ok());
  EXPECT_EQ(store.Unload("a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(store.Find("a")), absl::StatusCode::kNotFound);
  EXPECT_THAT(store.List(), IsEmpty());
  EXPECT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
}

TEST_F(CollectionStoreTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  CollectionStore store(&backend_, {});
  EXPECT_THAT(store.Find("b").status().message(), HasSubstr("none is loaded"));
  EXPECT_FALSE(store.Load("failed", "/no/such/folder", Residency::kAuto).ok());
  EXPECT_EQ(store.Find("b").status().message(), "no collection \"b\"; none is loaded");
  ASSERT_TRUE(store.Load("papers", folder_.path(), Residency::kAuto).ok());
  ASSERT_TRUE(store.Load("books", folder_.path(), Residency::kAuto).ok());
  EXPECT_FALSE(store.Load("failed", "/no/such/folder", Residency::kAuto).ok());
  EXPECT_EQ(store.Find("b").status().message(), "no collection \"b\"; loaded: books, papers");
  EXPECT_EQ(CodeOf(store.Reload("b", nullptr)), absl::StatusCode::kNotFound);
}

TEST_F(CollectionStoreTest, NamesHaveAShape) {
  CollectionStore store(&backend_, {});
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a/b"), std::string("a b"),
                                 std::string("\xc3\xa9"), std::string("a\0", 2)}) {
    EXPECT_EQ(CodeOf(store.Load(bad, folder_.path(), Residency::kAuto)), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_THAT(store.List(), IsEmpty());
  EXPECT_TRUE(store.Load(std::string(128, 'a'), folder_.path(), Residency::kAuto).ok());
  EXPECT_TRUE(store.Load("A-z_0.9", folder_.path(), Residency::kAuto).ok());
}

TEST_F(CollectionStoreTest, AFailedLoadLeavesAnEntryThatANewLoadReplaces) {
  CollectionStore store(&backend_, {});
  const test::TemporaryFolder empty;
  EXPECT_EQ(CodeOf(store.Load("a", empty.path(), Residency::kAuto)), absl::StatusCode::kNotFound);
  ASSERT_THAT(store.List(), SizeIs(1));
  EXPECT_EQ(store.List()[0].state, CollectionStatus::State::kFailed);
  EXPECT_THAT(store.List()[0].error, HasSubstr("NOT_FOUND"));
  EXPECT_EQ(store.List()[0].path, empty.path());
  EXPECT_EQ(store.List()[0].collection, nullptr);
  const absl::Status found = store.Find("a").status();
  EXPECT_EQ(found.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(found.message(), HasSubstr("failed to load"));
  EXPECT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
  EXPECT_EQ(store.List()[0].state, CollectionStatus::State::kReady);
  EXPECT_EQ(store.List()[0].error, "");
}

TEST_F(CollectionStoreTest, DamagedAndHostileFilesAreRefused) {
  const std::string manifest = test::ReadFile(folder_ / "collection.json");
  const std::string shard_path = folder_ / manifest_.shards[1].file;
  const std::string shard = test::ReadFile(shard_path);
  CollectionStore store(&backend_, {});

  for (const std::string& hostile : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                     std::string(1 << 20, '['), manifest.substr(0, manifest.size() / 2),
                                     std::string(manifest).replace(manifest.find("\"dim\""), 5, "\"dum\"")}) {
    test::WriteFile(folder_ / "collection.json", hostile);
    const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
    ASSERT_FALSE(loaded.ok()) << hostile.substr(0, 60);
    EXPECT_THAT(loaded.status().message(), HasSubstr("collection.json"));
  }
  test::WriteFile(folder_ / "collection.json", manifest);

  std::string flipped = shard;
  flipped[flipped.size() - 5] = static_cast<char>(flipped[flipped.size() - 5] ^ 1);
  for (const std::string& damaged : {flipped, shard.substr(0, shard.size() - 1), shard + "x", std::string()}) {
    test::WriteFile(shard_path, damaged);
    const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
    EXPECT_EQ(CodeOf(loaded), absl::StatusCode::kDataLoss) << loaded.status();
    EXPECT_THAT(loaded.status().message(), HasSubstr(manifest_.shards[1].file));
  }
  EXPECT_EQ(backend_.num_documents_alive(), 0);
  test::WriteFile(shard_path, shard);
  EXPECT_TRUE(store.Load("a", folder_.path(), Residency::kAuto).ok());
}

TEST_F(CollectionStoreTest, AValueThatIsNotFiniteIsRefusedWithItsPlace) {
  std::string bytes = test::ReadFile(folder_ / manifest_.shards[0].file);
  // Finds the second row of the first shard by its bytes, and makes its column 3 infinite.
  const std::string row(static_cast<const char*>(documents_.tokens.row(1)), 32);
  const size_t at = bytes.find(row);
  ASSERT_NE(at, std::string::npos);
  const uint16_t infinity = 0x7c00;
  std::memcpy(bytes.data() + at + 6, &infinity, sizeof(infinity));
  test::ReplaceShard(folder_.path(), 0, bytes);

  // The checksum matches the changed bytes. So the value must be refused with and without checking checksums.
  for (const bool verify_checksums : {true, false}) {
    for (const Residency residency : {Residency::kHost, Residency::kDisk}) {
      CollectionStore store(&backend_, {.verify_checksums = verify_checksums});
      const absl::Status status = store.Load("a", folder_.path(), residency).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(status.message(), HasSubstr(manifest_.shards[0].file));
      EXPECT_THAT(status.message(), HasSubstr("column 3 is not finite"));
      EXPECT_THAT(status.message(),
                  documents_.length(0) > 1 ? HasSubstr("document 0, token 1,") : HasSubstr("document 1, token 0,"));
    }
  }
}

TEST_F(CollectionStoreTest, WhatDoesNotFitFailsBeforeAnyShardIsRead) {
  const uint64_t needed = FileBytes();
  CollectionStore store(&backend_, {.memory_budget_bytes = needed - 1});
  // Removes the first shard's file. If Load opened the file, it would fail with a different error.
  const std::string shard = test::ReadFile(folder_ / manifest_.shards[0].file);
  std::remove((folder_ / manifest_.shards[0].file).c_str());
  const absl::Status status = store.Load("a", folder_.path(), Residency::kHost).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("generation 1 of collection a needs"));
  EXPECT_EQ(backend_.num_loads(), 0);
  test::WriteFile(folder_ / manifest_.shards[0].file, shard);

  // On disk, a shard takes memory for everything except its tokens. `auto` must choose disk for shards that do not fit
  // into memory.
  const uint64_t token_bytes = static_cast<uint64_t>(documents_.view().num_tokens()) * 16 * 2;
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->tiers(), "host+disk");
  EXPECT_LT((*loaded)->resident_bytes(), needed);
  ASSERT_TRUE(store.Unload("a").ok());
  CollectionStore just(&backend_, {.memory_budget_bytes = needed - token_bytes});
  ASSERT_TRUE(just.Load("a", folder_.path(), Residency::kAuto).ok());
  EXPECT_EQ((*just.Find("a"))->tiers(), "disk");
  EXPECT_EQ((*just.Find("a"))->resident_bytes(), needed - token_bytes);
  CollectionStore smaller(&backend_, {.memory_budget_bytes = needed - token_bytes - 1});
  EXPECT_EQ(CodeOf(smaller.Load("a", folder_.path(), Residency::kAuto)), absl::StatusCode::kResourceExhausted);
}

TEST_F(CollectionStoreTest, CollectionsShareTheBudgetAndGiveItBack) {
  const uint64_t needed = FileBytes();
  CollectionStore store(&backend_, {.memory_budget_bytes = 2 * needed});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kHost).ok());
  ASSERT_TRUE(store.Load("b", folder_.path(), Residency::kHost).ok());
  EXPECT_EQ(CodeOf(store.Load("c", folder_.path(), Residency::kHost)), absl::StatusCode::kResourceExhausted);
  // An unloaded collection keeps its memory while a request uses it.
  std::shared_ptr<const Collection> in_use = *store.Find("a");
  ASSERT_TRUE(store.Unload("a").ok());
  EXPECT_EQ(CodeOf(store.Load("c", folder_.path(), Residency::kHost)), absl::StatusCode::kResourceExhausted);
  in_use = nullptr;
  EXPECT_TRUE(store.Load("c", folder_.path(), Residency::kHost).ok());
}

TEST_F(CollectionStoreTest, AFailedLoadGivesItsReservationBack) {
  CollectionStore store(&backend_, {.memory_budget_bytes = FileBytes()});
  backend_.FailLoads(absl::ResourceExhaustedError("out of device memory"));
  const absl::Status status = store.Load("a", folder_.path(), Residency::kHost).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("out of device memory"));
  backend_.FailLoads(absl::OkStatus());
  EXPECT_TRUE(store.Load("a", folder_.path(), Residency::kHost).ok());
}

TEST_F(CollectionStoreTest, TheCpuBackendHasNoGpuMemory) {
  CollectionStore store(&backend_, {});
  EXPECT_EQ(CodeOf(store.Load("a", folder_.path(), Residency::kGpu)), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*store.Load("a", folder_.path(), Residency::kDisk))->tiers(), "disk");
  EXPECT_EQ((*store.Load("b", folder_.path(), Residency::kAuto))->tiers(), "host");
}

// On the CPU backend, the budget is host memory. Shards are copied to it in order. A shard is copied only if enough
// memory is left for what the remaining shards need on disk.
TEST_F(CollectionStoreTest, OnTheCpuBackendShardsGoToTheHostOneByOne) {
  const auto need = [&](size_t shard, Residency tier) {
    return ShardNeed(devices_, manifest_, manifest_.shards[shard], tier).device_bytes;
  };
  uint64_t budget = 0;
  for (size_t shard = 0; shard < manifest_.shards.size(); ++shard) {
    budget += need(shard, shard < 2 ? Residency::kHost : Residency::kDisk);
  }
  CollectionStore store(&backend_, {.memory_budget_bytes = budget});
  const auto loaded = store.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->tiers(), "host+disk");
  EXPECT_EQ((*loaded)->resident_bytes(), budget);
  for (size_t part = 0; part < manifest_.shards.size(); ++part) {
    EXPECT_EQ((*loaded)->generation().parts()[part].tier, part < 2 ? Residency::kHost : Residency::kDisk) << part;
  }
  CollectionStore tighter(&backend_, {.memory_budget_bytes = budget - 1});
  const auto less = tighter.Load("a", folder_.path(), Residency::kAuto);
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ((*less)->generation().parts()[0].tier, Residency::kHost);
  EXPECT_EQ((*less)->generation().parts()[1].tier, Residency::kDisk);
}

TEST_F(CollectionStoreTest, ADimensionTheEngineCannotScoreFailsAtLoad) {
  CollectionStore store(&backend_, {.max_dim = 15});
  const absl::Status status = store.Load("a", folder_.path(), Residency::kAuto).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("dimension 16"));
  EXPECT_THAT(status.message(), HasSubstr("engine.max_dim, which is 15"));
}

TEST_F(CollectionStoreTest, TheMemoryPlanNamesEveryShardAndTheTotals) {
  CollectionStore store(&backend_, {.memory_budget_bytes = 1 << 20});
  const absl::StatusOr<std::string> plan = store.MemoryPlan(folder_.path(), Residency::kHost);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const collection::ShardEntry& entry : manifest_.shards) EXPECT_THAT(*plan, HasSubstr(entry.file));
  EXPECT_THAT(*plan, HasSubstr("collection corpus, generation 1: 300 documents"));
  EXPECT_THAT(*plan, HasSubstr("budget 1.00 MiB (1,048,576 bytes)"));
  EXPECT_THAT(*plan, HasSubstr("fits"));
  CollectionStore small(&backend_, {.memory_budget_bytes = 1});
  EXPECT_THAT(*small.MemoryPlan(folder_.path(), Residency::kHost), HasSubstr("DOES NOT FIT"));
  EXPECT_EQ(small.MemoryPlan("/nonexistent", Residency::kHost).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace maxsim::store
