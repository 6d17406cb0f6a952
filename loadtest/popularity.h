// Which documents are asked for: rank r is chosen with a weight of 1 / r^S, and a seeded permutation says which
// document has which rank, so that popular ones do not lie side by side in the collection.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "loadtest/random.h"

namespace maxsim::loadtest {

// Ranks first .. last with weights 1 / r^exponent, in constant time and memory: rejection-inversion (W. Hörmann, G.
// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996). Immutable.
class ZipfRank {
 public:
  // 1 <= first <= last, exponent >= 0.
  ZipfRank(uint64_t first, uint64_t last, double exponent);
  // 1 .. n.
  ZipfRank(uint64_t n, double exponent) : ZipfRank(1, n, exponent) {}

  uint64_t Sample(Random& random) const;
  double Weight(uint64_t rank) const;

  // The sum of the weights of all ranks, without adding them up. Where `first` is at least kLeastFirstOfSum, within
  // 1e-6 of the sum for exponents up to 10, which are those that the command line takes.
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

// A permutation of 0 .. n-1 without a table: four Feistel rounds over the next power of four, applied again while the
// result is not below n. Immutable.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed);
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t Once(uint64_t index) const;

  const uint64_t n_, seed_;
  int half_bits_;
};

// Draws distinct documents of 0 .. n-1. Immutable.
class Popularity {
 public:
  // exponent 0: all are equally popular.
  Popularity(uint64_t n, double exponent, uint64_t seed);

  uint64_t size() const { return n_; }

  // Draws `count` <= size() documents, one after the other, each from those that are left with their weights. They are
  // in the order drawn. Takes time and memory for `count`, whatever size() and the exponent are.
  std::vector<uint64_t> SampleDistinct(uint64_t count, Random& random) const;

  // Returns the document of rank 1, 2, ...
  uint64_t DocumentOfRank(uint64_t rank) const { return permutation_(rank - 1); }

 private:
  // Draws what `documents` lacks to `count`, by a way that no exponent makes long.
  void FillUp(uint64_t count, Random& random, absl::flat_hash_set<uint64_t>& drawn,
              std::vector<uint64_t>& documents) const;

  const uint64_t n_;
  const double exponent_;
  const ZipfRank rank_;
  const Permutation permutation_;
};

}  // namespace maxsim::loadtest
