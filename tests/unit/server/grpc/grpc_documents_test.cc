// Tests the Documents service over gRPC, and above all its streams, on a live collection that does what a test says.
#include "server/grpc/grpc_documents.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/service/documents.h"
#include "server/service/request/text_encoding.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"
#include "tests/support/values/eventually.h"

namespace maxsim::rpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kDim = 16;
constexpr int kMaxInFlight = 2;

// What the live collection was asked to write, call by call, with the answers that are still due.
class Desk {
 public:
  struct Call {
    std::vector<std::string> ids;
    store::LiveDocuments::Done done;
  };

  void Take(std::vector<store::Write> writes, store::LiveDocuments::Done done) {
    Call call{.ids = {}, .done = std::move(done)};
    for (const store::Write& write : writes) call.ids.push_back(write.string_id);
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }

  // Waits until `count` calls have arrived. Returns false after kTestLimit.
  bool WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, test::kTestLimit, [&] { return calls_.size() >= count; });
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  std::vector<std::string> ids(size_t idx) {
    const std::lock_guard lock(mutex_);
    return calls_[idx].ids;
  }

  // Answers a call that has come.
  void Answer(size_t idx, const absl::Status& status = absl::OkStatus()) {
    store::LiveDocuments::Done done;
    store::WriteResults results;
    {
      const std::lock_guard lock(mutex_);
      done = std::exchange(calls_[idx].done, nullptr);
      for (size_t i = 0; i < calls_[idx].ids.size(); ++i) {
        results.results.push_back({store::WriteResult::Outcome::kApplied, ++sequence_});
      }
      results.sequence = sequence_;
    }
    status.ok() ? done(std::move(results)) : done(status);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  uint64_t sequence_ = 0;
};

class GrpcDocumentsTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(service::TokenFiles files) {
    test::CorpusOptions options;
    options.payloads = true;
    test::BuildCorpus(folder_ / "live", test::SmallDocuments(1, 10, ScalarType::kF16, kDim), options);
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    const auto loaded = store_.Load("live", folder_ / "live", store::Residency::kAuto, store::Replication::kAuto, "",
                                    nullptr, /*live=*/true);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    service_.SetState(service::ServingState::kServing);
    authenticator_ = std::make_unique<service::Authenticator>(std::move(files));
    ASSERT_TRUE(authenticator_->Load().ok());
    documents_ = std::make_unique<GrpcDocuments>(GrpcDocuments::Dependencies{.documents = &service_,
                                                                             .authenticator = authenticator_.get(),
                                                                             .calls = &calls_,
                                                                             .answers = &answers_,
                                                                             .stream_in_flight = kMaxInFlight,
                                                                             .client_key = ""});
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(documents_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Documents::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }

  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  // Has the collection's answers given by the test.
  void AnswerByHand() {
    live_->on_submit = [this](std::vector<store::Write> writes, store::LiveDocuments::Done done) {
      desk_.Take(std::move(writes), std::move(done));
    };
  }

  static v1::UpsertRequest Request(const std::vector<std::string>& ids) {
    v1::UpsertRequest request;
    request.set_collection("live");
    for (const std::string& id : ids) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDim, 3));
    }
    return request;
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  Metrics metrics_;
  service::TextEncoding texts_;
  std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
  Desk desk_;
  service::DocumentService service_{&store_, &texts_, &metrics_, service::RequestLimits()};
  std::unique_ptr<service::Authenticator> authenticator_;
  service::CallTracker calls_;
  AnswerBudget answers_{0, nullptr};
  std::unique_ptr<GrpcDocuments> documents_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Documents::Stub> stub_;
};

TEST_F(GrpcDocumentsTest, DocumentsAreWrittenDeletedAndRead) {
  grpc::ClientContext upsert_context;
  v1::UpsertResponse upserted;
  ASSERT_TRUE(stub_->Upsert(&upsert_context, Request({"a", "b"}), &upserted).ok());
  EXPECT_EQ(upserted.results_size(), 2);
  EXPECT_EQ(upserted.sequence(), 9u);
  grpc::ClientContext delete_context;
  v1::DeleteRequest deletes;
  deletes.set_collection("live");
  deletes.mutable_string_ids()->add_ids("doc-1");
  v1::DeleteResponse deleted;
  ASSERT_TRUE(stub_->Delete(&delete_context, deletes, &deleted).ok());
  EXPECT_EQ(deleted.results(0).sequence(), 10u);
  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("live");
  get.mutable_string_ids()->add_ids("doc-2");
  v1::GetResponse got;
  ASSERT_TRUE(stub_->Get(&get_context, get, &got).ok());
  ASSERT_EQ(got.documents_size(), 1);
  EXPECT_EQ(got.documents(0).payload(), R"({"n":2})");
}

