// Tests a router whose servers hold other slots than their groups own, while slots move between groups.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/error_details.h"
#include "client/slot_message.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/router_documents.h"
#include "server/service/rerank_front.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int kNumMovedDocuments = 20;

// Two groups of two fake servers with a collection of 20 documents. At first every server holds all documents, and each
// group owns half of the slots. The router asks the servers which slots they hold only at its start, and after a server
// has refused a request for slots that it does not hold.
class RouterSlotsTest : public RouterTest {
 protected:
  RouterSlotsTest() : RouterTest(2, 2, /*is_live=*/true) {
    for (int i = 0; i < kNumMovedDocuments; ++i) ids_.push_back(absl::StrCat("doc-", i));
    for (const auto& one : replicas_) {
      one->Say(LiveInfoOf({}, halves_));
      Play(*one);
    }
    options_.poll_interval = absl::Hours(1);
  }

  // Returns the slots that a request names.
  static std::optional<collection::SlotRange> AskedSlots(const v1::Filter& visible) {
    if (visible.has_in_slots()) return client::SlotRangeOf(visible.in_slots());
    if (!visible.has_all_of()) return std::nullopt;
    const auto& filters = visible.all_of().filters();
    return AskedSlots(filters[filters.size() - 1]);
  }

  static grpc::Status OtherSlots() {
    return client::ToGrpcStatus(client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherSlots,
                                                   "visible", "asks for slots that are not here"));
  }

  // Calls `answer` with the ids in the slots that the request names. If the replica does not hold these slots, refuses
  // the request as a server does.
  template <typename Request, typename Answer>
  grpc::Status AnswerFor(FakeReplica& replica, const Request& request, Answer answer) {
    const std::optional<collection::SlotRange> asked = AskedSlots(request.visible());
    if (!asked.has_value()) return {grpc::StatusCode::INTERNAL, "the request names no slots"};
    if (!Holds(replica.said(), *asked)) {
      ++num_refused_;
      return OtherSlots();
    }
    std::vector<std::string> ids;
    std::copy_if(ids_.begin(), ids_.end(), std::back_inserter(ids),
                 [&](const std::string& id) { return asked->contains(collection::SlotOf(std::string_view(id))); });
    std::sort(ids.begin(), ids.end());
    answer(ids);
    return grpc::Status::OK;
  }

  void Play(FakeReplica& replica) {
    test::FakeServer& server = replica.server();
    server.on_rerank = [this, &replica](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      response.set_generation(1);
      return AnswerFor(replica, request, [&](const std::vector<std::string>& ids) {
        v1::QueryResult& result = *response.add_results();
        for (const std::string& id : ids) {
          result.mutable_string_ids()->add_ids(id);
          result.add_scores(1);
          result.add_positions(static_cast<uint64_t>(result.positions_size()));
        }
      });
    };
    server.on_explain = [this, &replica](auto&, const v1::RerankRequest& request, v1::ExplainResponse& response) {
      return AnswerFor(replica, request, [&](const std::vector<std::string>&) {
        response.set_num_query_tokens(1);
        response.set_num_document_tokens(1);
        response.add_similarities(1);
        response.set_score(1);
      });
    };
    server.on_get = [this, &replica](auto&, const v1::GetRequest& request, v1::GetResponse& response) {
      return AnswerFor(replica, request, [&](const std::vector<std::string>&) {
        for (const std::string& id : request.string_ids().ids()) {
          v1::StoredDocument& document = *response.add_documents();
          document.set_string_id(id);
          document.set_num_tokens(1);
        }
      });
    };
    server.on_count = [this, &replica](auto&, const v1::CountRequest& request, v1::CountResponse& response) {
      return AnswerFor(replica, request, [&](const std::vector<std::string>& ids) { response.set_count(ids.size()); });
    };
    server.on_scroll = [this, &replica](auto&, const v1::ScrollRequest& request, v1::ScrollResponse& response) {
      return AnswerFor(replica, request, [&](const std::vector<std::string>& ids) {
        for (const std::string& id : ids) {
          v1::StoredDocument& document = *response.add_documents();
          document.set_string_id(id);
          document.set_num_tokens(1);
        }
      });
    };
    server.on_delete = [this, &replica](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
      return AnswerFor(replica, request, [&](const std::vector<std::string>& ids) {
        const MutexLock lock(&mutex_);
        response.set_sequence(100);
        for (const std::string& id : ids) response.set_num_deleted(response.num_deleted() + deleted_.insert(id).second);
      });
    };
    server.on_upsert = [](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
      for (int i = 0; i < request.documents_size(); ++i) {
        response.add_results()->set_outcome(v1::WRITE_OUTCOME_APPLIED);
        response.mutable_results(i)->set_sequence(1);
      }
      response.set_sequence(1);
      return grpc::Status::OK;
    };
  }

  void StartRouter() {
    Start();
    documents_ = std::make_unique<RouterDocuments>(dependencies());
    documents_->SetState(service::ServingState::kServing);
    scorer_ = std::make_unique<RouterScorer>(dependencies());
    front_ = std::make_unique<service::RerankFront>(scorer_.get(), &texts_, &metrics_, service::RequestLimits(),
                                                    absl::ZeroDuration());
    front_->SetState(service::ServingState::kServing);
  }

  // Moves most slots to g0. All servers report the new owners, and those of g1 hold only the slots that g1 still owns.
  // The router has not yet asked the servers again.
  void MoveSlots() {
    const v1::SlotLayout moved = LayoutOf(2, {{"g0", {0, 3000}}, {"g1", {3000, 4096}}});
    for (int index : {0, 1}) {
      replica(0, index).Say(LiveInfoOf({}, moved));
      replica(1, index).Say(LiveInfoOf({3000, 4096}, moved));
    }
  }

  // Returns a request of one query, without candidates.
  static v1::RerankRequest Question() {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(2 * kNumMovedDocuments);
    v1::TokenMatrix& tokens = *request.add_queries()->mutable_tokens();
    tokens.set_dtype(v1::DATA_TYPE_F32);
    tokens.set_num_tokens(1);
    tokens.set_dim(8);
    tokens.set_data(std::string(8 * sizeof(float), '\0'));
    return request;
  }

  absl::StatusOr<v1::RerankResponse> Rerank() {
    v1::RerankRequest request = Question();
    request.mutable_candidates()->mutable_whole_collection();
    return Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
      front_->Rerank(std::move(request), {.method = "Rerank"}, std::move(done));
    });
  }

  absl::StatusOr<v1::ExplainResponse> Explain(const std::string& id) {
    v1::RerankRequest request = Question();
    request.mutable_candidates()->mutable_string_ids()->add_ids(id);
    return Wait<v1::ExplainResponse>([&](service::Done<v1::ExplainResponse> done) {
      front_->Explain(std::move(request), {.method = "Explain"}, std::move(done));
    });
  }

  // Gets all documents.
  absl::StatusOr<v1::GetResponse> Get() {
    v1::GetRequest request;
    request.set_collection("c");
    for (const std::string& id : ids_) request.mutable_string_ids()->add_ids(id);
    return Wait<v1::GetResponse>(
        [&](service::Done<v1::GetResponse> done) { documents_->Get(request, {.method = "Get"}, std::move(done)); });
  }

  uint64_t Count() {
    v1::CountRequest request;
    request.set_collection("c");
    const auto answer = Wait<v1::CountResponse>([&](service::Done<v1::CountResponse> done) {
      documents_->Count(request, {.method = "Count"}, std::move(done));
    });
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->count() : 0;
  }

  absl::StatusOr<v1::DeleteResponse> DeleteMatching() {
    v1::DeleteRequest request;
    request.set_collection("c");
    request.set_filter_text("year < 2000");
    return Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
      documents_->Delete(request, {.method = "Delete"}, std::move(done));
    });
  }

  std::set<std::string> deleted() {
    const MutexLock lock(&mutex_);
    return deleted_;
  }

  const v1::SlotLayout halves_ = LayoutOf(1, {{"g0", {0, 2048}}, {"g1", {2048, 4096}}});
  std::vector<std::string> ids_;
  std::atomic<int> num_refused_{0};
  Mutex mutex_;
  std::set<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<RouterDocuments> documents_;
  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<service::RerankFront> front_;
};

