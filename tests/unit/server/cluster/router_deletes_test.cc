// Tests deletes with a filter through a router: every group of servers deletes its own documents, and the router checks
// and adds up the groups' answers.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/router_documents.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::DeleteResponse DeleteAnswer(uint64_t num_deleted, uint64_t sequence, bool has_more = false) {
  v1::DeleteResponse answer;
  answer.set_num_deleted(num_deleted);
  answer.set_sequence(sequence);
  answer.set_has_more(has_more);
  return answer;
}

class RouterDeletesTest : public RouterTest {
 protected:
  RouterDeletesTest() : RouterTest(2, 2, /*is_live=*/true) {
    request_.set_collection("c");
    request_.set_filter_text("year < 2000");
  }

  // Makes the replica answer every delete with `status` and, if that is OK, with `answer`.
  static void Answer(FakeReplica& replica, const v1::DeleteResponse& answer, const grpc::Status& status = {}) {
    replica.server().on_delete = [answer, status](auto&, const v1::DeleteRequest& request,
                                                  v1::DeleteResponse& response) {
      EXPECT_EQ(request.filter_text(), "year < 2000");
      response = answer;
      return status;
    };
  }
  void AnswerOfGroup(int group, const v1::DeleteResponse& answer, const grpc::Status& status = {}) {
    for (int index : {0, 1}) Answer(replica(group, index), answer, status);
  }

  void StartRouter() {
    Start();
    documents_ = std::make_unique<RouterDocuments>(dependencies());
    documents_->SetState(service::ServingState::kServing);
  }

  absl::StatusOr<v1::DeleteResponse> Delete(service::CallContext context = {.method = "Delete"}) {
    return Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
      documents_->Delete(request_, std::move(context), std::move(done));
    });
  }

  int Asked(int group) {
    return replica(group, 0).server().num_document_calls + replica(group, 1).server().num_document_calls;
  }

  v1::DeleteRequest request_;
  std::unique_ptr<RouterDocuments> documents_;
};

TEST_F(RouterDeletesTest, EveryGroupDeletesAndTheNumbersAreAddedUp) {
  v1::DeleteResponse first = DeleteAnswer(5, 30);
  first.set_num_missing(2);
  v1::DeleteResponse second = DeleteAnswer(7, 20, /*has_more=*/true);
  second.set_num_missing(1);
  second.set_num_stale(4);
  AnswerOfGroup(0, first);
  AnswerOfGroup(1, second);
  StartRouter();
  request_.set_version(9);
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 12u);
  EXPECT_EQ(answer->num_missing(), 3u);
  EXPECT_EQ(answer->num_stale(), 4u);
  EXPECT_TRUE(answer->has_more());
  EXPECT_EQ(answer->sequence(), 30u) << "a state that has the deletes of both groups";
  EXPECT_EQ(answer->results_size(), 0);
  EXPECT_EQ(Asked(0), 1);
  EXPECT_EQ(Asked(1), 1);
}

TEST_F(RouterDeletesTest, GroupsGetTheWholeRequest) {
  std::atomic<int> num_equal{0};
  request_.set_version(4);
  request_.set_min_sequence(11);
  request_.mutable_visible()->set_exists("owner");
  for (const auto& one : replicas_) {
    one->server().on_delete = [&](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
      num_equal += request.SerializeAsString() == request_.SerializeAsString() ? 1 : 0;
      response.set_sequence(11);
      return grpc::Status::OK;
    };
  }
  StartRouter();
  EXPECT_TRUE(Delete().ok());
  EXPECT_EQ(num_equal, 2);
}

TEST_F(RouterDeletesTest, TheErrorOfAGroupNamesItAndSaysWhatWasDeleted) {
  absl::Status full = absl::ResourceExhaustedError("2 deletes with a filter are in progress");
  client::SetRetryAfter(absl::Milliseconds(200), full);
  client::SetNothingWritten(full);
  AnswerOfGroup(0, DeleteAnswer(5, 30));
  AnswerOfGroup(1, {}, client::ToGrpcStatus(full));
  StartRouter();
  const absl::Status status = Delete().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("(group g1); 5 documents of group g0 were deleted"));
  EXPECT_EQ(client::ReasonOf(status), client::kReasonPartlyDeleted);
  EXPECT_EQ(client::NumDeletedOf(status), 5u);
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(200)) << "the client may repeat the call";
}

TEST_F(RouterDeletesTest, ARepeatedCallDeletesTheRest) {
  AnswerOfGroup(0, DeleteAnswer(5, 30));
  std::atomic<int> num_calls{0};
  for (int index : {0, 1}) {
    replica(1, index).server().on_delete = [&](auto&, auto&, v1::DeleteResponse& response) {
      if (++num_calls == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "may have been written");
      response = DeleteAnswer(7, 40);
      return grpc::Status::OK;
    };
  }
  StartRouter();
  const absl::Status failed = Delete().status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_EQ(num_calls, 1) << "a write that may have been carried out is not sent to another replica";
  EXPECT_FALSE(client::IsNothingWritten(failed));
  AnswerOfGroup(0, DeleteAnswer(0, 40));
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 7u);
}

TEST_F(RouterDeletesTest, NothingWrittenIsSaidOnlyIfNoGroupDeleted) {
  absl::Status draining = absl::UnavailableError("the server is draining");
  client::SetNothingWritten(draining);
  AnswerOfGroup(0, {}, client::ToGrpcStatus(draining));
  AnswerOfGroup(1, {}, client::ToGrpcStatus(draining));
  StartRouter();
  const absl::Status neither = Delete().status();
  EXPECT_TRUE(client::IsNothingWritten(neither)) << neither;
  EXPECT_THAT(std::string(neither.message()), HasSubstr("(groups g0, g1)"));
  EXPECT_FALSE(client::NumDeletedOf(neither).has_value());
  AnswerOfGroup(1, {}, {grpc::StatusCode::UNAVAILABLE, "may have been written"});
  EXPECT_FALSE(client::IsNothingWritten(Delete().status()));
}

