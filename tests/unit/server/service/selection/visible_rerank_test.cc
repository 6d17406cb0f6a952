// Tests that a request with `visible` has the answer, bit for bit, of the same request with this filter, and reports
// the other ids as missing. Fields, documents, filters and requests are random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "client/error_details.h"
#include "server/service/request/translate.h"
#include "tests/support/requests.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/service/selection/filtered_corpus.h"

namespace maxsim::service {
namespace {

using collection::Filter;

class VisibleRerankTest : public FilteredCorpusTest {
 protected:
  v1::RerankRequest MakeRequest() {
    v1::RerankRequest request;
    request.set_collection("corpus");
    request.set_top_k(static_cast<uint32_t>(1 + random_.Below(30)));
    request.set_return_payloads(random_.Below(2) == 0);
    if (random_.Below(4) == 0) request.set_offset(static_cast<uint32_t>(random_.Below(8)));
    test::AddQuery(test::MakeQuery(random_.Below(1 << 20), ScalarType::kF16, kDim, 5), &request);
    return request;
  }

  v1::RerankResponse Answer(const v1::RerankRequest& request) {
    return AnswerTogether({{&request, collection_}}, *engine_)[0];
  }

  // Returns the ids that the answer reports as missing, as text.
  static std::vector<std::string> MissingOf(const v1::QueryResult& result) {
    std::vector<std::string> ids(result.missing_string_ids().ids().begin(), result.missing_string_ids().ids().end());
    for (const int64_t id : result.missing_int_ids().ids()) ids.push_back(std::to_string(id));
    return ids;
  }

