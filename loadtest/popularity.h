// Which documents are asked for: rank r is chosen with a weight of 1 / r^S, and a seeded permutation says which
// document has which rank, so that popular ones do not lie side by side in the collection.
#pragma once

#include <cstdint>
#include <vector>

#include "loadtest/random.h"

namespace maxsim::loadtest {

// Ranks 1 .. n with weights 1 / r^exponent, in constant time and memory: rejection-inversion (W. Hörmann, G.
// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996). Immutable.
class ZipfRank {
 public:
  // n >= 1, exponent >= 0.
  ZipfRank(uint64_t n, double exponent);
  uint64_t Sample(Random& random) const;
  double Weight(uint64_t rank) const;

 private:
  double Integral(double x) const;
  double InverseIntegral(double y) const;

  const uint64_t n_;
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

  // `count` <= size() documents, one after the other, each from those that are left with their weights. In the order
  // drawn.
  std::vector<uint64_t> SampleDistinct(uint64_t count, Random& random) const;

  // The document of rank 1, 2, ...
  uint64_t DocumentOfRank(uint64_t rank) const { return permutation_(rank - 1); }

 private:
  const uint64_t n_;
  const ZipfRank rank_;
  const Permutation permutation_;
};

}  // namespace maxsim::loadtest