TEST_F(RouterSlotsTest, EveryDocumentIsInOneGroupsAnswer) {
  StartRouter();
  const auto answer = Rerank();
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto& ids = answer->results(0).string_ids().ids();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()), std::set<std::string>(ids_.begin(), ids_.end()));
  EXPECT_EQ(ids.size(), kNumMovedDocuments);
  EXPECT_EQ(Count(), kNumMovedDocuments);
  v1::ScrollRequest request;
  request.set_collection("c");
  request.set_limit(2 * kNumMovedDocuments);
  const auto page = Wait<v1::ScrollResponse>([&](service::Done<v1::ScrollResponse> done) {
    documents_->Scroll(request, {.method = "Scroll"}, std::move(done));
  });
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->documents(), SizeIs(kNumMovedDocuments));
  EXPECT_EQ(num_refused_, 0);
}

TEST_F(RouterSlotsTest, AnotherReplicaAnswersForOneThatHasDroppedSlots) {
  StartRouter();
  replica(0, 0).Say(LiveInfoOf({100, 4096}, halves_));
  for (int i = 0; i < 2 * ReplicaHealth::kMaxFailures; ++i) {
    EXPECT_EQ(Count(), kNumMovedDocuments);
    const auto answer = Rerank();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(answer->results(0).scores(), SizeIs(kNumMovedDocuments));
  }
  EXPECT_GE(num_refused_, 1);
  EXPECT_FALSE(seen(0, 0)->health().is_ejected(MonotonicNow())) << "it did nothing wrong";
}