TEST_F(GrpcDocumentsTest, AnErrorCarriesWhenToComeAgain) {
  live_->on_submit = [](std::vector<store::Write>, store::LiveDocuments::Done done) {
    absl::Status full = absl::ResourceExhaustedError("segments are full");
    client::SetRetryAfter(absl::Milliseconds(1500), full);
    done(full);
  };
  grpc::ClientContext context;
  v1::UpsertResponse response;
  const absl::Status status = client::FromGrpcStatus(stub_->Upsert(&context, Request({"a"}), &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(1500));
  EXPECT_EQ(context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms")->second, "1500");
}

TEST_F(GrpcDocumentsTest, AStreamIsWrittenInItsOrderAndAcknowledgedOnce) {
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  ASSERT_TRUE(stream->Write(Request({"a", "b"})));
  ASSERT_TRUE(stream->Write(Request({"c"})));
  ASSERT_TRUE(stream->Write(Request({"a"})));
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.num_requests(), 3u);
  EXPECT_EQ(response.num_applied(), 4u);
  EXPECT_EQ(response.num_stale(), 0u);
  EXPECT_EQ(response.sequence(), 11u);
  std::vector<std::string> ids;
  for (const store::Write& write : live_->written) ids.push_back(write.string_id);
  EXPECT_THAT(ids, ElementsAre("a", "b", "c", "a"));
}

TEST_F(GrpcDocumentsTest, AStreamWithoutRequestsIsAcknowledgedToo) {
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.num_requests(), 0u);
}

TEST_F(GrpcDocumentsTest, OnlySoManyRequestsOfAStreamWaitForTheDisk) {
  AnswerByHand();
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE(stream->Write(Request({id})));
  stream->WritesDone();
  ASSERT_TRUE(desk_.WaitFor(kMaxInFlight));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(desk_.count(), static_cast<size_t>(kMaxInFlight));
  desk_.Answer(0);
  ASSERT_TRUE(desk_.WaitFor(kMaxInFlight + 1));
  desk_.Answer(1);
  ASSERT_TRUE(desk_.WaitFor(4));
  desk_.Answer(2);
  desk_.Answer(3);
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.num_applied(), 4u);
  EXPECT_THAT(desk_.ids(3), ElementsAre("d"));
}

TEST_F(GrpcDocumentsTest, WhatFindsNoRoomIsOfferedAgainBeforeWhatFollows) {
  std::mutex mutex;
  std::vector<std::string> offered;
  live_->on_submit = [&](std::vector<store::Write> writes, store::LiveDocuments::Done done) {
    size_t attempts = 0;
    {
      const std::lock_guard lock(mutex);
      offered.push_back(writes[0].string_id);
      attempts = offered.size();
    }
    if (attempts == 2 || attempts == 3) {
      absl::Status full = absl::ResourceExhaustedError("too many bytes wait");
      client::SetRetryAfter(absl::Milliseconds(20), full);
      return done(full);
    }
    done(store::WriteResults{.results = {{store::WriteResult::Outcome::kApplied, attempts}}, .sequence = attempts});
  };
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(stream->Write(Request({id})));
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.num_requests(), 3u);
  EXPECT_THAT(offered, ElementsAre("a", "b", "b", "b", "c"));
}

TEST_F(GrpcDocumentsTest, AnErrorEndsTheStreamOnceEarlierRequestsAreWrittenAndNamesItsRequest) {
  AnswerByHand();
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  ASSERT_TRUE(stream->Write(Request({"a"})));
  ASSERT_TRUE(desk_.WaitFor(1));
  v1::UpsertRequest wrong = Request({"b", "c"});
  wrong.mutable_documents(1)->mutable_tokens()->set_dim(3);
  ASSERT_TRUE(stream->Write(wrong));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  desk_.Answer(0);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "requests[1].documents[1].tokens.dim: is 3, and the collection's dimension is 16");
  EXPECT_EQ(desk_.count(), 1u);
}

