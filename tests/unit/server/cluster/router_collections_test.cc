// Tests that a router loads, reloads and changes collections on all servers of a cluster.
#include "server/cluster/router_collections.h"

#include <cstdint>
#include <limits>

#include "client/error_details.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tracing/tracer.h"
#include "tests/unit/server/cluster/router_collections_fixture.h"
#include "tests/unit/server/cluster/span_keeper.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RouterCollectionsTest, ALoadGoesToEveryServer) {
  const auto info = collections_->LoadForClient(LoadOfC(), {});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->num_documents(), 2);
  EXPECT_THAT(asked(), ElementsAre("00 LoadCollection", "01 LoadCollection", "10 LoadCollection", "11 LoadCollection"));
}

TEST_F(RouterCollectionsTest, AnErrorEndsAChangeAndNamesTheServer) {
  replica(0, 1).server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no such folder");
  const absl::Status status = collections_->LoadForClient(LoadOfC(), {}).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("server " + replica(0, 1).target() + " of group g0: no such folder"));
  EXPECT_THAT(asked(), ElementsAre("00 LoadCollection", "01 LoadCollection"));
}

TEST_F(RouterCollectionsTest, WhatSomeHaveDoneBeforeIsDoneAndWhatAllHaveIsAnError) {
  const grpc::Status there(grpc::StatusCode::ALREADY_EXISTS, "it is there");
  for (int group : {0, 1}) replica(group, 0).server().admin_status = there;
  EXPECT_TRUE(collections_->LoadForClient(LoadOfC(), {}).ok());
  for (int group : {0, 1}) replica(group, 1).server().admin_status = there;
  EXPECT_TRUE(absl::IsAlreadyExists(collections_->LoadForClient(LoadOfC(), {}).status()));
}

TEST_F(RouterCollectionsTest, EachGroupCreatesACollectionWithItsOwnSlots) {
  v1::CreateCollectionRequest request;
  request.set_name("c");
  ASSERT_TRUE(collections_->CreateForClient(request, {}).ok());
  for (int group : {0, 1}) {
    for (int number : {0, 1}) {
      const v1::PartitionInfo& slots = replica(group, number).server().created.slots();
      EXPECT_EQ(slots.first_slot(), group == 0 ? 0u : 2048u);
      EXPECT_EQ(slots.end_slot(), group == 0 ? 2048u : 4096u);
    }
  }
}

TEST_F(RouterCollectionsTest, ACompactionPassesOverGroupsWithoutTheCollection) {
  for (int number : {0, 1}) {
    replica(0, number).server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no collection");
  }
  bool changed = false;
  EXPECT_TRUE(collections_->Compact("c", &changed, {}).ok());
  EXPECT_THAT(asked(), ElementsAre("00 CompactCollection", "01 CompactCollection", "10 CompactCollection",
                                   "11 CompactCollection"));
}

TEST_F(RouterCollectionsTest, ASnapshotIsOfOneReplicaOfEachGroupThatAnswers) {
  replica(0, 0).away = true;
  ASSERT_TRUE(Eventually([&] { return !seen(0, 0)->poll_status().ok(); }));
  const auto sequence = collections_->SnapshotForClient("c", "/somewhere", {});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(*sequence, 41);
  EXPECT_THAT(asked(), ElementsAre("01 SnapshotCollection", "10 SnapshotCollection"));
}

TEST_F(RouterCollectionsTest, AnAnswerAboutAnotherCollectionEndsAChange) {
  replica(0, 1).server().answered_name = "d";
  v1::CreateCollectionRequest create;
  create.set_name("c");
  bool changed = false;
  for (const absl::Status& status :
       {collections_->LoadForClient(LoadOfC(), {}).status(), collections_->CreateForClient(create, {}).status(),
        Reload().status(), collections_->Compact("c", &changed, {}).status()}) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(0, 1).target() + " of group g0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("collection.name is \"d\", but \"c\" was to be changed"));
  }
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_group_bad_answers_total{field=\"collection\",group=\"g0\"} 4"));
}

