// Tests what the tenant gate passes on, refuses and removes.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "collection/field.h"
#include "collection/filters/canonical.h"
#include "server/service/tenant_gate/tenant_view.h"
#include "tests/unit/server/service/tenants/tenant_gate_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(TenantGateTest, CallsOfAPortThatDoesNotSayWhoCallsAreRefused) {
  EXPECT_TRUE(absl::IsInternal(Rerank(Caller(), RequestOf("docs")).status()));
  EXPECT_TRUE(absl::IsInternal(Ask(&DocumentApi::Get, Caller(), "docs").status()));
  EXPECT_TRUE(absl::IsInternal(Ask(&DocumentApi::Delete, Caller(), "docs").status()));
  EXPECT_TRUE(absl::IsInternal(Upsert(Caller(), "docs").status()));
  v1::RerankRequest request;
  EXPECT_TRUE(absl::IsInternal(questions_gate_.ChooseCollection(Caller(), &request)));
  EXPECT_FALSE(documents_gate_.HasIntIds(Caller(), "docs"));
  EXPECT_EQ(questions_.num_calls + documents_.num_calls, 0);
}

TEST_F(TenantGateTest, CallsOfOthersThanTenantsAreNotChanged) {
  questions_.answer->set_sequence(9);
  questions_.answer->add_results();
  questions_.answer->add_results()->add_positions(1'000);
  const auto answer = Rerank(Caller::Unrestricted(), RequestOf("any"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->SerializeAsString(), questions_.answer->SerializeAsString());
  EXPECT_EQ(questions_.request.SerializeAsString(), RequestOf("any").SerializeAsString());
  const auto read = Ask(&DocumentApi::Get, Caller::Unrestricted(), "any");
  EXPECT_EQ(read->sequence(), 77u);
  EXPECT_FALSE(documents_.visible.has_value());
}

TEST_F(TenantGateTest, TheFilterIsAddedToEachCall) {
  const Caller acme = CallerOf(kAcme);
  EXPECT_TRUE(Rerank(acme, RequestOf("docs")).ok());
  EXPECT_EQ(TextOf(questions_.request.visible()), "owner = \"acme\"");
  const auto expect_visible = [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ASSERT_TRUE(documents_.visible.has_value());
    EXPECT_EQ(TextOf(*documents_.visible), "owner = \"acme\"");
    documents_.visible.reset();
  };
  expect_visible(Ask(&DocumentApi::Get, acme, "docs").status());
  expect_visible(Ask(&DocumentApi::Scroll, acme, "docs").status());
  expect_visible(Ask(&DocumentApi::Count, acme, "docs").status());
  expect_visible(Ask(&DocumentApi::Facets, acme, "docs").status());
  expect_visible(Ask(&DocumentApi::Delete, acme, "docs").status());
  expect_visible(Upsert(acme, "docs").status());
}

TEST_F(TenantGateTest, AClientCannotWidenTheFilter) {
  v1::RerankRequest request = RequestOf("docs");
  *request.mutable_visible() = FilterMessageOf(*collection::ParseFilter("exists(owner)"));
  EXPECT_TRUE(Rerank(CallerOf(kAcme), request).ok());
  EXPECT_EQ(TextOf(questions_.request.visible()), "owner = \"acme\" and exists(owner)");
}

TEST_F(TenantGateTest, SlotsOfAClientDoNotWidenTheFilter) {
  v1::RerankRequest request = RequestOf("docs");
  *request.mutable_visible() = FilterMessageOf(
      collection::Filter::Or({collection::Filter::Everything(), *collection::ParseFilter("exists(owner)")}));
  EXPECT_TRUE(Rerank(CallerOf(kAcme), request).ok());
  EXPECT_EQ(TextOf(questions_.request.visible()), "owner = \"acme\" and (in_slots(0-4095) or exists(owner))");
  const auto canonical =
      collection::CanonicalFilter(*FilterOf(questions_.request.visible()), *collection::ParseFields("owner:keyword"));
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  EXPECT_EQ(collection::FormatFilter(*canonical), "owner = \"acme\"");
}

TEST_F(TenantGateTest, ADeleteWithAFilterKeepsItsFilterAndGetsTheTenants) {
  const auto answer = DeleteMatching(CallerOf(kAcme), "not year = 1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(documents_.delete_request.filter_text(), "not year = 1");
  EXPECT_EQ(TextOf(documents_.delete_request.visible()), "owner = \"acme\"");
  EXPECT_EQ(answer->sequence(), 77u) << "the client waits for its deletes by it";
  EXPECT_TRUE(DeleteMatching(Caller::Unrestricted(), "not year = 1").ok());
  EXPECT_FALSE(documents_.delete_request.has_visible());
}

TEST_F(TenantGateTest, CollectionsOfOthersAreUnknownWithoutBeingLookedUp) {
  const Caller acme = CallerOf(kAcme);
  const absl::Status refused = Rerank(acme, RequestOf("secret")).status();
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_EQ(refused, Ask(&DocumentApi::Get, acme, "secret").status());
  EXPECT_EQ(refused, Ask(&DocumentApi::Delete, acme, "secret").status());
  EXPECT_EQ(refused, Upsert(acme, "secret").status());
  EXPECT_FALSE(documents_gate_.HasIntIds(acme, "secret"));
  EXPECT_TRUE(documents_gate_.HasIntIds(acme, "docs"));
  EXPECT_EQ(questions_.num_calls + documents_.num_calls, 0);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"NOT_FOUND\",method=\"Rerank\"} 1"));
}

TEST_F(TenantGateTest, ErrorsDoNotListOtherCollections) {
  documents_.status = absl::NotFoundError("no collection \"docs\"; loaded: secret");
  const absl::Status status = Ask(&DocumentApi::Count, CallerOf(kAcme), "docs").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("secret")));
}