TEST_F(GrpcDocumentsTest, AnErrorOfTheLogEndsTheStreamWithoutAnotherOffer) {
  AnswerByHand();
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  ASSERT_TRUE(stream->Write(Request({"a"})));
  ASSERT_TRUE(stream->Write(Request({"b"})));
  ASSERT_TRUE(desk_.WaitFor(2));
  // A request that was handed over has lost its place among the others, so that it is not offered again.
  absl::Status full = absl::ResourceExhaustedError("the disk is full");
  client::SetRetryAfter(absl::Milliseconds(10), full);
  desk_.Answer(0, full);
  desk_.Answer(1, full);
  const absl::Status status = client::FromGrpcStatus(stream->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "requests[0]: the disk is full");
  EXPECT_TRUE(client::RetryAfter(status).has_value());
  EXPECT_EQ(desk_.count(), 2u);
}

TEST_F(GrpcDocumentsTest, ADrainEndsOpenStreamsOnceTheirRequestsAreWritten) {
  AnswerByHand();
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  ASSERT_TRUE(stream->Write(Request({"a"})));
  ASSERT_TRUE(desk_.WaitFor(1));
  documents_->DrainStreams();
  desk_.Answer(0);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  grpc::ClientContext late_context;
  const auto late = stub_->UpsertStream(&late_context, &response);
  EXPECT_EQ(late->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcDocumentsTest, AStreamThatIsCancelledWaitsForWhatIsBeingWritten) {
  AnswerByHand();
  {
    grpc::ClientContext context;
    v1::UpsertStreamResponse response;
    const auto stream = stub_->UpsertStream(&context, &response);
    ASSERT_TRUE(stream->Write(Request({"a"})));
    ASSERT_TRUE(desk_.WaitFor(1));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  calls_.BeginDrain();
  EXPECT_EQ(calls_.WaitForEarlierCalls(absl::Milliseconds(50)), 1);
  desk_.Answer(0);
  EXPECT_EQ(calls_.WaitForEarlierCalls(absl::FromChrono(test::kTestLimit)), 0);
}

TEST_F(GrpcDocumentsTest, AStreamThatIsCancelledWhileItWaitsForRoomEnds) {
  live_->on_submit = [this](std::vector<store::Write> writes, store::LiveDocuments::Done done) {
    desk_.Take(std::move(writes), nullptr);
    absl::Status full = absl::ResourceExhaustedError("too many bytes wait");
    client::SetRetryAfter(absl::Seconds(1), full);
    done(full);
  };
  grpc::ClientContext context;
  v1::UpsertStreamResponse response;
  const auto stream = stub_->UpsertStream(&context, &response);
  ASSERT_TRUE(stream->Write(Request({"a"})));
  ASSERT_TRUE(desk_.WaitFor(1));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  calls_.BeginDrain();
  EXPECT_EQ(calls_.WaitForEarlierCalls(absl::FromChrono(test::kTestLimit)), 0);
}

// Has a token for searching and one for writing.
class GrpcDocumentsTokensTest : public GrpcDocumentsTest {
 protected:
  void SetUp() override {
    test::WriteFile(folder_ / "tokens", "searcher\n");
    test::WriteFile(folder_ / "write_tokens", "writer\n");
    Start({.search = folder_ / "tokens", .write = folder_ / "write_tokens", .admin = ""});
  }
};

TEST_F(GrpcDocumentsTokensTest, ATokenThatMaySearchReadsAndDoesNotWrite) {
  const auto code = [&](const std::function<grpc::Status(grpc::ClientContext*)>& call, const char* token) {
    grpc::ClientContext context;
    if (*token != '\0') context.AddMetadata("authorization", std::string("Bearer ") + token);
    return call(&context).error_code();
  };
  const auto upsert = [&](grpc::ClientContext* context) {
    v1::UpsertResponse response;
    return stub_->Upsert(context, Request({"a"}), &response);
  };
  const auto stream = [&](grpc::ClientContext* context) {
    v1::UpsertStreamResponse response;
    const auto writer = stub_->UpsertStream(context, &response);
    writer->Write(Request({"a"}));
    writer->WritesDone();
    return writer->Finish();
  };
  const auto get = [&](grpc::ClientContext* context) {
    v1::GetRequest request;
    request.set_collection("live");
    request.mutable_string_ids()->add_ids("doc-2");
    v1::GetResponse response;
    return stub_->Get(context, request, &response);
  };
  const std::vector<std::function<grpc::Status(grpc::ClientContext*)>> writes = {upsert, stream};
  for (const auto& write : writes) {
    EXPECT_EQ(code(write, ""), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(code(write, "searcher"), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(code(write, "writer"), grpc::StatusCode::OK);
  }
  EXPECT_EQ(code(get, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(get, "searcher"), grpc::StatusCode::OK);
  EXPECT_EQ(code(get, "writer"), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace maxsim::rpc
