#include "collection/evaluation/storage_comparison.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "base/text.h"
#include "collection/evaluation/rank_agreement.h"
#include "collection/evaluation/ranking.h"

namespace maxsim::evaluation {
namespace {

// Returns `wanted` distinct random numbers below `count` in ascending order; if `wanted` exceeds `count`, returns all
// numbers below `count`. Uses Floyd's algorithm.
std::vector<uint64_t> Draw(uint64_t count, uint64_t wanted, std::mt19937_64& random) {
  std::set<uint64_t> drawn;
  for (uint64_t last = count - std::min(count, wanted); last < count; ++last) {
    const uint64_t candidate = std::uniform_int_distribution<uint64_t>(0, last)(random);
    if (!drawn.insert(candidate).second) drawn.insert(last);
  }
  return {drawn.begin(), drawn.end()};
}

// Holds a query's answer from one collection.
struct Ranked {
  std::vector<ScoredDocument> best;  // overlap_depth of them
  std::vector<float> scores;         // of the correlated documents
};

// Carries out one call of CompareStorage, step by step.
class Comparer {
 public:
  Comparer(ScoredCollection& before, ScoredCollection& after, const StorageComparisonOptions& options)
      : before_(before),
        after_(after),
        options_(options),
        num_documents_(static_cast<uint64_t>(before.manifest().num_documents)),
        random_(options.seed) {}

  absl::StatusOr<StorageComparison> Run();

 private:
  absl::Status Check() const;
  void ChooseQueries();
  absl::Status CompareQuery(int64_t query);
  absl::StatusOr<Ranked> Rank(ScoredCollection& collection, int64_t query) const;
  void CompareRankings(int64_t query, const std::vector<ScoredDocument>& before,
                       const std::vector<ScoredDocument>& after);
  double Ndcg(const ScoredCollection& collection, const std::vector<ScoredDocument>& ranking,
              const Grades& grades) const;