TEST_F(RouterCollectionsTest, ASnapshotWithAnImpossibleSequenceIsRefused) {
  replica(1, 0).server().snapshot_sequence = std::numeric_limits<uint64_t>::max();
  const absl::Status status = collections_->SnapshotForClient("c", "/somewhere", {}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(1, 0).target() + " of group g1"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_group_bad_answers_total{field=\"sequence\",group=\"g1\"} 1"));
}

TEST_F(RouterCollectionsTest, AChangeThatIsStoppedEndsWithTheReason) {
  replica(0, 0).server().on_admin = [](const grpc::ServerContext& context, std::string_view) {
    Eventually([&] { return context.IsCancelled(); });
  };
  StopSignal stop;
  stop.Request(absl::StatusCode::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(collections_->LoadForClient(LoadOfC(), {.stop = &stop}).status()));
  shutdown_.Request(absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::IsUnavailable(collections_->LoadForClient(LoadOfC(), {}).status()));
}

TEST_F(RouterCollectionsTest, ACollectionWithoutAStreamHasNoLayout) {
  v1::SetLayoutRequest request;
  request.set_name("c");
  v1::SlotOwner& owner = *request.add_owners();
  owner.set_group("g0");
  owner.mutable_slots()->set_end_slot(4096);
  EXPECT_TRUE(absl::IsFailedPrecondition(collections_->SetLayout(request, {}).status()));
  EXPECT_THAT(asked(), testing::IsEmpty());
}

TEST_F(RouterCollectionsTest, EveryServerHearsOfTheTrace) {
  SpanKeeper::Spans spans;
  const tracing::Tracer tracer{std::make_unique<SpanKeeper>(&spans)};
  tracing::Span call = tracer.StartSpan("call", tracing::SpanKind::kServer, {}, MonotonicNow());
  replica(1, 1).server().admin_status = grpc::Status(grpc::StatusCode::DATA_LOSS, "damaged");
  v1::CreateCollectionRequest request;
  request.set_name("c");
  EXPECT_FALSE(collections_->CreateForClient(request, {.span = call.AsParent()}).ok());
  ASSERT_EQ(spans.size(), 4);
  const MutexLock lock(&mutex_);
  ASSERT_EQ(traceparents_.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(spans[i]->parent_span_id, call.context().span_id);
    EXPECT_EQ(spans[i]->kind, tracing::SpanKind::kClient);
    EXPECT_EQ(traceparents_[i], tracing::FormatTraceparent(spans[i]->context));
    EXPECT_EQ(spans[i]->error, i < 3 ? "" : "DATA_LOSS: damaged");
  }
}

TEST_F(RouterCollectionsTest, WithoutATraceServersHearNothing) {
  ASSERT_TRUE(collections_->LoadForClient(LoadOfC(), {}).ok());
  const MutexLock lock(&mutex_);
  EXPECT_THAT(traceparents_, testing::Each(""));
}

class LiveRouterCollectionsTest : public RouterCollectionsTest {
 protected:
  LiveRouterCollectionsTest() : RouterCollectionsTest(/*is_live=*/true) {}

  static v1::SetLayoutRequest LayoutOfC() {
    v1::SetLayoutRequest request;
    request.set_name("c");
    request.set_expected_revision(7);
    for (const uint32_t first : {0u, 2048u}) {
      v1::SlotOwner& owner = *request.add_owners();
      owner.set_group(first == 0 ? "g0" : "g1");
      owner.mutable_slots()->set_first_slot(first);
      owner.mutable_slots()->set_end_slot(first + 2048);
    }
    return request;
  }
};

TEST_F(LiveRouterCollectionsTest, ALayoutIsSetByOneServer) {
  const auto layout = collections_->SetLayout(LayoutOfC(), {});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->revision(), 8u);
  EXPECT_EQ(layout->owners(1).slots().end_slot(), 4096u);
  EXPECT_THAT(asked(), ElementsAre("00 SetLayout"));
}