TEST_F(RouterDeletesTest, AWrongAnswerIsAnErrorThatNamesTheGroup) {
  AnswerOfGroup(0, DeleteAnswer(5, 30));
  v1::DeleteResponse too_many = DeleteAnswer(100'000, 1'000'000);
  too_many.set_num_missing(1);
  v1::DeleteResponse with_results = DeleteAnswer(0, 30);
  with_results.add_results()->set_outcome(v1::WRITE_OUTCOME_APPLIED);
  for (const v1::DeleteResponse& wrong :
       {too_many, with_results, DeleteAnswer(31, 30), DeleteAnswer(0, 30, /*has_more=*/true)}) {
    AnswerOfGroup(1, wrong);
    if (documents_ == nullptr) StartRouter();
    const absl::Status status = Delete().status();
    EXPECT_TRUE(absl::IsInternal(status)) << wrong.DebugString() << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a replica gave a wrong answer"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("(group g1); it may have been carried out"));
    EXPECT_EQ(client::NumDeletedOf(status), 5u);
  }
}

TEST_F(RouterDeletesTest, AReplicaThatLagsIsNotBelieved) {
  // One replica refuses, because it has not reached the sequence. The other one has.
  absl::Status lagging = absl::UnavailableError("min_sequence: is 40, but collection c has only reached 30");
  client::SetRetryAfter(absl::Milliseconds(50), lagging);
  client::SetNothingWritten(lagging);
  Answer(replica(0, 0), {}, client::ToGrpcStatus(lagging));
  Answer(replica(0, 1), DeleteAnswer(5, 41));
  AnswerOfGroup(1, DeleteAnswer(7, 45));
  StartRouter();
  request_.set_min_sequence(40);
  for (int i = 0; i < 4; ++i) {
    const auto answer = Delete();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->num_deleted(), 12u);
    EXPECT_EQ(answer->sequence(), 45u);
  }
  // An answer from an older state is wrong.
  AnswerOfGroup(1, DeleteAnswer(7, 39));
  const absl::Status status = Delete().status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sequence is 39, but at least 40 was asked for"));
}

TEST_F(RouterDeletesTest, WhatIsWrongIsRefusedBeforeAGroupIsAsked) {
  StartRouter();
  const auto field = [&] { return client::FieldOf(Delete().status()); };
  request_.mutable_string_ids()->add_ids("a");
  EXPECT_EQ(field(), "ids");
  request_.clear_matching();
  request_.set_min_sequence(3);
  EXPECT_EQ(field(), "min_sequence");
  request_.clear_ids();
  EXPECT_EQ(field(), "ids");
  request_.set_filter_text("");
  EXPECT_EQ(field(), "filter_text");
  request_.mutable_filter();
  EXPECT_EQ(field(), "filter");
  request_.set_filter_text("year < 2000");
  EXPECT_TRUE(absl::IsDeadlineExceeded(Delete({.method = "Delete", .deadline = absl::InfinitePast()}).status()));
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_TRUE(absl::IsCancelled(Delete({.method = "Delete", .cancelled = cancelled}).status()));
  EXPECT_EQ(Asked(0) + Asked(1), 0);
}

TEST_F(RouterDeletesTest, FewDeletesRunAtATime) {
  absl::Notification go_on;
  std::atomic<int> num_asked{0};
  for (const auto& one : replicas_) {
    one->server().on_delete = [&](auto&, auto&, v1::DeleteResponse& response) {
      ++num_asked;
      go_on.WaitForNotification();
      response = DeleteAnswer(1, 30);
      return grpc::Status::OK;
    };
  }
  StartRouter();
  std::atomic<int> num_right{0};
  for (int i = 0; i < service::kMaxMatchingDeletes; ++i) {
    documents_->Delete(request_, {.method = "Delete"},
                       [&](const absl::StatusOr<v1::DeleteResponse>& answer) { num_right += answer.ok() ? 1 : 0; });
  }
  const absl::Status full = Delete().status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(client::RetryAfter(full).has_value());
  EXPECT_THAT(std::string(full.message()), Not(HasSubstr("group")));
  go_on.Notify();
  EXPECT_TRUE(Eventually([&] { return num_right == service::kMaxMatchingDeletes; }));
  EXPECT_EQ(num_asked, 2 * service::kMaxMatchingDeletes);
  EXPECT_TRUE(Delete().ok()) << "an answer frees a place";
}

TEST_F(RouterDeletesTest, AClientThatGoesAwayEndsTheSearch) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  for (const auto& one : replicas_) {
    one->server().on_delete = [&](grpc::ServerContext& context, auto&, auto&) {
      *cancelled = true;
      while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::CANCELLED;
    };
  }
  StartRouter();
  EXPECT_TRUE(absl::IsCancelled(Delete({.method = "Delete", .cancelled = cancelled}).status()));
}

class RouterFixedTest : public RouterTest {};

TEST_F(RouterFixedTest, ACollectionThatIsNotLiveIsRefused) {
  Start();
  RouterDocuments documents(dependencies());
  documents.SetState(service::ServingState::kServing);
  v1::DeleteRequest request;
  request.set_collection("c");
  request.set_filter_text("year < 2000");
  const absl::Status status = Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
                                documents.Delete(request, {.method = "Delete"}, std::move(done));
                              }).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

}  // namespace
}  // namespace maxsim::cluster
