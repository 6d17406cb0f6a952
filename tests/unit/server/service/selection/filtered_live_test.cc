// Tests that a request with a filter to a live collection has the same answer, bit for bit, as a request that lists the
// matching documents of the same snapshot. Writes, compactions, restarts and filters are random. Collections have codes
// or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collection/inspection/verifier.h"
#include "server/store/collection/filter_cache.h"
#include "server/store/collection/part_fields.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/live/live_fixture.h"
#include "tests/unit/server/service/selection/filtered_counts.h"
#include "tests/unit/server/service/selection/filtered_requests.h"
#include "tests/unit/server/service/selection/grouped_requests.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::RandomFilters;

// The parameter is the number of planes of codes.
class FilteredLiveTest : public live::LiveTest, public testing::WithParamInterface<int> {
 protected:
  FilteredLiveTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        random_(seed_),
        engine_(engine::MakeEngine(backend_.get())) {
    if (GetParam() > 0) codes_ = collection::CodesFormat{.planes = GetParam(), .factors = true, .rotation_seed = 7};
    fields_ = RandomFilters::fields();
    Create();
    Open();
  }

  // Writes some documents in one call, and records them.
  void WriteSome() {
    std::vector<store::Write> writes;
    for (uint64_t count = 1 + random_.Below(20); count > 0; --count) {
      const std::string id = "d" + std::to_string(random_.Below(150));
      if (random_.Below(4) == 0) {
        writes.push_back(live::Delete(id));
        alive_.erase(id);
        continue;
      }
      store::Write& write = writes.emplace_back(live::Upsert(id, static_cast<int64_t>(random_.Below(10'000))));
      write.payload = random_.Payload();
      alive_[id] = std::make_shared<const collection::FilterMeaning>(write.payload);
    }
    MustWrite(std::move(writes));
  }

  // Returns the collection as it is now.
  FilteredCollection Known() {
    FilteredCollection known{.collection = Find(), .documents = {}};
    EXPECT_EQ(known.collection->num_documents(), alive_.size());
    for (const auto& [id, meaning] : alive_) {
      const auto ordinal = known.collection->Find(std::string_view(id));
      EXPECT_TRUE(ordinal.has_value()) << id;
      if (!ordinal.has_value()) continue;
      known.documents.push_back({.string_id = id, .position = *ordinal, .meaning = meaning});
    }
    std::sort(known.documents.begin(), known.documents.end(),
              [](const FilteredDocument& a, const FilteredDocument& b) { return a.position < b.position; });
    return known;
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  const std::unique_ptr<engine::Engine> engine_;
  std::map<std::string, std::shared_ptr<const collection::FilterMeaning>> alive_;
};

TEST_P(FilteredLiveTest, AnswersAreThoseOfTheMatchingIdsOfTheSnapshot) {
  FilteredRequests requests(&random_, engine_.get());
  FilteredCounts counts(&random_);
  GroupedRequests grouped(&random_, engine_.get());
  FilteredCollection before = Known();  // of the generation that is served
  int num_mixed = 0;
  for (int round = 0; round < (test::kSanitized ? 25 : 120); ++round) {
    SCOPED_TRACE(round);
    for (uint64_t count = random_.Below(3); count > 0; --count) WriteSome();
    if (random_.Below(10) == 0) MustCompact();
    if (random_.Below(20) == 0) {
      before = {};
      Reopen();
    }
    const FilteredCollection now = Known();
    const bool is_of_generation =
        before.collection != nullptr && before.collection->SharesDocumentsWith(*now.collection);
    std::vector<const FilteredCollection*> asked;
    for (uint64_t count = 1 + random_.Below(3); count > 0; --count) {
      asked.push_back(is_of_generation && random_.Below(3) == 0 ? &before : &now);
    }
    num_mixed += std::count(asked.begin(), asked.end(), &before) % static_cast<int64_t>(asked.size()) != 0 ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(requests.Check(asked));
    for (const FilteredCollection* one : asked) ASSERT_NO_FATAL_FAILURE(counts.Check(*one));
    ASSERT_NO_FATAL_FAILURE(grouped.Check(now));
    if (is_of_generation) {
      ASSERT_NO_FATAL_FAILURE(grouped.Check(before));
    }
    if (!is_of_generation || random_.Below(4) == 0) before = now;
  }
  EXPECT_GE(num_mixed, 1);
  EXPECT_GE(counts.num_cut(), 1);
  EXPECT_GE(requests.num_empty(), test::kSanitized ? 0 : 1);
  EXPECT_EQ(requests.num_scanned() > 0, GetParam() > 0);
  MustCompact();
  const auto tombstones = live().TombstonesOf(Find()->manifest());
  ASSERT_TRUE(tombstones.ok()) << tombstones.status();
  const auto report = collection::VerifyCollection(path_, nullptr, &*tombstones);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_problems, 0) << (report->problems.empty() ? "" : report->problems.front());
}

TEST_P(FilteredLiveTest, SnapshotsHaveTheFields) {
  WriteSome();
  MustCompact();
  WriteSome();
  const std::string copy = folder_ / "copy";
  const auto sequence = live().SnapshotTo(copy, nullptr);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  ASSERT_TRUE(TryOpen(copy).ok());
  FilteredRequests requests(&random_, engine_.get());
  const FilteredCollection known = Known();
  for (int round = 0; round < 20; ++round) ASSERT_NO_FATAL_FAILURE(requests.Check({&known}));
}

TEST_P(FilteredLiveTest, TheCacheHasOneSnapshotOfAFilter) {
  store::Write english = live::Upsert("a", 1);
  english.payload = R"({"m":{"lang":"en"}})";
  MustWrite(live::List(english));
  MustCompact();
  english.string_id = "b";
  MustWrite(live::List(english));
  const auto before = Find();
  const Filter filter = Filter::Exists("lang");
  const auto first = before->FindMatching(filter);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*before->FindMatching(filter), *first);
  const uint64_t num_bytes = before->generation().filter_cache()->num_bytes();
  MustWrite(live::List(live::Upsert("new", 1)));
  MustWrite(live::List(live::Delete("new")));
  const auto now = Find();
  const auto second = now->FindMatching(filter);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*second, *first);
  EXPECT_EQ((*second)->sequence(), now->sequence());
  EXPECT_EQ((*second)->num_documents(), (*first)->num_documents());
  EXPECT_EQ((*second)->num_documents(), 2u);
  ASSERT_NE((*first)->mask(0), nullptr);
  EXPECT_EQ((*second)->mask(0), (*first)->mask(0)) << "a part that has not changed is shared";
  EXPECT_LT(before->generation().filter_cache()->num_bytes(), 2 * num_bytes);
  // The cached result for an earlier snapshot must not replace that for a later one.
  EXPECT_TRUE(before->FindMatching(filter).ok());
  EXPECT_EQ(*now->FindMatching(filter), *second);
}

TEST_P(FilteredLiveTest, ADocumentThatDoesNotFitIsRefusedWhole) {
  store::Write wrong = live::Upsert("wrong", 1);
  wrong.payload = R"({"year":"new"})";
  const absl::Status status = Write(live::List(live::Upsert("right", 2), wrong)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("the document with id \"wrong\": field \"year\": the value is \"new\""));
  EXPECT_EQ(Find()->num_documents(), 0u);
  MustWrite(live::List(live::Upsert("right", 2)));
  EXPECT_EQ(Find()->num_documents(), 1u);
}

TEST_P(FilteredLiveTest, AReloadWithOtherFieldsIsRefused) {
  collection::Manifest next = Find()->manifest();
  ++next.generation;
  next.fields[0].path = "other";
  ASSERT_TRUE(collection::PublishManifest(next, path_).ok());
  bool changed = false;
  const absl::Status status = store_->Reload("c", &changed).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("has the fields lang:keyword=other,"));
  EXPECT_FALSE(changed);
}

INSTANTIATE_TEST_SUITE_P(All, FilteredLiveTest, testing::Values(0, 1, 4));

}  // namespace
}  // namespace maxsim::service
