// Tests writes and reads of documents through a router. No write may be carried out twice.
#include "server/cluster/router_documents.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

class RouterDocumentsTest : public RouterTest {
 protected:
  // A replica writes whatever comes.
  RouterDocumentsTest() : RouterTest(2, 2, /*is_live=*/true) {
    for (const auto& one : replicas_) Answer(*one, grpc::Status::OK);
  }

  static void Answer(FakeReplica& replica, const grpc::Status& status) {
    replica.server().on_upsert = [status](grpc::ServerContext&, const v1::UpsertRequest& request,
                                          v1::UpsertResponse& response) {
      for (int i = 0; i < request.documents_size(); ++i) {
        v1::WriteResult& result = *response.add_results();
        result.set_outcome(v1::WRITE_OUTCOME_APPLIED);
        result.set_sequence(static_cast<uint64_t>(i) + 1);
      }
      response.set_sequence(static_cast<uint64_t>(request.documents_size()));
      return status;
    };
    replica.server().on_get = [status](grpc::ServerContext&, const v1::GetRequest& request, v1::GetResponse& response) {
      for (const std::string& id : request.string_ids().ids()) {
        v1::StoredDocument& document = *response.add_documents();
        document.set_string_id(id);
        document.set_num_tokens(1);
      }
      return status;
    };
  }

  void StartRouter() {
    Start();
    documents_ = std::make_unique<RouterDocuments>(dependencies());
    documents_->SetState(service::ServingState::kServing);
  }

  absl::StatusOr<v1::UpsertResponse> Upsert(const std::vector<std::string>& ids) {
    v1::UpsertRequest request;
    request.set_collection("c");
    for (const std::string& id : ids) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      v1::TokenMatrix& tokens = *document.mutable_tokens();
      tokens.set_dtype(v1::DATA_TYPE_F32);
      tokens.set_num_tokens(1);
      tokens.set_dim(8);
      tokens.set_data(std::string(8 * sizeof(float), '\0'));
    }
    return Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
      documents_->Upsert(request, {.method = "Upsert"}, std::move(done));
    });
  }

  // Upserts two documents. INT8 can represent `sound`. In `lossy`, one token vector is so long that rounding to INT8
  // turns the other token into zeros.
  absl::Status UpsertLossy(const std::string& sound, const std::string& lossy) {
    v1::UpsertRequest request;
    request.set_collection("c");
    for (const std::string& id : {sound, lossy}) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      std::vector<float> rows(16, 1.0F);
      if (id == lossy) rows[0] = 1e6F;
      v1::TokenMatrix& tokens = *document.mutable_tokens();
      tokens.set_dtype(v1::DATA_TYPE_F32);
      tokens.set_num_tokens(2);
      tokens.set_dim(8);
      tokens.set_data(rows.data(), rows.size() * sizeof(float));
    }
    return Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
             documents_->Upsert(request, {.method = "Upsert"}, std::move(done));
           })
        .status();
  }

  absl::StatusOr<v1::GetResponse> Get(const std::string& id) {
    v1::GetRequest request;
    request.set_collection("c");
    request.mutable_string_ids()->add_ids(id);
    return Wait<v1::GetResponse>(
        [&](service::Done<v1::GetResponse> done) { documents_->Get(request, {.method = "Get"}, std::move(done)); });
  }

  int Asked(int group, int index) { return replica(group, index).server().num_document_calls; }

  std::unique_ptr<RouterDocuments> documents_;
};

TEST_F(RouterDocumentsTest, EachGroupWritesItsOwnDocuments) {
  StartRouter();
  const auto answer = Upsert({IdOf(1, 2), IdOf(0, 2)});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->results_size(), 2);
  EXPECT_EQ(Asked(0, 0) + Asked(0, 1), 1);
  EXPECT_EQ(Asked(1, 0) + Asked(1, 1), 1);
}

