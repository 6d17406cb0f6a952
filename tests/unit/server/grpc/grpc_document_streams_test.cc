// Tests streams of upserts over gRPC. A fake live collection gives the answers that each test chooses.
#include "server/grpc/grpc_documents.h"

#include <chrono>
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
#include "server/service/request/text_encoding.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/grpc/grpc_documents_fixture.h"

namespace maxsim::rpc {
namespace {

using testing::ElementsAre;

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
  EXPECT_EQ(status.error_message(), "requests[1].documents[1].tokens.dim: is 3, but the collection's dimension is 16");
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
  // The collection has already accepted these requests, so later ones may be carried out before a repeated one. So the
  // stream must end with the error and not send them again.
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

}  // namespace
}  // namespace maxsim::rpc
