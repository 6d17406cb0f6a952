// How the host learns that a small call is done, without a copy or an event: the kernels write its results straight to
// pinned memory, each in one store, where the host has put what no result is. A place that has changed holds its
// result, so nothing has to be ordered: a fence would take the link's way there and back. The times come over in the
// same way.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

// Scored (kernels/maxsim.h) as the device writes it.
struct alignas(8) DeviceScored {
  float score;
  uint32_t position;
};

// When a call's stages began and ended, by the device's clock in nanoseconds. In pinned memory.
struct CallTimes {
  uint64_t input_begin;  // the call's first kernel starts ...
  uint64_t
      input_end;  // ... and has the input on the device; of a single-launch call the query's rows, all or the first
  uint64_t scores_end;   // selection begins
  uint64_t results_end;  // selection is done, near enough: as one of its thread blocks sees it
};

// The bits of a result and of a time that have not come: no document has such a position, and no clock shows it.
inline constexpr uint64_t kNotThere = ~uint64_t{0};

}  // namespace maxsim::cuda