  std::string IdText(uint64_t document) const {
    v1::Candidates one;
    AddId(known_, document, one);
    return one.has_string_ids() ? one.string_ids().ids(0) : std::to_string(one.int_ids().ids(0));
  }
};

TEST_P(VisibleRerankTest, AnswersAreThoseOfAFilterAndOtherIdsAreMissing) {
  size_t num_hidden = 0;
  for (int round = 0; round < (test::kSanitized ? 15 : 100); ++round) {
    SCOPED_TRACE(round);
    random_.UseSlots(round % 2 == 0 ? 0 : 3);
    const Filter visible = random_.Tree(1 + static_cast<int>(random_.Below(3)));
    SCOPED_TRACE(collection::FormatFilter(visible));
    v1::RerankRequest request = MakeRequest();
    std::vector<std::string> missing;
    if (random_.Below(3) == 0) {
      request.mutable_candidates()->mutable_whole_collection();
    } else {
      std::set<std::string> seen;
      for (uint64_t count = 1 + random_.Below(100); count > 0; --count) {
        const uint64_t document = random_.Below(known_.documents.size() + 10);
        AddId(known_, document, *request.mutable_candidates());
        const bool is_known = document < known_.documents.size();
        const bool is_visible = is_known && known_.documents[document].meaning->Matches(visible);
        num_hidden += is_known && !is_visible ? 1 : 0;
        if (!is_visible && seen.insert(IdText(document)).second) missing.push_back(IdText(document));
      }
    }
    v1::RerankRequest filtered = request;
    if (random_.Below(2) == 0) {
      const Filter filter = random_.Tree(2);
      *request.mutable_filter() = FilterMessageOf(filter);
      *filtered.mutable_filter() = FilterMessageOf(Filter::And({filter, visible}));
    } else {
      *filtered.mutable_filter() = FilterMessageOf(visible);
    }
    *request.mutable_visible() = FilterMessageOf(visible);
    v1::QueryResult actual = Answer(request).results(0);
    v1::QueryResult expected = Answer(filtered).results(0);
    EXPECT_EQ(MissingOf(actual), missing);
    actual.clear_missing();
    expected.clear_missing();
    ASSERT_EQ(actual.SerializeAsString(), expected.SerializeAsString())
        << actual.ShortDebugString().substr(0, 2000) << "\n"
        << expected.ShortDebugString().substr(0, 2000);
  }
  EXPECT_GE(num_hidden, 1u);
}

TEST_P(VisibleRerankTest, AScanOfSomeSlotsFindsExactlyTheirDocuments) {
  int num_scanned = 0;
  for (int round = 0; round < 20; ++round) {
    const collection::SlotRange slots = random_.Slots();
    SCOPED_TRACE(collection::FormatSlotRange(slots));
    const Filter visible = Filter::InSlots(slots);
    v1::RerankRequest listed = MakeRequest();
    listed.clear_offset();
    // A collection with codes scans them only if there are more candidates than are to be scored exactly.
    const bool is_whole_ranking = round % 2 == 0 || slots.is_whole();
    listed.set_top_k(is_whole_ranking ? static_cast<uint32_t>(kNumDocuments) : 10);
    if (!is_whole_ranking) listed.mutable_refinement()->set_documents(15);
    v1::RerankRequest scanned = listed;
    scanned.mutable_candidates()->mutable_whole_collection();
    *scanned.mutable_visible() = FilterMessageOf(visible);
    std::vector<uint64_t> documents;
    for (uint64_t document = 0; document < known_.documents.size(); ++document) {
      if (!known_.documents[document].meaning->Matches(visible)) continue;
      documents.push_back(document);
      AddId(known_, document, *listed.mutable_candidates());
    }
    const v1::QueryResult actual = Answer(scanned).results(0);
    ASSERT_EQ(static_cast<size_t>(actual.scores_size()), std::min<size_t>(documents.size(), listed.top_k()));
    num_scanned += actual.has_refinement() ? 1 : 0;
    if (documents.empty()) continue;
    v1::QueryResult expected = Answer(listed).results(0);
    for (uint64_t& position : *expected.mutable_positions()) position = known_.documents[documents[position]].position;
    ASSERT_EQ(actual.SerializeAsString(), expected.SerializeAsString()) << actual.ShortDebugString().substr(0, 2000);
  }
  EXPECT_EQ(num_scanned > 0, GetParam().planes > 0);
}

TEST_P(VisibleRerankTest, SlotsThatAreAllSlotsOfTheCollectionCostNothing) {
  v1::RerankRequest request = MakeRequest();
  request.mutable_candidates()->mutable_whole_collection();
  *request.mutable_visible() = FilterMessageOf(Filter::And({Filter::Everything(), Filter::Everything()}));
  const auto translated = Translate(request, collection_, {});
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(translated->job->queries.front().candidates->kind, engine::CandidateSet::Kind::kWholeCollection);
  v1::RerankRequest unrestricted = request;
  unrestricted.clear_visible();
  EXPECT_EQ(Answer(request).results(0).SerializeAsString(), Answer(unrestricted).results(0).SerializeAsString());
}

TEST_P(VisibleRerankTest, AnIdThatIsNotVisibleFailsARequestAsAnUnknownOneDoes) {
  const Filter visible = Filter::Exists("lang");
  uint64_t hidden = 0;
  while (known_.documents[hidden].meaning->Matches(visible)) ++hidden;
  const auto error_of = [&](uint64_t document) {
    v1::RerankRequest request = MakeRequest();
    AddId(known_, document, *request.mutable_candidates());
    request.set_missing_policy(v1::MISSING_POLICY_FAIL);
    *request.mutable_visible() = FilterMessageOf(visible);
    return Translate(request, collection_, {}).status();
  };
  const absl::Status of_hidden = error_of(hidden);
  const absl::Status of_unknown = error_of(known_.documents.size() + 3);
  EXPECT_TRUE(absl::IsNotFound(of_hidden)) << of_hidden;
  EXPECT_EQ(client::ReasonOf(of_hidden), client::ReasonOf(of_unknown));
  EXPECT_EQ(client::FieldOf(of_hidden), client::FieldOf(of_unknown));
  std::string message(of_hidden.message());
  const std::string id = IdText(hidden);
  message.replace(message.find(id), id.size(), IdText(known_.documents.size() + 3));
  EXPECT_EQ(message, of_unknown.message());
}

TEST_P(VisibleRerankTest, ARequestIsPricedByWhatIsVisible) {
  v1::RerankRequest request = MakeRequest();
  request.mutable_candidates()->mutable_whole_collection();
  *request.mutable_visible() = FilterMessageOf(Filter::Exists("lang"));
  v1::RerankRequest filtered = request;
  filtered.clear_visible();
  filtered.set_filter_text("exists(lang)");
  const auto visible_job = Translate(request, collection_, {});
  const auto filtered_job = Translate(filtered, collection_, {});
  ASSERT_TRUE(visible_job.ok() && filtered_job.ok());
  EXPECT_EQ(visible_job->job->work, filtered_job->job->work);
}

TEST_P(VisibleRerankTest, InlineDocumentsAreAlwaysVisible) {
  v1::RerankRequest request = MakeRequest();
  *request.mutable_candidates()->mutable_inline_documents()->add_documents() =
      test::ToProto(test::MakeQuery(3, ScalarType::kF16, kDim, 4).tokens);
  const v1::RerankResponse expected = Answer(request);
  *request.mutable_visible() = FilterMessageOf(Filter::Not(Filter::Exists("lang")));
  EXPECT_EQ(Answer(request).results(0).SerializeAsString(), expected.results(0).SerializeAsString());
  // `visible` may name a field that the collection does not have, because it does not apply to inline documents.
  *request.mutable_visible() = FilterMessageOf(Filter::Exists("no_such_field"));
  EXPECT_EQ(Answer(request).results(0).SerializeAsString(), expected.results(0).SerializeAsString());
}

TEST_P(VisibleRerankTest, ErrorsAreAboutTheField) {
  v1::RerankRequest request = MakeRequest();
  request.mutable_candidates()->mutable_whole_collection();
  request.mutable_visible();
  const absl::Status unset = CheckEnvelope(request, {});
  EXPECT_TRUE(absl::IsInvalidArgument(unset)) << unset;
  EXPECT_EQ(client::FieldOf(unset), "visible");
  *request.mutable_visible() = FilterMessageOf(Filter::Exists("no_such_field"));
  EXPECT_TRUE(CheckEnvelope(request, {}).ok());
  const absl::Status undeclared = Translate(request, collection_, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(undeclared)) << undeclared;
  EXPECT_EQ(client::FieldOf(undeclared), "visible");
}

INSTANTIATE_TEST_SUITE_P(All, VisibleRerankTest, testing::ValuesIn(FilteredCases()), NameOfCase);

}  // namespace
}  // namespace maxsim::service
