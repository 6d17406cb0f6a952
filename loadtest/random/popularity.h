// The popularity of documents: rank r is drawn with a weight of 1 / r^S, and a seeded permutation says which document
// has which rank, so that popular documents do not lie side by side in the collection.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "loadtest/random/random.h"

namespace maxsim::loadtest {

// Draws ranks first .. last with weights 1 / r^exponent in constant time and memory, by rejection-inversion (W.
// Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
// Immutable.
class ZipfRank {
 public:
  // Requires 1 <= first <= last and exponent >= 0.
  ZipfRank(uint64_t first, uint64_t last, double exponent);
  // Draws ranks 1 .. n.
  ZipfRank(uint64_t n, double exponent) : ZipfRank(1, n, exponent) {}

  uint64_t Sample(Random& random) const;
  double Weight(uint64_t rank) const;

  // Estimates the sum of the weights of all ranks without adding them up. `first` must be at least kLeastFirstOfSum.
  // The error is then at most 1e-6 of the sum for exponents up to 10, the largest that the command line accepts.
  static constexpr uint64_t kLeastFirstOfSum = 128;
  double TotalWeight() const;

 private:
  double Integral(double x) const;
  double InverseIntegral(double y) const;
  double RelativeWeight(double rank) const;

  const uint64_t first_, last_;
  const double scale_;  // `first`
  const double exponent_;
  double integral_first_, integral_last_, shortcut_;
};

// A permutation of 0 .. n - 1 that needs no table. It applies four Feistel rounds over the numbers below the next power
// of four, and repeats them until the result is less than n. Immutable.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed);
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t Once(uint64_t index) const;

  const uint64_t n_, seed_;
  int half_bits_;
};

// Draws distinct documents of 0 .. n - 1. Immutable.
class Popularity {
 public:
  // With exponent 0 all documents are equally popular.
  Popularity(uint64_t n, double exponent, uint64_t seed);

  uint64_t size() const { return n_; }

  // Draws `count` <= size() documents, one after another, each by its weight among those that are left. Returns them
  // in the order in which they were drawn. Takes time and memory for `count`, whatever size() and the exponent are.
  std::vector<uint64_t> SampleDistinct(uint64_t count, Random& random) const;

  // Returns the document of a rank; the most popular one has rank 1.
  uint64_t DocumentOfRank(uint64_t rank) const { return permutation_(rank - 1); }

 private:
  // Draws further documents until `documents` has `count` of them, by a method whose time does not depend on the
  // exponent.
  void FillUp(uint64_t count, Random& random, absl::flat_hash_set<uint64_t>& drawn,
              std::vector<uint64_t>& documents) const;

  const uint64_t n_;
  const double exponent_;
  const ZipfRank rank_;
  const Permutation permutation_;
};

}  // namespace maxsim::loadtest
