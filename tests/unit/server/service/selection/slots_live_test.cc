// Tests in_slots filters on a live collection, in the latest snapshot and in an earlier one. Writes, compactions,
// restarts and filters are random. The documents found must be those whose ids and payloads match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "collection/slots.h"
#include "server/service/selection/filter_message.h"
#include "server/store/collection/matching_documents.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/requests.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/live/live_fixture.h"
#include "tests/unit/server/service/answer_together.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::RandomFilters;
using testing::UnorderedElementsAreArray;

struct SlotsLiveCase {
  const char* name = "";
  bool with_fields = false;
  int planes = 0;
};

class SlotsLiveTest : public live::LiveTest, public testing::WithParamInterface<SlotsLiveCase> {
 protected:
  // A snapshot and the documents that it has.
  struct Known {
    std::shared_ptr<const store::Collection> collection;
    std::map<std::string, std::shared_ptr<const collection::FilterMeaning>> documents;
  };

  SlotsLiveTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        random_(seed_),
        engine_(engine::MakeEngine(backend_.get())) {
    random_.UseSlots(GetParam().with_fields ? 2 : 1);
    if (GetParam().planes > 0) {
      codes_ = collection::CodesFormat{.planes = GetParam().planes, .factors = true, .rotation_seed = 7};
    }
    if (GetParam().with_fields) fields_ = RandomFilters::fields();
    Create();
    Open();
  }

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
      alive_[id] = std::make_shared<const collection::FilterMeaning>(write.payload, collection::SlotOf(id));
    }
    MustWrite(std::move(writes));
  }

  static void ExpectMatches(const Known& known, const Filter& filter) {
    SCOPED_TRACE(collection::FormatFilter(filter));
    const auto found = known.collection->FindMatching(filter);
    ASSERT_TRUE(found.ok()) << found.status();
    uint64_t num_documents = 0;
    for (const auto& [id, meaning] : known.documents) {
      const auto ordinal = known.collection->Find(std::string_view(id));
      ASSERT_TRUE(ordinal.has_value()) << id;
      const bool matches = meaning->Matches(filter);
      ASSERT_EQ((*found)->Contains(known.collection->Locate(*ordinal)), matches) << id;
      num_documents += matches ? 1 : 0;
    }
    ASSERT_EQ((*found)->num_documents(), num_documents);
  }

  // Ranks the documents of some slots, and expects exactly these.
  void ExpectRanked(const Known& known, const collection::SlotRange& slots) {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(150);
    request.mutable_candidates()->mutable_whole_collection();
    *request.mutable_visible() = FilterMessageOf(Filter::InSlots(slots));
    test::AddQuery(test::MakeQuery(random_.Below(1 << 20), ScalarType::kF16, live::kDim, 3), &request);
    const v1::RerankResponse answer = AnswerTogether({{&request, known.collection}}, *engine_)[0];
    std::vector<std::string> expected;
    for (const auto& [id, meaning] : known.documents) {
      if (slots.contains(collection::SlotOf(id))) expected.push_back(id);
    }
    EXPECT_THAT(answer.results(0).string_ids().ids(), UnorderedElementsAreArray(expected));
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  const std::unique_ptr<engine::Engine> engine_;
  std::map<std::string, std::shared_ptr<const collection::FilterMeaning>> alive_;
};

TEST_P(SlotsLiveTest, FiltersFindTheDocumentsOfTheSnapshot) {
  Known before;
  for (int round = 0; round < (test::kSanitized ? 40 : 200); ++round) {
    SCOPED_TRACE(round);
    for (uint64_t count = random_.Below(3); count > 0; --count) WriteSome();
    if (random_.Below(10) == 0) MustCompact();
    if (random_.Below(20) == 0) {
      before = {};
      Reopen();
    }
    const Known now{Find(), alive_};
    const bool is_of_generation =
        before.collection != nullptr && before.collection->SharesDocumentsWith(*now.collection);
    if (!is_of_generation || random_.Below(4) == 0) before = now;
    const std::vector<Filter> filters = {random_.Tree(1 + round % 4), Filter::InSlots(random_.Slots())};
    for (const Known* const known : std::array<const Known*, 3>{&now, &before, &now}) {
      for (const Filter& filter : filters) ASSERT_NO_FATAL_FAILURE(ExpectMatches(*known, filter));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRanked(now, random_.Slots()));
    ASSERT_NO_FATAL_FAILURE(ExpectRanked(before, random_.Slots()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlotsLiveTest,
                         testing::Values(SlotsLiveCase{"plain"}, SlotsLiveCase{"fields", true},
                                         SlotsLiveCase{"codes", false, 4}, SlotsLiveCase{"fields_and_codes", true, 1}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace maxsim::service