TEST_F(RouterDocumentsTest, EachGroupIsToldWhatIsVisible) {
  std::atomic<int> num_told{0};
  std::atomic<int> num_untold{0};
  for (const auto& one : replicas_) {
    test::FakeServer& server = one->server();
    const auto note = [&](const auto& request) { ++(request.visible().exists() == "owner" ? num_told : num_untold); };
    server.on_upsert = [note, answer = server.on_upsert](grpc::ServerContext& context, const v1::UpsertRequest& request,
                                                         v1::UpsertResponse& response) {
      note(request);
      return answer(context, request, response);
    };
    server.on_get = [note, answer = server.on_get](grpc::ServerContext& context, const v1::GetRequest& request,
                                                   v1::GetResponse& response) {
      note(request);
      return answer(context, request, response);
    };
    server.on_delete = [note](grpc::ServerContext&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
      note(request);
      for (int i = 0; i < request.string_ids().ids_size(); ++i) {
        response.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
      }
      return grpc::Status::OK;
    };
  }
  StartRouter();
  v1::UpsertRequest upsert;
  upsert.set_collection("c");
  upsert.mutable_visible()->set_exists("owner");
  v1::Document& document = *upsert.add_documents();
  document.set_string_id(IdOf(0, 2));
  document.mutable_tokens()->set_dtype(v1::DATA_TYPE_F32);
  document.mutable_tokens()->set_num_tokens(1);
  document.mutable_tokens()->set_dim(8);
  document.mutable_tokens()->set_data(std::string(8 * sizeof(float), '\0'));
  const auto written = Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
    documents_->Upsert(upsert, {.method = "Upsert"}, std::move(done));
  });
  EXPECT_TRUE(written.ok()) << written.status();
  EXPECT_GE(num_told, 1);
  v1::GetRequest get;
  get.set_collection("c");
  get.mutable_visible()->set_exists("owner");
  get.mutable_string_ids()->add_ids(IdOf(1, 2));
  const auto read = Wait<v1::GetResponse>(
      [&](service::Done<v1::GetResponse> done) { documents_->Get(get, {.method = "Get"}, std::move(done)); });
  EXPECT_TRUE(read.ok()) << read.status();
  EXPECT_GE(num_told, 2);
  v1::DeleteRequest removed;
  removed.set_collection("c");
  removed.mutable_visible()->set_exists("owner");
  removed.mutable_string_ids()->add_ids(IdOf(1, 2));
  const auto deleted = Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
    documents_->Delete(removed, {.method = "Delete"}, std::move(done));
  });
  EXPECT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_GE(num_told, 3);
  EXPECT_EQ(num_untold, 0);
}

TEST_F(RouterDocumentsTest, LossyTokensAreRefusedBeforeAnyGroupWrites) {
  for (const auto& one : replicas_) {
    v1::CollectionInfo info = one->said();
    info.set_storage(v1::DATA_TYPE_I8);
    one->Say(info);
  }
  Start();
  for (const bool refuse : {true, false}) {
    RouterDependencies of = dependencies();
    of.limits.refuse_lossy_tokens = refuse;
    documents_ = std::make_unique<RouterDocuments>(of);
    documents_->SetState(service::ServingState::kServing);
    const absl::Status status = UpsertLossy(IdOf(0, 2), IdOf(1, 2));
    EXPECT_EQ(Asked(0, 0) + Asked(0, 1), refuse ? 0 : 1);
    EXPECT_EQ(Asked(1, 0) + Asked(1, 1), refuse ? 0 : 1);
    EXPECT_EQ(status.code(), refuse ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(refuse ? "documents[1].tokens: i8 keeps too little of 1 token" : ""));
  }
}

TEST_F(RouterDocumentsTest, AWriteOfWhichNobodyKnowsIsNotSentAgain) {
  for (int index : {0, 1}) Answer(replica(0, index), {grpc::StatusCode::UNAVAILABLE, "may have been written"});
  StartRouter();
  const absl::Status status = Upsert({IdOf(0, 2)}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("may have been written"));
  EXPECT_EQ(Asked(0, 0) + Asked(0, 1), 1);
}

