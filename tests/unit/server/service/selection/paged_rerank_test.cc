// Tests that the answer to a request with an offset and a minimum score is, bit for bit, a part of the complete
// ranking. Documents, candidates, filters and pages are random. Collections have codes or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "tests/support/requests.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/service/answer_together.h"
#include "tests/unit/server/service/selection/filtered_corpus.h"

namespace maxsim::service {
namespace {

using testing::ElementsAreArray;

class PagedRerankTest : public FilteredCorpusTest {
 protected:
  uint64_t Below(uint64_t end) { return random_.Below(end); }

  // Returns a request for whole rankings.
  v1::RerankRequest MakePlain() {
    v1::RerankRequest request;
    request.set_collection("corpus");
    request.set_top_k(kNumDocuments + 20);
    request.set_return_payloads(Below(2) == 0);
    request.set_return_alignments(Below(3) == 0);
    request.set_normalize(Below(3) == 0);
    if (Below(2) == 0) request.set_filter_text(collection::FormatFilter(random_.Tree(2)));
    for (uint64_t count = 1 + Below(3); count > 0; --count) {
      test::AddQuery(test::MakeQuery(Below(1 << 20), ScalarType::kF16, kDim, 1 + static_cast<int32_t>(Below(9))),
                     &request);
      v1::Candidates& candidates = *request.mutable_queries(request.queries_size() - 1)->mutable_candidates();
      if (Below(2) == 0) {
        candidates.mutable_whole_collection();
        continue;
      }
      for (uint64_t ids = 1 + Below(100); ids > 0; --ids) AddId(Below(kNumDocuments + 10), candidates);
    }
    return request;
  }

  void AddId(uint64_t document, v1::Candidates& candidates) {
    const auto idx = static_cast<int64_t>(document);
    if (options_.id_type == collection::IdType::kString) {
      candidates.mutable_string_ids()->add_ids(idx < kNumDocuments ? test::CorpusId(options_, idx) : "unknown");
    } else {
      candidates.mutable_int_ids()->add_ids(idx < kNumDocuments ? test::CorpusIntId(idx) : -1);
    }
  }

