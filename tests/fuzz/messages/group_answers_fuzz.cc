// Fuzzes the router's handling of its groups' answers to Rerank. Whatever the groups answer, the router must merge the
// answers correctly or return an error.
//
// The first byte of the input chooses the request, the second an option of the request. The third byte chooses how the
// rest is read (see ReadAnswers) and which part is lost, the fourth top_k. The rest holds the answers of two parts:
// either their bytes, or changes to correct answers. Changed answers pass more checks than random bytes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/split.h"
#include "tests/fuzz/messages/two_groups.h"
#include "tests/fuzz/target.h"
#include "tests/unit/server/cluster/fake_answer.h"

namespace maxsim::fuzz {
namespace {

using Answers = std::vector<absl::StatusOr<v1::RerankResponse>>;

enum Options : uint8_t { kPayloads = 1, kAlignments = 2, kNormalize = 4, kFailOnMissing = 8, kIntIds = 16, kLive = 32 };

void SetCandidates(int kind, bool has_int_ids, v1::Candidates& candidates) {
  switch (kind) {
    case 0:
      candidates.mutable_whole_collection();
      return;
    case 1:
      for (int i = 0; i < 3; ++i) {
        candidates.mutable_inline_documents()->add_documents()->set_num_tokens(cluster::kFakeDocumentTokens);
      }
      return;
    default:
      for (const int i : {3, 30, 1, 4, 3, 31, 30, 9, 2}) {
        if (has_int_ids) {
          candidates.mutable_int_ids()->add_ids(i);
        } else {
          candidates.mutable_string_ids()->add_ids(absl::StrCat("doc-", i));
        }
      }
  }
}

v1::RerankRequest MakeRequest(uint8_t kinds, uint8_t options, uint8_t top_k) {
  v1::RerankRequest request;
  request.set_collection("c");
  request.set_request_id("r");
  request.set_top_k(1 + top_k % 16u);
  request.set_offset(kinds >> 5);
  request.set_return_payloads((options & kPayloads) != 0);
  request.set_return_alignments((options & kAlignments) != 0);
  request.set_normalize((options & kNormalize) != 0);
  if ((options & kFailOnMissing) != 0) request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const bool has_int_ids = (options & kIntIds) != 0;
  SetCandidates(kinds & 3, has_int_ids, *request.mutable_candidates());
  request.add_queries()->mutable_tokens()->set_num_tokens(2);
  if ((kinds & 4) == 0) return request;
  v1::Query& own = *request.add_queries();
  own.mutable_tokens()->set_num_tokens(3);
  SetCandidates((kinds >> 3) & 3, has_int_ids, *own.mutable_candidates());
  return request;
}

// Changes a result in one place.
void Change(Reader& input, v1::QueryResult& result) {
  const uint8_t what = input.Byte();
  const int idx = input.Byte();
  const uint32_t value = input.Number();
  const int hits = result.scores_size();
  auto& ids = *result.mutable_string_ids()->mutable_ids();
  switch (what % 10) {
    case 0: {
      float score = 0;
      std::memcpy(&score, &value, sizeof(score));
      if (hits > 0) result.set_scores(idx % hits, score);
      return;
    }
    case 1:
      if (result.positions_size() > 0) result.set_positions(idx % result.positions_size(), value);
      return;
    case 2:
      if (!ids.empty()) ids[idx % ids.size()] = absl::StrCat("doc-", value % (2 * kNumDocuments));
      return;
    case 3:
      result.mutable_missing_string_ids()->add_ids(absl::StrCat("doc-", value % (2 * kNumDocuments)));
      return;
    case 4:
      if (hits > 0) result.mutable_scores()->RemoveLast();
      if (result.positions_size() > 0) result.mutable_positions()->RemoveLast();
      if (!ids.empty()) ids.RemoveLast();
      if (result.payloads_size() > 0) result.mutable_payloads()->RemoveLast();
      if (result.alignments_size() > 0) result.mutable_alignments()->RemoveLast();
      return;
    case 5:
      result.add_alignments()->add_document_tokens(value);
      return;
    case 6:
      result.add_payloads("x");
      return;
    case 7:
      result.set_unavailable_documents(idx % 2 == 0 ? value : UINT64_MAX - value);
      return;
    case 8:
      result.clear_missing_string_ids();
      return;
    default:
      if (result.alignments_size() > 0) result.mutable_alignments(idx % result.alignments_size())->add_similarities(1);
  }
}

// Returns the answers of the parts. If `how` is even, the input has the bytes of each answer after its length (two
// bytes). If `how` is odd, the input has changes to correct answers, of six bytes each.
Answers ReadAnswers(uint8_t how, Reader& input, const cluster::SplitRequest& split) {
  Answers answers;
  for (const cluster::PartRequest& part : split.parts) {
    if ((how & 1) == 0) {
      const size_t size = input.Byte() + 256u * input.Byte();
      v1::RerankResponse answer;
      if (answer.ParseFromString(input.Take(size))) {
        answers.emplace_back(std::move(answer));
      } else {
        answers.emplace_back(absl::InternalError("no message"));
      }
      continue;
    }
    const auto idx = part.part == cluster::PartRequest::kAnyGroup ? 0 : static_cast<int>(part.part);
    answers.emplace_back(cluster::Answer(*part.request, DocumentsOf(collection::PartitionOf(idx, kNumParts)), 5));
  }
  while ((how & 1) != 0 && !input.empty()) {
    const uint8_t where = input.Byte();
    v1::RerankResponse& answer = *answers[where % answers.size()];
    Change(input, *answer.mutable_results((where >> 4) % answer.results_size()));
  }
  if ((how & 2) != 0) answers[(how >> 2) % answers.size()] = absl::UnavailableError("away");
  return answers;
}

// Returns the scores that the merged answer to a query must have: the scores in the parts' answers that are in the
// requested page.
std::vector<float> ScoresOf(const cluster::SplitRequest& split, const Answers& answers, int query) {
  std::vector<float> scores;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) continue;
    for (size_t sub = 0; sub < split.parts[i].queries.size(); ++sub) {
      if (split.parts[i].queries[sub] != query) continue;
      const auto& of_part = answers[i]->results(static_cast<int>(sub)).scores();
      scores.insert(scores.end(), of_part.begin(), of_part.end());
    }
  }
  const float divisor = split.normalize ? static_cast<float>(split.queries[static_cast<size_t>(query)].num_tokens) : 1;
  for (float& score : scores) score /= divisor;
  std::sort(scores.begin(), scores.end(), std::greater<>());
  const service::RankRange range =
      service::RangeOnPage(split.page, std::min(scores.size(), static_cast<size_t>(split.page.num_ranked())),
                           [&](size_t idx) { return scores[idx]; });
  return {scores.begin() + static_cast<ptrdiff_t>(range.begin), scores.begin() + static_cast<ptrdiff_t>(range.end)};
}

