#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/run/workload.h"

namespace maxsim::loadtest {
namespace {

using testing::HasSubstr;

// Makes a request with two queries that ask for the best three of the ids 40, 30, 20 and 10.
class AnswerCheckTest : public testing::Test {
 protected:
  AnswerCheckTest() {
    for (int query = 0; query < 2; ++query) {
      request_.add_queries();
      Add(right_, {3, 1, 2});
    }
    request_.set_top_k(3);
    right_.set_generation(7);
  }

  void Add(v1::RerankResponse& response, const std::vector<uint64_t>& positions) const {
    v1::QueryResult& result = *response.add_results();
    for (size_t i = 0; i < positions.size(); ++i) {
      result.add_scores(2.0f - static_cast<float>(i));
      result.add_positions(positions[i]);
      result.mutable_int_ids()->add_ids(static_cast<int64_t>(Numbers()[positions[i]]));
    }
  }

  static std::vector<uint64_t> Numbers() { return {40, 30, 20, 10}; }
  PreparedRequest Prepared(AnswerCheck check = AnswerCheck::kExact) const {
    return PreparedRequest(request_, {Numbers()}, 4, &ids_, check);
  }
  std::string Complaint(const v1::RerankResponse& response) const {
    const absl::Status status = Prepared().Check(response);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  }

