#include "loadtest/random/schedule.h"

namespace maxsim::loadtest {

Schedule::Schedule(Arrivals arrivals, double rate, int part, int num_parts, uint64_t seed)
    : arrivals_(arrivals),
      gap_ns_(1e9 * num_parts / rate),
      first_ns_(1e9 * part / rate),
      random_(MixSeed(seed, static_cast<uint64_t>(part))) {}

int64_t Schedule::NextNs() {
  if (arrivals_ == Arrivals::kFixed) {
    // The time is a product and not a sum, so that rounding errors do not add up over a long run.
    return static_cast<int64_t>(first_ns_ + gap_ns_ * static_cast<double>(num_sent_++));
  }
  time_ns_ += gap_ns_ * random_.Exponential();
  return static_cast<int64_t>(time_ns_);
}

}  // namespace maxsim::loadtest
