// Tests the client's calls that write and read documents, with a fake server whose answers each test chooses.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/messages.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace maxsim::client {
namespace {

class ClientDocumentsTest : public ::testing::Test {
 protected:
  ClientDocumentsTest() {
    ClientOptions options;
    options.target = server_.target();
    options.bearer_token = "secret";
    options.retry.initial_backoff = absl::Milliseconds(5);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  static v1::UpsertRequest TwoDocuments() {
    v1::UpsertRequest request;
    request.set_collection("notes");
    *request.add_documents() = MakeDocument("a", MakeTokens(std::vector<float>(16, 0.25f), 8));
    request.mutable_documents(0)->set_payload(R"({"title": "A"})");
    request.mutable_documents(0)->set_version(3);
    *request.add_documents() = MakeTextDocument("b", "how do birds fly");
    return request;
  }

  test::FakeServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientDocumentsTest, AnUpsertArrivesWholeAndItsResultsComeBack) {
  std::string seen;
  server_.on_upsert = [&](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
    seen = request.SerializeAsString();
    response.add_results()->set_outcome(v1::WRITE_OUTCOME_STALE);
    v1::WriteResult* applied = response.add_results();
    applied->set_outcome(v1::WRITE_OUTCOME_APPLIED);
    applied->set_sequence(7);
    response.set_sequence(7);
    response.set_encoded_tokens(12);
    return grpc::Status::OK;
  };
  const v1::UpsertRequest request = TwoDocuments();
  const auto response = client_->Upsert(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(seen, request.SerializeAsString());
  ASSERT_EQ(response->results_size(), 2);
  EXPECT_EQ(response->results(0).outcome(), v1::WRITE_OUTCOME_STALE);
  EXPECT_EQ(response->results(1).sequence(), 7);
  EXPECT_EQ(response->sequence(), 7);
  EXPECT_EQ(response->encoded_tokens(), 12);
  EXPECT_EQ(server_.metadata("authorization"), "Bearer secret");
}

TEST_F(ClientDocumentsTest, AWriteIsMadeAgainWhileTheLogOrTheMemoryHasNoRoom) {
  server_.on_upsert = [&](auto&, auto&, v1::UpsertResponse& response) {
    absl::Status full = absl::ResourceExhaustedError("the memory for changed documents is full");
    SetRetryAfter(absl::Milliseconds(1), full);
    switch (server_.num_document_calls) {
      case 1:
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the log cannot be written");
      case 2:
        return ToGrpcStatus(full);
      default:
        response.set_sequence(9);
        return grpc::Status::OK;
    }
  };
  const auto response = client_->Upsert(TwoDocuments());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->sequence(), 9);
  EXPECT_EQ(server_.num_document_calls, 3);
}

TEST_F(ClientDocumentsTest, DeletesAndReadsAreMadeAgainToo) {
  const auto once = [&] {
    return server_.num_document_calls % 2 == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")
                                               : grpc::Status::OK;
  };
  server_.on_delete = [&](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
    response.set_sequence(request.version());
    for (int i = 0; i < request.string_ids().ids_size(); ++i) {
      response.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
    }
    return once();
  };
  server_.on_get = [&](auto&, const v1::GetRequest& request, v1::GetResponse& response) {
    *response.mutable_missing_int_ids() = request.int_ids();
    response.set_sequence(request.min_sequence());
    return once();
  };
  v1::DeleteRequest gone;
  gone.set_collection("notes");
  gone.set_version(5);
  gone.mutable_string_ids()->add_ids("a");
  const auto deleted = client_->Delete(gone);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->results(0).outcome(), v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(deleted->sequence(), 5);
  v1::GetRequest wanted;
  wanted.mutable_int_ids()->add_ids(-3);
  wanted.set_min_sequence(8);
  const auto read = client_->Get(wanted);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->missing_int_ids().ids(0), -3);
  EXPECT_EQ(read->sequence(), 8);
  EXPECT_EQ(server_.num_document_calls, 4);
}

// One answer to a delete with a filter.
struct Deletes {
  uint64_t num_deleted = 0, num_missing = 0, num_stale = 0, sequence = 0;
  bool has_more = false;
};

class ClientDeletesTest : public ClientDocumentsTest {
 protected:
  ClientDeletesTest() {
    request_.set_collection("notes");
    request_.set_filter_text("year < 2000");
  }