  const IdSet ids_ = IdSet::Numbered(100, std::nullopt);
  v1::RerankRequest request_;
  v1::RerankResponse right_;
};

TEST_F(AnswerCheckTest, ARightAnswerPassesAgainAndAgain) {
  const PreparedRequest prepared = Prepared();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(prepared.Check(right_).ok()) << prepared.Check(right_);
  EXPECT_EQ(prepared.num_queries(), 2);
}

TEST_F(AnswerCheckTest, OrdinalsOfALiveCollectionHaveGaps) {
  for (v1::QueryResult& result : *right_.mutable_results()) {
    result.clear_int_ids();
    for (int i = 0; i < result.positions_size(); ++i) result.set_positions(i, 1000 + static_cast<uint64_t>(i));
  }
  const PreparedRequest prepared(request_, {}, 4, nullptr, AnswerCheck::kOrder, /*positions_are_open=*/true);
  EXPECT_TRUE(prepared.Check(right_).ok()) << prepared.Check(right_);
  right_.mutable_results(0)->set_positions(1, right_.results(0).positions(0));
  EXPECT_FALSE(prepared.Check(right_).ok()) << "a document twice";
  EXPECT_FALSE(PreparedRequest(request_, {}, 4, nullptr, AnswerCheck::kOrder).Check(right_).ok());
}

TEST_F(AnswerCheckTest, ATenantsAnswerHasAtMostTopKHits) {
  for (v1::QueryResult& result : *right_.mutable_results()) result.clear_int_ids();
  const auto check = [&] { return PreparedRequest(request_, {}, 0, nullptr, AnswerCheck::kOrder).Check(right_); };
  EXPECT_TRUE(check().ok()) << check();
  request_.set_top_k(4);
  EXPECT_TRUE(check().ok()) << "the tenant may have fewer documents";
  request_.set_top_k(2);
  EXPECT_FALSE(check().ok());
}

TEST_F(AnswerCheckTest, FewerCandidatesThanTopKAreAllOfThem) {
  request_.set_top_k(10);
  for (int query = 0; query < 2; ++query) {
    v1::QueryResult& result = *right_.mutable_results(query);
    result.add_scores(-1);
    result.add_positions(0);
    result.mutable_int_ids()->add_ids(40);
  }
  EXPECT_TRUE(Prepared().Check(right_).ok()) << Prepared().Check(right_);
}

TEST_F(AnswerCheckTest, AFilterMayLeaveFewerHitsButNotMore) {
  v1::RerankResponse answer = right_;
  v1::QueryResult& first = *answer.mutable_results(0);
  first.mutable_scores()->RemoveLast();
  first.mutable_positions()->RemoveLast();
  first.mutable_int_ids()->mutable_ids()->RemoveLast();
  EXPECT_THAT(Complaint(answer), HasSubstr("2 scores and 2 positions; must be 3 of each"));
  request_.set_filter_text("year = 2020");
  EXPECT_TRUE(Prepared().Check(answer).ok()) << Prepared().Check(answer);
  first.add_scores(-3);
  EXPECT_THAT(Complaint(answer), HasSubstr("3 scores and 2 positions; must be at most 3 of each"));
}

TEST_F(AnswerCheckTest, WhatIsMissingOrTooMuchIsWrong) {
  v1::RerankResponse answer = right_;
  answer.mutable_results()->RemoveLast();
  EXPECT_THAT(Complaint(answer), HasSubstr("1 results for 2 queries"));
  answer = right_;
  answer.mutable_results(1)->mutable_scores()->RemoveLast();
  EXPECT_THAT(Complaint(answer), HasSubstr("results[1]: 2 scores"));
  answer = right_;
  answer.mutable_results(0)->mutable_int_ids()->mutable_ids()->RemoveLast();
  EXPECT_THAT(Complaint(answer), HasSubstr("2 ids for 3 hits"));
  answer = right_;
  answer.mutable_results(0)->clear_ids();
  EXPECT_THAT(Complaint(answer), HasSubstr("0 ids for 3 hits"));
  EXPECT_THAT(Complaint(v1::RerankResponse()), HasSubstr("0 results"));
}

TEST_F(AnswerCheckTest, WrongPositionsIdsAndOrderAreFound) {
  v1::RerankResponse answer = right_;
  answer.mutable_results(0)->set_positions(1, 4);
  EXPECT_THAT(Complaint(answer), HasSubstr("position 4 is none of 4"));
  answer = right_;
  answer.mutable_results(0)->set_positions(1, 3);
  EXPECT_THAT(Complaint(answer), HasSubstr("appears twice"));
  answer = right_;
  answer.mutable_results(1)->mutable_int_ids()->set_ids(2, 30);
  EXPECT_THAT(Complaint(answer), HasSubstr("results[1]: hit 2 does not name the id at position 2"));
  answer = right_;
  answer.mutable_results(0)->set_scores(2, 1.5f);
  EXPECT_THAT(Complaint(answer), HasSubstr("hit 2 is out of order"));
  answer = right_;
  answer.mutable_results(0)->set_scores(0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(Complaint(answer), HasSubstr("hit 0 is out of order"));
  answer = right_;
  answer.mutable_results(0)->set_scores(1, 2.0f);  // equal scores, whose lower position must come first
  EXPECT_THAT(Complaint(answer), HasSubstr("hit 1 is out of order"));
}

TEST_F(AnswerCheckTest, AnotherAnswerToTheSameRequestIsWrongUntilTheNextGeneration) {
  const PreparedRequest prepared = Prepared();
  v1::RerankResponse answer = right_;
  answer.mutable_results(0)->set_scores(0, std::nextafter(2.0f, 3.0f));
  EXPECT_TRUE(prepared.Check(right_).ok());
  EXPECT_THAT(std::string(prepared.Check(answer).message()), HasSubstr("not the same bits"));
  EXPECT_TRUE(prepared.Check(right_).ok());
  answer.set_generation(8);
  EXPECT_TRUE(prepared.Check(answer).ok());
  answer.mutable_results(0)->set_scores(0, 5);
  EXPECT_FALSE(prepared.Check(answer).ok());
}

TEST_F(AnswerCheckTest, OrderChecksEachAnswerByItselfAndNoneChecksNothing) {
  v1::RerankResponse answer = right_;
  answer.mutable_results(0)->set_scores(0, 3);
  const PreparedRequest order = Prepared(AnswerCheck::kOrder);
  EXPECT_TRUE(order.Check(right_).ok());
  EXPECT_TRUE(order.Check(answer).ok());
  answer.mutable_results(0)->set_positions(0, 9);
  EXPECT_FALSE(order.Check(answer).ok());
  EXPECT_TRUE(Prepared(AnswerCheck::kNone).Check(answer).ok());
}

TEST_F(AnswerCheckTest, EachQueryMayHaveItsOwnCandidates) {
  const std::vector<uint64_t> other = {1, 2, 3, 4};
  const PreparedRequest prepared(request_, {Numbers(), other}, 4, &ids_);
  EXPECT_FALSE(prepared.Check(right_).ok());
  v1::RerankResponse answer = right_;
  for (int hit = 0; hit < 3; ++hit) {
    answer.mutable_results(1)->mutable_int_ids()->set_ids(
        hit, static_cast<int64_t>(other[answer.results(1).positions(hit)]));
  }
  EXPECT_TRUE(prepared.Check(answer).ok()) << prepared.Check(answer);
}

}  // namespace
}  // namespace maxsim::loadtest