TEST_F(RouterSlotsTest, ARouterThatMissedAMoveTakesAFreshViewAndSplitsAgain) {
  StartRouter();
  MoveSlots();
  const auto answer = Rerank();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->results(0).scores(), SizeIs(kNumMovedDocuments));
  EXPECT_EQ(answer->unavailable_groups_size(), 0);
  EXPECT_GE(num_refused_, 2) << "both servers of g1 refuse";
  EXPECT_EQ((*membership_->view()->Find("c"))->layout.revision(), 2);
}

TEST_F(RouterSlotsTest, ACountTakesAFreshView) {
  StartRouter();
  MoveSlots();
  EXPECT_EQ(Count(), kNumMovedDocuments);
  EXPECT_GE(num_refused_, 2);
}

TEST_F(RouterSlotsTest, AGetTakesAFreshViewAndAsksTheNewOwners) {
  StartRouter();
  MoveSlots();
  const auto answer = Get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<std::string> read;
  for (const v1::StoredDocument& document : answer->documents()) read.push_back(document.string_id());
  EXPECT_EQ(read, ids_);
  EXPECT_GE(num_refused_, 2);
}

TEST_F(RouterSlotsTest, AnExplanationTakesAFreshViewAndAsksTheNewOwner) {
  StartRouter();
  MoveSlots();
  for (const std::string& id : ids_) {
    const auto answer = Explain(id);
    EXPECT_TRUE(answer.ok()) << id << ": " << answer.status();
  }
  EXPECT_GE(num_refused_, 2);
}

TEST_F(RouterSlotsTest, ADeleteByFilterTakesAFreshViewAndAddsUpWhatWasDeleted) {
  StartRouter();
  MoveSlots();
  const auto answer = DeleteMatching();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->num_deleted(), kNumMovedDocuments);
  EXPECT_THAT(deleted(), SizeIs(kNumMovedDocuments));
  EXPECT_EQ(answer->sequence(), 100);
  EXPECT_GE(num_refused_, 2);
}

