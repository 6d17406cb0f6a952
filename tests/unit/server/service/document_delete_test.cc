// Tests what a Documents.Delete with a filter finds, refuses and answers, and how many of these calls may run at a
// time. The live collection is a fake. scroll_live_test.cc deletes from a real one.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/service/call/status.h"
#include "tests/unit/server/service/document_delete_fixture.h"

namespace maxsim::service {
namespace {

using Outcome = store::WriteResult::Outcome;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(DocumentDeleteTest, DocumentsThatMatchAreWrittenAsDeletesOfTheirIds) {
  request_.set_filter_text("year >= 2009");
  request_.set_version(3);
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<std::string> ids;
  for (const store::Write& write : live().written) {
    EXPECT_EQ(write.kind, collection::LogRecord::Kind::kDelete);
    EXPECT_EQ(write.version, 3u);
    ids.push_back(write.string_id);
  }
  EXPECT_THAT(ids, ElementsAre("doc-10", "doc-11", "doc-9"));
  EXPECT_EQ(answer->num_deleted(), 3u);
  EXPECT_EQ(answer->results_size(), 0);
  EXPECT_EQ(answer->sequence(), 10u);
  EXPECT_FALSE(answer->has_more());
}

TEST_F(DocumentDeleteTest, NothingIsWrittenIfNothingMatches) {
  request_.set_filter_text("year > 3000");
  request_.set_min_sequence(7);
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 0u);
  EXPECT_EQ(answer->sequence(), 7u);
  EXPECT_FALSE(answer->has_more());
  EXPECT_THAT(live().written, IsEmpty());
}

TEST_F(DocumentDeleteTest, DocumentsThatAreGoneOrNewerAreCountedApart) {
  live().on_submit = [](std::vector<store::Write> writes, store::LiveDocuments::Done done) {
    ASSERT_EQ(writes.size(), 8u);
    done(store::WriteResults{.results = {{Outcome::kApplied, 20},
                                         {Outcome::kNotFound, 0},
                                         {Outcome::kStale, 0},
                                         {Outcome::kNotFound, 0},
                                         {Outcome::kApplied, 21},
                                         {Outcome::kApplied, 22},
                                         {Outcome::kNotFound, 0},
                                         {Outcome::kStale, 0}},
                             .sequence = 22});
  };
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 3u);
  EXPECT_EQ(answer->num_missing(), 3u);
  EXPECT_EQ(answer->num_stale(), 2u);
  EXPECT_EQ(answer->sequence(), 22u);
}

TEST_F(DocumentDeleteTest, AllDocumentsAreNeverMeantByMistake) {
  request_.clear_matching();
  ExpectRefused("ids");
  request_.set_filter_text("");
  ExpectRefused("filter_text");
  request_.mutable_filter();
  ExpectRefused("filter");
  request_.mutable_filter()->mutable_all_of();
  ExpectRefused("filter");
  // This filter says that all documents are meant.
  request_.set_filter_text("exists(year) or not exists(year)");
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 12u);
}

TEST_F(DocumentDeleteTest, WhatIsWrongIsNamed) {
  request_.mutable_string_ids()->add_ids("doc-1");
  ExpectRefused("ids");
  request_.clear_matching();
  request_.set_min_sequence(3);
  ExpectRefused("min_sequence");
  request_.clear_min_sequence();
  request_.clear_ids();
  request_.set_filter_text("year = ");
  ExpectRefused("filter_text");
  request_.set_filter_text("colour = 1");
  ExpectRefused("filter_text");
  request_.set_filter_text("year = 2004");
  request_.set_collection("");
  ExpectRefused("collection");
  request_.set_collection("nowhere");
  EXPECT_TRUE(absl::IsNotFound(Delete().status())) << Delete().status();
}

TEST_F(DocumentDeleteTest, ACollectionThatIsNotLiveGivesTheErrorOfAnyWrite) {
  request_.set_collection("fixed");
  const absl::Status with_filter = Delete().status();
  request_.clear_matching();
  request_.mutable_string_ids()->add_ids("doc-1");
  EXPECT_TRUE(absl::IsFailedPrecondition(with_filter)) << with_filter;
  EXPECT_EQ(with_filter, Delete().status());
}

TEST_F(DocumentDeleteTest, AServerThatHasNotReachedTheSequenceWritesNothing) {
  request_.set_min_sequence(8);
  const absl::Status status = Delete().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(client::RetryAfter(status).has_value());
  EXPECT_TRUE(client::IsNothingWritten(status)) << "a router may ask another replica";
  EXPECT_THAT(live().written, IsEmpty());
}

