// Tests the loading of fields: the fields of each part, the memory that they take, and damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/store/collection/filter_cache.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/collection/part_fields.h"
#include "server/store/collection_store.h"
#include "server/store/memory_plan.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using collection::Filter;
using collection::RandomFilters;
using testing::HasSubstr;

class StoreFieldsTest : public testing::Test {
 protected:
  static constexpr int64_t kNumDocuments = 400;

  StoreFieldsTest() : seed_(test::TestSeed()), trace_(__FILE__, __LINE__, test::SeedTrace(seed_)), random_(seed_) {
    for (int64_t idx = 0; idx < kNumDocuments; ++idx) {
      payloads_.push_back(random_.Payload());
      meanings_.emplace_back(payloads_.back());
    }
    manifest_ = test::BuildCorpus(folder_.path(), documents_, Options(/*with_fields=*/true));
    EXPECT_GE(manifest_.shards.size(), 3u);
  }

  test::CorpusOptions Options(bool with_fields) const {
    test::CorpusOptions options;
    options.max_shard_bytes = 20'000;
    options.payload_texts = payloads_;
    if (with_fields) options.fields = RandomFilters::fields();
    return options;
  }

  static std::shared_ptr<const Collection> Load(CollectionStore& store, const std::string& folder) {
    auto loaded = store.Load("corpus", folder, Residency::kAuto);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }

  // Expects that a filter finds the documents whose payloads match.
  void ExpectMatches(const Collection& collection, const Filter& filter) const {
    const auto found = collection.FindMatching(filter);
    ASSERT_TRUE(found.ok()) << found.status();
    uint64_t num_documents = 0;
    uint64_t num_tokens = 0;
    std::vector<std::vector<uint32_t>> expected(collection.num_parts());
    for (uint64_t ordinal = 0; ordinal < static_cast<uint64_t>(kNumDocuments); ++ordinal) {
      const Location location = collection.Locate(ordinal);
      const bool matches = meanings_[ordinal].Matches(filter);
      ASSERT_EQ((*found)->Contains(location), matches) << ordinal << ": " << collection::FormatFilter(filter);
      if (!matches) continue;
      expected[location.part].push_back(location.ordinal);
      ++num_documents;
      num_tokens += static_cast<uint64_t>(documents_.length(static_cast<int64_t>(ordinal)));
    }
    EXPECT_EQ((*found)->num_documents(), num_documents);
    EXPECT_EQ((*found)->num_tokens(), num_tokens);
    for (size_t part = 0; part < collection.num_parts(); ++part) {
      EXPECT_EQ(*(*found)->List(part), expected[part]);
      EXPECT_EQ((*found)->num_documents(part), expected[part].size());
    }
    EXPECT_EQ((*found)->num_documents(collection.num_parts()), 0u) << "a part that came later";
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  const test::RandomDocuments documents_ = test::SmallDocuments(3, kNumDocuments);
  std::vector<std::string> payloads_;
  std::vector<collection::FilterMeaning> meanings_;
  const test::TemporaryFolder folder_;
  collection::Manifest manifest_;
  test::FakeBackend cpu_;
};

TEST_F(StoreFieldsTest, FiltersFindTheDocumentsThatTheyMean) {
  CollectionStore store(&cpu_, {.memory_reserve_bytes = 0});
  const auto collection = Load(store, folder_.path());
  for (int round = 0; round < 60; ++round) ExpectMatches(*collection, random_.Tree(1 + round % 4));
  ExpectMatches(*collection, Filter::And({Filter::Exists("lang"), Filter::Not(Filter::Exists("lang"))}));
  ExpectMatches(*collection, Filter::Or({Filter::Exists("lang"), Filter::Not(Filter::Exists("lang"))}));
}

TEST_F(StoreFieldsTest, AFilterThatDoesNotSuitTheFieldsIsRefused) {
  CollectionStore store(&cpu_, {.memory_reserve_bytes = 0});
  const auto collection = Load(store, folder_.path());
  const absl::Status unknown = collection->FindMatching(Filter::Exists("colour")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("field \"colour\" is not declared; the collection has lang, tags, year, price, sold, at"));
  const absl::Status wrong = collection->FindMatching(Filter::Equals("year", std::string("new"))).status();
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("field \"year\" is of kind integer: the value is \"new\""));
}