TEST_F(RouterSlotsTest, ADeleteThatEveryServerOfAGroupRefusesSaysWhatWasDeleted) {
  // The servers of g1 refuse, although they report that they hold the slots.
  for (int index : {0, 1}) {
    replica(1, index).server().on_delete = [](auto&&...) { return OtherSlots(); };
  }
  StartRouter();
  const absl::Status partly = DeleteMatching().status();
  EXPECT_TRUE(absl::IsUnavailable(partly)) << partly;
  EXPECT_EQ(client::NumDeletedOf(partly), deleted().size());
  EXPECT_FALSE(deleted().empty());
  EXPECT_THAT(std::string(partly.message()), HasSubstr("were deleted: the call can be repeated"));
  for (int index : {0, 1}) {
    replica(0, index).server().on_delete = [](auto&&...) { return OtherSlots(); };
  }
  const absl::Status none = DeleteMatching().status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_TRUE(client::IsNothingWritten(none)) << none;
}

TEST_F(RouterSlotsTest, AGroupWhoseServersAllRefuseIsLost) {
  for (int index : {0, 1}) {
    replica(1, index).server().on_rerank = [](auto&&...) { return OtherSlots(); };
    replica(1, index).server().on_count = [](auto&&...) { return OtherSlots(); };
    replica(1, index).server().on_get = [](auto&&...) { return OtherSlots(); };
    replica(1, index).server().on_explain = [](auto&&...) { return OtherSlots(); };
  }
  StartRouter();
  const auto partial = Rerank();
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), testing::ElementsAre("g1"));
  v1::CountRequest request;
  request.set_collection("c");
  const absl::Status status = Wait<v1::CountResponse>([&](service::Done<v1::CountResponse> done) {
                                documents_->Count(request, {.method = "Count"}, std::move(done));
                              }).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g1"));
  const absl::Status read = Get().status();
  EXPECT_TRUE(absl::IsUnavailable(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("group g1"));
  const absl::Status explained = Explain(IdOf(1, 2)).status();
  EXPECT_TRUE(absl::IsUnavailable(explained)) << explained;
}

TEST_F(RouterSlotsTest, AnOwnerWithoutAHolderIsLostAndTheOthersAnswer) {
  for (int index : {0, 1}) replica(1, index).Say(LiveInfoOf({3000, 4096}, halves_));
  StartRouter();
  const auto partial = Rerank();
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), testing::ElementsAre("g1"));
  EXPECT_EQ(num_refused_, 0) << "servers that do not hold the slots are not asked";
}

TEST_F(RouterSlotsTest, ADocumentIsWrittenByTheOwnerOfItsSlot) {
  MoveSlots();
  StartRouter();
  v1::UpsertRequest request;
  request.set_collection("c");
  v1::Document& document = *request.add_documents();
  // A document of a slot that g1 owned, and that g0 owns now.
  int skip = 0;
  while (collection::SlotOf(std::string_view(IdOf(1, 2, skip))) >= 3000) ++skip;
  document.set_string_id(IdOf(1, 2, skip));
  v1::TokenMatrix& tokens = *document.mutable_tokens();
  tokens.set_dtype(v1::DATA_TYPE_F32);
  tokens.set_num_tokens(1);
  tokens.set_dim(8);
  tokens.set_data(std::string(8 * sizeof(float), '\0'));
  const auto answer = Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
    documents_->Upsert(request, {.method = "Upsert"}, std::move(done));
  });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(replica(0, 0).server().num_document_calls + replica(0, 1).server().num_document_calls, 1);
  EXPECT_EQ(replica(1, 0).server().num_document_calls + replica(1, 1).server().num_document_calls, 0);
}

}  // namespace
}  // namespace maxsim::cluster