  // The server gives these answers, one to each call. After the last one, it fails.
  void Answer(std::vector<Deletes> answers) {
    seen_.clear();
    server_.on_delete = [this, answers](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
      EXPECT_EQ(request.filter_text(), "year < 2000");
      const size_t idx = seen_.size();
      seen_.push_back(request.min_sequence());
      if (idx >= answers.size()) return grpc::Status(grpc::StatusCode::INTERNAL, "a fault");
      response.set_num_deleted(answers[idx].num_deleted);
      response.set_num_missing(answers[idx].num_missing);
      response.set_num_stale(answers[idx].num_stale);
      response.set_sequence(answers[idx].sequence);
      response.set_has_more(answers[idx].has_more);
      return grpc::Status::OK;
    };
  }

  v1::DeleteRequest request_;
  std::vector<uint64_t> seen_;  // min_sequence of each call
};

TEST_F(ClientDeletesTest, CallsAreRepeatedUntilThereIsNoMore) {
  Answer({{.num_deleted = 100, .sequence = 120, .has_more = true},
          {.num_missing = 100, .sequence = 120, .has_more = true},
          {.num_stale = 100, .sequence = 125, .has_more = true},
          {.num_deleted = 3, .num_missing = 1, .sequence = 128}});
  request_.set_min_sequence(7);
  const auto deleted = client_->DeleteMatching(request_);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->num_deleted(), 103u);
  EXPECT_EQ(deleted->num_missing(), 101u);
  EXPECT_EQ(deleted->num_stale(), 100u);
  EXPECT_EQ(deleted->sequence(), 128u);
  EXPECT_FALSE(deleted->has_more());
  EXPECT_EQ(seen_, (std::vector<uint64_t>{7, 120, 120, 125})) << "a replica that lags must not be asked";
}

TEST_F(ClientDeletesTest, AnErrorSaysWhatWasDeletedBeforeIt) {
  Answer({{.num_deleted = 100, .sequence = 120, .has_more = true}});
  const absl::Status status = client_->DeleteMatching(request_).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(NumDeletedOf(status), 100u);
  Answer({});
  EXPECT_EQ(NumDeletedOf(client_->DeleteMatching(request_).status()), std::nullopt);
}

TEST_F(ClientDeletesTest, DeletesOfFailedAttemptsAreCounted) {
  const auto partly = [](uint64_t num_deleted) {
    absl::Status status = absl::UnavailableError("the server is draining (group b)");
    SetPartlyDeleted(num_deleted, status);
    return ToGrpcStatus(status);
  };
  int num_calls = 0;
  server_.on_delete = [&](auto&, const v1::DeleteRequest&, v1::DeleteResponse& response) {
    ++num_calls;
    if (num_calls != 3) return partly(static_cast<uint64_t>(num_calls));
    response.set_num_deleted(100);
    response.set_has_more(true);
    return grpc::Status::OK;
  };
  // After the third call, all attempts fail.
  const absl::Status status = client_->DeleteMatching(request_, {.max_attempts = 3}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(num_calls, 6);
  EXPECT_EQ(NumDeletedOf(status), 1u + 2u + 100u + 4u + 5u + 6u);
  EXPECT_EQ(ReasonOf(status), kReasonPartlyDeleted);
  server_.on_delete = [&](auto&, const v1::DeleteRequest&, v1::DeleteResponse& response) {
    if (++num_calls == 7) return partly(20);
    response.set_num_deleted(3);
    return grpc::Status::OK;
  };
  const auto deleted = client_->DeleteMatching(request_);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->num_deleted(), 23u);
}