TEST_F(StoreFieldsTest, ACollectionWithoutFieldsHasNoIndexAndTakesNoFilter) {
  const test::TemporaryFolder folder;
  const collection::Manifest manifest = test::BuildCorpus(folder.path(), documents_, Options(/*with_fields=*/false));
  CollectionStore store(&cpu_, {.memory_reserve_bytes = 0});
  const auto plain = Load(store, folder.path());
  EXPECT_EQ(plain->part(0).fields, nullptr);
  EXPECT_EQ(plain->generation().filter_cache()->num_bytes(), 0u);
  EXPECT_EQ(FieldIndexBytes(manifest, manifest.shards[0]), 0u);
  const absl::Status status = plain->FindMatching(Filter::Exists("lang")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the collection has no fields"));
  CollectionStore other(&cpu_, {.memory_reserve_bytes = 0});
  const auto with_fields = Load(other, folder_.path());
  EXPECT_GT(with_fields->index_bytes(), plain->index_bytes());
}

// The memory plan counts the largest possible size of the field indexes and, once per collection, the cache of filters.
TEST_F(StoreFieldsTest, IndexesAndTheCacheAreTakenOfTheBudget) {
  const DeviceSet devices(&cpu_);
  uint64_t index_bytes = 0;
  for (const collection::ShardEntry& entry : manifest_.shards) index_bytes += FieldIndexBytes(manifest_, entry);
  constexpr size_t kCacheBytes = 10'000;
  const size_t need = CollectionNeed(devices, manifest_, Residency::kHost).device_bytes + kCacheBytes;
  {
    CollectionStore store(&cpu_, {.memory_budget_bytes = need, .filter_cache_bytes = kCacheBytes});
    const auto collection = Load(store, folder_.path());
    uint64_t taken = 0;
    for (const Part& part : collection->generation().parts()) {
      taken += static_cast<uint64_t>(part.fields->memory_bytes());
    }
    EXPECT_GT(taken, 0u);
    EXPECT_LE(taken, index_bytes);
    EXPECT_THAT(*store.MemoryPlan(folder_.path(), Residency::kHost), HasSubstr("  indexes of 6 fields"));
  }
  CollectionStore store(&cpu_, {.memory_budget_bytes = need - 1, .filter_cache_bytes = kCacheBytes});
  const absl::Status status = store.Load("corpus", folder_.path(), Residency::kHost).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  CollectionStore without(&cpu_, {.memory_budget_bytes = need - kCacheBytes, .filter_cache_bytes = 0});
  EXPECT_EQ(Load(without, folder_.path())->generation().filter_cache(), nullptr);
  CollectionStore roomy(&cpu_, {.memory_budget_bytes = 2 * need, .filter_cache_bytes = size_t{1} << 40});
  EXPECT_EQ(Load(roomy, folder_.path())->generation().filter_cache()->max_bytes(), 2 * need / kFilterCacheShare);
  cpu_.SetFreeBytes(1000);
  CollectionStore full(&cpu_, {.memory_reserve_bytes = 0, .filter_cache_bytes = 1001});
  EXPECT_THAT(full.Load("corpus", folder_.path(), Residency::kHost).status().ToString(),
              HasSubstr("memory.filter_cache"));
}

// On GPUs, indexes are in host memory, once for all replicas.
TEST_F(StoreFieldsTest, OnGpusIndexesAreTakenOfTheHostsBudget) {
  test::FakeBackend gpus[2] = {test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  DeviceSet devices({{&gpus[0], 0}, {&gpus[1], 1}}, OnDeviceLoss::kDegrade);
  uint64_t index_bytes = 0;
  for (const collection::ShardEntry& entry : manifest_.shards) index_bytes += FieldIndexBytes(manifest_, entry);
  constexpr size_t kCacheBytes = 10'000;
  const auto load = [&](size_t host_budget) {
    CollectionStore store(
        &devices, {.memory_reserve_bytes = 0, .host_budget_bytes = host_budget, .filter_cache_bytes = kCacheBytes});
    return store.Load("corpus", folder_.path(), Residency::kGpu, Replication::kOn);
  };
  const auto loaded = load(index_bytes + kCacheBytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectMatches(**loaded, random_.Tree(3));
  EXPECT_TRUE(absl::IsResourceExhausted(load(index_bytes + kCacheBytes - 1).status()));
}

// Unloading a collection must free the memory of its field indexes and of its cached filters.
TEST_F(StoreFieldsTest, AnUnloadFreesIndexesAndFilters) {
  const DeviceSet devices(&cpu_);
  constexpr size_t kCacheBytes = 100'000;
  const size_t need = CollectionNeed(devices, manifest_, Residency::kHost).device_bytes + kCacheBytes;
  CollectionStore store(&cpu_, {.memory_budget_bytes = need, .filter_cache_bytes = kCacheBytes});
  for (int round = 0; round < 3; ++round) {
    std::weak_ptr<const MatchingDocuments> known;
    {
      const auto collection = Load(store, folder_.path());
      ASSERT_NE(collection, nullptr);
      known = *collection->FindMatching(Filter::Exists("lang"));
      EXPECT_FALSE(known.expired()) << "the cache has it";
      EXPECT_EQ(*collection->FindMatching(Filter::Exists("lang")), known.lock());
    }
    ASSERT_TRUE(store.Unload("corpus").ok());
    EXPECT_TRUE(known.expired());
  }
}

TEST_F(StoreFieldsTest, ADamagedOrMissingFileFailsTheLoad) {
  const std::string path = folder_ / manifest_.shards[1].field_file->file;
  std::string bytes = test::ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  test::WriteFile(path, bytes);
  CollectionStore store(&cpu_, {.memory_reserve_bytes = 0});
  const absl::Status status = store.Load("corpus", folder_.path(), Residency::kAuto).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(manifest_.shards[1].field_file->file));
  std::filesystem::remove(path);
  EXPECT_FALSE(store.Load("corpus", folder_.path(), Residency::kAuto).ok());
}

// A collection without fields has a filter cache of its own. Its memory is reserved when it gets its first entry.
TEST_F(StoreFieldsTest, TheCacheOfCollectionsWithoutFieldsTakesMemoryWhenItIsUsed) {
  const test::TemporaryFolder folder;
  const collection::Manifest manifest = test::BuildCorpus(folder.path(), documents_, Options(/*with_fields=*/false));
  const DeviceSet devices(&cpu_);
  constexpr size_t kCacheBytes = 10'000;
  const size_t need = CollectionNeed(devices, manifest, Residency::kHost).device_bytes;
  const Filter filter = Filter::InSlots({0, 2000});
  const StoreOptions options{.memory_budget_bytes = 2 * need + kCacheBytes - 1, .filter_cache_bytes = kCacheBytes};
  ASSERT_GE(options.memory_budget_bytes / kFilterCacheShare, kCacheBytes);
  {
    CollectionStore store(&cpu_, options);
    const auto plain = Load(store, folder.path());
    const auto found = plain->FindMatching(filter);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*plain->FindMatching(filter), *found) << "the cache has it";
    EXPECT_TRUE(absl::IsResourceExhausted(store.Load("other", folder.path(), Residency::kHost).status()));
  }
  CollectionStore store(&cpu_, options);
  const auto plain = Load(store, folder.path());
  ASSERT_TRUE(store.Load("other", folder.path(), Residency::kHost).ok());
  const auto found = plain->FindMatching(filter);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT((*found)->num_documents(), 0u);
  EXPECT_NE(*plain->FindMatching(filter), *found) << "there is no memory to keep it";
  ASSERT_TRUE(store.Unload("other").ok());
  const auto later = plain->FindMatching(filter);
  EXPECT_EQ(*plain->FindMatching(filter), *later);
  CollectionStore without(&cpu_, {.memory_reserve_bytes = 0, .filter_cache_bytes = 0});
  EXPECT_EQ(Load(without, folder.path())->generation().filter_cache(), nullptr);
}

TEST(FilterCacheTest, TheLeastRecentlyUsedGoFirst) {
  const test::TemporaryFolder folder;
  test::CorpusOptions options;
  options.fields = *collection::ParseFields("n:integer");
  options.payloads = true;
  test::BuildCorpus(folder.path(), test::SmallDocuments(5, 2000), options);
  test::FakeBackend cpu;
  const auto collection = test::LoadCorpus(folder.path(), &cpu);
  const auto documents = *collection->FindMatching(Filter::Exists("n"));
  ASSERT_EQ(documents->num_documents(), 2000u);
  // Room for two of them, with their keys.
  FilterCache cache(2 * documents->memory_bytes() + 1000, nullptr);
  const uint64_t one = cache.AddGeneration();
  const uint64_t other = cache.AddGeneration();
  cache.Add(one, "a", documents);
  cache.Add(one, "b", documents);
  EXPECT_NE(cache.Find(one, "a"), nullptr);
  EXPECT_EQ(cache.Find(other, "a"), nullptr) << "of another generation";
  cache.Add(other, "c", documents);
  EXPECT_EQ(cache.Find(one, "b"), nullptr) << "the one that was not asked for";
  EXPECT_NE(cache.Find(one, "a"), nullptr);
  cache.Add(one, "a", documents);
  EXPECT_NE(cache.Find(other, "c"), nullptr) << "a filter that is known takes its own place";
  cache.DropGeneration(one);
  EXPECT_EQ(cache.Find(one, "a"), nullptr);
  EXPECT_NE(cache.Find(other, "c"), nullptr);
  cache.DropGeneration(other);
  EXPECT_EQ(cache.num_bytes(), 0u);
  FilterCache small(documents->memory_bytes(), nullptr);
  small.Add(one, "a", documents);
  EXPECT_EQ(small.Find(one, "a"), nullptr) << "larger than the cache";
  EXPECT_EQ(small.num_bytes(), 0u);
}

}  // namespace
}  // namespace maxsim::store
