#include "server/store/collection/id_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collection/build/builder.h"
#include "collection/build/sources/memory_sources.h"
#include "collection/manifest.h"
#include "tests/support/collection/corpus.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

std::vector<std::shared_ptr<const collection::Shard>> OpenShards(const std::string& folder) {
  std::vector<std::shared_ptr<const collection::Shard>> shards;
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  for (const collection::ShardEntry& entry : manifest->shards) {
    auto shard = collection::Shard::Open(folder, *manifest, entry, collection::Access::kMapped, true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    shards.push_back(*std::move(shard));
  }
  return shards;
}

TEST(IdIndexTest, FindsEveryStringIdAcrossShards) {
  const test::TemporaryFolder folder;
  const test::CorpusOptions options = {.max_shard_bytes = 20'000};
  test::BuildCorpus(folder.path(), test::SmallDocuments(1, 500), options);
  const auto shards = OpenShards(folder.path());
  ASSERT_GE(shards.size(), 3u);
  // The first shard has "doc-9" and "doc-10", of different sizes. In the last shard all ids have three digits.
  EXPECT_EQ(shards.front()->ids().size, 0);
  EXPECT_EQ(shards.back()->ids().size, 7);
  const absl::StatusOr<IdIndex> index = IdIndex::Build(shards);
  ASSERT_TRUE(index.ok()) << index.status();
  for (int64_t document = 0; document < 500; ++document) {
    EXPECT_EQ(index->Find(test::CorpusId(options, document)), static_cast<uint64_t>(document));
  }
  for (const std::string& unknown : {std::string("doc-500"), std::string("doc-"), std::string(), std::string("DOC-1"),
                                     std::string("doc-1\0", 6), std::string(100'000, 'x')}) {
    EXPECT_EQ(index->Find(unknown), std::nullopt) << unknown.substr(0, 20);
  }
}

TEST(IdIndexTest, DocumentsWithATombstoneAreNotFoundAndMayComeAgain) {
  for (const collection::IdType id_type : {collection::IdType::kString, collection::IdType::kInt64}) {
    const test::TemporaryFolder folder;
    const test::CorpusOptions options = {.id_type = id_type, .max_shard_bytes = 20'000};
    test::BuildCorpus(folder.path(), test::SmallDocuments(1, 200), options);
    auto shards = OpenShards(folder.path());
    const auto first_size = static_cast<uint64_t>(shards[0]->documents().num_documents);
    // Uses one shard twice. Two of its documents are deleted (have a tombstone) in the first copy, the others in the
    // second.
    shards.resize(1);
    shards.push_back(shards[0]);
    collection::Tombstones tombstones(2);
    for (uint32_t n = 0; n < first_size; ++n) tombstones[n < 2 ? 0 : 1].push_back(n);
    const absl::StatusOr<IdIndex> index = IdIndex::Build(shards, nullptr, tombstones);
    ASSERT_TRUE(index.ok()) << index.status();
    for (int64_t n = 0; n < static_cast<int64_t>(first_size); ++n) {
      const auto found = id_type == collection::IdType::kString ? index->Find(test::CorpusId(options, n))
                                                                : index->Find(test::CorpusIntId(n));
      EXPECT_EQ(found, static_cast<uint64_t>(n) + (n < 2 ? first_size : 0)) << n;
    }
    EXPECT_EQ(IdIndex::Build(shards).status().code(), absl::StatusCode::kDataLoss) << "ids appear twice";
  }
}

TEST(IdIndexTest, FindsEveryIntegerIdAcrossShards) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(2, 500),
                    {.id_type = collection::IdType::kInt64, .max_shard_bytes = 20'000});
  const auto shards = OpenShards(folder.path());
  ASSERT_GE(shards.size(), 3u);
  const absl::StatusOr<IdIndex> index = IdIndex::Build(shards);
  ASSERT_TRUE(index.ok()) << index.status();
  for (int64_t document = 0; document < 500; ++document) {
    EXPECT_EQ(index->Find(test::CorpusIntId(document)), static_cast<uint64_t>(document));
  }
  for (int64_t unknown : {int64_t{999}, int64_t{1500}, int64_t{0}, int64_t{-1000}, std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(index->Find(unknown), std::nullopt) << unknown;
  }
}

// Publishes a collection of documents with these ids and one token each, in a few shards.
void BuildInts(const std::string& folder, const std::vector<int64_t>& ids) {
  collection::Catalog catalog(collection::IdType::kInt64);
  for (const int64_t id : ids) {
    catalog.lengths.push_back(1);
    ASSERT_TRUE(catalog.ids.Add(id).ok());
  }
  const std::vector<uint16_t> values(ids.size() * 8);
  collection::MemoryTokens tokens(collection::ElementType::kF16, 8, static_cast<int64_t>(ids.size()), values.data());
  collection::BuildOptions options;
  options.folder = folder;
  options.name = "ints";
  options.max_shard_bytes = collection::kMinMaxShardBytes;
  const auto manifest = collection::BuildCollection(options, catalog, tokens, nullptr);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
}

constexpr int64_t kMinId = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxId = std::numeric_limits<int64_t>::max();

struct IntCase {
  const char* name;
  std::vector<int64_t> ids;
  bool has_table;
};

std::vector<IntCase> IntCases() {
  std::vector<IntCase> cases = {{"counted from 0", {}, false},
                                {"counted from the least", {}, false},
                                {"counted to the most", {}, false},
                                {"close, backwards", {}, true},
                                {"close around 0 with gaps", {}, true},
                                {"scattered", {}, true},
                                {"the least and the most", {0, kMaxId, kMinId, 1, -1}, true},
                                {"from the most over to the least", {kMaxId - 1, kMaxId, kMinId, kMinId + 1}, true},
                                {"one", {42}, false},
                                {"the most alone", {kMaxId}, false}};
  for (int64_t n = 0; n < 1000; ++n) {
    cases[0].ids.push_back(n);
    cases[1].ids.push_back(kMinId + n);
    cases[2].ids.push_back(kMaxId - 999 + n);
    cases[3].ids.push_back(-n);
    cases[4].ids.push_back(n - 500 + n / 10);
    cases[5].ids.push_back(static_cast<int64_t>(static_cast<uint64_t>(n) * 0x9e3779b97f4a7c15u));
  }
  return cases;
}

TEST(IdIndexTest, IntegerIdsAreFoundHoweverTheyLie) {
  for (const IntCase& one : IntCases()) {
    SCOPED_TRACE(one.name);
    const test::TemporaryFolder folder;
    BuildInts(folder.path(), one.ids);
    const absl::StatusOr<IdIndex> index = IdIndex::Build(OpenShards(folder.path()));
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->num_bytes() > 0, one.has_table);
    EXPECT_LE(index->num_bytes(), IdIndex::NumBytes(one.ids.size()));
    std::map<int64_t, uint64_t> expected;
    for (size_t n = 0; n < one.ids.size(); ++n) {
      expected[one.ids[n]] = n;
      ASSERT_EQ(index->int_id(n), one.ids[n]) << n;
    }
    // Asks for each id, for its neighbours, and for both ends of the range of ids.
    std::vector<int64_t> asked = {kMinId, kMinId + 1, -1, 0, 1, kMaxId - 1, kMaxId};
    for (const int64_t id : one.ids) {
      asked.push_back(id);
      if (id != kMinId) asked.push_back(id - 1);
      if (id != kMaxId) asked.push_back(id + 1);
    }
    std::vector<uint64_t> ordinals(asked.size(), 7);
    index->FindAll(asked, absl::MakeSpan(ordinals));
    for (size_t n = 0; n < asked.size(); ++n) {
      const auto known = expected.find(asked[n]);
      ASSERT_EQ(ordinals[n], known == expected.end() ? IdIndex::kUnknown : known->second) << asked[n];
      ASSERT_EQ(index->Find(asked[n]).value_or(IdIndex::kUnknown), ordinals[n]) << asked[n];
    }
  }
}

// Some shards have ids of equal sizes, and others of different sizes.
TEST(IdIndexTest, AListOfAnyLengthFindsWhatFindDoes) {
  const test::TemporaryFolder folder;
  const test::CorpusOptions options = {.max_shard_bytes = 20'000};
  test::BuildCorpus(folder.path(), test::SmallDocuments(1, 500), options);
  const auto shards = OpenShards(folder.path());
  ASSERT_EQ(shards.front()->ids().size, 0);
  ASSERT_EQ(shards.back()->ids().size, 7);
  const absl::StatusOr<IdIndex> index = IdIndex::Build(shards);
  ASSERT_TRUE(index.ok()) << index.status();
  std::vector<std::string> ids;
  // Two ids in seven are unknown.
  for (int64_t n = 0; n < 1000; ++n) ids.push_back(test::CorpusId(options, n * 7 % 700));
  ids[3] = "";
  ids[40] = std::string(512, 'x');
  for (const size_t count : {0, 1, 2, 31, 32, 33, 63, 64, 65, 999, 1000}) {
    std::vector<const std::string*> asked;
    for (size_t n = 0; n < count; ++n) asked.push_back(&ids[n]);
    std::vector<uint64_t> ordinals(count + 1, 7);
    index->FindAll(asked, absl::MakeSpan(ordinals).first(count));
    for (size_t n = 0; n < count; ++n) {
      ASSERT_EQ(ordinals[n], index->Find(ids[n]).value_or(IdIndex::kUnknown)) << ids[n];
    }
    EXPECT_EQ(ordinals[count], 7u) << "beyond the list";
  }
}

TEST(IdIndexTest, TakesTwelveBytesADocument) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(3, 1000));
  const absl::StatusOr<IdIndex> index = IdIndex::Build(OpenShards(folder.path()));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->num_bytes(), IdIndex::NumBytes(1000));
  EXPECT_LE(index->num_bytes(), 12u * 1000 + 8);
}

TEST(IdIndexTest, AnIndexOfNothingFindsNothing) {
  const absl::StatusOr<IdIndex> index = IdIndex::Build({});
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->Find("a"), std::nullopt);
  EXPECT_EQ(index->Find(int64_t{1}), std::nullopt);
  const std::string id = "a";
  uint64_t ordinal = 7;
  index->FindAll(std::vector<const std::string*>{&id}, absl::MakeSpan(&ordinal, 1));
  EXPECT_EQ(ordinal, IdIndex::kUnknown);
  ordinal = 7;
  index->FindAll(std::vector<int64_t>{0}, absl::MakeSpan(&ordinal, 1));
  EXPECT_EQ(ordinal, IdIndex::kUnknown);
  EXPECT_EQ(index->num_bytes(), 0u);
}

// A builder refuses equal ids in one build. Shards of two builds come together only when they are loaded.
TEST(IdIndexTest, AStringIdInTwoShardsIsDataLossNamingBothPlaces) {
  const test::TemporaryFolder first;
  const test::TemporaryFolder second;
  test::BuildCorpus(first.path(), test::SmallDocuments(4, 3));
  test::BuildCorpus(second.path(), test::SmallDocuments(5, 1));
  auto shards = OpenShards(first.path());
  shards.push_back(OpenShards(second.path()).front());
  const absl::Status status = IdIndex::Build(shards).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("\"doc-0\" appears twice"));
  EXPECT_THAT(status.message(), HasSubstr(shards[0]->path()));
  EXPECT_THAT(status.message(), HasSubstr(shards[1]->path()));
}

TEST(IdIndexTest, AnIntegerIdInTwoShardsIsDataLoss) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(6, 3), {.id_type = collection::IdType::kInt64});
  auto shards = OpenShards(folder.path());
  shards.push_back(shards.front());
  const absl::Status status = IdIndex::Build(shards).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("1000 appears twice"));
}

}  // namespace
}  // namespace maxsim::store