TEST_F(LiveRouterCollectionsTest, AnotherServerIsAskedOnlyIfNothingWasSet) {
  absl::Status away = absl::UnavailableError("NATS does not answer");
  client::SetReason(client::kReasonNothingWritten, away);
  replica(0, 0).server().on_set_layout = [away](const v1::SetLayoutRequest&, v1::SetLayoutResponse&) {
    return client::ToGrpcStatus(away);
  };
  ASSERT_TRUE(collections_->SetLayout(LayoutOfC(), {}).ok());
  EXPECT_THAT(asked(), ElementsAre("00 SetLayout", "01 SetLayout"));
  replica(0, 1).server().on_set_layout = [](const v1::SetLayoutRequest&, v1::SetLayoutResponse&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer in time");
  };
  const absl::Status status = collections_->SetLayout(LayoutOfC(), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(0, 1).target() + " of group g0"));
  EXPECT_THAT(asked(), ElementsAre("00 SetLayout", "01 SetLayout", "00 SetLayout", "01 SetLayout"));
}

TEST_F(LiveRouterCollectionsTest, AnotherRevisionIsAnErrorWithItsField) {
  const absl::Status other = client::FieldError(absl::StatusCode::kAborted, client::kReasonOtherRevision,
                                                "expected_revision", "is 7, but the layout has revision 9");
  replica(0, 0).server().on_set_layout = [other](const v1::SetLayoutRequest&, v1::SetLayoutResponse&) {
    return client::ToGrpcStatus(other);
  };
  const absl::Status status = collections_->SetLayout(LayoutOfC(), {}).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "expected_revision");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonOtherRevision);
}

TEST_F(LiveRouterCollectionsTest, AWrongLayoutReachesNoServer) {
  v1::SetLayoutRequest request = LayoutOfC();
  request.mutable_owners(1)->set_group("g2");
  absl::Status status = collections_->SetLayout(request, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "owners[1].group");
  EXPECT_THAT(std::string(status.message()), HasSubstr("is \"g2\", which is no group of this router"));
  request = LayoutOfC();
  request.mutable_owners(1)->mutable_slots()->set_end_slot(4095);
  status = collections_->SetLayout(request, {}).status();
  EXPECT_EQ(client::FieldOf(status), "owners[1].slots.end_slot");
  request = LayoutOfC();
  request.set_name("d");
  EXPECT_TRUE(absl::IsNotFound(collections_->SetLayout(request, {}).status()));
  EXPECT_THAT(asked(), testing::IsEmpty());
}

TEST_F(LiveRouterCollectionsTest, AnAnswerWithAnotherLayoutIsRefused) {
  replica(0, 0).server().on_set_layout = [](const v1::SetLayoutRequest&, v1::SetLayoutResponse& answer) {
    answer.mutable_layout()->set_revision(7);
    return grpc::Status::OK;
  };
  const absl::Status status = collections_->SetLayout(LayoutOfC(), {}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_group_bad_answers_total{field=\"layout\",group=\"g0\"} 1"));
}

TEST_F(LiveRouterCollectionsTest, ACompactionGoesToEveryServer) {
  bool changed = false;
  ASSERT_TRUE(collections_->Compact("c", &changed, {}).ok());
  EXPECT_TRUE(changed);
  EXPECT_EQ(asked().size(), 4);
}

TEST_F(LiveRouterCollectionsTest, CopiesBetweenServersAreNotMadeThroughARouter) {
  const auto none = [](const v1::ReadSnapshotResponse&) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsFailedPrecondition(collections_->ReadSnapshot("c", none, {})));
  EXPECT_TRUE(absl::IsFailedPrecondition(collections_->Bootstrap({}, {}).status()));
  EXPECT_TRUE(asked().empty());
}

TEST_F(LiveRouterCollectionsTest, ASnapshotThatLacksWritesIsRefused) {
  v1::CollectionInfo info = replica(0, 0).said();
  info.mutable_live()->set_sequence(42);
  replica(0, 0).Say(info);
  ASSERT_TRUE(Eventually([&] { return seen(0, 0)->info()->collections(0).live().sequence() == 42; }));
  const absl::Status status = collections_->SnapshotForClient("c", "/somewhere", {}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sequence is 41; must be 42 to "));
  replica(0, 0).server().snapshot_sequence = 43;
  const auto sequence = collections_->SnapshotForClient("c", "/somewhere", {});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(*sequence, 41);
}

}  // namespace
}  // namespace maxsim::cluster
