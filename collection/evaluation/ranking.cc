#include "collection/evaluation/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace maxsim::evaluation {
namespace {

double GradeOf(const Grades& grades, const std::string& id) {
  const auto found = grades.find(id);
  return found == grades.end() ? 0.0 : std::max(found->second, 0.0);
}

absl::Span<const std::string> First(absl::Span<const std::string> ranking, int k) {
  return ranking.subspan(0, static_cast<size_t>(std::max(k, 0)));
}

int64_t NumRelevant(const Grades& grades) {
  return std::count_if(grades.begin(), grades.end(), [](const auto& entry) { return entry.second > 0; });
}

}  // namespace

double NdcgAt(absl::Span<const std::string> ranking, const Grades& grades, int k) {
  std::vector<double> ideal;
  for (const auto& [id, grade] : grades) {
    if (grade > 0) ideal.push_back(grade);
  }
  std::sort(ideal.begin(), ideal.end(), std::greater<>());
  ideal.resize(std::min(ideal.size(), static_cast<size_t>(std::max(k, 0))));
  double best = 0, gained = 0;
  for (size_t i = 0; i < ideal.size(); ++i) best += ideal[i] / std::log2(static_cast<double>(i) + 2);
  const absl::Span<const std::string> first = First(ranking, k);
  for (size_t i = 0; i < first.size(); ++i) gained += GradeOf(grades, first[i]) / std::log2(static_cast<double>(i) + 2);
  return best > 0 ? gained / best : 0;
}

double ReciprocalRankAt(absl::Span<const std::string> ranking, const Grades& grades, int k) {
  const absl::Span<const std::string> first = First(ranking, k);
  for (size_t i = 0; i < first.size(); ++i) {
    if (GradeOf(grades, first[i]) > 0) return 1.0 / static_cast<double>(i + 1);
  }
  return 0;
}

double RecallAt(absl::Span<const std::string> ranking, const Grades& grades, int k) {
  const absl::Span<const std::string> first = First(ranking, k);
  const auto found = std::count_if(first.begin(), first.end(), [&](const auto& id) { return GradeOf(grades, id) > 0; });
  const int64_t relevant = NumRelevant(grades);
  return relevant == 0 ? 0 : static_cast<double>(found) / static_cast<double>(relevant);
}

bool HasRelevant(const Grades& grades) { return NumRelevant(grades) > 0; }

void Quality::Add(absl::Span<const std::string> ranking, const Grades& grades, int k, int depth) {
  ++num_queries;
  ndcg += NdcgAt(ranking, grades, k);
  recall += RecallAt(ranking, grades, k);
  recall_deep += RecallAt(ranking, grades, depth);
  reciprocal_rank += ReciprocalRankAt(ranking, grades, depth);
}

void Quality::Add(const Quality& other) {
  num_queries += other.num_queries;
  ndcg += other.ndcg;
  recall += other.recall;
  recall_deep += other.recall_deep;
  reciprocal_rank += other.reciprocal_rank;
}

Quality Quality::Mean() const {
  const double n = std::max<double>(static_cast<double>(num_queries), 1);
  return {num_queries, ndcg / n, recall / n, recall_deep / n, reciprocal_rank / n};
}

}  // namespace maxsim::evaluation
