// Tests that a request with a filter has the same answer, bit for bit, as a request that lists the matching documents.
// Fields, documents, filters and requests are random. Collections have codes or none, and candidates are lists or whole
// collections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/error_details.h"
#include "server/service/request/translate.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/requests.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/service/selection/filtered_corpus.h"
#include "tests/unit/server/service/selection/filtered_counts.h"
#include "tests/unit/server/service/selection/filtered_requests.h"
#include "tests/unit/server/service/selection/scrolled_pages.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using testing::HasSubstr;

class FilteredRerankTest : public FilteredCorpusTest {};

TEST_P(FilteredRerankTest, AnswersAreThoseOfTheMatchingIds) {
  FilteredRequests requests(&random_, engine_.get());
  for (int round = 0; round < (test::kSanitized ? 15 : 100); ++round) {
    SCOPED_TRACE(round);
    const std::vector<const FilteredCollection*> asked(1 + random_.Below(3), &known_);
    ASSERT_NO_FATAL_FAILURE(requests.Check(asked));
  }
  EXPECT_GE(requests.num_empty(), test::kSanitized ? 0 : 1);
  EXPECT_EQ(requests.num_scanned() > 0, GetParam().planes > 0);
}

TEST_P(FilteredRerankTest, CountsAreThoseOfTheMatchingDocuments) {
  FilteredCounts counts(&random_);
  ScrolledPages pages(&random_);
  for (int round = 0; round < (test::kSanitized ? 15 : 100); ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(counts.Check(known_));
    ASSERT_NO_FATAL_FAILURE(pages.Check(known_));
  }
  EXPECT_GE(counts.num_cut(), 1);
}

TEST_P(FilteredRerankTest, ARequestIsPricedByWhatMatches) {
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_filter_text("exists(lang)");
  uint64_t tokens = 0;
  for (int64_t document = 0; document < kNumDocuments; ++document) {
    if (known_.documents[static_cast<size_t>(document)].meaning->Matches(Filter::Exists("lang"))) {
      tokens += static_cast<uint64_t>(documents_.length(document));
    }
  }
  const auto translated = Translate(request, collection_, {});
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(translated->job->work, 4 * tokens);
  EXPECT_GT(engine::JobBytes(*translated->job), translated->job->queries[0].candidates->matching->memory_bytes());
}

TEST_P(FilteredRerankTest, WrongFiltersAreRefusedByName) {
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_filter_text("lang = ");
  absl::Status status = CheckEnvelope(request, {});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "filter_text");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonInvalidField);
  request.mutable_filter()->mutable_all_of();
  status = CheckEnvelope(request, {});
  EXPECT_EQ(client::FieldOf(status), "filter");
  EXPECT_THAT(std::string(status.message()), HasSubstr("filter: all_of.filters: is empty"));
  request.mutable_filter()->set_exists("colour");
  EXPECT_TRUE(CheckEnvelope(request, {}).ok());
  status = Translate(request, collection_, {}).status();
  EXPECT_EQ(client::FieldOf(status), "filter");
  EXPECT_THAT(std::string(status.message()), HasSubstr("filter: field \"colour\" is not declared; the collection has"));
  request.set_filter_text("exists(lang)");
  *request.mutable_queries(0)->mutable_candidates()->mutable_inline_documents()->add_documents() =
      request.queries(0).tokens();
  status = CheckEnvelope(request, {});
  EXPECT_EQ(client::FieldOf(status), "filter_text");
  EXPECT_THAT(std::string(status.message()), HasSubstr("the candidates of queries[0] are inline documents"));
}

TEST_P(FilteredRerankTest, ARequestThatNobodyAwaitsEndsWhileItsFilterIsEvaluated) {
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_filter_text("exists(lang)");
  const absl::Status late = absl::DeadlineExceededError("late");
  EXPECT_EQ(Translate(request, collection_, {}, [&] { return late; }).status(), late);
  EXPECT_TRUE(Translate(request, collection_, {}, [] { return absl::OkStatus(); }).ok());
}

INSTANTIATE_TEST_SUITE_P(All, FilteredRerankTest, testing::ValuesIn(FilteredCases()), NameOfCase);

}  // namespace
}  // namespace maxsim::service