TEST_F(RouterDocumentsTest, AWriteOfWhichNothingWasWrittenIsSentToAnotherReplica) {
  absl::Status refused = absl::UnavailableError("the server is draining");
  client::SetNothingWritten(refused);
  Answer(replica(0, 0), client::ToGrpcStatus(refused));
  StartRouter();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Upsert({IdOf(0, 2)}).ok());
  EXPECT_GE(Asked(0, 0), 1);
  EXPECT_EQ(Asked(0, 1), 4);
}

TEST_F(RouterDocumentsTest, AWriteIsSentToAnotherReplicaWhereNobodyListens) {
  options_.poll_interval = absl::Hours(1);  // The router does not learn by itself that the replica has ended.
  StartRouter();
  replica(0, 0).End();
  const auto nobody_listens = [&] {
    grpc::ClientContext context;
    v1::GetInfoResponse info;
    const auto stub = seen(0, 0)->stubs().reranker;
    return IsSafeToRepeat(client::FromGrpcStatus(stub->GetInfo(&context, v1::GetInfoRequest(), &info)));
  };
  ASSERT_TRUE(Eventually(nobody_listens)) << "the connection has not ended";
  for (int i = 0; i < 4; ++i) {
    const auto answer = Upsert({IdOf(0, 2)});
    EXPECT_TRUE(answer.ok()) << answer.status();
  }
}

TEST_F(RouterDocumentsTest, AReplicaThatIsCutOffTheStreamGetsNoWrites) {
  v1::CollectionInfo cut_off = replica(0, 0).said();
  cut_off.mutable_live()->set_error("nats.url: no answer");
  replica(0, 0).Say(cut_off);
  StartRouter();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Upsert({IdOf(0, 2)}).ok());
  EXPECT_EQ(Asked(0, 0), 0);
  replica(0, 1).Say(cut_off);
  membership_->Refresh();
  EXPECT_TRUE(Upsert({IdOf(0, 2)}).ok()) << "where all say so, one of them is asked";
}

TEST_F(RouterDocumentsTest, AReadIsSentToAnotherReplica) {
  Answer(replica(0, 0), {grpc::StatusCode::UNAVAILABLE, "lost"});
  StartRouter();
  for (int i = 0; i < 4; ++i) {
    const auto answer = Get(IdOf(0, 2));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->documents_size(), 1);
  }
}

TEST_F(RouterDocumentsTest, AnErrorSaysWhichGroupsHaveWritten) {
  absl::Status refused = absl::UnavailableError("the server is draining");
  client::SetNothingWritten(refused);
  for (int index : {0, 1}) Answer(replica(1, index), client::ToGrpcStatus(refused));
  StartRouter();
  const absl::Status status = Upsert({IdOf(0, 2), IdOf(1, 2)}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("what is group g0's was carried out"));
  EXPECT_FALSE(client::IsNothingWritten(status));
}

TEST_F(RouterDocumentsTest, AWriteOfWhichTheOnlyGroupWroteNothingSaysSo) {
  absl::Status refused = absl::UnavailableError("the server is draining");
  client::SetNothingWritten(refused);
  for (int index : {0, 1}) Answer(replica(1, index), client::ToGrpcStatus(refused));
  StartRouter();
  const absl::Status status = Upsert({IdOf(1, 2), IdOf(1, 2, 1)}).status();
  EXPECT_EQ(status, refused);
  EXPECT_TRUE(client::IsNothingWritten(status));
  const absl::Status of_two = Upsert({IdOf(0, 2), IdOf(1, 2)}).status();
  EXPECT_FALSE(client::IsNothingWritten(of_two)) << of_two;
}