TEST_F(TenantGateTest, ErrorsDoNotSayHowFarTheCollectionHasCome) {
  documents_.status = client::FieldError(absl::StatusCode::kUnavailable, client::kReasonSequenceNotReached,
                                         "min_sequence", "is 9, but collection docs has only reached 8");
  client::SetRetryAfter(absl::Milliseconds(50), documents_.status);
  const absl::Status status = Ask(&DocumentApi::Count, CallerOf(kAcme), "docs").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(client::ReasonOf(status), client::kReasonSequenceNotReached);
  EXPECT_EQ(client::FieldOf(status), "min_sequence");
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(50));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("8")));
}

TEST_F(TenantGateTest, ErrorsOfDeletesDoNotSayHowFarTheCollectionHasCome) {
  documents_.status = client::FieldError(absl::StatusCode::kUnavailable, client::kReasonSequenceNotReached,
                                         "min_sequence", "is 9, but collection docs has only reached 8");
  client::SetRetryAfter(absl::Milliseconds(50), documents_.status);
  const auto of_delete = [&] { return DeleteMatching(CallerOf(kAcme), "year = 1").status(); };
  client::SetNothingWritten(documents_.status);  // as a server does
  const absl::Status refused = of_delete();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(client::IsNothingWritten(refused));
  EXPECT_EQ(client::FieldOf(refused), "min_sequence");
  EXPECT_EQ(client::RetryAfter(refused), absl::Milliseconds(50));
  EXPECT_THAT(std::string(refused.message()), testing::Not(HasSubstr("8")));
  client::SetPartlyDeleted(31, documents_.status);  // as a router does
  const absl::Status partly = of_delete();
  EXPECT_EQ(client::ReasonOf(partly), client::kReasonPartlyDeleted);
  EXPECT_EQ(client::NumDeletedOf(partly), 31u);
  EXPECT_THAT(std::string(partly.message()), testing::Not(HasSubstr("8")));
  EXPECT_THAT(std::string(partly.message()), HasSubstr("31 documents were deleted"));
}

