// Tests what the tenant gate passes on, refuses and removes, with services for which the test gives the answers.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "collection/filters/filter_text.h"
#include "server/service/selection/filter_message.h"
#include "server/service/tenant_gate/tenant_documents.h"
#include "server/service/tenant_gate/tenant_questions.h"
#include "server/service/tenant_gate/tenant_view.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Keeps what it is asked, and answers at once unless it is to keep the calls.
class RecordingQuestions : public RerankApi, public ExplainApi {
 public:
  void Rerank(v1::RerankRequest sent, CallContext of_call, Done<v1::RerankResponse> done) override {
    ++num_calls;
    request = std::move(sent);
    context = std::move(of_call);
    if (keeps) {
      kept = std::move(done);
    } else {
      done(answer);
    }
  }
  void Explain(v1::RerankRequest sent, CallContext of_call, Done<v1::ExplainResponse> done) override {
    ++num_calls;
    request = std::move(sent);
    context = std::move(of_call);
    done(explanation);
  }
  absl::Status ChooseCollection(const Caller&, v1::RerankRequest* sent) const override {
    if (sent->collection().empty()) sent->set_collection("chosen");
    return absl::OkStatus();
  }
  void CountUnread(std::string_view, absl::Time, const absl::Status&) override {}
  const RequestLimits& limits() const override { return limits_; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return nullptr; }

  absl::StatusOr<v1::RerankResponse> answer = v1::RerankResponse();
  absl::StatusOr<v1::ExplainResponse> explanation = v1::ExplainResponse();
  bool keeps = false;
  Done<v1::RerankResponse> kept;
  int num_calls = 0;
  v1::RerankRequest request;
  CallContext context;

 private:
  const RequestLimits limits_ = {};
};

// Answers all calls with `status` or, if that is OK, with numbers that a tenant must not see.
class RecordingDocuments : public DocumentApi {
 public:
  void Upsert(v1::UpsertRequest request, CallContext, Done<v1::UpsertResponse> done, Submitted submitted) override {
    if (status.ok() && submitted != nullptr) submitted();
    if (!keeps) return Answer(request, std::move(done));
    ++num_calls;
    kept = std::move(done);
  }
  void Delete(const v1::DeleteRequest& request, CallContext, Done<v1::DeleteResponse> done) override {
    Answer(request, std::move(done));
  }
  void Get(const v1::GetRequest& request, CallContext, Done<v1::GetResponse> done) override {
    Answer(request, std::move(done));
  }
  void Scroll(const v1::ScrollRequest& request, CallContext, Done<v1::ScrollResponse> done) override {
    Answer(request, std::move(done));
  }
  void Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) override {
    count_request = request;
    Record(context, {.metrics = nullptr, .method = context.method}, status);
    Answer(request, std::move(done));
  }
  void Facets(const v1::FacetsRequest& request, CallContext, Done<v1::FacetsResponse> done) override {
    Answer(request, std::move(done));
  }
  bool HasIntIds(const Caller&, std::string_view) const override { return true; }
  void CountUnread(std::string_view, absl::Time, const absl::Status&) const override {}
  const RequestLimits& limits() const override { return limits_; }

  absl::Status status;
  uint64_t num_stored = 0;  // documents, as Count answers
  uint64_t stored_bytes = 0;
  bool keeps = false;  // upserts, instead of answering them
  Done<v1::UpsertResponse> kept;
  int num_calls = 0;
  std::optional<v1::Filter> visible;  // of the last request
  v1::CountRequest count_request;     // the last one

 private:
  template <typename Request, typename Response>
  void Answer(const Request& request, Done<Response> done) {
    ++num_calls;
    visible = request.has_visible() ? std::optional<v1::Filter>(request.visible()) : std::nullopt;
    if (!status.ok()) return done(status);
    Response response;
    response.set_sequence(77);
    if constexpr (std::is_same_v<Response, v1::CountResponse>) {
      response.set_count(num_stored);
      response.set_token_bytes(stored_bytes);
    }
    if constexpr (requires { response.mutable_documents(); }) response.add_documents()->set_sequence(76);
    done(std::move(response));
  }

  const RequestLimits limits_ = {};
};

Caller CallerOf(std::string_view settings) {
  const auto parsed = ParseTenant(settings);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return Caller(std::make_shared<const Tenant>(*parsed, std::make_shared<TenantUsage>(parsed->name)));
}

std::string TextOf(const v1::Filter& filter) { return collection::FormatFilter(*FilterOf(filter)); }

constexpr char kAcme[] = R"({"tenant": "acme", "collections": ["docs"], "filter": "owner = \"acme\""})";

