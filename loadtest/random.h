// Random numbers that are the same for a seed with every compiler: the engine is the standard's, whose numbers are
// specified; the distributions are ours, because the standard's are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace maxsim::loadtest {

// Returns a seed for part `stream` of what `seed` seeds (SplitMix64).
inline uint64_t MixSeed(uint64_t seed, uint64_t stream) {
  uint64_t z = seed + (stream + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  // In [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // In [0, n), n > 0. A bias of n / 2^64 is left.
  uint64_t Below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(engine_()) * n) >> 64); }
  // Mean 1.
  double Exponential() { return -std::log1p(-Uniform()); }
  // Mean 0, variance 1 (Box and Muller).
  double Normal() {
    const double radius = std::sqrt(2 * Exponential());
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace maxsim::loadtest
