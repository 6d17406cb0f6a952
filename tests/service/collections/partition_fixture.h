// Splits a collection in which many documents have equal scores, and serves the partitions.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collection/partition/repartition.h"
#include "collection/positions.h"
#include "collection/slots.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {

using collection::SlotOf;
using collection::SlotRange;

struct RankedDocument {
  float score = 0;
  uint64_t position = 0;
  std::string id;
  std::string payload;

  // Returns whether ids and positions are equal, and scores have the same bits.
  friend bool operator==(const RankedDocument& a, const RankedDocument& b) {
    return std::bit_cast<uint32_t>(a.score) == std::bit_cast<uint32_t>(b.score) && a.position == b.position &&
           a.id == b.id && a.payload == b.payload;
  }
  friend std::ostream& operator<<(std::ostream& out, const RankedDocument& hit) {
    return out << hit.id << " at " << hit.position << ": " << hit.score;
  }
};

inline std::vector<RankedDocument> Ranked(const v1::QueryResult& result) {
  std::vector<RankedDocument> hits;
  for (int i = 0; i < result.scores_size(); ++i) {
    hits.push_back({result.scores(i), result.positions(i),
                    result.has_string_ids() ? result.string_ids().ids(i) : std::to_string(result.int_ids().ids(i)),
                    i < result.payloads_size() ? result.payloads(i) : ""});
  }
  return hits;
}

// Returns `count` documents with seven different sets of vectors, so that many documents have equal scores.
inline RandomDocuments TiedDocuments(int64_t count) {
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

// Returns the first `count` ids of a numbered list whose slots are in a range.
inline std::vector<std::string> IdsOf(const SlotRange& slots, size_t count) {
  std::vector<std::string> ids;
  for (int n = 0; ids.size() < count; ++n) {
    if (slots.contains(SlotOf("w" + std::to_string(n)))) ids.push_back("w" + std::to_string(n));
  }
  return ids;
}

class PartitionServiceTest : public testing::Test {
 protected:
  // Builds a collection with the storage type `storage`, split into `count` partitions. Returns the partitions'
  // folders.
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
      *document.mutable_tokens() = ToProto(RandomTokens(5, ScalarType::kF32, kDim, 3));  // equal, so they tie
    }
    grpc::ClientContext context;
    v1::UpsertResponse response;
    return documents_->Upsert(&context, request, &response);
  }

  // Returns "id@position" of each document in rank order or, for documents that were written live, "id+sequence".
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

}  // namespace maxsim::test
