// The times at which the requests of an open-loop run are to be sent. They do not depend on how fast requests are
// answered, which makes the loop open.
#pragma once

#include <cstdint>

#include "loadtest/random/random.h"

namespace maxsim::loadtest {

enum class Arrivals { kPoisson, kFixed };

// Part `part` of `num_parts` of one arrival process of `rate` a second; each sending thread follows one part. Together
// they are the process itself: Poisson parts are Poisson processes of rate / num_parts, and fixed ones take every
// num_parts-th instant. Not thread-safe.
class Schedule {
 public:
  Schedule(Arrivals arrivals, double rate, int part, int num_parts, uint64_t seed);

  // Returns the next intended send, in nanoseconds from the start of the run; never less than the one before.
  int64_t NextNs();

 private:
  const Arrivals arrivals_;
  const double gap_ns_;  // mean time between sends of this part
  const double first_ns_;
  Random random_;
  double time_ns_ = 0;
  int64_t num_sent_ = 0;
};

}  // namespace maxsim::loadtest
