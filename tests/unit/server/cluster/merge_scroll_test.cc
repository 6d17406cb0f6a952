// Tests that the pages of several groups of servers merge into those of one server with all documents, and that wrong
// pages are found.
#include "server/cluster/parts/merge_scroll.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/service/documents/document_scroll.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

constexpr uint64_t kAnyBytes = uint64_t{1} << 30;

// Returns the page of a server whose documents have these ids. The page has at most `max_documents` documents.
v1::ScrollResponse PageOf(const std::set<std::string>& ids, const v1::ScrollRequest& request, size_t max_documents) {
  v1::ScrollResponse page;
  page.set_generation(7);
  auto next = request.has_after_string_id() ? ids.upper_bound(request.after_string_id()) : ids.begin();
  for (size_t i = 0; i < std::min<size_t>(max_documents, service::ScrollLimitOf(request)) && next != ids.end(); ++i) {
    v1::StoredDocument& document = *page.add_documents();
    document.set_string_id(*next++);
    document.set_num_tokens(3);
  }
  page.set_has_more(next != ids.end());
  return page;
}

class MergeScrollTest : public testing::Test {
 protected:
  MergeScrollTest() : collection_(*View::Of(MakeGroups(3, 7))->Find("c")) {}

  const std::shared_ptr<const CollectionView> collection_;
  v1::ScrollRequest request_;
};

TEST_F(MergeScrollTest, PagesAreThoseOfOneServer) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    request_.Clear();
    request_.set_limit(1 + random() % 12);
    std::set<std::string> all;
    std::vector<std::set<std::string>> of_parts(collection_->parts.size());
    for (uint32_t count = random() % 60; count > 0; --count) {
      const std::string id = std::to_string(random() % 1000);
      if (all.insert(id).second) of_parts[random() % of_parts.size()].insert(id);
    }
    for (bool has_more = true; has_more;) {
      std::vector<absl::StatusOr<v1::ScrollResponse>> answers;
      for (const std::set<std::string>& ids : of_parts) answers.emplace_back(PageOf(ids, request_, 1000));
      const v1::ScrollResponse merged = MergeScrolls(request_, *collection_, std::move(answers), kAnyBytes);
      const v1::ScrollResponse expected = PageOf(all, request_, 1000);
      ASSERT_EQ(merged.SerializeAsString(), expected.SerializeAsString());
      has_more = merged.has_more();
      if (has_more) request_.set_after_string_id(merged.documents(merged.documents_size() - 1).string_id());
    }
  }
}

// A group or the router may end a page early to limit its size. Even so, no document may be left out of the pages.
TEST_F(MergeScrollTest, PagesThatEndEarlyLeaveNothingOut) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    request_.Clear();
    std::set<std::string> all;
    std::vector<std::set<std::string>> of_parts(collection_->parts.size());
    for (uint32_t count = random() % 60; count > 0; --count) {
      const std::string id = std::to_string(random() % 1000);
      if (all.insert(id).second) of_parts[random() % of_parts.size()].insert(id);
    }
    const uint64_t max_bytes = random() % 2 == 0 ? kAnyBytes : 1 + random() % 60;
    std::vector<std::string> seen;
    for (bool has_more = true; has_more;) {
      std::vector<absl::StatusOr<v1::ScrollResponse>> answers;
      for (const std::set<std::string>& ids : of_parts) answers.emplace_back(PageOf(ids, request_, 1 + random() % 4));
      for (const auto& answer : answers) {
        EXPECT_FALSE(CheckScrollAnswer(request_, /*has_int_ids=*/false, {.dim = 8}, *answer).has_value());
      }
      const v1::ScrollResponse merged = MergeScrolls(request_, *collection_, std::move(answers), max_bytes);
      has_more = merged.has_more();
      ASSERT_TRUE(!has_more || merged.documents_size() > 0);
      if (merged.documents_size() > 1) {
        EXPECT_LE(merged.ByteSizeLong(), max_bytes);
      }
      for (const v1::StoredDocument& document : merged.documents()) seen.push_back(document.string_id());
      if (has_more) request_.set_after_string_id(seen.back());
    }
    EXPECT_EQ(seen, std::vector<std::string>(all.begin(), all.end()));
  }
}

TEST_F(MergeScrollTest, WrongPagesAreFound) {
  request_.set_generation(7);
  request_.set_limit(3);
  request_.set_after_string_id("a");
  const v1::ScrollResponse right = PageOf({"b", "c", "d"}, request_, 10);
  const StoredShape shape{.dim = 8};
  EXPECT_FALSE(CheckScrollAnswer(request_, /*has_int_ids=*/false, shape, right).has_value());
  const auto fault_of = [&](auto change) {
    v1::ScrollResponse wrong = right;
    change(wrong);
    const std::optional<AnswerFault> fault = CheckScrollAnswer(request_, /*has_int_ids=*/false, shape, wrong);
    return fault.has_value() ? fault->field + (": " + fault->message) : std::string("none");
  };
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.set_generation(6); }),
            "generation: generation is 6, but 7 was asked for");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.add_documents(); }),
            "documents: documents has 4 elements, but 3 were asked for");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) {
              wrong.clear_documents();
              wrong.set_has_more(true);
            }),
            "documents: documents has 0 elements of more, but 3 were asked for");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.mutable_documents(1)->set_int_id(3); }),
            "id: documents[1] has no id of the collection's type");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.mutable_documents(0)->set_string_id("a"); }),
            "id: documents[0] is not after request.after in the order of ids");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.mutable_documents()->SwapElements(1, 2); }),
            "id: documents[2] is not after documents[1] in the order of ids");
  EXPECT_EQ(fault_of([](v1::ScrollResponse& wrong) { wrong.mutable_documents(2)->mutable_tokens(); }),
            "tokens: documents[2].tokens is set, but was not asked for");
}

}  // namespace
}  // namespace maxsim::cluster