TEST_F(DocumentDeleteTest, AServerThatDoesNotFollowItsStreamWritesNothing) {
  live().live_state.stream = store::StreamState{.connected = false};
  for (const char* const reason : {"", "nats.urls: nats://a:4222 is lost"}) {
    live().live_state.status = *reason == 0 ? absl::OkStatus() : absl::UnavailableError(reason);
    const absl::Status status = Delete().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(client::RetryAfter(status).has_value());
    EXPECT_TRUE(client::IsNothingWritten(status)) << "a router may ask another replica";
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(reason));
  }
  // If it is another stream, waiting does not help.
  const absl::Status other = absl::FailedPreconditionError("the stream is another one");
  live().live_state.status = other;
  EXPECT_EQ(Delete().status(), other);
  EXPECT_THAT(live().written, IsEmpty());
  live().live_state.status = absl::OkStatus();
  live().live_state.stream->connected = true;
  const auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), 8u);
}

TEST_F(DocumentDeleteTest, ACallDeletesFewerDocumentsThroughAStream) {
  const auto num_documents = static_cast<int>(kMaxStreamedDeletes) + 1;
  Build("large", num_documents, collection::IdType::kInt64);
  ASSERT_TRUE(store_
                  .Load("large", folder_ / "large", store::Residency::kAuto, store::Replication::kAuto, "", nullptr,
                        /*live=*/true)
                  .ok());
  request_.set_collection("large");
  request_.set_filter_text("year >= 2000");
  auto answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), kMaxStreamedDeletes + 1);
  EXPECT_FALSE(answer->has_more());
  lives_.back()->live_state.stream = store::StreamState{.connected = true};
  answer = Delete();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), kMaxStreamedDeletes);
  EXPECT_TRUE(answer->has_more());
}

TEST_F(DocumentDeleteTest, ACallThatNobodyAwaitsDeletesNothing) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(Delete({.method = "Delete", .deadline = absl::InfinitePast()}).status()));
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_TRUE(absl::IsCancelled(Delete({.method = "Delete", .cancelled = cancelled}).status()));
  service_.SetState(ServingState::kDraining);
  EXPECT_TRUE(absl::IsUnavailable(Delete().status()));
  EXPECT_THAT(live().written, IsEmpty());
}

TEST_F(DocumentDeleteTest, FewDeletesRunAtATimeAndOtherCallsGoOn) {
  std::vector<store::LiveDocuments::Done> waiting;
  live().on_submit = [&](std::vector<store::Write>, store::LiveDocuments::Done done) {
    waiting.push_back(std::move(done));
  };
  int num_answered = 0;
  const auto start = [&] {
    service_.Delete(request_, {.method = "Delete"}, [&](const absl::StatusOr<v1::DeleteResponse>&) { ++num_answered; });
  };
  for (int i = 0; i < kMaxMatchingDeletes; ++i) start();
  ASSERT_THAT(waiting, SizeIs(kMaxMatchingDeletes));
  const absl::Status full = Delete().status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(client::RetryAfter(full), absl::Seconds(1)) << "three retries of a client wait three seconds";
  EXPECT_TRUE(client::IsNothingWritten(full));
  // The limit on deletes with a filter must not apply to a delete by ids and to a Scroll.
  v1::DeleteRequest by_id;
  by_id.set_collection("ints");
  by_id.mutable_int_ids()->add_ids(1);
  service_.Delete(by_id, {.method = "Delete"}, [](const absl::StatusOr<v1::DeleteResponse>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
  });
  v1::ScrollRequest scroll;
  scroll.set_collection("docs");
  service_.Scroll(scroll, {.method = "Scroll"},
                  [](const absl::StatusOr<v1::ScrollResponse>& page) { EXPECT_TRUE(page.ok()) << page.status(); });
  std::exchange(waiting[0], nullptr)(absl::UnavailableError("the log cannot be written"));
  EXPECT_EQ(num_answered, 1);
  start();
  EXPECT_THAT(waiting, SizeIs(kMaxMatchingDeletes + 1)) << "an answer frees a place";
  for (store::LiveDocuments::Done& done : waiting) {
    if (done != nullptr) done(store::WriteResults{.results = {}, .sequence = 9});
  }
  EXPECT_EQ(num_answered, kMaxMatchingDeletes + 1);
}

TEST_F(DocumentDeleteTest, TheDeadlineHoldsWhileTheDeletesWaitToBeWritten) {
  const absl::Time deadline = MonotonicNow() + absl::Hours(1);
  ASSERT_TRUE(Delete({.method = "Delete", .deadline = deadline}).ok());
  EXPECT_EQ(live().last_caller.deadline, deadline);
}

}  // namespace
}  // namespace maxsim::service
