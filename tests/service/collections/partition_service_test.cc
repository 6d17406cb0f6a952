// Tests partitions through whole servers: their positions, that together they answer as the whole collection does,
// which of them a server takes, what may be written to them, and generations that requests ask for.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/partition/repartition.h"
#include "collection/positions.h"
#include "collection/slots.h"
#include "kernels/rank_order.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using collection::PartitionOf;
using collection::SlotOf;
using collection::SlotRange;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct RankedDocument {
  float score = 0;
  uint64_t position = 0;
  std::string id;
  std::string payload;

  // Compares the bits of scores.
  friend bool operator==(const RankedDocument& a, const RankedDocument& b) {
    return std::bit_cast<uint32_t>(a.score) == std::bit_cast<uint32_t>(b.score) && a.position == b.position &&
           a.id == b.id && a.payload == b.payload;
  }
  friend std::ostream& operator<<(std::ostream& out, const RankedDocument& hit) {
    return out << hit.id << " at " << hit.position << ": " << hit.score;
  }
};

std::vector<RankedDocument> Ranked(const v1::QueryResult& result) {
  std::vector<RankedDocument> hits;
  for (int i = 0; i < result.scores_size(); ++i) {
    hits.push_back({result.scores(i), result.positions(i),
                    result.has_string_ids() ? result.string_ids().ids(i) : std::to_string(result.int_ids().ids(i)),
                    i < result.payloads_size() ? result.payloads(i) : ""});
  }
  return hits;
}

// Returns `count` documents of which only the first seven are different: every score comes many times.
RandomDocuments TiedDocuments(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t document = 0; document < count; ++document) lengths.push_back(1 + document % 7);
  RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF32, kDim, lengths);
  for (int64_t document = 7; document < count; ++document) {
    for (int64_t token = 0; token < documents.length(document); ++token) {
      documents.tokens.CopyRow(documents.tokens, documents.offsets[static_cast<size_t>(document % 7)] + token,
                               documents.offsets[static_cast<size_t>(document)] + token);
    }
  }
  return documents;
}

// Returns the first ids of a numbered list whose slots are in a range.
std::vector<std::string> IdsOf(const SlotRange& slots, size_t count) {
  std::vector<std::string> ids;
  for (int n = 0; ids.size() < count; ++n) {
    if (slots.contains(SlotOf("w" + std::to_string(n)))) ids.push_back("w" + std::to_string(n));
  }
  return ids;
}

