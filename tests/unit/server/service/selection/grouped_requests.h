// Makes random requests with group_by. Compares each answer, bit for bit, with groups made from the ranking of all
// candidates.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/service/grouped_rounds.h"
#include "tests/unit/server/service/selection/filtered_requests.h"

namespace maxsim::service {

class GroupedRequests {
 public:
  GroupedRequests(collection::RandomFilters* random, engine::Engine* engine) : random_(*random), engine_(*engine) {}

  // Answers a random request with group_by that scores every candidate. Compares the answer with groups made from the
  // complete ranking of the same request without group_by.
  void Check(const FilteredCollection& known) {
    v1::RerankRequest grouped = MakeGrouped(known);
    grouped.mutable_refinement()->set_documents(kAllDocuments);
    Compare(known, grouped, Answer(known, grouped), /*has_refinement=*/false);
  }

  // Answers a random request with group_by that may scan codes. Checks the answer only if all its scans are proven
  // exact.
  void CheckProof(const FilteredCollection& known) {
    v1::RerankRequest grouped = MakeGrouped(known);
    const uint32_t size = std::max<uint32_t>(grouped.group_size(), 1);
    grouped.mutable_refinement()->set_documents((grouped.offset() + grouped.top_k()) * size + 10);
    grouped.mutable_refinement()->set_require_proof(Below(2) == 0);
    const v1::RerankResponse answer = Answer(known, grouped);
    const bool is_proven = std::all_of(answer.results().begin(), answer.results().end(), [](const auto& result) {
      return !result.has_refinement() || result.refinement().certificate() == v1::CERTIFICATE_PROVEN;
    });
    for (const v1::QueryResult& result : answer.results()) num_scanned_ += result.has_refinement() ? 1 : 0;
    if (!is_proven) return;
    ++num_proven_;
    Compare(known, grouped, answer, /*has_refinement=*/true);
  }

  int num_scanned() const { return num_scanned_; }
  int num_proven() const { return num_proven_; }
  int num_results() const { return num_results_; }
  int max_jobs() const { return max_jobs_; }  // of one answer

 private:
  static constexpr uint32_t kAllDocuments = 1000;

  uint64_t Below(uint64_t end) { return random_.Below(end); }

  v1::RerankRequest MakeGrouped(const FilteredCollection& known) {
    v1::RerankRequest request;
    request.set_collection(known.collection->name());
    request.set_group_by("lang");
    request.set_top_k(static_cast<uint32_t>(1 + Below(Below(2) == 0 ? 3 : 12)));
    if (Below(3) == 0) request.set_offset(static_cast<uint32_t>(Below(6)));
    if (Below(3) != 0) request.set_group_size(static_cast<uint32_t>(1 + Below(Below(2) == 0 ? 3 : 60)));
    if (Below(4) == 0) request.set_min_score(static_cast<float>(Below(5)) - 1.0F);
    if (Below(6) == 0) {
      for (const char* value : {"a", "b", "", "none"}) request.add_group_values(value);
    }
    request.set_return_payloads(Below(2) == 0);
    request.set_return_alignments(Below(3) == 0);
    request.set_normalize(Below(3) == 0);
    if (Below(2) == 0) request.set_filter_text(collection::FormatFilter(random_.Tree(2)));
    for (uint64_t count = 1 + Below(3); count > 0; --count) {
      test::AddQuery(test::MakeQuery(Below(1 << 20), ScalarType::kF16, known.collection->dim(),
                                     1 + static_cast<int32_t>(Below(9))),
                     &request);
      v1::Candidates& candidates = *request.mutable_queries(request.queries_size() - 1)->mutable_candidates();
      if (Below(2) == 0) {
        candidates.mutable_whole_collection();
        continue;
      }
      for (uint64_t ids = 1 + Below(Below(2) == 0 ? 5 : 200); ids > 0; --ids) {
        AddId(known, Below(known.documents.size() + 10), candidates);
      }
    }
    return request;
  }

  // Answers a request with group_by in rounds. The first rounds rank only a few candidates, so that many rounds are
  // needed.
  v1::RerankResponse Answer(const FilteredCollection& known, const v1::RerankRequest& request) {
    EXPECT_TRUE(CheckEnvelope(request, {}).ok()) << CheckEnvelope(request, {});
    absl::StatusOr<Translated> translated = Translate(request, known.collection, {});
    EXPECT_TRUE(translated.ok()) << translated.status();
    if (translated->job == nullptr) return BuildResponse(translated->answer, engine::JobResult());
    GroupedRoundsOptions options{.min_ranked = static_cast<int32_t>(1 + Below(20))};
    options.max_ranked = options.min_ranked + static_cast<int32_t>(Below(2) == 0 ? Below(30) : 1000);
    options.max_queries_per_job = 1 + Below(5);
    GroupedRounds rounds(*std::move(translated), options);
    int num_jobs = 0;
    for (;; ++num_jobs) {
      auto job = rounds.Next(nullptr);
      EXPECT_TRUE(job.ok()) << job.status();
      if (!job.ok() || *job == nullptr) break;
      std::vector<std::unique_ptr<engine::Job>> jobs;
      jobs.push_back(*std::move(job));
      std::vector<absl::StatusOr<engine::JobResult>> results = engine::Execute(engine_.lane(0), jobs);
      EXPECT_TRUE(results[0].ok()) << results[0].status();
      EXPECT_TRUE(rounds.Take(*std::move(results[0])).ok());
    }
    max_jobs_ = std::max(max_jobs_, num_jobs);
    EXPECT_TRUE(CheckAnswerSize(rounds.answer(), rounds.result(), {}).ok());
    return BuildResponse(rounds.answer(), rounds.result());
  }