TEST_F(TenantGateTest, AnswersDoNotCountDocumentsAndWritesOfOthers) {
  questions_.answer->set_sequence(9);
  questions_.answer->set_generation(4);
  v1::QueryResult& listed = *questions_.answer->add_results();
  listed.add_positions(0);
  v1::QueryResult& whole = *questions_.answer->add_results();
  for (const uint64_t ordinal : {900, 20, 7'000}) whole.add_positions(ordinal);
  const auto answer = Rerank(CallerOf(kAcme), RequestOf("docs"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->sequence(), 0u);
  EXPECT_EQ(answer->generation(), 4u);
  EXPECT_THAT(answer->results(0).positions(), ElementsAre(0));
  EXPECT_THAT(answer->results(1).positions(), ElementsAre(3, 4, 5));  // offset is 3
  const auto read = Ask(&DocumentApi::Get, CallerOf(kAcme), "docs");
  EXPECT_EQ(read->sequence(), 0u);
  EXPECT_EQ(read->documents(0).sequence(), 0u);
  EXPECT_EQ(Ask(&DocumentApi::Scroll, CallerOf(kAcme), "docs")->documents(0).sequence(), 0u);
  EXPECT_EQ(Ask(&DocumentApi::Facets, CallerOf(kAcme), "docs")->sequence(), 0u);
  // Writes keep it, for min_sequence.
  EXPECT_EQ(Ask(&DocumentApi::Delete, CallerOf(kAcme), "docs")->sequence(), 77u);
}

TEST_F(TenantGateTest, WithoutAFilterAnswersStayAsTheyAre) {
  questions_.answer->set_sequence(9);
  questions_.answer->add_results();
  questions_.answer->add_results()->add_positions(1'000);
  const auto answer = Rerank(CallerOf(R"({"tenant": "a", "collections": ["docs"]})"), RequestOf("docs"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->sequence(), 9u);
  EXPECT_THAT(answer->results(1).positions(), ElementsAre(1'000));
  EXPECT_FALSE(questions_.request.has_visible());
}

TEST_F(TenantGateTest, NoTenantLearnsTheNamesOfGroups) {
  questions_.answer->add_unavailable_groups("g0");
  questions_.answer->add_results()->set_unavailable_documents(1);
  for (const char* settings : {kAcme, R"({"tenant": "a", "collections": ["docs"]})"}) {
    const auto answer = Rerank(CallerOf(settings), RequestOf("docs"));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->unavailable_groups_size(), 0);
    EXPECT_EQ(answer->results(0).unavailable_documents(), 1u);
  }
  EXPECT_EQ(Rerank(Caller::Unrestricted(), RequestOf("docs"))->unavailable_groups_size(), 1);
}

TEST_F(TenantGateTest, ATenantIsOneClientOfTheQueue) {
  Rerank(CallerOf(kAcme), RequestOf("docs")).IgnoreError();
  const uint64_t client = questions_.context.client;
  questions_gate_.Rerank(RequestOf("docs"), {.method = "Rerank", .client = 12'345, .caller = CallerOf(kAcme)},
                         [](const absl::StatusOr<v1::RerankResponse>&) {});
  EXPECT_EQ(questions_.context.client, client);
  Rerank(CallerOf(R"({"tenant": "other"})"), RequestOf("docs")).IgnoreError();
  EXPECT_NE(questions_.context.client, client);
}

TEST_F(TenantGateTest, ACollectionIsChosenAmongThoseOfTheTenant) {
  v1::RerankRequest request;
  request.add_queries()->mutable_candidates()->mutable_string_ids()->add_ids("a");
  EXPECT_TRUE(questions_gate_.ChooseCollection(CallerOf(kAcme), &request).ok());
  EXPECT_EQ(request.collection(), "docs");
  request.clear_collection();
  const absl::Status several =
      questions_gate_.ChooseCollection(CallerOf(R"({"tenant": "a", "collections": ["b", "c"]})"), &request);
  EXPECT_EQ(client::FieldOf(several), "model");
  EXPECT_TRUE(questions_gate_.ChooseCollection(CallerOf(R"({"tenant": "a"})"), &request).ok());
  EXPECT_EQ(request.collection(), "chosen");
}

TEST_F(TenantGateTest, OnlyCollectionsOfTheTenantAreListedAndWithoutCounts) {
  std::vector<v1::CollectionInfo> all(2);
  all[0].set_name("docs");
  all[0].set_num_documents(5);
  all[0].set_dim(16);
  all[0].mutable_live()->set_sequence(8);
  all[0].mutable_live()->set_log("local");
  all[0].mutable_live()->mutable_layout()->add_owners()->set_group("g0");
  all[1].set_name("secret");
  std::vector<v1::CollectionInfo> shown = all;
  HideFromTenant(CallerOf(kAcme), ErrorSource::kServer, shown);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].name(), "docs");
  EXPECT_EQ(shown[0].dim(), 16u);
  EXPECT_EQ(shown[0].num_documents(), 0u);
  EXPECT_EQ(shown[0].live().sequence(), 0u);
  EXPECT_EQ(shown[0].live().log(), "local");
  shown = all;
  HideFromTenant(CallerOf(R"({"tenant": "a", "collections": ["docs"]})"), ErrorSource::kServer, shown);
  EXPECT_EQ(shown[0].num_documents(), 5u);
  EXPECT_FALSE(shown[0].live().has_layout());
  shown = all;
  HideFromTenant(Caller(), ErrorSource::kServer, shown);
  EXPECT_TRUE(shown.empty());
  shown = all;
  HideFromTenant(Caller::Unrestricted(), ErrorSource::kServer, shown);
  EXPECT_EQ(shown.size(), 2u);
  EXPECT_TRUE(shown[0].live().has_layout());

  all[0].set_error("replicas of group g1 hold other slots");
  const Caller unfiltered = CallerOf(R"({"tenant": "a", "collections": ["docs"]})");
  for (const v1::CollectionState state : {v1::COLLECTION_STATE_READY, v1::COLLECTION_STATE_PARTIAL}) {
    all[0].set_state(state);
    shown = all;
    HideFromTenant(unfiltered, ErrorSource::kRouter, shown);
    EXPECT_EQ(shown[0].error(),
              state == v1::COLLECTION_STATE_READY ? "" : "some documents cannot be reached at the moment");
    shown = all;
    HideFromTenant(unfiltered, ErrorSource::kServer, shown);
    EXPECT_EQ(shown[0].error(), all[0].error());
  }

  v1::GetInfoResponse info;
  for (const v1::CollectionInfo& one : all) *info.add_collections() = one;
  info.add_devices();
  info.add_groups();
  info.set_zone("a");
  HideFromTenant(CallerOf(kAcme), ErrorSource::kServer, info);
  EXPECT_EQ(info.collections_size(), 1);
  EXPECT_EQ(info.devices_size() + info.groups_size(), 0);
  EXPECT_EQ(info.zone(), "");
}

}  // namespace
}  // namespace maxsim::service