TEST_F(ClientDeletesTest, ARequestWithoutAFilterIsNotSent) {
  Answer({{.num_deleted = 1}});
  request_.clear_matching();
  EXPECT_EQ(FieldOf(client_->DeleteMatching(request_).status()), "filter");
  request_.mutable_string_ids()->add_ids("a");
  EXPECT_EQ(FieldOf(client_->DeleteMatching(request_).status()), "filter");
  EXPECT_EQ(seen_.size(), 0u);
}

TEST_F(ClientDeletesTest, AnAnswerThatWouldRepeatForEverIsAnError) {
  Answer({{.sequence = 120, .has_more = true}, {.sequence = 120, .has_more = true}});
  EXPECT_TRUE(absl::IsInternal(client_->DeleteMatching(request_).status()));
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(ClientDocumentsTest, ListsAndCountsAreMadeAgainToo) {
  const auto once = [&] {
    return server_.num_document_calls % 2 == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")
                                               : grpc::Status::OK;
  };
  server_.on_count = [&](auto&, const v1::CountRequest& request, v1::CountResponse& response) {
    response.set_count(request.filter_text() == "year > 2000" ? 12 : 0);
    return once();
  };
  server_.on_facets = [&](auto&, const v1::FacetsRequest& request, v1::FacetsResponse& response) {
    response.add_values()->set_value(request.field());
    return once();
  };
  server_.on_scroll = [&](auto&, const v1::ScrollRequest& request, v1::ScrollResponse& response) {
    response.add_documents()->set_string_id(request.after_string_id() + "b");
    return once();
  };
  v1::ScrollRequest scroll;
  scroll.set_after_string_id("a");
  const auto page = client_->Scroll(scroll);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->documents(0).string_id(), "ab");
  v1::CountRequest count;
  count.set_filter_text("year > 2000");
  const auto counted = client_->Count(count);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->count(), 12);
  v1::FacetsRequest facets;
  facets.set_field("lang");
  const auto values = client_->Facets(facets);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->values(0).value(), "lang");
  EXPECT_EQ(server_.num_document_calls, 6);
}

TEST_F(ClientDocumentsTest, WhatTheServerRefusesIsNotTriedAgain) {
  server_.on_upsert = [](auto&, auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "documents[0].tokens.dim is 8; the collection has 96");
  };
  EXPECT_EQ(client_->Upsert(TwoDocuments()).status(),
            absl::InvalidArgumentError("documents[0].tokens.dim is 8; the collection has 96"));
  server_.on_delete = [](auto&, auto&, auto&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "collection \"notes\" is not live");
  };
  EXPECT_EQ(client_->Delete({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(server_.num_document_calls, 2);
}

TEST_F(ClientDocumentsTest, AnUpsertKeepsItsDeadline) {
  server_.on_upsert = [](grpc::ServerContext& context, auto&, auto&) {
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(client_->Upsert(TwoDocuments(), {.timeout = absl::Milliseconds(200)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientDocumentsTest, CollectionsAreMadeCompactedAndCopiedInOneAttempt) {
  v1::CreateCollectionRequest create;
  create.set_name("notes");
  create.set_dim(96);
  const auto created = client_->CreateCollection(create);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->collection().dim(), 96);
  EXPECT_TRUE(created->collection().has_live());
  v1::CompactCollectionRequest compact;
  compact.set_name("notes");
  const auto compacted = client_->CompactCollection(compact);
  ASSERT_TRUE(compacted.ok()) << compacted.status();
  EXPECT_TRUE(compacted->changed());
  v1::SnapshotCollectionRequest snapshot;
  snapshot.set_path("/copies/notes");
  const auto copied = client_->SnapshotCollection(snapshot);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(copied->sequence(), 41);
  EXPECT_EQ(server_.snapshot.path(), "/copies/notes");

  server_.admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "loading");
  const int before = server_.num_admin_calls;
  EXPECT_EQ(client_->CreateCollection(create).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client_->CompactCollection(compact).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client_->SnapshotCollection(snapshot).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.num_admin_calls, before + 3);
}

}  // namespace
}  // namespace maxsim::client