TEST_F(RouterDocumentsTest, TheErrorOfALostGroupKeepsItsDetails) {
  absl::Status lost = absl::InternalError("the GPU is gone");
  client::SetReason(client::kReasonDeviceLost, lost);
  for (int index : {0, 1}) Answer(replica(0, index), client::ToGrpcStatus(lost));
  StartRouter();
  const absl::Status status = Get(IdOf(0, 2)).status();
  EXPECT_EQ(status.message(), "group g0: the GPU is gone");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonDeviceLost);
  // The message of an error about a field must begin with the field, so the group's name comes at the end.
  const absl::Status about_field =
      client::FieldError(absl::StatusCode::kNotFound, client::kReasonInvalidField, "string_ids.ids[0]", "is gone");
  for (int index : {0, 1}) Answer(replica(0, index), client::ToGrpcStatus(about_field));
  EXPECT_EQ(Get(IdOf(0, 2)).status(), client::WithAddition(about_field, " (group g0)"));
}

// The request has three items, and each group of servers gets some of them, which it numbers from 0. An error must name
// the item by its number in the client's request.
TEST_F(RouterDocumentsTest, AnErrorOfAGroupsItemNamesTheClientsItem) {
  const client::Limit limit(1, 2, "limits.x");
  for (int index : {0, 1}) {
    Answer(replica(1, index), client::ToGrpcStatus(client::InvalidField("documents[0].payload", "has 2 bytes", limit)));
  }
  StartRouter();
  const absl::Status written = Upsert({IdOf(0, 2), IdOf(0, 2, 1), IdOf(1, 2)}).status();
  EXPECT_EQ(client::FieldOf(written), "documents[2].payload");
  EXPECT_EQ(client::ReasonOf(written), client::kReasonLimitExceeded);
  EXPECT_EQ(client::LimitOf(written), 1u);
  EXPECT_EQ(written.message(), "documents[2].payload: has 2 bytes (group g1); what is group g0's was carried out");

  for (int index : {0, 1}) {
    const grpc::Status wrong = client::ToGrpcStatus(client::InvalidField("string_ids.ids[0]", "is of another slot"));
    Answer(replica(1, index), wrong);
    replica(1, index).server().on_delete = [wrong](auto&, auto&, auto&) { return wrong; };
    replica(0, index).server().on_delete = [](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
      for (int i = 0; i < request.string_ids().ids_size(); ++i) {
        response.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
      }
      return grpc::Status::OK;
    };
  }
  v1::DeleteRequest request;
  request.set_collection("c");
  for (const std::string& id : {IdOf(0, 2), IdOf(0, 2, 1), IdOf(1, 2)}) request.mutable_string_ids()->add_ids(id);
  const absl::Status deleted = Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
                                 documents_->Delete(request, {.method = "Delete"}, std::move(done));
                               }).status();
  EXPECT_EQ(client::FieldOf(deleted), "string_ids.ids[2]");
  v1::GetRequest read;
  read.set_collection("c");
  *read.mutable_string_ids() = request.string_ids();
  const absl::Status got = Wait<v1::GetResponse>([&](service::Done<v1::GetResponse> done) {
                             documents_->Get(read, {.method = "Get"}, std::move(done));
                           }).status();
  EXPECT_EQ(got, client::InvalidField("string_ids.ids[2]", "is of another slot"));
}

TEST_F(RouterDocumentsTest, AWrongAcknowledgementIsAnErrorAndTheWriteIsNotRepeated) {
  for (int index : {0, 1}) {
    replica(0, index).server().on_upsert = [](grpc::ServerContext&, const v1::UpsertRequest&, v1::UpsertResponse&) {
      return grpc::Status::OK;
    };
  }
  StartRouter();
  const absl::Status status = Upsert({IdOf(0, 2)}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("results has 0 elements, but 1 writes were sent"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("may have been carried out"));
  EXPECT_EQ(Asked(0, 0) + Asked(0, 1), 1);
}

TEST_F(RouterDocumentsTest, AWrongDocumentIsReadFromAnotherReplica) {
  replica(0, 0).server().on_get = [](grpc::ServerContext&, const v1::GetRequest&, v1::GetResponse& response) {
    response.add_documents()->set_string_id("never-asked");
    return grpc::Status::OK;
  };
  StartRouter();
  for (int i = 0; i < 4; ++i) {
    const auto answer = Get(IdOf(0, 2));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->documents(0).string_id(), IdOf(0, 2));
  }
}

}  // namespace
}  // namespace maxsim::cluster
