// Random numbers that depend only on the seed, not on the compiler. The engine is the standard library's, whose numbers
// are specified. The distributions are implemented here, because the standard does not specify the numbers of its
// distributions.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace maxsim::loadtest {

// Derives the seed of stream number `stream` from `seed`, by SplitMix64.
inline uint64_t MixSeed(uint64_t seed, uint64_t stream) {
  uint64_t z = seed + (stream + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// One stream of random numbers. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  // Returns a multiple of 2^-53 in [0, 1).
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // Returns a number in [0, n). n must be greater than 0. The probabilities differ from 1 / n by at most about 2^-64.
  uint64_t Below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(engine_()) * n) >> 64); }
  // Returns a number of an exponential distribution with mean 1.
  double Exponential() { return -std::log1p(-Uniform()); }
  // Returns a number of a normal distribution with mean 0 and variance 1 (Box and Muller).
  double Normal() {
    const double radius = std::sqrt(2 * Exponential());
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace maxsim::loadtest
