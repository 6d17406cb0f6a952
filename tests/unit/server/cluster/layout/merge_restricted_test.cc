// Tests that a layout (which group of servers owns which slots) does not change answers. Servers that hold more than
// their group's slots, and are asked only for these slots, must answer like servers that hold only these slots.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/slot_message.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/group_members.h"
#include "server/cluster/parts/merge.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/cluster/fake_answer.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

constexpr int kNumRestrictedDocuments = 60;
constexpr int kNumRestrictedParts = 3;

// Evaluates the filters of this test on the document with the id.
bool IsSeen(const v1::Filter& visible, const std::string& id) {
  switch (visible.node_case()) {
    case v1::Filter::kAllOf:
      return std::all_of(visible.all_of().filters().begin(), visible.all_of().filters().end(),
                         [&](const v1::Filter& filter) { return IsSeen(filter, id); });
    case v1::Filter::kInSlots:
      return client::SlotRangeOf(visible.in_slots()).contains(collection::SlotOf(std::string_view(id)));
    case v1::Filter::kExists:
      return std::hash<std::string>()("owner " + id) % 3 != 0;
    default:
      ADD_FAILURE() << visible.ShortDebugString();
      return false;
  }
}

class MergeRestrictedTest : public testing::Test {
 protected:
  MergeRestrictedTest() {
    for (int i = 0; i < kNumRestrictedDocuments; ++i) {
      documents_.push_back({absl::StrCat("doc-", i), static_cast<uint64_t>(i)});
    }
    v1::SlotLayout layout;
    layout.set_revision(1);
    const auto groups = MakeGroups(kNumRestrictedParts);
    for (int part = 0; part < kNumRestrictedParts; ++part) {
      const collection::SlotRange slots = collection::PartitionOf(part, kNumRestrictedParts);
      v1::SlotOwner& owner = *layout.add_owners();
      owner.set_group(absl::StrCat("g", part));
      *owner.mutable_slots() = client::SlotMessageOf(slots);
      owner.set_num_documents(HeldBy(slots).size());
      Say(*groups[static_cast<size_t>(part)]->replicas()[0], {LiveInfoOf(slots, {}, HeldBy(slots).size())});
    }
    exact_ = *View::Of(groups)->Find("c");
    for (const std::shared_ptr<Group>& group : groups) {
      Say(*group->replicas()[0], {LiveInfoOf({}, layout, kNumRestrictedDocuments)});
    }
    owned_ = *View::Of(groups)->Find("c");
    request_.set_collection("c");
    request_.set_request_id("r");
  }

  std::vector<FakeDocument> HeldBy(const collection::SlotRange& slots) const {
    std::vector<FakeDocument> held;
    for (const FakeDocument& document : documents_) {
      if (slots.contains(collection::SlotOf(std::string_view(document.id)))) held.push_back(document);
    }
    return held;
  }

  // Answers a part's request. With a layout, the servers hold all documents, otherwise only the part's documents.
  v1::RerankResponse AnswerOf(const CollectionView& collection, const v1::RerankRequest& request, size_t part) const {
    std::vector<FakeDocument> documents = collection.has_layout() ? documents_ : HeldBy(collection.parts[part].slots);
    if (request.has_visible()) {
      std::erase_if(documents, [&](const FakeDocument& one) { return !IsSeen(request.visible(), one.id); });
    }
    return Answer(request, documents, 100 + part);
  }

  // Splits the request, lets each part answer, and merges the answers. The part with the number `lost` does not answer.
  // -1 means that all parts answer.
  absl::StatusOr<v1::RerankResponse> Merge(const CollectionView& collection, int lost = -1) {
    v1::RerankRequest copy = request_;
    absl::StatusOr<SplitRequest> split = SplitRerank(copy, &collection, limits_, 0);
    if (!split.ok()) return split.status();
    const auto checked = [&](const v1::RerankRequest& request, const PartRequest& part) {
      v1::RerankResponse answer = AnswerOf(collection, request, part.part);
      const auto fault = CheckRerankAnswer(request, AskedPartOf(part, &collection), answer);
      EXPECT_FALSE(fault.has_value()) << fault->message;
      return answer;
    };
    std::vector<absl::StatusOr<v1::RerankResponse>> answers;
    for (const PartRequest& part : split->parts) {
      if (static_cast<int>(part.part) == lost) {
        answers.emplace_back(absl::UnavailableError("away"));
      } else {
        answers.emplace_back(checked(*part.request, part));
      }
    }
    const std::vector<MembersRequest> missing = FindMissingMembers(*split, answers);
    std::vector<absl::StatusOr<v1::RerankResponse>> members;
    for (const MembersRequest& one : missing) {
      members.emplace_back(checked(*one.request, split->parts[one.part_request]));
    }
    ReplaceResults(missing, std::move(members), answers);
    return MergeRerank(*split, &collection, std::move(answers), limits_);
  }

