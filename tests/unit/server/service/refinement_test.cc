// Tests the refinement options of requests with codes: which are valid, which scans they lead to, and what an answer
// reports.
#include "server/service/request/refinement.h"

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "kernels/codes/scan.h"
#include "server/service/call/limits.h"
#include "server/service/request/translate.h"
#include "tests/support/collection/coded_collection.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

constexpr int64_t kTopK = 10;

v1::RefinementOptions Options(uint32_t documents, uint32_t budget = 0, bool require_proof = false) {
  v1::RefinementOptions options;
  options.set_documents(documents);
  options.set_budget(budget);
  options.set_require_proof(require_proof);
  return options;
}

TEST(RefinementTest, WrongOptionsNameTheirField) {
  for (const auto& [options, field, text] : std::vector<std::tuple<v1::RefinementOptions, std::string, std::string>>{
           {Options(9), "refinement.documents", "is 9; must be at least offset + top_k, 10"},
           {Options(0, 5000), "refinement.budget", "no proof is required"},
           {Options(50, 49, true), "refinement.budget", "is 49, less than the documents to refine, 50"},
           {Options(0, 1199, true), "refinement.budget", "less than the documents to refine, 1200"},
           {Options(50, kMaxScanResults + 1, true), "refinement.budget", "at most 1048576"}}) {
    const absl::Status status = CheckRefinement(options, kTopK);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  for (const v1::RefinementOptions& options :
       {v1::RefinementOptions(), Options(10), Options(std::numeric_limits<uint32_t>::max()), Options(0, 1200, true),
        Options(50, 50, true), Options(50, kMaxScanResults, true)}) {
    EXPECT_TRUE(CheckRefinement(options, kTopK).ok()) << options.ShortDebugString();
  }
}

TEST(RefinementTest, DefaultsFollowFromTheNumberOfResults) {
  const auto plain = RefinementFor({}, kTopK, 1201, std::nullopt);
  EXPECT_EQ(plain->documents, 1200);
  EXPECT_FALSE(plain->require_proof);
  const auto proven = RefinementFor(Options(0, 0, true), kTopK, 1 << 20, std::nullopt);
  EXPECT_EQ(proven->documents, 1200);
  EXPECT_EQ(proven->budget, 16 * 1200);
  EXPECT_EQ(RefinementFor(Options(100'000, 0, true), kTopK, 1 << 30, std::nullopt)->budget, kMaxScanResults);
  EXPECT_EQ(RefinementFor(Options(100, 300, true), kTopK, 1 << 30, std::nullopt)->budget, 300);
}

TEST(RefinementTest, FewCandidatesAreAllScored) {
  EXPECT_EQ(RefinementFor({}, kTopK, 1200, std::nullopt)->documents, 0);
  EXPECT_EQ(RefinementFor(Options(2'000'000), kTopK, 2'000'000, std::nullopt)->documents, 0);
  const absl::Status status = RefinementFor(Options(2'000'000), kTopK, 2'000'001, std::nullopt).status();
  EXPECT_EQ(client::FieldOf(status), "refinement.documents");
  EXPECT_THAT(std::string(status.message()), HasSubstr("is 2000000; must be at most 1048576, or all 2000001"));
}

TEST(RefinementTest, CandidatesOfFewBytesInGpuMemoryAreAllScoredUnlessTheRequestSaysOtherwise) {
  EXPECT_EQ(RefinementFor({}, kTopK, 400'000, kMaxScoredBytes)->documents, 0);
  EXPECT_EQ(RefinementFor(Options(0, 0, true), kTopK, 400'000, kMaxScoredBytes)->documents, 0);
  EXPECT_EQ(RefinementFor({}, kTopK, 400'000, kMaxScoredBytes + 1)->documents, 1200);
  EXPECT_EQ(RefinementFor({}, kTopK, 400'000, std::nullopt)->documents, 1200);
  EXPECT_EQ(RefinementFor(Options(1500), kTopK, 400'000, 1000)->documents, 1500);
}

TEST(RefinementTest, AnswersSayWhatIsKnown) {
  engine::JobQueryResult result;
  result.hits = {{6.0F, 0, 0}, {4.0F, 1, 1}};
  result.refinement = engine::Refinement{
      .planes = 4, .num_documents = 50, .is_proven = true, .outside = 3.0F, .outside_is_bound = true};
  const v1::Refinement proven = ToWire(result, 2);
  EXPECT_EQ(proven.planes(), 4u);
  EXPECT_EQ(proven.documents(), 50u);
  EXPECT_EQ(proven.certificate(), v1::CERTIFICATE_PROVEN);
  EXPECT_EQ(proven.outside_score(), 1.5F);
  EXPECT_EQ(proven.margin(), 0.5F);
  EXPECT_TRUE(proven.outside_is_bound());

  result.refinement->is_proven = false;
  result.refinement->outside = std::numeric_limits<float>::infinity();
  const v1::Refinement without_bound = ToWire(result, 1);
  EXPECT_EQ(without_bound.certificate(), v1::CERTIFICATE_NOT_PROVEN);
  EXPECT_EQ(without_bound.outside_score(), std::numeric_limits<float>::max());
  EXPECT_EQ(without_bound.margin(), -std::numeric_limits<float>::max());

  result.refinement->outside.reset();
  result.refinement->is_proven = true;
  EXPECT_FALSE(ToWire(result, 1).has_outside_score());
  EXPECT_EQ(ToWire(result, 1).margin(), 0);
}

// The best score and the bound of the other documents differ by one step of FP32. Dividing both by the number of query
// tokens may make them equal. The answer must still be proven, with a positive margin.
TEST(RefinementTest, ADivisionDoesNotTakeAwayAMargin) {
  engine::JobQueryResult result;
  result.hits = {{std::nextafter(1e-38F, 1.0F), 0, 0}};
  result.refinement = engine::Refinement{
      .planes = 1, .num_documents = 1, .is_proven = true, .outside = 1e-38F, .outside_is_bound = true};
  const v1::Refinement refinement = ToWire(result, 4096);
  EXPECT_EQ(refinement.certificate(), v1::CERTIFICATE_PROVEN);
  EXPECT_GT(refinement.margin(), 0);
}

class TranslateRefinementTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 16;

  TranslateRefinementTest() {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 1, .isa = ""});
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    test::BuildCorpus(folder_.path(), test::SmallDocuments(1, 40, ScalarType::kF16, kDim));
    plain_ = test::LoadCorpus(folder_.path(), backend_.get());
    coded_ = test::WithCodes(*plain_, store::DeviceSet(backend_.get()), 2);
    request_ = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
    request_.mutable_candidates()->mutable_whole_collection();
    *request_.mutable_refinement() = Options(20);
  }

  const test::TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const store::Collection> plain_;
  std::shared_ptr<const store::Collection> coded_;
  v1::RerankRequest request_;
};

TEST_F(TranslateRefinementTest, OnlyCollectionsWithCodesAreScanned) {
  EXPECT_EQ(Translate(request_, coded_, {})->job->queries[0].refinement.documents, 20);
  EXPECT_EQ(Translate(request_, plain_, {})->job->queries[0].refinement.documents, 0);
  request_.mutable_refinement()->set_documents(40);
  EXPECT_EQ(Translate(request_, coded_, {})->job->queries[0].refinement.documents, 0);
  request_.clear_refinement();
  EXPECT_EQ(Translate(request_, coded_, {})->job->queries[0].refinement.documents, 0) << "1,060 are more than 40";
}

TEST_F(TranslateRefinementTest, WrongOptionsAreRefusedWithAndWithoutCodes) {
  request_.mutable_refinement()->set_documents(2);
  EXPECT_EQ(client::FieldOf(CheckEnvelope(request_, {})), "refinement.documents");
  request_.set_top_k(2);
  EXPECT_TRUE(CheckEnvelope(request_, {}).ok());
}

}  // namespace
}  // namespace maxsim::service