  ScoredCollection& before_;
  ScoredCollection& after_;
  const StorageComparisonOptions& options_;
  const uint64_t num_documents_;
  std::mt19937_64 random_;
  std::optional<QuerySet> drawn_;
  const QuerySet* queries_ = nullptr;
  std::vector<uint64_t> chosen_;      // queries
  std::vector<uint64_t> correlated_;  // documents
  StorageComparison result_;
};

absl::Status Comparer::Check() const {
  const collection::Manifest& before = before_.manifest();
  const collection::Manifest& after = after_.manifest();
  if (before.num_documents != after.num_documents || before.num_tokens != after.num_tokens || before.dim != after.dim) {
    return absl::FailedPreconditionError(Cat("the collections differ: ", before.num_documents, " documents of ",
                                             before.num_tokens, " tokens x ", before.dim, " and ", after.num_documents,
                                             " of ", after.num_tokens, " x ", after.dim));
  }
  if (options_.queries == nullptr) {
    if (before.storage != ScalarType::kI8) return absl::OkStatus();
    return absl::FailedPreconditionError("an i8 collection's documents cannot serve as queries; give --queries");
  }
  if (options_.queries->dim() != before.dim) {
    return Invalid("the queries' dimension is ", options_.queries->dim(), ", the collection's ", before.dim);
  }
  const auto num_queries = static_cast<size_t>(options_.queries->size());
  if (options_.texts != nullptr && options_.texts->size() != num_queries) {
    return Invalid(options_.texts->size(), " texts for ", num_queries, " queries");
  }
  return absl::OkStatus();
}

void Comparer::ChooseQueries() {
  if (options_.queries != nullptr) {
    const auto count = static_cast<uint64_t>(options_.queries->size());
    chosen_ = Draw(count, options_.sample == 0 ? count : static_cast<uint64_t>(options_.sample), random_);
    queries_ = options_.queries;
    return;
  }
  std::vector<int32_t> lengths;
  std::vector<float> values;
  for (const uint64_t document : Draw(num_documents_, static_cast<uint64_t>(options_.sample), random_)) {
    const std::vector<float> rows = before_.Rows(document, kDrawnQueryTokens);
    lengths.push_back(static_cast<int32_t>(rows.size() / static_cast<size_t>(before_.manifest().dim)));
    values.insert(values.end(), rows.begin(), rows.end());
  }
  drawn_ = QuerySet::FromFloats(before_.manifest().dim, lengths, values);
  queries_ = &*drawn_;
  chosen_.resize(lengths.size());
  std::iota(chosen_.begin(), chosen_.end(), uint64_t{0});
}

absl::StatusOr<StorageComparison> Comparer::Run() {
  if (absl::Status status = Check(); !status.ok()) return status;
  ChooseQueries();
  correlated_ = Draw(num_documents_, static_cast<uint64_t>(kMaxCorrelated), random_);
  result_.num_correlated = static_cast<int64_t>(correlated_.size());
  result_.overlap_depth = static_cast<int32_t>(std::min<uint64_t>(kOverlapDepth, num_documents_));
  result_.least_spearman = 1;
  for (const uint64_t query : chosen_) {
    if (absl::Status status = CompareQuery(static_cast<int64_t>(query)); !status.ok()) {
      return Prefix(Cat("query ", query, ": "), status);
    }
    if (options_.observer == nullptr) continue;
    const auto total = static_cast<int64_t>(chosen_.size());
    if (absl::Status status = options_.observer(result_.num_queries, total); !status.ok()) return status;
  }
  const auto count = static_cast<double>(std::max<int64_t>(result_.num_queries, 1));
  const auto judged = static_cast<double>(std::max<int64_t>(result_.num_judged, 1));
  result_.mean_spearman /= count;
  result_.mean_overlap /= count;
  result_.ndcg_before /= judged;
  result_.ndcg_after /= judged;
  return result_;
}

absl::Status Comparer::CompareQuery(int64_t query) {
  const absl::StatusOr<Ranked> before = Rank(before_, query);
  if (!before.ok()) return before.status();
  const absl::StatusOr<Ranked> after = Rank(after_, query);
  if (!after.ok()) return after.status();
  CompareRankings(query, before->best, after->best);
  const double spearman = Spearman(before->scores, after->scores);
  result_.mean_spearman += spearman;
  result_.least_spearman = std::min(result_.least_spearman, spearman);
  ++result_.num_queries;
  return absl::OkStatus();
}

absl::StatusOr<Ranked> Comparer::Rank(ScoredCollection& collection, int64_t query) const {
  Ranked ranked;
  if (correlated_.size() < num_documents_) {
    absl::StatusOr<std::vector<ScoredDocument>> best = collection.TopK(*queries_, query, result_.overlap_depth);
    if (!best.ok()) return best.status();
    ranked.best = *std::move(best);
    absl::StatusOr<std::vector<float>> scores = collection.Scores(*queries_, query, correlated_);
    if (!scores.ok()) return scores.status();
    ranked.scores = *std::move(scores);
    return ranked;
  }
  // All scores fit into one answer.
  absl::StatusOr<std::vector<ScoredDocument>> all =
      collection.TopK(*queries_, query, static_cast<int32_t>(num_documents_));
  if (!all.ok()) return all.status();
  ranked.scores.resize(num_documents_);
  for (const ScoredDocument& document : *all) ranked.scores[document.position] = document.score;
  all->resize(static_cast<size_t>(result_.overlap_depth));
  ranked.best = *std::move(all);
  return ranked;
}

void Comparer::CompareRankings(int64_t query, const std::vector<ScoredDocument>& before,
                               const std::vector<ScoredDocument>& after) {
  const auto ordinals = [](const std::vector<ScoredDocument>& ranking) {
    std::vector<uint64_t> list;
    list.reserve(ranking.size());
    for (const ScoredDocument& document : ranking) list.push_back(document.position);
    return list;
  };
  result_.mean_overlap += Overlap(ordinals(before), ordinals(after));
  if (options_.judgements == nullptr || options_.texts == nullptr) return;
  const auto judged = options_.judgements->find((*options_.texts)[static_cast<size_t>(query)].id);
  if (judged == options_.judgements->end() || !HasRelevant(judged->second)) return;
  ++result_.num_judged;
  result_.ndcg_before += Ndcg(before_, before, judged->second);
  result_.ndcg_after += Ndcg(after_, after, judged->second);
}

double Comparer::Ndcg(const ScoredCollection& collection, const std::vector<ScoredDocument>& ranking,
                      const Grades& grades) const {
  std::vector<std::string> ids;
  ids.reserve(kNdcgDepth);
  for (size_t idx = 0; idx < std::min<size_t>(ranking.size(), kNdcgDepth); ++idx) {
    ids.push_back(collection.IdText(ranking[idx].position));
  }
  return NdcgAt(ids, grades, kNdcgDepth);
}

}  // namespace

absl::StatusOr<StorageComparison> CompareStorage(ScoredCollection& before, ScoredCollection& after,
                                                 const StorageComparisonOptions& options) {
  return Comparer(before, after, options).Run();
}

}  // namespace maxsim::evaluation
