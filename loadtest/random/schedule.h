// The times at which the requests of an open-loop run are to be sent. They do not depend on how fast requests are
// answered, which makes the loop open.
#pragma once

#include <cstdint>

#include "loadtest/random/random.h"

namespace maxsim::loadtest {

enum class Arrivals { kPoisson, kFixed };

// Part `part` of an arrival process of `rate` per second that is divided into `num_parts`; each sending thread follows
// one part. For kPoisson a part is a Poisson process of rate / num_parts; for kFixed it is every num_parts-th instant.
// All parts together are the whole process. Not thread-safe.
class Schedule {
 public:
  Schedule(Arrivals arrivals, double rate, int part, int num_parts, uint64_t seed);

  // Returns the intended time of the next send, in nanoseconds from the start of the run. It never decreases from call
  // to call.
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
