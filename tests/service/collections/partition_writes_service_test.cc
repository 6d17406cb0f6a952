// Tests which documents a client may write to a partition, and the positions of written documents.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/partition/repartition.h"
#include "collection/slots.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/collections/partition_fixture.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using collection::PartitionOf;
using collection::SlotOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(PartitionServiceTest, ACreatedCollectionIsThePartitionAndTakesItsIdsAlone) {
  Start(PartitionOf(2, 3));
  grpc::ClientContext context;
  v1::CreateCollectionRequest create;
  create.set_name("news");
  create.set_dim(kDim);
  v1::CreateCollectionResponse created;
  const grpc::Status status = server_->admin().CreateCollection(&context, create, &created);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(created.collection().partition().first_slot(), 2730u);
  EXPECT_EQ(created.collection().partition().end_slot(), 4096u);
  const std::vector<std::string> own = IdsOf(PartitionOf(2, 3), 2);
  const std::string foreign = IdsOf(PartitionOf(0, 3), 1).front();
  ASSERT_TRUE(Upsert("news", own).ok());
  const grpc::Status refused = Upsert("news", {own[0], foreign});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(),
              StartsWith("documents[1].string_id: is \"" + foreign + "\", of slot " + std::to_string(SlotOf(foreign))));
  EXPECT_THAT(refused.error_message(), HasSubstr("has slots 2730 .. 4095"));
  EXPECT_THAT(IdsAndPositions("news"), ElementsAre(own[0] + "+1", own[1] + "+2")) << "nothing of the call was written";

  grpc::ClientContext delete_context;
  v1::DeleteRequest deletes;
  deletes.set_collection("news");
  deletes.mutable_string_ids()->add_ids(own[0]);
  deletes.mutable_string_ids()->add_ids(foreign);
  v1::DeleteResponse deleted;
  const grpc::Status not_deleted = documents_->Delete(&delete_context, deletes, &deleted);
  EXPECT_EQ(not_deleted.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(not_deleted.error_message(), StartsWith("string_ids.ids[1]: is \"" + foreign + "\", of slot "));

  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("news");
  get.mutable_string_ids()->add_ids(foreign);
  v1::GetResponse got;
  ASSERT_TRUE(documents_->Get(&get_context, get, &got).ok());
  EXPECT_THAT(got.missing_string_ids().ids(), ElementsAre(foreign));
}

// All documents have the same score, so that positions alone decide the rank order.
TEST_F(PartitionServiceTest, PositionsOfALivePartitionStayThroughCompactionsAndRestarts) {
  std::vector<int64_t> lengths(20, 3);
  RandomDocuments documents = MakeDocuments(5, ScalarType::kF32, kDim, lengths);
  const TokenMatrix written = RandomTokens(5, ScalarType::kF32, kDim, 3);
  for (int64_t token = 0; token < 60; ++token) documents.tokens.CopyRow(written, token % 3, token);
  CorpusOptions options{.name = "tied", .payloads = true};
  options.storage = ScalarType::kF32;
  BuildCorpus(root_ / "whole", documents, options);
  ASSERT_TRUE(collection::SplitCollection(root_ / "whole", 2, {.output = root_ / "parts"}).ok());
  const std::string folder = root_ / "parts/partition-1-of-2";
  std::vector<std::string> cut;
  for (int n = 0; n < 20; ++n) {
    const std::string id = "doc-" + std::to_string(n);
    if (PartitionOf(1, 2).contains(SlotOf(id))) cut.push_back(id + "@" + std::to_string(n));
  }
  ASSERT_GT(cut.size(), 3u);
  const std::vector<std::string> ids = IdsOf(PartitionOf(1, 2), 3);
  const auto compact = [&] {
    grpc::ClientContext context;
    v1::CompactCollectionRequest request;
    request.set_name("tied");
    v1::CompactCollectionResponse response;
    const grpc::Status status = server_->admin().CompactCollection(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(response.changed());
  };
  const auto with = [](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };

  Start(PartitionOf(1, 2), folder, /*live=*/true);
  EXPECT_EQ(IdsAndPositions("tied"), cut);
  const std::string replaced = cut[0].substr(0, cut[0].find('@'));
  ASSERT_TRUE(Upsert("tied", {ids[0], ids[1], replaced}).ok());
  cut.erase(cut.begin());
  std::vector<std::string> expected = with(cut, {ids[0] + "+1", ids[1] + "+2", replaced + "+3"});
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "in segments";
  Start(PartitionOf(1, 2), folder);
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "replayed";
  compact();
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "compacted";
  ASSERT_TRUE(Upsert("tied", {ids[0], ids[2]}).ok());
  expected = with(cut, {ids[1] + "+2", replaced + "+3", ids[0] + "+4", ids[2] + "+5"});
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "in shards and segments";
  Start(PartitionOf(1, 2), folder);
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "replayed behind a compaction";
  compact();
  EXPECT_EQ(IdsAndPositions("tied"), expected) << "compacted again";
  Start(PartitionOf(1, 2), folder);
  EXPECT_EQ(IdsAndPositions("tied"), expected);
}

}  // namespace
}  // namespace maxsim::test
