// A TenantGate in front of services that record their requests and give the answers that the test chooses.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "client/status.h"
#include "collection/filters/filter_text.h"
#include "server/service/selection/filter_message.h"
#include "server/service/tenant_gate/tenant_documents.h"
#include "server/service/tenant_gate/tenant_questions.h"

namespace maxsim::service {

// Keeps what it is asked, and answers at once unless it is to keep the calls.
class RecordingQuestions : public RerankApi, public ExplainApi {
 public:
  void Rerank(v1::RerankRequest&& sent, CallContext&& of_call, Done<v1::RerankResponse>&& done) override {
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

// Answers all calls with `status` or, if that is OK, with an answer whose numbers a tenant must not see.
class RecordingDocuments : public DocumentApi {
 public:
  void Upsert(v1::UpsertRequest request, CallContext, Done<v1::UpsertResponse> done, Submitted submitted) override {
    if (status.ok() && submitted != nullptr) submitted();
    if (!keeps) return Answer(request, std::move(done));
    ++num_calls;
    kept = std::move(done);
  }
  void Delete(const v1::DeleteRequest& request, CallContext, Done<v1::DeleteResponse> done) override {
    delete_request = request;
    if (!keeps) return Answer(request, std::move(done));
    ++num_calls;
    kept_delete = std::move(done);
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
  bool keeps = false;  // upserts and deletes, instead of answering them
  Done<v1::UpsertResponse> kept;
  Done<v1::DeleteResponse> kept_delete;
  int num_calls = 0;
  std::optional<v1::Filter> visible;  // of the last request
  v1::CountRequest count_request;     // the last one
  v1::DeleteRequest delete_request;   // the last one

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

inline Caller CallerOf(std::string_view settings) {
  const auto parsed = ParseTenant(settings);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return Caller(std::make_shared<const Tenant>(*parsed, std::make_shared<TenantUsage>(parsed->name)));
}

inline std::string TextOf(const v1::Filter& filter) { return collection::FormatFilter(*FilterOf(filter)); }

inline constexpr char kAcme[] = R"({"tenant": "acme", "collections": ["docs"], "filter": "owner = \"acme\""})";

class TenantGateTest : public testing::Test {
 protected:
  absl::StatusOr<v1::RerankResponse> Rerank(const Caller& caller, const v1::RerankRequest& request) {
    std::optional<absl::StatusOr<v1::RerankResponse>> answer;
    questions_gate_.Rerank(v1::RerankRequest(request), {.method = "Rerank", .caller = caller},
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

  absl::StatusOr<v1::DeleteResponse> DeleteMatching(const Caller& caller, const std::string& filter) {
    v1::DeleteRequest request;
    request.set_collection("docs");
    request.set_filter_text(filter);
    const auto answer = std::make_shared<std::optional<absl::StatusOr<v1::DeleteResponse>>>();
    documents_gate_.Delete(request, {.method = "Delete", .caller = caller},
                           [answer](absl::StatusOr<v1::DeleteResponse> response) { *answer = std::move(response); });
    return answer->value_or(absl::UnknownError("no answer yet"));
  }

  Metrics metrics_;
  RecordingQuestions questions_;
  RecordingDocuments documents_;
  TenantQuestions questions_gate_{&questions_, &questions_, &metrics_, ErrorSource::kServer};
  TenantDocuments documents_gate_{&documents_, &metrics_, ErrorSource::kServer};
};

}  // namespace maxsim::service
