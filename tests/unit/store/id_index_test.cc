#include "server/store/id_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "server/shard/manifest.h"
#include "tests/unit/store/corpus.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

std::vector<std::shared_ptr<const shard::Shard>> OpenShards(const std::string& folder) {
  std::vector<std::shared_ptr<const shard::Shard>> shards;
  const absl::StatusOr<shard::Manifest> manifest = shard::ReadManifest(folder);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  for (const shard::ShardEntry& entry : manifest->shards) {
    auto shard = shard::Shard::Open(folder, *manifest, entry, shard::Access::kMapped, true);
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

TEST(IdIndexTest, FindsEveryIntegerIdAcrossShards) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(2, 500),
                    {.id_type = shard::IdType::kInt64, .max_shard_bytes = 20'000});
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
  EXPECT_EQ(index->num_bytes(), 0u);
}

// A builder refuses duplicates in one build; shards from two builds meet only here.
TEST(IdIndexTest, AStringIdInTwoShardsIsDataLossNamingBothPlaces) {
  const test::TemporaryFolder first;
  const test::TemporaryFolder second;
  test::BuildCorpus(first.path(), test::SmallDocuments(4, 3));
  test::BuildCorpus(second.path(), test::SmallDocuments(5, 1));
  auto shards = OpenShards(first.path());
  shards.push_back(OpenShards(second.path()).front());
  const absl::Status status = IdIndex::Build(shards).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("\"doc-0\" stands twice"));
  EXPECT_THAT(status.message(), HasSubstr(shards[0]->path()));
  EXPECT_THAT(status.message(), HasSubstr(shards[1]->path()));
}

TEST(IdIndexTest, AnIntegerIdInTwoShardsIsDataLoss) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(6, 3), {.id_type = shard::IdType::kInt64});
  auto shards = OpenShards(folder.path());
  shards.push_back(shards.front());
  const absl::Status status = IdIndex::Build(shards).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("1000 stands twice"));
}

}  // namespace
}  // namespace maxsim::store
