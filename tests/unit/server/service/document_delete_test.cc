// Tests what Documents.Delete with a filter finds, refuses and answers, and how many such calls run at a time. The live
// collection is a fake. scroll_live_test.cc deletes from a real one.
#include "server/service/documents/document_delete.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/service/call/status.h"
#include "server/service/documents.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using Outcome = store::WriteResult::Outcome;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// More documents than versions are looked up between two checks of the deadline.
constexpr int kManyDocuments = 3'000;

class DocumentDeleteTest : public testing::Test {
 protected:
  DocumentDeleteTest() {
    Build("docs", 12, collection::IdType::kString);
    Build("ints", 12, collection::IdType::kInt64);
    Build("many", kManyDocuments, collection::IdType::kInt64);
    Build("fixed", 12, collection::IdType::kString);
    store_.SetOpenLive(
        [this](const store::LiveRequest& request) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
          return lives_.emplace_back(std::make_shared<test::FakeLiveDocuments>());
        });
    for (const char* const name : {"docs", "ints", "many", "fixed"}) {
      const auto loaded = store_.Load(name, folder_ / name, store::Residency::kAuto, store::Replication::kAuto, "",
                                      nullptr, /*live=*/std::string(name) != "fixed");
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
    service_.SetState(ServingState::kServing);
    request_.set_collection("docs");
    request_.set_filter_text("year >= 2004");
  }

  // Builds a collection whose documents have the years 2000, 2001 and so on.
  void Build(const std::string& name, int num_documents, collection::IdType id_type) {
    const test::RandomDocuments documents = test::SmallDocuments(1, num_documents, ScalarType::kF16, 16);
    test::CorpusOptions options;
    options.id_type = id_type;
    options.fields = *collection::ParseFields("year:integer");
    for (int i = 0; i < num_documents; ++i) {
      options.payload_texts.push_back("{\"year\":" + std::to_string(2000 + i) + "}");
    }
    test::BuildCorpus(folder_ / name, documents, options);
  }

  test::FakeLiveDocuments& live() { return *lives_.at(0); }
  test::FakeLiveDocuments& live_of_ints() { return *lives_.at(1); }
  test::FakeLiveDocuments& live_of_many() { return *lives_.at(2); }

  absl::StatusOr<v1::DeleteResponse> Delete(CallContext context = {.method = "Delete"}) {
    std::optional<absl::StatusOr<v1::DeleteResponse>> answer;
    service_.Delete(request_, std::move(context),
                    [&](absl::StatusOr<v1::DeleteResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  // Expects an INVALID_ARGUMENT about a field of the request, and that nothing is written.
  void ExpectRefused(const std::string& field) {
    const absl::Status status = Delete().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field) << status;
    EXPECT_THAT(live().written, IsEmpty());
  }

  absl::StatusOr<MatchingDeletes> Find(const store::LiveDocuments& live, size_t max_documents,
                                       const StopCheck& check = nullptr) {
    return FindMatchingDeletes(request_, **store_.Find(request_.collection()), live, max_documents, check);
  }

  static std::vector<int64_t> IntIds(const absl::StatusOr<MatchingDeletes>& deletes) {
    std::vector<int64_t> ids;
    EXPECT_TRUE(deletes.ok()) << deletes.status();
    if (!deletes.ok()) return ids;
    for (const store::Write& write : deletes->writes) ids.push_back(write.int_id);
    return ids;
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  std::vector<std::shared_ptr<test::FakeLiveDocuments>> lives_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
  v1::DeleteRequest request_;
};

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

TEST_F(DocumentDeleteTest, APageHasOnlyDocumentsThatCanBeDeleted) {
  request_.set_collection("ints");
  std::vector<int64_t> ids;
  for (int i = 4; i < 12; ++i) ids.push_back(test::CorpusIntId(i));
  std::sort(ids.begin(), ids.end());
  const auto after = [&](size_t begin, size_t end) {
    return std::vector<int64_t>(ids.begin() + static_cast<int64_t>(begin), ids.begin() + static_cast<int64_t>(end));
  };
  // A request without a version matches documents of any version.
  for (const size_t idx : {0, 1, 2}) live_of_ints().versions[std::to_string(ids[idx])] = 5;
  auto found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(0, 3));
  EXPECT_TRUE(found->has_more);
  // A delete with a version does not match the first three documents, because theirs is the same or newer. A page has
  // three documents, so Find must go on to the next three.
  for (const uint64_t version : {4, 5}) {
    request_.set_version(version);
    found = Find(live_of_ints(), 3);
    EXPECT_EQ(IntIds(found), after(3, 6));
    EXPECT_TRUE(found->has_more);
  }
  request_.set_version(6);
  found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(0, 3)) << "an older version can be deleted";
  // Newer documents after a full page are no reason for another call.
  request_.set_version(5);
  for (const size_t idx : {6, 7}) live_of_ints().versions[std::to_string(ids[idx])] = 9;
  found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(3, 6));
  EXPECT_FALSE(found->has_more);
  for (const int64_t id : ids) live_of_ints().versions[std::to_string(id)] = 9;
  found = Find(live_of_ints(), 3);
  EXPECT_THAT(IntIds(found), IsEmpty());
  EXPECT_FALSE(found->has_more);
}

TEST_F(DocumentDeleteTest, AllPagesTogetherHaveEveryOlderDocumentOnce) {
  request_.set_collection("many");
  request_.set_version(5);
  std::vector<int64_t> expected;
  for (int i = 4; i < kManyDocuments; ++i) {
    const int64_t id = test::CorpusIntId(i);
    live_of_many().versions[std::to_string(id)] = i % 3 == 0 ? 7 : 2;
    if (i % 3 != 0) expected.push_back(id);
  }
  std::sort(expected.begin(), expected.end());
  for (const size_t limit : {expected.size() - 1, expected.size(), expected.size() + 1}) {
    const auto found = Find(live_of_many(), limit);
    std::vector<int64_t> first = expected;
    if (first.size() > limit) first.resize(limit);
    EXPECT_EQ(IntIds(found), first);
    EXPECT_EQ(found->has_more, limit < expected.size());
  }
}

TEST_F(DocumentDeleteTest, TheDeadlineIsCheckedWhileDocumentsAndVersionsAreRead) {
  request_.set_collection("many");
  // The cache of filters may keep what a repeated filter matches, and then needs fewer checks. So fill it first.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Find(live_of_many(), 1).ok());
  int num_checks = 0;
  const StopCheck count = [&] {
    ++num_checks;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Find(live_of_many(), kManyDocuments, count).ok());
  const int without_versions = num_checks;
  EXPECT_GE(without_versions, 2) << "before the search and within it";
  request_.set_version(5);
  num_checks = 0;
  ASSERT_TRUE(Find(live_of_many(), kManyDocuments, count).ok());
  const int with_versions = num_checks;
  EXPECT_GE(with_versions, without_versions + 2) << "also while versions are looked up";
  for (int last = 1; last <= with_versions; ++last) {
    num_checks = 0;
    const absl::Status status = Find(live_of_many(), kManyDocuments, [&] {
                                  return ++num_checks < last ? absl::OkStatus() : absl::CancelledError("gone");
                                }).status();
    EXPECT_EQ(status, absl::CancelledError("gone")) << last;
    EXPECT_EQ(num_checks, last);
  }
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
  // A delete by ids and a Scroll must go on, because the limit on deletes with a filter does not apply to them.
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
