#include "loadtest/random/popularity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace maxsim::loadtest {
namespace {

// SampleDistinct draws this many times per wanted rank before FillUp takes over. Most further draws would repeat
// earlier ranks.
constexpr uint64_t kDrawsEach = 2;
// FillUp's head has this many ranks per wanted rank.
constexpr uint64_t kHeadEach = 2;

// LogRatio returns log1p(x) / x, ExpRatio returns expm1(x) / x. Near 0 they use a series, because the quotients would
// be 0 / 0.
double LogRatio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }
double ExpRatio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }

}  // namespace

// All members are relative to the first rank and its weight. Relative to rank 1, the weights of far ranks would be too
// small, and too similar, to be told apart in floating point.
ZipfRank::ZipfRank(uint64_t first, uint64_t last, double exponent)
    : first_(first), last_(last), scale_(static_cast<double>(first)), exponent_(exponent) {
  integral_first_ = Integral((scale_ + 0.5) / scale_) - RelativeWeight(scale_);
  integral_last_ = Integral((static_cast<double>(last) + 0.5) / scale_);
  const double second = scale_ + 1;
  shortcut_ = second - scale_ * InverseIntegral(Integral((second + 0.5) / scale_) - RelativeWeight(second));
}

double ZipfRank::Weight(uint64_t rank) const { return std::exp(-exponent_ * std::log(static_cast<double>(rank))); }

// Returns the weight of one rank in the units of Integral.
double ZipfRank::RelativeWeight(double rank) const { return std::exp(-exponent_ * std::log(rank / scale_)) / scale_; }

// Computes the sum by the formula of Euler and Maclaurin: the integral, half of the weights at both ends, and a twelfth
// of the difference of the slopes at both ends. The first neglected term has the third derivative. From rank 128 on it
// is less than 1e-6 of the first weight, for exponents up to 10.
double ZipfRank::TotalWeight() const {
  const double end = static_cast<double>(last_) / scale_;
  const double end_weight = std::exp(-exponent_ * std::log(end));
  const double sum = scale_ * Integral(end) + (1 + end_weight) / 2 + exponent_ / scale_ * (1 - end_weight / end) / 12;
  return Weight(first_) * sum;
}

// Returns an integral of x^-exponent: (x^(1-e) - 1) / (1 - e), which is continuous in e also at e = 1.
double ZipfRank::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpRatio((1 - exponent_) * log_x) * log_x;
}

double ZipfRank::InverseIntegral(double y) const {
  const double t = std::max(y * (1 - exponent_), -1.0);
  return std::exp(LogRatio(t) * y);
}

uint64_t ZipfRank::Sample(Random& random) const {
  while (true) {
    const double u = integral_last_ + random.Uniform() * (integral_first_ - integral_last_);
    const double x = scale_ * InverseIntegral(u);
    const auto rank = static_cast<uint64_t>(std::clamp(x + 0.5, scale_, static_cast<double>(last_)));
    const auto r = static_cast<double>(rank);
    if (r - x <= shortcut_ || u >= Integral((r + 0.5) / scale_) - RelativeWeight(r)) return rank;
  }
}

Permutation::Permutation(uint64_t n, uint64_t seed)
    : n_(n), seed_(seed), half_bits_(std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2)) {}

uint64_t Permutation::Once(uint64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = index >> half_bits_, right = index & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t mixed = left ^ (MixSeed(seed_ + round, right) & mask);
    left = std::exchange(right, mixed);
  }
  return (left << half_bits_) | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  do index = Once(index);
  while (index >= n_);
  return index;
}

Popularity::Popularity(uint64_t n, double exponent, uint64_t seed)
    : n_(n), exponent_(exponent), rank_(n, exponent), permutation_(n, seed) {}

std::vector<uint64_t> Popularity::SampleDistinct(uint64_t count, Random& random) const {
  std::vector<uint64_t> documents;
  documents.reserve(count);
  absl::flat_hash_set<uint64_t> drawn;
  drawn.reserve(count);
  for (uint64_t draws = 0; documents.size() < count && draws < kDrawsEach * count + 64; ++draws) {
    const uint64_t rank = rank_.Sample(random);
    if (drawn.insert(rank).second) documents.push_back(DocumentOfRank(rank));
  }
  if (documents.size() < count) FillUp(count, random, drawn, documents);
  return documents;
}

// Drawing one rank after another from those that are left has the same distribution as this: each rank is an
// independent Poisson process whose rate is its weight, and ranks are taken in the order of their first arrivals. For
// each of the first ranks, the head, the time of the first arrival is computed. All other ranks, the tail, are one
// process with the sum of their rates. Each arrival of the tail belongs to a rank that is drawn by weight, and counts
// if it is that rank's first one.
//
// The head keeps the tail's arrivals few. A rank whose expected number of arrivals is 1 has arrived with probability 1
// - 1/e. So by the time when `count` ranks have arrived, only the first 1.6 * count ranks can have an expected number
// of 1 or more. The ranks after a head of 2 * count have less: few of their arrivals repeat a rank, and there are fewer
// than 1.6 * count of these arrivals.
void Popularity::FillUp(uint64_t count, Random& random, absl::flat_hash_set<uint64_t>& drawn,
                        std::vector<uint64_t>& documents) const {
  const uint64_t head = std::min(n_, std::max(kHeadEach * count, ZipfRank::kLeastFirstOfSum));
  std::vector<std::pair<double, uint64_t>> arrivals;
  arrivals.reserve(head);
  for (uint64_t rank = 1; rank <= head; ++rank) {
    if (!drawn.contains(rank)) arrivals.emplace_back(random.Exponential() / rank_.Weight(rank), rank);
  }
  const auto end = arrivals.begin() + static_cast<std::ptrdiff_t>(count - documents.size());
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  auto next = arrivals.begin();
  if (head < n_) {
    const ZipfRank tail(head + 1, n_, exponent_);
    const double mean_gap = 1 / tail.TotalWeight();
    for (double time = mean_gap * random.Exponential(); documents.size() < count;) {
      if (next->first <= time) {
        documents.push_back(DocumentOfRank(next++->second));
        continue;
      }
      const uint64_t rank = tail.Sample(random);
      if (drawn.insert(rank).second) documents.push_back(DocumentOfRank(rank));
      time += mean_gap * random.Exponential();
    }
  }
  for (; documents.size() < count; ++next) documents.push_back(DocumentOfRank(next->second));
}

}  // namespace maxsim::loadtest