class PartitionServiceTest : public testing::Test {
 protected:
  // Makes `count` partitions of a collection that is built in `storage`, and returns their folders.
  std::vector<std::string> MakePartitions(ScalarType storage, collection::IdType id_type, int32_t count) {
    CorpusOptions options{.name = "tied", .id_type = id_type, .max_shard_bytes = 20'000, .payloads = true};
    options.storage = storage;
    BuildCorpus(root_ / "whole", TiedDocuments(150), options);
    const auto parts =
        collection::SplitCollection(root_ / "whole", count, {.output = root_ / "parts", .max_shard_bytes = 12'000});
    EXPECT_TRUE(parts.ok()) << parts.status();
    std::vector<std::string> folders;
    for (const auto& one : collection::PartitionFolders(root_ / "parts", SlotRange(), count)) {
      folders.push_back(one.folder);
    }
    return folders;
  }

  // Starts a server that serves the folder, if any, as "tied".
  RunningServer& Start(std::optional<SlotRange> partition, const std::string& folder = "", bool live = false) {
    server_.reset();
    server_ = std::make_unique<RunningServer>([&](config::Config* config) {
      config->allowed_roots = {root_.path()};
      config->store.partition = partition;
      config->live.compact = false;
      config->collections.clear();
      if (!folder.empty()) config->collections.push_back({.name = "tied", .path = folder, .live = live});
    });
    documents_ = v1::Documents::NewStub(server_->channel());
    return *server_;
  }

  grpc::Status Load(const std::string& name, const std::string& path) {
    grpc::ClientContext context;
    v1::LoadCollectionRequest request;
    request.set_name(name);
    request.set_path(path);
    v1::LoadCollectionResponse response;
    return server_->admin().LoadCollection(&context, request, &response);
  }

  v1::CollectionInfo Info(const std::string& name) {
    grpc::ClientContext context;
    v1::ListCollectionsResponse response;
    EXPECT_TRUE(server_->admin().ListCollections(&context, {}, &response).ok());
    for (const v1::CollectionInfo& info : response.collections()) {
      if (info.name() == name) return info;
    }
    ADD_FAILURE() << "no collection " << name;
    return {};
  }

  v1::RerankRequest Scan(const std::string& name, uint32_t top_k) {
    v1::RerankRequest request = MakeRequest(name, MakeQuery(11, ScalarType::kF32, kDim, 6), /*ids=*/{}, top_k);
    request.mutable_candidates()->mutable_whole_collection();
    request.set_return_payloads(true);
    return request;
  }

  v1::QueryResult Result(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? response.results(0) : v1::QueryResult();
  }

  grpc::Status Upsert(const std::string& name, const std::vector<std::string>& ids) {
    v1::UpsertRequest request;
    request.set_collection(name);
    for (const std::string& id : ids) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      *document.mutable_tokens() = ToProto(RandomTokens(5, ScalarType::kF32, kDim, 3));  // all alike: they tie
    }
    grpc::ClientContext context;
    v1::UpsertResponse response;
    return documents_->Upsert(&context, request, &response);
  }

  // Returns "id@position" of each document, in rank order. Positions of writes are their sequences behind a "+".
  std::vector<std::string> IdsAndPositions(const std::string& name) {
    std::vector<std::string> all;
    for (const RankedDocument& hit : Ranked(Result(Scan(name, 100)))) {
      const auto first = static_cast<uint64_t>(collection::kFirstWrittenPosition);
      all.push_back(hit.id + (hit.position >= first ? "+" + std::to_string(hit.position - first)
                                                    : "@" + std::to_string(hit.position)));
    }
    return all;
  }

  TemporaryFolder root_;
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<v1::Documents::Stub> documents_;
};

class PartitionMergeTest : public PartitionServiceTest,
                           public testing::WithParamInterface<std::tuple<ScalarType, collection::IdType>> {};

// What a router does: it merges the parts in rank order by score and position, and looks at nothing else.
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
              HasSubstr("holds slots 2730 .. 4095, and this server is for slots 1365 .. 2729 (cluster.partition)"));
  const grpc::Status whole = Load("other", root_ / "whole");
  EXPECT_EQ(whole.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(whole.error_message(), HasSubstr("holds all slots, and this server is for slots 1365 .. 2729"));

  // What is published in the folder later on is looked at as well, and the one before goes on.
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
  EXPECT_THAT(part.error_message(), HasSubstr("holds slots 0 .. 1364, and this server is for all slots"));
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
                                                         ": holds slots 2730 .. 4095, and this server is for slots 0"));
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
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
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
  EXPECT_EQ(not_deleted.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(not_deleted.error_message(), StartsWith("string_ids.ids[1]: is \"" + foreign + "\", of slot "));

  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("news");
  get.mutable_string_ids()->add_ids(foreign);
  v1::GetResponse got;
  ASSERT_TRUE(documents_->Get(&get_context, get, &got).ok());
  EXPECT_THAT(got.missing_string_ids().ids(), ElementsAre(foreign));
}

// All documents tie, so that the rank order is that of positions.
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
  EXPECT_EQ(status.error_message(), "collection tied: is of generation 1, and generation 2 was asked for (generation)");
  EXPECT_THAT(HttpGet(server_->http_port(), "/metrics").body,
              HasSubstr("maxsim_rejections_total{reason=\"generation\"} 1\n"));

  v1::RerankRequest without = Scan("", 5);
  *without.mutable_candidates()->mutable_inline_documents()->add_documents() =
      ToProto(RandomTokens(1, ScalarType::kF32, kDim, 2));
  without.set_generation(1);
  status = server_->Rerank(without, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("generation: is 1, and no collection is named"));
}

TEST_F(PartitionServiceTest, ALiveCollectionHasNoGenerationToAskFor) {
  MakePartitions(ScalarType::kF16, collection::IdType::kString, 2);
  Start(std::nullopt, root_ / "whole", /*live=*/true);
  v1::RerankRequest request = Scan("tied", 5);
  request.set_generation(1);
  v1::RerankResponse response;
  const grpc::Status status = server_->Rerank(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("generation: is 1, and collection tied is live"));
  request.set_generation(0);
  EXPECT_TRUE(server_->Rerank(request, &response).ok());
}

}  // namespace
}  // namespace maxsim::test