class TenantGateTest : public testing::Test {
 protected:
  absl::StatusOr<v1::RerankResponse> Rerank(const Caller& caller, const v1::RerankRequest& request) {
    std::optional<absl::StatusOr<v1::RerankResponse>> answer;
    questions_gate_.Rerank(request, {.method = "Rerank", .caller = caller},
                           [&](absl::StatusOr<v1::RerankResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::UnknownError("no answer yet"));
  }

  static v1::RerankRequest RequestOf(const std::string& collection) {
    v1::RerankRequest request;
    request.set_collection(collection);
    request.add_queries()->mutable_candidates()->mutable_string_ids()->add_ids("a");
    request.add_queries()->mutable_candidates()->mutable_whole_collection();
    request.set_offset(3);
    return request;
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(void (DocumentApi::*method)(const Request&, CallContext, Done<Response>),
                               const Caller& caller, const std::string& collection) {
    Request request;
    request.set_collection(collection);
    std::optional<absl::StatusOr<Response>> answer;
    DocumentApi& gate = documents_gate_;
    (gate.*method)(request, {.method = "Test", .caller = caller},
                   [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    return answer.value_or(absl::UnknownError("no answer yet"));
  }

  absl::StatusOr<v1::UpsertResponse> Upsert(const Caller& caller, const std::string& collection,
                                            int num_documents = 1) {
    v1::UpsertRequest request;
    request.set_collection(collection);
    for (int i = 0; i < num_documents; ++i) request.add_documents()->mutable_tokens()->set_data("ten bytes.");
    const auto answer = std::make_shared<std::optional<absl::StatusOr<v1::UpsertResponse>>>();
    documents_gate_.Upsert(request, {.method = "Upsert", .caller = caller},
                           [answer](absl::StatusOr<v1::UpsertResponse> response) { *answer = std::move(response); });
    return answer->value_or(absl::UnknownError("no answer yet"));
  }

  Metrics metrics_;
  RecordingQuestions questions_;
  RecordingDocuments documents_;
  TenantQuestions questions_gate_{&questions_, &questions_, &metrics_};
  TenantDocuments documents_gate_{&documents_, &metrics_};
};

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
                                         "min_sequence", "is 9, and collection docs has come to 8");
  client::SetRetryAfter(absl::Milliseconds(50), documents_.status);
  const absl::Status status = Ask(&DocumentApi::Count, CallerOf(kAcme), "docs").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(client::ReasonOf(status), client::kReasonSequenceNotReached);
  EXPECT_EQ(client::FieldOf(status), "min_sequence");
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(50));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("8")));
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

TEST_F(TenantGateTest, RequestsInFlightAreCountedUntilTheyAreAnswered) {
  const Caller caller = CallerOf(R"({"tenant": "a", "requests_in_flight": 1})");
  questions_.keeps = true;
  absl::Status answered = absl::UnknownError("not yet");
  const auto ask = [&] {
    questions_gate_.Rerank(
        RequestOf("docs"), {.method = "Rerank", .caller = caller},
        [&answered](const absl::StatusOr<v1::RerankResponse>& response) { answered = response.status(); });
    return std::move(questions_.kept);
  };
  Done<v1::RerankResponse> first = ask();
  const absl::Status refused = Rerank(caller, RequestOf("docs")).status();
  EXPECT_TRUE(IsQuotaError(refused)) << refused;
  EXPECT_TRUE(IsQuotaError(Ask(&DocumentApi::Get, caller, "docs").status()));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_rejections_total{reason=\"tenant_quota\"} 1"));
  EXPECT_EQ(questions_.num_calls, 1);
  first(v1::RerankResponse());
  EXPECT_TRUE(answered.ok()) << answered;
  EXPECT_TRUE(Ask(&DocumentApi::Get, caller, "docs").ok());
  Done<v1::RerankResponse> second = ask();
  second = nullptr;  // the service loses the call
  EXPECT_TRUE(absl::IsResourceExhausted(answered)) << answered;
  EXPECT_TRUE(Ask(&DocumentApi::Get, caller, "docs").ok());
}

TEST_F(TenantGateTest, AnExplanationIsChargedForItsSimilarities) {
  const Caller caller = CallerOf(R"({"tenant": "a", "token_pairs_per_second": 1, "token_pairs_burst": 500})");
  questions_.explanation->set_num_query_tokens(10);
  questions_.explanation->set_num_document_tokens(70);
  const auto explain = [&] {
    absl::Status status = absl::UnknownError("no answer yet");
    questions_gate_.Explain(RequestOf("docs"), {.method = "Explain", .caller = caller},
                            [&](const absl::StatusOr<v1::ExplainResponse>& answer) { status = answer.status(); });
    return status;
  };
  EXPECT_TRUE(explain().ok());
  EXPECT_EQ(QuotaOf(explain()), TenantQuota::kTokenPairs);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_tenant_token_pairs_total{tenant=\"a\"} 700\n"));
}