template <typename Ids>
void CheckIds(const v1::QueryResult& result, const Ids& ids, const Ids& missing, const Ids* listed) {
  Require(ids.size() == result.scores_size(), "each result has an id");
  std::set<typename Ids::value_type> seen(ids.begin(), ids.end());
  Require(seen.size() == static_cast<size_t>(ids.size()), "no document comes twice");
  Require(listed != nullptr || missing.empty(), "only listed ids can be missing");
  if (listed == nullptr) return;
  for (int i = 0; i < ids.size(); ++i) {
    Require(result.positions(i) < static_cast<uint64_t>(listed->size()) &&
                listed->Get(static_cast<int>(result.positions(i))) == ids.Get(i),
            "a position is that of the id in the client's list");
  }
  auto next = listed->begin();
  for (const auto& id : missing) {
    next = std::find(next, listed->end(), id);
    Require(next != listed->end(), "missing ids are of the client's list, in its order");
    Require(seen.insert(id).second, "an id is found or missing, and once");
  }
}

void CheckResult(const v1::RerankRequest& request, const v1::Candidates& candidates, const v1::QueryResult& result,
                 const std::vector<float>& best, bool has_int_ids) {
  const int hits = result.scores_size();
  Require(std::equal(result.scores().begin(), result.scores().end(), best.begin(), best.end()),
          "the best of all parts come, in order");
  Require(result.positions_size() == hits, "each result has a position");
  Require(result.payloads_size() == (request.return_payloads() ? hits : 0), "payloads are those that were asked for");
  Require(result.alignments_size() == (request.return_alignments() ? hits : 0),
          "alignments are those that were asked for");
  for (int i = 0; i < hits; ++i) {
    Require(std::isfinite(result.scores(i)), "scores are finite");
    Require(i == 0 || result.scores(i - 1) > result.scores(i) || request.normalize() ||
                result.positions(i - 1) <= result.positions(i),
            "equal scores rank by position");
  }
  if (candidates.has_inline_documents()) {
    const std::set<uint64_t> positions(result.positions().begin(), result.positions().end());
    Require(positions.size() == static_cast<size_t>(hits), "no inline document comes twice");
    Require(positions.empty() || *positions.rbegin() < 3, "positions are of the request's documents");
  } else if (has_int_ids) {
    CheckIds(result, result.int_ids().ids(), result.missing_int_ids().ids(),
             candidates.has_int_ids() ? &candidates.int_ids().ids() : nullptr);
  } else {
    CheckIds(result, result.string_ids().ids(), result.missing_string_ids().ids(),
             candidates.has_string_ids() ? &candidates.string_ids().ids() : nullptr);
  }
}