  // Sets a minimum score. Often it is the score of a result, or the next float.
  void SetMinScore(const v1::RerankResponse& ranked, v1::RerankRequest& request) {
    const v1::QueryResult& result =
        ranked.results(static_cast<int>(Below(static_cast<uint64_t>(ranked.results_size()))));
    float score = static_cast<float>(Below(100)) / 10.0F - 2.0F;
    if (result.scores_size() > 0 && Below(4) != 0) {
      score = result.scores(static_cast<int>(Below(static_cast<uint64_t>(result.scores_size()))));
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (Below(3) == 0) score = std::nextafter(score, Below(2) == 0 ? kInfinity : -kInfinity);
    request.set_min_score(score);
  }

  v1::RerankResponse Answer(const v1::RerankRequest& request) {
    v1::RerankResponse response = AnswerTogether({{&request, collection_}}, *engine_)[0];
    response.clear_timings();
    return response;
  }

  // Cuts a page from whole rankings.
  static v1::RerankResponse Cut(const v1::RerankResponse& ranked, const v1::RerankRequest& request) {
    v1::RerankResponse page = ranked;
    for (v1::QueryResult& result : *page.mutable_results()) {
      const v1::QueryResult whole = std::exchange(result, v1::QueryResult());
      result = whole;
      result.clear_scores();
      result.clear_positions();
      result.clear_payloads();
      result.clear_alignments();
      if (whole.has_string_ids()) result.mutable_string_ids()->Clear();
      if (whole.has_int_ids()) result.mutable_int_ids()->Clear();
      for (int i = 0; i < whole.scores_size(); ++i) {
        const bool is_on_page =
            i >= static_cast<int>(request.offset()) && i < static_cast<int>(request.offset() + request.top_k());
        if (!is_on_page || (request.has_min_score() && whole.scores(i) < request.min_score())) continue;
        result.add_scores(whole.scores(i));
        result.add_positions(whole.positions(i));
        if (whole.has_string_ids()) result.mutable_string_ids()->add_ids(whole.string_ids().ids(i));
        if (whole.has_int_ids()) result.mutable_int_ids()->add_ids(whole.int_ids().ids(i));
        if (whole.payloads_size() > 0) result.add_payloads(whole.payloads(i));
        if (whole.alignments_size() > 0) *result.add_alignments() = whole.alignments(i);
      }
    }
    return page;
  }
};

TEST_P(PagedRerankTest, PagesAreCutFromTheWholeRanking) {
  int num_results = 0;
  for (int round = 0; round < (test::kSanitized ? 20 : 150); ++round) {
    SCOPED_TRACE(round);
    v1::RerankRequest plain = MakePlain();
    // As many documents as there are may be refined (scored exactly), so every document is scored exactly.
    plain.mutable_refinement()->set_documents(kNumDocuments + 20);
    const v1::RerankResponse ranked = Answer(plain);
    v1::RerankRequest paged = plain;
    paged.set_top_k(static_cast<uint32_t>(1 + Below(40)));
    paged.set_offset(static_cast<uint32_t>(Below(Below(2) == 0 ? 10 : 260)));
    if (Below(2) == 0) SetMinScore(ranked, paged);
    const v1::RerankResponse page = Answer(paged);
    const v1::RerankResponse expected = Cut(ranked, paged);
    ASSERT_EQ(page.SerializeAsString(), expected.SerializeAsString())
        << paged.offset() << " " << paged.top_k() << " " << page.ShortDebugString().substr(0, 2000) << "\n"
        << expected.ShortDebugString().substr(0, 2000);
    for (const v1::QueryResult& result : page.results()) num_results += result.scores_size();
  }
  EXPECT_GT(num_results, 100);
}

// The scan of codes, the proof and its margin must be those of a request for all ranks up to the end of the page.
TEST_P(PagedRerankTest, ARefinementIsThatOfTheRanksUpToTheEndOfThePage) {
  int num_scanned = 0;
  for (int round = 0; round < (test::kSanitized ? 10 : 60); ++round) {
    SCOPED_TRACE(round);
    v1::RerankRequest paged = MakePlain();
    paged.set_top_k(static_cast<uint32_t>(1 + Below(20)));
    paged.set_offset(static_cast<uint32_t>(Below(20)));
    v1::RerankRequest plain = paged;
    plain.clear_offset();
    plain.set_top_k(paged.offset() + paged.top_k());
    for (v1::RerankRequest* one : {&paged, &plain}) {
      one->mutable_refinement()->set_documents(plain.top_k() + 10);
      one->mutable_refinement()->set_require_proof(round % 2 == 0);
    }
    const v1::RerankResponse ranked = Answer(plain);
    if (Below(2) == 0) SetMinScore(ranked, paged);
    const v1::RerankResponse page = Answer(paged);
    ASSERT_EQ(page.SerializeAsString(), Cut(ranked, paged).SerializeAsString());
    for (const v1::QueryResult& result : page.results()) num_scanned += result.has_refinement() ? 1 : 0;
  }
  EXPECT_EQ(num_scanned > 0, GetParam().planes > 0);
}

TEST_P(PagedRerankTest, PagesFitTogether) {
  v1::RerankRequest request = MakePlain();
  request.clear_filter_text();
  request.mutable_refinement()->set_documents(kNumDocuments + 20);
  request.set_return_alignments(false);
  v1::Query& query = *request.mutable_queries(0);
  query.mutable_candidates()->mutable_whole_collection();
  request.mutable_queries()->DeleteSubrange(1, request.queries_size() - 1);
  const v1::RerankResponse ranked = Answer(request);
  ASSERT_EQ(ranked.results(0).scores_size(), kNumDocuments);
  std::vector<uint64_t> positions;
  request.set_top_k(7);
  for (uint32_t offset = 0; offset < kNumDocuments + 7; offset += 7) {
    request.set_offset(offset);
    const v1::RerankResponse page = Answer(request);
    positions.insert(positions.end(), page.results(0).positions().begin(), page.results(0).positions().end());
  }
  EXPECT_THAT(positions, ElementsAreArray(ranked.results(0).positions()));
}

INSTANTIATE_TEST_SUITE_P(All, PagedRerankTest, testing::ValuesIn(FilteredCases()), NameOfCase);

}  // namespace
}  // namespace maxsim::service