TEST_F(TenantGateTest, WritesStayWithinTheQuotaOfDocuments) {
  const Caller caller = CallerOf(R"({"tenant": "a", "filter": "owner = \"a\"", "documents": 5})");
  documents_.num_stored = 3;
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());
  EXPECT_EQ(TextOf(documents_.count_request.visible()), "owner = \"a\"");
  const absl::Status refused = Upsert(caller, "docs", 3).status();
  EXPECT_EQ(QuotaOf(refused), TenantQuota::kDocuments) << refused;
  EXPECT_EQ(client::RetryAfter(refused), std::nullopt);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 5"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"Upsert\"} 1"));
  // Writes in progress count, too.
  documents_.keeps = true;
  EXPECT_TRUE(absl::IsUnknown(Upsert(caller, "docs", 1).status()));  // not answered yet
  Done<v1::UpsertResponse> kept = std::move(documents_.kept);
  documents_.keeps = false;
  EXPECT_EQ(QuotaOf(Upsert(caller, "docs", 2).status()), TenantQuota::kDocuments);
  EXPECT_TRUE(Upsert(caller, "others", 2).ok());
  EXPECT_TRUE(Upsert(caller, "docs", 1).ok());
  kept(v1::UpsertResponse());
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());
}

TEST_F(TenantGateTest, WritesStayWithinTheQuotaOfBytes) {
  const Caller caller = CallerOf(R"({"tenant": "a", "bytes": 100})");
  documents_.stored_bytes = 80;
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());  // of 10 bytes each
  EXPECT_TRUE(documents_.count_request.return_token_bytes());
  EXPECT_EQ(QuotaOf(Upsert(caller, "docs", 3).status()), TenantQuota::kBytes);
}

TEST_F(TenantGateTest, AClientCannotHideItsDocumentsFromTheQuota) {
  const Caller caller = CallerOf(R"({"tenant": "a", "filter": "owner = \"a\"", "documents": 5})");
  v1::UpsertRequest request;
  request.set_collection("docs");
  request.add_documents();
  *request.mutable_visible() = FilterMessageOf(*collection::ParseFilter("n = 1"));
  documents_gate_.Upsert(request, {.method = "Upsert", .caller = caller},
                         [](const absl::StatusOr<v1::UpsertResponse>&) {});
  EXPECT_EQ(TextOf(documents_.count_request.visible()), "owner = \"a\"");
  EXPECT_EQ(TextOf(*documents_.visible), "owner = \"a\" and n = 1");
}

TEST_F(TenantGateTest, CallsAreCountedByTenantAndCodeAndRefusalsByQuota) {
  EXPECT_TRUE(Rerank(CallerOf(kAcme), RequestOf("docs")).ok());
  EXPECT_FALSE(Rerank(CallerOf(kAcme), RequestOf("secret")).ok());
  questions_.answer = QuotaError(TenantQuota::kTokenPairs, "used up", absl::Seconds(1));
  EXPECT_FALSE(Rerank(CallerOf(kAcme), RequestOf("docs")).ok());
  EXPECT_FALSE(Rerank(Caller::Unrestricted(), RequestOf("docs")).ok());
  const std::string text = metrics_.Expose();
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"OK\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"NOT_FOUND\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"RESOURCE_EXHAUSTED\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_refusals_total{quota=\"token_pairs_per_second\",tenant=\"acme\"} 1\n"));
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
  all[1].set_name("secret");
  std::vector<v1::CollectionInfo> shown = all;
  HideFromTenant(CallerOf(kAcme), shown);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].name(), "docs");
  EXPECT_EQ(shown[0].dim(), 16u);
  EXPECT_EQ(shown[0].num_documents(), 0u);
  EXPECT_EQ(shown[0].live().sequence(), 0u);
  EXPECT_EQ(shown[0].live().log(), "local");
  shown = all;
  HideFromTenant(CallerOf(R"({"tenant": "a", "collections": ["docs"]})"), shown);
  EXPECT_EQ(shown[0].num_documents(), 5u);
  shown = all;
  HideFromTenant(Caller(), shown);
  EXPECT_TRUE(shown.empty());
  shown = all;
  HideFromTenant(Caller::Unrestricted(), shown);
  EXPECT_EQ(shown.size(), 2u);

  v1::GetInfoResponse info;
  for (const v1::CollectionInfo& one : all) *info.add_collections() = one;
  info.add_devices();
  info.add_groups();
  HideFromTenant(CallerOf(kAcme), info);
  EXPECT_EQ(info.collections_size(), 1);
  EXPECT_EQ(info.devices_size() + info.groups_size(), 0);
}

}  // namespace
}  // namespace maxsim::service
