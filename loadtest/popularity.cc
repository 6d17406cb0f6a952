#include "loadtest/popularity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace maxsim::loadtest {
namespace {

// log1p(x) / x and expm1(x) / x, continuous at 0.
double LogRatio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }
double ExpRatio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }

}  // namespace

ZipfRank::ZipfRank(uint64_t n, double exponent) : n_(n), exponent_(exponent) {
  integral_first_ = Integral(1.5) - 1;
  integral_last_ = Integral(static_cast<double>(n) + 0.5);
  shortcut_ = 2 - InverseIntegral(Integral(2.5) - Weight(2));
}

double ZipfRank::Weight(uint64_t rank) const { return std::exp(-exponent_ * std::log(static_cast<double>(rank))); }

// Of x^-exponent, with a constant that lets exponent 1 join continuously: (x^(1-e) - 1) / (1 - e).
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
    const double x = InverseIntegral(u);
    const auto rank = static_cast<uint64_t>(std::clamp(x + 0.5, 1.0, static_cast<double>(n_)));
    if (static_cast<double>(rank) - x <= shortcut_ || u >= Integral(static_cast<double>(rank) + 0.5) - Weight(rank)) {
      return rank;
    }
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

Popularity::Popularity(uint64_t n, double exponent, uint64_t seed) : n_(n), rank_(n, exponent), permutation_(n, seed) {}

std::vector<uint64_t> Popularity::SampleDistinct(uint64_t count, Random& random) const {
  std::vector<uint64_t> documents;
  documents.reserve(count);
  absl::flat_hash_set<uint64_t> drawn;
  drawn.reserve(count);
  // A rank that was drawn before is drawn again, at most some times as often as ranks are wanted: the last ones of a
  // steep distribution would take for ever.
  for (uint64_t draws = 0; documents.size() < count && draws < 8 * count + 64; ++draws) {
    const uint64_t rank = rank_.Sample(random);
    if (drawn.insert(rank).second) documents.push_back(DocumentOfRank(rank));
  }
  if (documents.size() == count) return documents;
  // Exponential arrivals with the weights as rates come in the order in which drawing one by one takes them.
  std::vector<std::pair<double, uint64_t>> arrivals;
  for (uint64_t rank = 1; rank <= n_; ++rank) {
    if (!drawn.contains(rank)) arrivals.emplace_back(random.Exponential() / rank_.Weight(rank), rank);
  }
  const auto end = arrivals.begin() + static_cast<std::ptrdiff_t>(count - documents.size());
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  for (auto it = arrivals.begin(); it != end; ++it) documents.push_back(DocumentOfRank(it->second));
  return documents;
}

}  // namespace maxsim::loadtest
