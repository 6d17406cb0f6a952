// How the host learns that a zero-copy call is done, without a copy or an event: the kernels write its results straight
// to pinned memory, each in one store, where the host has put bits that no result has. A result has arrived when its
// bits have changed. So the stores need no order and the kernels no fence, which would take one round trip over the
// link. The times come over in the same way.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

// Scored (kernels/maxsim.h) as the device writes it.
struct alignas(8) DeviceScored {
  float score;
  uint32_t position;
};

// When a call's stages began and ended, by the device's clock in nanoseconds. It lies in pinned memory.
struct CallTimes {
  uint64_t input_begin;  // the call's first kernel starts
  // The input is on the device. In a single-launch call: all of the query's rows are, or, if they are rounded, the
  // first.
  uint64_t input_end;
  uint64_t scores_end;   // the selection begins
  uint64_t results_end;  // the selection is done, as one of its thread blocks sees it
};

// The bits of a result or a time that has not arrived. No document has this position, and no clock shows this time.
inline constexpr uint64_t kNotThere = ~uint64_t{0};

}  // namespace maxsim::cuda
