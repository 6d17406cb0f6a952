// Tests that a router reports which texts its own encoder or a group's encoder cut because they were too long.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/router_documents.h"
#include "server/cluster/router_scorer.h"
#include "server/service/rerank_front.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

constexpr int32_t kDim = 8;

bool IsCut(const std::string& text) { return text.find("long") != std::string::npos; }

// Encodes each text as one row of ones. Reports texts that contain "long" as cut.
class CuttingEncoder final : public encoder::Encoder {
 public:
  encoder::EncoderIdentity identity() const override { return {.model = "test", .dim = kDim}; }
  std::shared_ptr<encoder::Cancellation> Encode(encoder::EncodeRequest request, Done done) override {
    std::vector<encoder::EncodedText> encoded;
    for (const std::string& text : request.texts) {
      encoder::EncodedText& one = encoded.emplace_back();
      one.num_tokens = 1;
      one.dim = kDim;
      one.values.assign(kDim, 1.0F);
      one.is_truncated = IsCut(text);
    }
    done(std::move(encoded));
    return nullptr;
  }
};

class RouterTextsTest : public RouterTest {
 protected:
  RouterTextsTest() : RouterTest(2, 1, /*is_live=*/true) {
    texts_.SetEncoder(std::make_unique<CuttingEncoder>(), uint64_t{1} << 20);
    for (const int group : {0, 1}) {
      test::FakeServer& server = replica(group, 0).server();
      // Ranks inline documents from the last to the first.
      server.on_rerank = [](grpc::ServerContext&, const v1::RerankRequest& request, v1::RerankResponse& response) {
        response.set_generation(1);
        for (const v1::Query& query : request.queries()) {
          const v1::Candidates& candidates = query.has_candidates() ? query.candidates() : request.candidates();
          v1::QueryResult& result = *response.add_results();
          for (int position = candidates.inline_documents().documents_size() - 1; position >= 0; --position) {
            result.add_positions(static_cast<uint32_t>(position));
            result.add_scores(static_cast<float>(position));
          }
        }
        return grpc::Status::OK;
      };
      server.on_explain = [](grpc::ServerContext&, const v1::RerankRequest&, v1::ExplainResponse& response) {
        response.set_generation(1);
        response.set_num_query_tokens(1);
        response.set_num_document_tokens(1);
        response.add_similarities(1);
        return grpc::Status::OK;
      };
      server.on_upsert = [](grpc::ServerContext&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
        for (const v1::Document& document : request.documents()) {
          v1::WriteResult& result = *response.add_results();
          result.set_outcome(v1::WRITE_OUTCOME_APPLIED);
          result.set_sequence(static_cast<uint64_t>(response.results_size()));
          result.set_truncated(IsCut(document.text()));
        }
        response.set_sequence(static_cast<uint64_t>(response.results_size()));
        return grpc::Status::OK;
      };
    }
    Start();
    scorer_ = std::make_unique<RouterScorer>(dependencies());
    front_ = std::make_unique<service::RerankFront>(scorer_.get(), &texts_, &metrics_, service::RequestLimits(),
                                                    absl::ZeroDuration());
    front_->SetState(service::ServingState::kServing);
  }

  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<service::RerankFront> front_;
};

TEST_F(RouterTextsTest, ARerankMarksQueriesAndDocumentsThatWereCut) {
  v1::RerankRequest request;
  request.set_collection("c");
  request.set_top_k(10);
  for (const char* text : {"a long question", "short"}) request.add_queries()->set_text(text);
  for (const char* text : {"short", "a long document", "a"}) {
    request.mutable_candidates()->mutable_inline_documents()->add_texts(text);
  }
  request.mutable_queries(1)->mutable_candidates()->mutable_inline_documents()->add_texts("short");
  const auto response = Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
    front_->Rerank(v1::RerankRequest(request), {.method = "Rerank"}, std::move(done));
  });
  ASSERT_TRUE(response.ok()) << response.status();
  const v1::QueryResult& first = response->results(0);
  EXPECT_TRUE(first.query_truncated());
  ASSERT_EQ(first.truncated_size(), 3);
  for (int hit = 0; hit < 3; ++hit) EXPECT_EQ(first.truncated(hit), first.positions(hit) == 1) << hit;
  EXPECT_FALSE(response->results(1).query_truncated());
  EXPECT_EQ(response->results(1).truncated_size(), 0);
}

TEST_F(RouterTextsTest, AnExplanationSaysThatItsQueryWasCut) {
  for (const char* text : {"a long question", "short"}) {
    v1::RerankRequest request;
    request.set_collection("c");
    request.add_queries()->set_text(text);
    request.mutable_candidates()->mutable_string_ids()->add_ids(IdOf(0, 2));
    const auto explanation = Wait<v1::ExplainResponse>([&](service::Done<v1::ExplainResponse> done) {
      front_->Explain(request, {.method = "Explain"}, std::move(done));
    });
    ASSERT_TRUE(explanation.ok()) << explanation.status();
    EXPECT_EQ(explanation->query_truncated(), IsCut(text));
  }
}

// The two documents go to different groups of servers. Each group's encoder reports whether it has cut a text.
TEST_F(RouterTextsTest, AnUpsertMarksTheDocumentsThatWereCut) {
  RouterDocuments documents(dependencies());
  documents.SetState(service::ServingState::kServing);
  for (const int cut : {0, 1}) {
    v1::UpsertRequest request;
    request.set_collection("c");
    for (const int idx : {0, 1}) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(IdOf(1 - idx, 2));
      document.set_text(idx == cut ? "a long document" : "short");
    }
    const auto response = Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
      documents.Upsert(request, {.method = "Upsert"}, std::move(done));
    });
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->results_size(), 2);
    for (const int idx : {0, 1}) EXPECT_EQ(response->results(idx).truncated(), idx == cut) << idx;
  }
}

}  // namespace
}  // namespace maxsim::cluster
