// Tests that the groups of a request with group_by equal, bit for bit, those made from the complete ranking of the same
// request without group_by. Documents, candidates, filters and pages are random. Collections have codes or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/error_details.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/service/selection/filtered_corpus.h"
#include "tests/unit/server/service/selection/grouped_requests.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

class GroupedRerankTest : public FilteredCorpusTest {
 protected:
  static v1::RerankRequest MakeGrouped() {
    v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
    request.mutable_candidates()->mutable_whole_collection();
    request.set_group_by("lang");
    return request;
  }

  // Returns the error of a request. Expects INVALID_ARGUMENT about `field`.
  std::string Refused(const v1::RerankRequest& request, const char* field) const {
    absl::Status status = CheckEnvelope(request, {});
    if (status.ok()) status = Translate(request, collection_, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field);
    return std::string(status.message());
  }
};

TEST_P(GroupedRerankTest, GroupsAreThoseOfTheWholeRanking) {
  GroupedRequests requests(&random_, engine_.get());
  constexpr int kRounds = test::kSanitized ? 20 : 150;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(requests.Check(known_));
  }
  EXPECT_GT(requests.num_results(), 12 * kRounds);
  EXPECT_GT(requests.max_jobs(), 3);
}

TEST_P(GroupedRerankTest, GroupsThatAreProvenAreThoseOfTheWholeRanking) {
  GroupedRequests requests(&random_, engine_.get());
  for (int round = 0; round < (test::kSanitized ? 15 : 100); ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(requests.CheckProof(known_));
  }
  EXPECT_GT(requests.num_proven(), 0);
  EXPECT_EQ(requests.num_scanned() > 0, GetParam().planes > 0);
}

TEST_P(GroupedRerankTest, WrongGroupsAreRefusedByName) {
  v1::RerankRequest request = MakeGrouped();
  request.set_group_by("colour");
  EXPECT_EQ(Refused(request, "group_by"),
            "group_by: field \"colour\" is not declared; the collection's keywords: lang");
  request.set_group_by("tags");
  EXPECT_EQ(
      Refused(request, "group_by"),
      "group_by: field \"tags\" is of kind keywords, but documents can only be grouped by a field of kind keyword");
  request = MakeGrouped();
  request.set_group_size(3334);
  EXPECT_EQ(Refused(request, "group_size"),
            "group_size: is 3334, so 3 groups (offset + top_k) have up to 10002 documents; must be at most 10000 "
            "(limits.max_top_k)");
  request.set_group_size(3333);
  EXPECT_TRUE(CheckEnvelope(request, {}).ok());
  request.set_offset(1);
  EXPECT_THAT(Refused(request, "group_size"), HasSubstr("so 4 groups"));
  request = MakeGrouped();
  request.clear_group_by();
  request.set_group_size(2);
  EXPECT_EQ(Refused(request, "group_size"), "group_size: is 2, but group_by names no field");
  request.clear_group_size();
  request.add_group_values("en");
  EXPECT_EQ(Refused(request, "group_values"), "group_values: has 1 values, but group_by names no field");
  request = MakeGrouped();
  *request.mutable_queries(0)->mutable_candidates()->mutable_inline_documents()->add_documents() =
      request.queries(0).tokens();
  EXPECT_THAT(Refused(request, "group_by"), HasSubstr("the candidates of queries[0] are inline documents"));
  request = MakeGrouped();
  request.set_filter_text("colour = 1");
  EXPECT_THAT(Refused(request, "filter_text"), HasSubstr("field \"colour\" is not declared"));
  request = MakeGrouped();
  request.set_group_size(4);
  request.mutable_refinement()->set_documents(11);
  EXPECT_THAT(Refused(request, "refinement.documents"), HasSubstr("is 11; must be at least offset + top_k, 12"));
}

TEST_P(GroupedRerankTest, ARequestThatNobodyAwaitsEndsBetweenItsRounds) {
  absl::StatusOr<Translated> translated = Translate(MakeGrouped(), collection_, {});
  ASSERT_TRUE(translated.ok()) << translated.status();
  GroupedRounds rounds(*std::move(translated), {.min_ranked = 1, .max_ranked = 3});
  const absl::Status late = absl::DeadlineExceededError("late");
  int num_jobs = 0;
  absl::StatusOr<std::unique_ptr<engine::Job>> job = rounds.Next([&] { return late; });
  for (; job.ok() && *job != nullptr; ++num_jobs) {
    std::vector<std::unique_ptr<engine::Job>> jobs;
    jobs.push_back(*std::move(job));
    ASSERT_TRUE(rounds.Take(*std::move(engine::Execute(engine_->lane(0), jobs)[0])).ok());
    job = rounds.Next([&] { return late; });
  }
  // The first job needs no filter.
  EXPECT_GE(num_jobs, 1);
  EXPECT_TRUE(job.ok() || job.status() == late) << job.status();
}

INSTANTIATE_TEST_SUITE_P(All, GroupedRerankTest, testing::ValuesIn(FilteredCases()), NameOfCase);

}  // namespace
}  // namespace maxsim::service
