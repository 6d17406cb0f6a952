// Tests partitions on whole servers: their positions, merged answers (which must equal those of the whole collection),
// which partitions a server accepts, and requests for a given generation.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/partition/repartition.h"
#include "collection/slots.h"
#include "kernels/rank_order.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/collections/partition_fixture.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using collection::PartitionOf;
using collection::SlotOf;
using collection::SlotRange;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class PartitionMergeTest : public PartitionServiceTest,
                           public testing::WithParamInterface<std::tuple<ScalarType, collection::IdType>> {};

// Merges the partitions' results as a router does: by score, and equal scores by position.
TEST_P(PartitionMergeTest, PartsInRankOrderAreTheWholeTiesIncluded) {
  const auto [storage, id_type] = GetParam();
  const std::vector<std::string> folders = MakePartitions(storage, id_type, 3);
  Start(std::nullopt);
  ASSERT_TRUE(Load("whole", root_ / "whole").ok());
  for (size_t idx = 0; idx < folders.size(); ++idx) {
    const grpc::Status loaded = Load("part-" + std::to_string(idx), folders[idx]);
    ASSERT_TRUE(loaded.ok()) << loaded.error_message();
  }
  for (const uint32_t top_k : {1u, 10u, 43u, 150u}) {
    const std::vector<RankedDocument> expected = Ranked(Result(Scan("whole", top_k)));
    ASSERT_EQ(expected.size(), top_k);
    std::vector<RankedDocument> merged;
    for (size_t idx = 0; idx < folders.size(); ++idx) {
      const std::vector<RankedDocument> part = Ranked(Result(Scan("part-" + std::to_string(idx), top_k)));
      merged.insert(merged.end(), part.begin(), part.end());
    }
    std::sort(merged.begin(), merged.end(), RanksBefore);
    ASSERT_GE(merged.size(), expected.size());
    merged.resize(expected.size());
    EXPECT_EQ(merged, expected) << "top " << top_k;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionMergeTest,
                         testing::Combine(testing::Values(ScalarType::kF16, ScalarType::kF32, ScalarType::kI8),
                                          testing::Values(collection::IdType::kString, collection::IdType::kInt64)));

TEST_F(PartitionServiceTest, ListedIdsOfOtherSlotsAreMissingAndPositionsAreThoseOfTheList) {
  const std::vector<std::string> folders = MakePartitions(ScalarType::kF16, collection::IdType::kString, 3);
  Start(PartitionOf(1, 3), folders[1]);
  v1::RerankRequest request = Scan("tied", 100);
  std::vector<std::string> foreign;
  size_t own = 0;
  for (int n = 0; n < 30; ++n) {
    const std::string id = "doc-" + std::to_string(n);
    request.mutable_candidates()->mutable_string_ids()->add_ids(id);
    if (PartitionOf(1, 3).contains(SlotOf(id))) {
      ++own;
    } else {
      foreign.push_back(id);
    }
  }
  ASSERT_GT(own, 3u);
  const v1::QueryResult result = Result(request);
  EXPECT_THAT(result.missing_string_ids().ids(), testing::ElementsAreArray(foreign));
  ASSERT_EQ(static_cast<size_t>(result.scores_size()), own);
  for (int i = 0; i < result.scores_size(); ++i) {
    EXPECT_EQ(result.string_ids().ids(i), "doc-" + std::to_string(result.positions(i)));
  }
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  v1::RerankResponse response;
  EXPECT_EQ(server_->Rerank(request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PartitionServiceTest, AServerTakesItsPartitionAlone) {
  const std::vector<std::string> folders = MakePartitions(ScalarType::kI8, collection::IdType::kString, 3);
  Start(PartitionOf(1, 3), folders[1]);
  const v1::CollectionInfo info = Info("tied");
  EXPECT_EQ(info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(info.partition().first_slot(), 1365u);
  EXPECT_EQ(info.partition().end_slot(), 2730u);
  EXPECT_EQ(info.rotation_seed(), collection::ReadManifest(folders[1])->rotation_seed);
  const grpc::Status other = Load("other", folders[2]);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(other.error_message(), HasSubstr("parts/partition-2-of-3: "));
  EXPECT_THAT(other.error_message(),
              HasSubstr("holds slots 2730 .. 4095, but this server is for slots 1365 .. 2729 (cluster.partition)"));
  const grpc::Status whole = Load("other", root_ / "whole");
  EXPECT_EQ(whole.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(whole.error_message(), HasSubstr("holds all slots, but this server is for slots 1365 .. 2729"));

  // A reload must check the partition, too: it must refuse the new generation, and the server must go on serving the
  // old one.
  std::filesystem::remove_all(folders[1]);
  std::filesystem::copy(folders[2], folders[1], std::filesystem::copy_options::recursive);
  grpc::ClientContext context;
  v1::ReloadCollectionRequest reload;
  reload.set_name("tied");
  v1::ReloadCollectionResponse reloaded;
  const grpc::Status status = server_->admin().ReloadCollection(&context, reload, &reloaded);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("holds slots 2730 .. 4095"));
  EXPECT_GT(Result(Scan("tied", 100)).scores_size(), 0);
  EXPECT_EQ(Info("tied").partition().first_slot(), 1365u);
}

TEST_F(PartitionServiceTest, AServerOfAllSlotsTakesWholeCollectionsAlone) {
  const std::vector<std::string> folders = MakePartitions(ScalarType::kF16, collection::IdType::kString, 3);
  Start(SlotRange(), root_ / "whole");
  EXPECT_EQ(Info("tied").state(), v1::COLLECTION_STATE_READY);
  EXPECT_FALSE(Info("tied").has_partition());
  const grpc::Status part = Load("part", folders[0]);
  EXPECT_EQ(part.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(part.error_message(), HasSubstr("holds slots 0 .. 1364, but this server is for all slots"));
}

TEST_F(PartitionServiceTest, AServerDoesNotStartOnAnotherPartition) {
  const std::vector<std::string> folders = MakePartitions(ScalarType::kF16, collection::IdType::kString, 3);
  config::Config config = TestConfig();
  config.store.partition = PartitionOf(0, 3);
  config.collections.push_back({.name = "tied", .path = folders[2]});
  const auto server = Server::Create(config, {});
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status started = (*server)->Start();
  EXPECT_EQ(started.code(), absl::StatusCode::kFailedPrecondition) << started;
  EXPECT_THAT(std::string(started.message()), StartsWith("collection tied: " + folders[2] +
                                                         ": holds slots 2730 .. 4095, but this server is for slots 0"));
}

TEST_F(PartitionServiceTest, ShardsThatAreOutOfOrderAreNotServed) {
  const std::string folder = MakePartitions(ScalarType::kF32, collection::IdType::kString, 2).front();
  collection::Manifest manifest = *collection::ReadManifest(folder);
  ASSERT_GE(manifest.shards.size(), 2u);
  std::swap(manifest.shards[0], manifest.shards[1]);
  ASSERT_TRUE(collection::PublishManifest(manifest, folder).ok());
  Start(std::nullopt);
  const grpc::Status status = Load("part", folder);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr("shard-000001-00000.safetensors: ordinals[0]: "));
  EXPECT_THAT(status.error_message(), HasSubstr(" is not above "));
}

TEST_F(PartitionServiceTest, AnEmptyPartitionAnswersWithNothing) {
  BuildCorpus(root_ / "whole", TiedDocuments(2), {.name = "tied"});
  ASSERT_TRUE(collection::SplitCollection(root_ / "whole", 64, {.output = root_ / "parts"}).ok());
  int32_t empty = 0;
  const auto folder = [&] { return collection::PartitionFolderName(root_ / "parts", SlotRange(), empty, 64); };
  while (collection::ReadManifest(folder())->num_documents > 0) ++empty;
  Start(PartitionOf(empty, 64), folder());
  EXPECT_EQ(Info("tied").state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(Result(Scan("tied", 10)).scores_size(), 0);
  v1::RerankRequest list = Scan("tied", 10);
  list.mutable_candidates()->mutable_string_ids()->add_ids("doc-0");
  EXPECT_THAT(Result(list).missing_string_ids().ids(), ElementsAre("doc-0"));
}

TEST_F(PartitionServiceTest, TheGenerationThatARequestAsksForMustBeTheServedOne) {
  MakePartitions(ScalarType::kF16, collection::IdType::kString, 2);
  Start(std::nullopt, root_ / "whole");
  v1::RerankRequest request = Scan("tied", 5);
  request.set_generation(1);
  v1::RerankResponse response;
  ASSERT_TRUE(server_->Rerank(request, &response).ok());
  EXPECT_EQ(response.generation(), 1u);
  request.set_generation(2);
  grpc::Status status = server_->Rerank(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "collection tied: is of generation 1, but generation 2 was asked for (generation)");
  EXPECT_THAT(HttpGet(server_->http_port(), "/metrics").body,
              HasSubstr("maxsim_rejections_total{reason=\"generation\"} 1\n"));

  v1::RerankRequest without = Scan("", 5);
  *without.mutable_candidates()->mutable_inline_documents()->add_documents() =
      ToProto(RandomTokens(1, ScalarType::kF32, kDim, 2));
  without.set_generation(1);
  status = server_->Rerank(without, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("generation: is 1, but no collection is named"));
}

TEST_F(PartitionServiceTest, ALiveCollectionHasNoGenerationToAskFor) {
  MakePartitions(ScalarType::kF16, collection::IdType::kString, 2);
  Start(std::nullopt, root_ / "whole", /*live=*/true);
  v1::RerankRequest request = Scan("tied", 5);
  request.set_generation(1);
  v1::RerankResponse response;
  const grpc::Status status = server_->Rerank(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("generation: is 1, but collection tied is live"));
  request.set_generation(0);
  EXPECT_TRUE(server_->Rerank(request, &response).ok());
}

}  // namespace
}  // namespace maxsim::test
