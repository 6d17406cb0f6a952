#include "collection/evaluation/paired_test.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

namespace maxsim::evaluation {
namespace {

constexpr size_t kTableBits = 8;
constexpr size_t kTableSize = size_t{1} << kTableBits;

// Sums differences after giving each a sign. For every eight differences a table has the sums for all 256 choices of
// their signs, so a sum takes one look-up per eight differences.
class SignedSums {
 public:
  explicit SignedSums(const std::vector<double>& differences) {
    for (size_t begin = 0; begin < differences.size(); begin += kTableBits) {
      std::array<double, kTableSize>& table = tables_.emplace_back();
      for (size_t signs = 0; signs < kTableSize; ++signs) {
        double sum = 0;
        for (size_t bit = 0; bit < std::min(kTableBits, differences.size() - begin); ++bit) {
          const double difference = differences[begin + bit];
          sum += ((signs >> bit) & 1) != 0 ? -difference : difference;
        }
        table[signs] = sum;
      }
    }
  }

  // Returns the sum, with difference i negated if bit i is set. next_bits() returns the next 64 of these bits.
  template <typename NextBits>
  double Sum(NextBits next_bits) const {
    double sum = 0;
    for (size_t begin = 0; begin < tables_.size(); begin += 8) {
      uint64_t bits = next_bits();
      for (size_t idx = begin; idx < std::min(begin + 8, tables_.size()); ++idx, bits >>= kTableBits) {
        sum += tables_[idx][bits % kTableSize];
      }
    }
    return sum;
  }

 private:
  std::vector<std::array<double, kTableSize>> tables_;
};

// No element of `differences` may be 0.
void TestByRandomisation(const std::vector<double>& differences, uint64_t seed, PairedTest& result) {
  if (differences.empty()) return;
  const SignedSums sums(differences);
  double magnitude = 0;
  for (const double difference : differences) magnitude += std::abs(difference);
  // Lowers the threshold slightly, so that a sum that equals it in exact arithmetic also reaches it after rounding.
  const double threshold = std::abs(sums.Sum([] { return uint64_t{0}; })) - 1e-12 * magnitude;
  result.is_exact = differences.size() <= static_cast<size_t>(kMaxExactDifferences);
  int64_t count = 0;
  if (result.is_exact) {
    const uint64_t num_assignments = uint64_t{1} << differences.size();
    for (uint64_t signs = 0; signs < num_assignments; ++signs) {
      count += std::abs(sums.Sum([signs] { return signs; })) >= threshold ? 1 : 0;
    }
    result.p_randomisation = static_cast<double>(count) / static_cast<double>(num_assignments);
    return;
  }
  std::mt19937_64 random(seed);
  for (int64_t draw = 0; draw < kNumRandomSigns; ++draw) count += std::abs(sums.Sum(std::ref(random))) >= threshold;
  result.p_randomisation = static_cast<double>(count + 1) / static_cast<double>(kNumRandomSigns + 1);
}

std::optional<double> TestByT(const std::vector<double>& differences, double mean) {
  if (differences.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(differences.size());
  double squares = 0;
  for (const double difference : differences) squares += (difference - mean) * (difference - mean);
  const double error = std::sqrt(squares / (count - 1) / count);  // of the mean
  if (error == 0) return mean == 0 ? std::nullopt : std::optional(0.0);
  const boost::math::students_t_distribution<double> distribution(count - 1);
  return 2 * boost::math::cdf(boost::math::complement(distribution, std::abs(mean) / error));
}

}  // namespace

PairedTest ComparePaired(absl::Span<const double> a, absl::Span<const double> b, uint64_t seed) {
  PairedTest result;
  result.num_queries = static_cast<int64_t>(a.size());
  std::vector<double> differences, other_than_zero;
  for (size_t idx = 0; idx < a.size(); ++idx) {
    const double difference = std::abs(b[idx] - a[idx]) <= kTieTolerance ? 0 : b[idx] - a[idx];
    differences.push_back(difference);
    result.mean_difference += difference;
    if (difference != 0) other_than_zero.push_back(difference);
    ++(difference > 0 ? result.num_wins : difference < 0 ? result.num_losses : result.num_ties);
  }
  result.mean_difference /= std::max(static_cast<double>(a.size()), 1.0);
  // Leaves out differences of 0: their sign does not change any sum.
  TestByRandomisation(other_than_zero, seed, result);
  result.p_t = TestByT(differences, result.mean_difference);
  return result;
}

}  // namespace maxsim::evaluation