  // Compares an answer with groups made from the complete ranking of the same request without group_by.
  void Compare(const FilteredCollection& known, const v1::RerankRequest& grouped, const v1::RerankResponse& answer,
               bool has_refinement) {
    v1::RerankRequest plain = grouped;
    plain.clear_group_by();
    plain.clear_group_size();
    plain.clear_group_values();
    plain.clear_offset();
    plain.clear_min_score();
    plain.set_top_k(kAllDocuments);
    plain.mutable_refinement()->set_documents(kAllDocuments);
    plain.mutable_refinement()->set_require_proof(false);
    const v1::RerankResponse ranked = AnswerTogether({{&plain, known.collection}}, engine_)[0];
    EXPECT_EQ(answer.sequence(), ranked.sequence());
    ASSERT_EQ(answer.results_size(), ranked.results_size());
    for (int i = 0; i < answer.results_size(); ++i) {
      v1::QueryResult actual = answer.results(i);
      const v1::QueryResult expected = GroupsOf(known, grouped, ranked.results(i));
      if (has_refinement) actual.clear_refinement();
      num_results_ += actual.scores_size();
      ASSERT_EQ(actual.SerializeAsString(), expected.SerializeAsString())
          << grouped.ShortDebugString().substr(0, 200) << "\n"
          << actual.ShortDebugString().substr(0, 2000) << "\n"
          << expected.ShortDebugString().substr(0, 2000);
    }
  }

  static std::string IdOf(const v1::QueryResult& result, int i) {
    return result.has_string_ids() ? result.string_ids().ids(i) : std::to_string(result.int_ids().ids(i));
  }

  static v1::QueryResult GroupsOf(const FilteredCollection& known, const v1::RerankRequest& grouped,
                                  const v1::QueryResult& ranked) {
    std::map<std::string, std::optional<std::string>> values;
    const bool has_strings = known.collection->manifest().id_type == collection::IdType::kString;
    for (const FilteredDocument& document : known.documents) {
      const std::string id = has_strings ? document.string_id : std::to_string(document.int_id);
      values[id] = document.meaning->Keyword(grouped.group_by());
    }
    std::vector<std::string> order;
    std::map<std::string, std::vector<int>> members;
    for (int i = 0; i < ranked.scores_size(); ++i) {
      const std::optional<std::string>& value = values.at(IdOf(ranked, i));
      if (!value.has_value()) continue;
      const auto& asked = grouped.group_values();
      if (!asked.empty() && std::find(asked.begin(), asked.end(), *value) == asked.end()) continue;
      if (grouped.has_min_score() && ranked.scores(i) < grouped.min_score()) continue;
      if (members[*value].empty()) order.push_back(*value);
      members[*value].push_back(i);
    }
    v1::QueryResult result = ranked;
    result.clear_scores();
    result.clear_positions();
    result.clear_payloads();
    result.clear_alignments();
    if (result.has_string_ids()) result.mutable_string_ids()->Clear();
    if (result.has_int_ids()) result.mutable_int_ids()->Clear();
    const size_t size = std::max<size_t>(grouped.group_size(), 1);
    for (size_t group = grouped.offset(); group < std::min<size_t>(order.size(), grouped.offset() + grouped.top_k());
         ++group) {
      const std::vector<int>& all = members[order[group]];
      for (size_t idx = 0; idx < std::min(all.size(), size); ++idx) {
        const int i = all[idx];
        result.add_scores(ranked.scores(i));
        result.add_positions(ranked.positions(i));
        if (ranked.has_string_ids()) result.mutable_string_ids()->add_ids(ranked.string_ids().ids(i));
        if (ranked.has_int_ids()) result.mutable_int_ids()->add_ids(ranked.int_ids().ids(i));
        if (ranked.payloads_size() > 0) result.add_payloads(ranked.payloads(i));
        if (ranked.alignments_size() > 0) *result.add_alignments() = ranked.alignments(i);
        result.add_group_values(order[group]);
      }
    }
    return result;
  }

  collection::RandomFilters& random_;
  engine::Engine& engine_;
  int num_scanned_ = 0;
  int num_proven_ = 0;
  int num_results_ = 0;
  int max_jobs_ = 0;
};

}  // namespace maxsim::service
