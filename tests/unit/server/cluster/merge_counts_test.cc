// Tests that the counts of several groups of servers add up to those of one server with all documents, and that wrong
// answers are found.
#include "server/cluster/parts/merge_counts.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/documents/document_counts.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

// Returns the answer of a single server whose documents have these counts.
v1::FacetsResponse AnswerOf(const std::map<std::string, uint64_t>& counts, size_t limit) {
  std::vector<std::pair<std::string, uint64_t>> values(counts.begin(), counts.end());
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  v1::FacetsResponse answer;
  answer.set_num_values(values.size());
  answer.set_generation(7);
  for (const auto& [value, count] : values) {
    answer.set_num_documents(answer.num_documents() + count);
    if (static_cast<size_t>(answer.values_size()) == limit) continue;
    v1::FacetValue& added = *answer.add_values();
    added.set_value(value);
    added.set_count(count);
  }
  return answer;
}

class MergeCountsTest : public testing::Test {
 protected:
  MergeCountsTest() : collection_(*View::Of(MakeGroups(3, 7))->Find("c")) { request_.set_field("lang"); }

  const std::shared_ptr<const CollectionView> collection_;
  v1::FacetsRequest request_;
};

TEST_F(MergeCountsTest, CountsAddUp) {
  std::vector<absl::StatusOr<v1::CountResponse>> answers;
  for (uint64_t count : {5, 0, 8}) {
    v1::CountResponse& answer = *answers.emplace_back(v1::CountResponse());
    answer.set_count(count);
    answer.set_generation(7);
  }
  const v1::CountResponse merged = MergeCounts(*collection_, answers);
  EXPECT_EQ(merged.count(), 13u);
  EXPECT_EQ(merged.generation(), 7u);
  EXPECT_EQ(merged.sequence(), 0u);
}

TEST_F(MergeCountsTest, FacetsAreThoseOfOneServer) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const uint32_t limit = random() % 12;
    request_.set_limit(limit);
    std::map<std::string, uint64_t> all;
    std::vector<absl::StatusOr<v1::FacetsResponse>> answers;
    for (size_t part = 0; part < collection_->parts.size(); ++part) {
      std::map<std::string, uint64_t> counts;
      for (uint32_t values = random() % 20; values > 0; --values) counts[std::string(1, 'a' + random() % 26)] += 1;
      for (const auto& [value, count] : counts) all[value] += count;
      answers.emplace_back(AnswerOf(counts, service::kMaxFacetValues));
    }
    const auto merged = MergeFacets(request_, *collection_, std::move(answers));
    ASSERT_TRUE(merged.ok()) << merged.status();
    const v1::FacetsResponse expected = AnswerOf(all, limit == 0 ? service::kDefaultFacetValues : limit);
    EXPECT_EQ(merged->SerializeAsString(), expected.SerializeAsString());
  }
}

TEST_F(MergeCountsTest, AGroupWithMoreValuesThanItSentIsRefused) {
  std::vector<absl::StatusOr<v1::FacetsResponse>> answers(3, AnswerOf({{"a", 1}}, 10));
  answers[1]->set_num_values(70'000);
  const absl::Status status = MergeFacets(request_, *collection_, answers).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "field");
  EXPECT_EQ(client::LimitOf(status), service::kMaxFacetValues);
  EXPECT_THAT(std::string(status.message()), HasSubstr("documents of one group of servers have 70000 values"));
  // A single group's answer needs no merging, so the limit on values does not apply.
  const auto alone = MergeFacets(request_, *collection_, {answers[1]});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->num_values(), 70'000u);
}

TEST_F(MergeCountsTest, WrongAnswersAreFound) {
  const v1::FacetsResponse right = AnswerOf({{"a", 3}, {"b", 3}, {"c", 1}}, 10);
  request_.set_generation(7);
  EXPECT_FALSE(CheckCountAnswer(request_, right).has_value());
  const auto fault_of = [&](auto change) {
    v1::FacetsResponse wrong = right;
    change(wrong);
    const std::optional<AnswerFault> fault = CheckCountAnswer(request_, wrong);
    return fault.has_value() ? fault->field + (": " + fault->message) : std::string("none");
  };
  EXPECT_EQ(fault_of([](v1::FacetsResponse& wrong) { wrong.set_generation(6); }),
            "generation: generation is 6, but 7 was asked for");
  EXPECT_EQ(fault_of([](v1::FacetsResponse& wrong) { wrong.set_num_values(4); }),
            "values: values has 3 elements of 4, but 10 were asked for");
  EXPECT_EQ(fault_of([](v1::FacetsResponse& wrong) { wrong.mutable_values(2)->set_count(0); }),
            "count: values[2].count is 0; must be 1 to 7");
  EXPECT_EQ(fault_of([](v1::FacetsResponse& wrong) { wrong.mutable_values(0)->set_count(8); }),
            "count: values[0].count is 8; must be 1 to 7");
  EXPECT_EQ(fault_of([](v1::FacetsResponse& wrong) { wrong.mutable_values()->SwapElements(0, 1); }),
            "values: values[1] is not after values[0] in their order");
  v1::CountRequest count;
  count.set_min_sequence(3);
  EXPECT_EQ(CheckCountAnswer(count, v1::CountResponse())->message, "sequence is 0, but at least 3 was asked for");
}

}  // namespace
}  // namespace maxsim::cluster
