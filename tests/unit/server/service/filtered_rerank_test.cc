// A request with a filter has the answer of the same request for the documents that match: random fields, documents,
// filters and requests, with and without codes, over whole collections and lists, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/error_details.h"
#include "collection/filters/filter_text.h"
#include "server/service/request/answer.h"
#include "server/service/request/filter_message.h"
#include "server/service/request/translate.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/requests.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::RandomFilters;
using testing::HasSubstr;

struct FilteredCase {
  const char* name = "";
  collection::IdType id_type = collection::IdType::kString;
  int planes = 0;
  bool cuts_calls = false;  // The engine takes few documents a call.
};

class FilteredRerankTest : public testing::TestWithParam<FilteredCase> {
 protected:
  static constexpr int32_t kDim = 16;
  static constexpr int64_t kNumDocuments = 300;

  FilteredRerankTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        random_(seed_),
        documents_(test::SmallDocuments(seed_, kNumDocuments, ScalarType::kF16, kDim)),
        backend_(engine::MakeCpuBackend()),
        engine_(MakeEngineOf(backend_.get())) {
    for (int64_t idx = 0; idx < kNumDocuments; ++idx) {
      payloads_.push_back(random_.Payload());
      meanings_.emplace_back(payloads_.back());
    }
    options_.id_type = GetParam().id_type;
    options_.max_shard_bytes = 20'000;
    options_.payload_texts = payloads_;
    options_.fields = RandomFilters::fields();
    if (GetParam().planes > 0) options_.codes = {.planes = GetParam().planes, .rotation_seed = 7, .factors = true};
    test::BuildCorpus(folder_.path(), documents_, options_);
    collection_ = test::LoadCorpus(folder_.path(), backend_.get());
    EXPECT_GE(collection_->num_parts(), 2u);
  }

  static std::unique_ptr<engine::Engine> MakeEngineOf(Backend* backend) {
    if (!GetParam().cuts_calls) return engine::MakeEngine(backend);
    ExecutorOptions limits;
    limits.max_candidates = 20;
    return engine::MakeEngine(backend, limits, /*max_call_work=*/400);
  }

  uint64_t Below(uint64_t end) { return random_.Below(end); }

  void AddId(uint64_t document, v1::Candidates& candidates) const {
    if (options_.id_type == collection::IdType::kString) {
      candidates.mutable_string_ids()->add_ids(test::CorpusId(options_, static_cast<int64_t>(document)));
    } else {
      candidates.mutable_int_ids()->add_ids(test::CorpusIntId(static_cast<int64_t>(document)));
    }
  }

  // The whole collection, or a list of ids with repeated and unknown ones. `documents` gets those of the list, in which
  // numbers from kNumDocuments on are unknown.
  void FillCandidates(v1::Candidates& candidates, std::vector<uint64_t>& documents) {
    documents.clear();
    if (Below(2) == 0) {
      candidates.mutable_whole_collection();
      return;
    }
    for (uint64_t count = 1 + Below(Below(2) == 0 ? 5 : 200); count > 0; --count) {
      documents.push_back(Below(kNumDocuments + 10));
      AddId(documents.back(), candidates);
    }
  }

  // A request, and the same one for what matches its filter.
  struct Pair {
    Filter filter;
    v1::RerankRequest filtered;
    v1::RerankRequest listed;
    // For each query, what the positions of the listed answer are in the filtered one. Empty where nothing matches and
    // no id is unknown: then the listed request does not have the query.
    std::vector<std::vector<uint64_t>> positions;
  };

  Pair MakePair() {
    Pair pair;
    pair.filter = random_.Tree(1 + static_cast<int>(Below(4)));
    v1::RerankRequest& request = pair.filtered;
    request.set_collection("corpus");
    request.set_top_k(static_cast<uint32_t>(1 + Below(30)));
    request.set_return_payloads(Below(2) == 0);
    request.set_return_alignments(Below(3) == 0);
    request.set_normalize(Below(3) == 0);
    if (Below(2) == 0) {
      request.mutable_refinement()->set_documents(request.top_k() + static_cast<uint32_t>(Below(40)));
      request.mutable_refinement()->set_require_proof(Below(2) == 0);
    }
    pair.listed = request;
    if (Below(2) == 0) {
      request.set_filter_text(collection::FormatFilter(pair.filter));
    } else {
      *request.mutable_filter() = FilterMessageOf(pair.filter);
    }
    for (uint64_t count = 1 + Below(3); count > 0; --count) {
      test::AddQuery(
          test::MakeQuery(random_.Below(1 << 20), ScalarType::kF16, kDim, 1 + static_cast<int32_t>(Below(9))),
          &request);
      v1::Query& query = *request.mutable_queries(request.queries_size() - 1);
      std::vector<uint64_t> documents;
      FillCandidates(*query.mutable_candidates(), documents);
      AddListed(query, documents, pair);
    }
    return pair;
  }

  void AddListed(const v1::Query& query, std::vector<uint64_t> documents, Pair& pair) const {
    v1::Query listed = query;
    listed.clear_candidates();
    const bool is_whole = query.candidates().has_whole_collection();
    if (is_whole) {
      for (uint64_t document = 0; document < static_cast<uint64_t>(kNumDocuments); ++document) {
        documents.push_back(document);
      }
    }
    std::vector<uint64_t>& positions = pair.positions.emplace_back();
    for (size_t idx = 0; idx < documents.size(); ++idx) {
      const bool is_known = documents[idx] < static_cast<uint64_t>(kNumDocuments);
      if (is_known && !meanings_[documents[idx]].Matches(pair.filter)) continue;
      AddId(documents[idx], *listed.mutable_candidates());
      positions.push_back(idx);
    }
    if (!positions.empty()) *pair.listed.add_queries() = std::move(listed);
  }

