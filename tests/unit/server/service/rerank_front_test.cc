// Tests that RerankFront answers a call even if scoring runs out of memory on the encoder's thread.
#include "server/service/rerank_front.h"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/encoder/encoder.h"
#include "server/observability/metrics.h"
#include "server/service/scorer.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

constexpr int32_t kFrontDim = 8;

// Encodes each text as one row, on the calling thread.
class OneRowEncoder final : public encoder::Encoder {
 public:
  encoder::EncoderIdentity identity() const override { return {.model = "test", .dim = kFrontDim}; }
  std::shared_ptr<encoder::Cancellation> Encode(encoder::EncodeRequest request, Done done) override {
    std::vector<encoder::EncodedText> encoded(request.texts.size());
    for (encoder::EncodedText& one : encoded) {
      one.num_tokens = 1;
      one.dim = kFrontDim;
      one.values.assign(kFrontDim, 1.0F);
    }
    done(std::move(encoded));
    return nullptr;
  }
};

class ScorerWithoutMemory final : public Scorer {
 public:
  absl::StatusOr<TextTarget> TargetOf(const v1::RerankRequest&) const override {
    return TextTarget{.name = "c", .dim = kFrontDim, .encoder = std::nullopt};
  }
  void Answer(std::unique_ptr<RerankCall>) override { throw std::bad_alloc(); }
  void Answer(std::unique_ptr<ExplainCall>) override { throw std::bad_alloc(); }
  bool IsServed(const std::string&) const override { return true; }
  std::vector<std::string> Names() const override { return {"c"}; }
};

class RerankFrontMemoryTest : public testing::Test {
 protected:
  RerankFrontMemoryTest() {
    texts_.SetEncoder(std::make_unique<OneRowEncoder>(), uint64_t{1} << 20);
    front_.SetState(ServingState::kServing);
  }

  static v1::RerankRequest Request() {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(1);
    request.add_queries()->set_text("words");
    request.mutable_candidates()->mutable_string_ids()->add_ids("a");
    return request;
  }

  ScorerWithoutMemory scorer_;
  TextEncoding texts_;
  Metrics metrics_;
  RerankFront front_{&scorer_, &texts_, &metrics_, RequestLimits(), absl::ZeroDuration()};
};

TEST_F(RerankFrontMemoryTest, ACallWithoutMemoryOnTheEncodersThreadIsAnsweredAndCounted) {
  std::vector<absl::Status> answers;
  // An encoder's thread does not catch exceptions, so none may reach it.
  EXPECT_NO_THROW(front_.Rerank(Request(), {.method = "Rerank"}, [&](const absl::StatusOr<v1::RerankResponse>& answer) {
    answers.push_back(answer.status());
  }));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers[0])) << answers[0];
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_rejections_total{reason=\"memory\"} 1"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"Rerank\"} 1"));
}

TEST_F(RerankFrontMemoryTest, AnExplainCallWithoutMemoryOnTheEncodersThreadIsAnswered) {
  std::vector<absl::Status> answers;
  EXPECT_NO_THROW(
      front_.Explain(Request(), {.method = "Explain"},
                     [&](const absl::StatusOr<v1::ExplainResponse>& answer) { answers.push_back(answer.status()); }));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers[0])) << answers[0];
}

}  // namespace
}  // namespace maxsim::service