void FuzzGroupAnswers(std::string_view bytes) {
  Reader input(bytes);
  const uint8_t kinds = input.Byte();
  const uint8_t options = input.Byte();
  const uint8_t how = input.Byte();
  v1::RerankRequest request = MakeRequest(kinds, options, input.Byte());
  const v1::RerankRequest asked = request;
  const bool has_int_ids = (options & kIntIds) != 0;
  const auto collection = MakeCollection(has_int_ids, (options & kLive) != 0);
  const service::RequestLimits limits;
  const auto split = cluster::SplitRerank(request, collection.get(), limits, 0);
  Require(split.ok(), "the request is right");
  Answers answers = ReadAnswers(how, input, *split);
  size_t num_answers = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) continue;
    const cluster::PartRequest& part = split->parts[i];
    const std::optional<cluster::AnswerFault> fault =
        cluster::CheckRerankAnswer(*part.request, cluster::AskedPartOf(part, collection.get()), *answers[i]);
    if (fault.has_value()) {
      Require(!fault->message.empty() && IsUtf8(fault->message), "a fault says what is wrong");
      answers[i] = absl::InternalError(fault->message);
    } else {
      ++num_answers;
    }
  }
  std::vector<std::vector<float>> best;
  for (int query = 0; query < asked.queries_size(); ++query) best.push_back(ScoresOf(*split, answers, query));
  const auto merged = cluster::MergeRerank(*split, collection.get(), std::move(answers), limits);
  if (!merged.ok()) {
    Require(absl::IsUnavailable(merged.status()) || (split->fail_on_missing && absl::IsNotFound(merged.status())),
            absl::StrCat("a merge fails for lost groups and unknown ids alone, not with ", merged.status().ToString()));
    return;
  }
  Require(num_answers > 0, "there is no answer without any part's");
  Require(merged->results_size() == asked.queries_size(), "each query has a result");
  for (int query = 0; query < asked.queries_size(); ++query) {
    const v1::Query& of = asked.queries(query);
    CheckResult(asked, of.has_candidates() ? of.candidates() : asked.candidates(), merged->results(query),
                best[static_cast<size_t>(query)], has_int_ids);
  }
}

const Registration kGroupAnswersTarget("group_answers", &FuzzGroupAnswers);

}  // namespace
}  // namespace maxsim::fuzz