  // Answers requests in one batch.
  std::vector<v1::RerankResponse> Answer(const std::vector<const v1::RerankRequest*>& requests) {
    std::vector<PendingAnswer> answers;
    std::vector<std::unique_ptr<engine::Job>> jobs;
    std::vector<int> job_of;
    for (const v1::RerankRequest* request : requests) {
      EXPECT_TRUE(CheckEnvelope(*request, {}).ok()) << CheckEnvelope(*request, {});
      absl::StatusOr<Translated> translated = Translate(*request, collection_, {});
      EXPECT_TRUE(translated.ok()) << translated.status();
      answers.push_back(std::move(translated->answer));
      job_of.push_back(translated->job == nullptr ? -1 : static_cast<int>(jobs.size()));
      if (translated->job != nullptr) jobs.push_back(std::move(translated->job));
    }
    std::vector<absl::StatusOr<engine::JobResult>> results;
    if (!jobs.empty()) results = engine::Execute(engine_->lane(0), jobs);
    std::vector<v1::RerankResponse> responses;
    for (size_t idx = 0; idx < requests.size(); ++idx) {
      if (job_of[idx] < 0) {
        responses.push_back(BuildResponse(answers[idx], engine::JobResult()));
        continue;
      }
      const absl::StatusOr<engine::JobResult>& result = results[static_cast<size_t>(job_of[idx])];
      EXPECT_TRUE(result.ok()) << result.status();
      responses.push_back(BuildResponse(answers[idx], *result));
    }
    return responses;
  }

  static void ExpectSame(v1::QueryResult expected, const v1::QueryResult& actual,
                         const std::vector<uint64_t>& positions) {
    ASSERT_EQ(actual.scores_size(), expected.scores_size());
    for (int i = 0; i < expected.scores_size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual.scores(i)), std::bit_cast<uint32_t>(expected.scores(i))) << i;
      expected.set_positions(i, positions[expected.positions(i)]);
    }
    // Ids, positions, payloads, alignments, what is missing and the refinement.
    ASSERT_EQ(actual.SerializeAsString(), expected.SerializeAsString())
        << actual.ShortDebugString().substr(0, 2000) << "\n"
        << expected.ShortDebugString().substr(0, 2000);
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  const test::RandomDocuments documents_;
  std::vector<std::string> payloads_;
  std::vector<collection::FilterMeaning> meanings_;
  test::CorpusOptions options_;
  const test::TemporaryFolder folder_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<engine::Engine> engine_;
  std::shared_ptr<const store::Collection> collection_;
};

TEST_P(FilteredRerankTest, AnswersAreThoseOfTheMatchingIds) {
  int num_scanned = 0;
  int num_empty = 0;
  for (int round = 0; round < (test::kSanitized ? 30 : 150); ++round) {
    SCOPED_TRACE(round);
    std::vector<Pair> pairs(1 + Below(3));
    for (Pair& pair : pairs) pair = MakePair();
    std::vector<const v1::RerankRequest*> together;
    for (const Pair& pair : pairs) together.push_back(&pair.filtered);
    const std::vector<v1::RerankResponse> filtered = Answer(together);
    for (size_t idx = 0; idx < pairs.size(); ++idx) {
      const Pair& pair = pairs[idx];
      SCOPED_TRACE(collection::FormatFilter(pair.filter));
      v1::RerankResponse listed;
      if (pair.listed.queries_size() > 0) listed = Answer({&pair.listed})[0];
      int next = 0;
      for (int query = 0; query < pair.filtered.queries_size(); ++query) {
        const v1::QueryResult& actual = filtered[idx].results(query);
        num_scanned += actual.has_refinement() ? 1 : 0;
        if (pair.positions[static_cast<size_t>(query)].empty()) {
          ++num_empty;
          EXPECT_EQ(actual.scores_size(), 0);
          EXPECT_EQ(actual.missing_string_ids().ids_size() + actual.missing_int_ids().ids_size(), 0);
          continue;
        }
        ASSERT_NO_FATAL_FAILURE(ExpectSame(listed.results(next++), actual, pair.positions[static_cast<size_t>(query)]));
      }
    }
  }
  EXPECT_GE(num_empty, test::kSanitized ? 0 : 1);
  EXPECT_EQ(num_scanned > 0, GetParam().planes > 0);
}

TEST_P(FilteredRerankTest, ARequestIsPricedByWhatMatches) {
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_filter_text("exists(lang)");
  uint64_t tokens = 0;
  for (int64_t document = 0; document < kNumDocuments; ++document) {
    if (meanings_[static_cast<size_t>(document)].Matches(Filter::Exists("lang"))) {
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

INSTANTIATE_TEST_SUITE_P(All, FilteredRerankTest,
                         testing::Values(FilteredCase{"plain"}, FilteredCase{"ints", collection::IdType::kInt64},
                                         FilteredCase{"coded", collection::IdType::kString, 4},
                                         FilteredCase{"one_plane", collection::IdType::kInt64, 1},
                                         FilteredCase{"cut", collection::IdType::kString, 0, true},
                                         FilteredCase{"coded_cut", collection::IdType::kString, 4, true}),
                         [](const testing::TestParamInfo<FilteredCase>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace maxsim::service