  std::vector<FakeDocument> documents_;
  std::shared_ptr<const CollectionView> exact_;  // each group holds what it owns
  std::shared_ptr<const CollectionView> owned_;  // each group holds everything, and owns a third
  service::RequestLimits limits_;
  v1::RerankRequest request_;
};

TEST_F(MergeRestrictedTest, AnyRequestHasTheSameAnswer) {
  std::mt19937 random(20261130);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
  constexpr int kRounds = test::kSanitized ? 200 : 1000;
  for (int round = 0; round < kRounds; ++round) {
    request_.clear_queries();
    request_.clear_candidates();
    const bool is_grouped = below(2) == 0;
    request_.set_group_by(is_grouped ? "book" : "");
    request_.set_group_size(is_grouped ? static_cast<uint32_t>(below(5)) : 0);
    const auto fill = [&](v1::Candidates& candidates) {
      if (below(2) == 0) {
        candidates.mutable_whole_collection();
      } else {
        for (int i = below(30); i >= 0; --i) {
          candidates.mutable_string_ids()->add_ids(absl::StrCat("doc-", below(kNumRestrictedDocuments + 20)));
        }
      }
    };
    fill(*request_.mutable_candidates());
    for (int i = below(3); i >= 0; --i) {
      v1::Query& query = *request_.add_queries();
      query.mutable_tokens()->set_num_tokens(static_cast<uint32_t>(1 + below(5)));
      if (below(2) == 0) fill(*query.mutable_candidates());
    }
    request_.set_top_k(static_cast<uint32_t>(1 + below(30)));
    request_.set_offset(below(2) == 0 ? 0 : static_cast<uint32_t>(below(20)));
    request_.clear_visible();
    if (below(3) == 0) request_.mutable_visible()->set_exists("owner");
    const int lost = below(4) == 0 ? below(kNumRestrictedParts) : -1;
    const auto expected = Merge(*exact_, lost);
    const auto merged = Merge(*owned_, lost);
    ASSERT_EQ(merged.status(), expected.status()) << "round " << round << "\n" << request_.ShortDebugString();
    if (!merged.ok()) continue;
    ASSERT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*merged, *expected))
        << "round " << round << "\n"
        << request_.ShortDebugString() << "\n"
        << merged->ShortDebugString() << "\n"
        << expected->ShortDebugString();
  }
}

TEST_F(MergeRestrictedTest, TheDocumentsOfALostOwnerAreCounted) {
  request_.set_top_k(10);
  request_.add_queries()->mutable_tokens()->set_num_tokens(1);
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_EQ(owned_->info.num_documents(), kNumRestrictedDocuments);
  EXPECT_EQ(Merge(*owned_, 1)->results(0).unavailable_documents(), HeldBy(owned_->parts[1].slots).size());
  request_.mutable_visible()->set_exists("owner");
  EXPECT_EQ(Merge(*owned_, 1)->results(0).unavailable_documents(), 1);
}

TEST_F(MergeRestrictedTest, AnAnswerThatIgnoresTheRestrictionIsRefused) {
  request_.set_top_k(kNumRestrictedDocuments);
  request_.add_queries()->mutable_tokens()->set_num_tokens(1);
  request_.mutable_candidates()->mutable_whole_collection();
  const absl::StatusOr<SplitRequest> split = SplitRerank(request_, owned_.get(), limits_, 0);
  ASSERT_TRUE(split.ok()) << split.status();
  const PartRequest& part = split->parts[0];
  const auto fault =
      CheckRerankAnswer(*part.request, AskedPartOf(part, owned_.get()), Answer(*part.request, documents_));
  ASSERT_TRUE(fault.has_value());
  EXPECT_STREQ(fault->field, "ids");
}

}  // namespace
}  // namespace maxsim::cluster
