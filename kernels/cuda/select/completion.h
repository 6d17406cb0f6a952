// Tells the host that a zero-copy call is done, without a copy or an event. The kernels write the results straight to
// pinned memory, each in one store. Before the call, the host has written bits there that no result has. A result has
// arrived when its bits have changed. So the stores need no order, and the kernels need no fence, which would take
// one round trip over the link. Times arrive in the same way.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

// Scored (kernels/maxsim.h) as the device writes it.
struct alignas(8) DeviceScored {
  float score;
  uint32_t position;
};

// The times at which a call's stages began and ended, by the device's clock in nanoseconds. The struct lies in pinned
// memory.
struct CallTimes {
  uint64_t input_begin;  // the call's first kernel starts
  // The call's input is on the device. Single-launch calls differ: for I8 documents, the time at which the kernel that
  // quantises the query has read its first row; for other types, the time at which the rows of the query are on the
  // device.
  uint64_t input_end;
  uint64_t scores_end;   // the selection begins
  uint64_t results_end;  // the selection is done, as one of its thread blocks sees it
};

// The bits of a result or a time that has not arrived. No document has this position, and no clock shows this time.
inline constexpr uint64_t kNotThere = ~uint64_t{0};

}  // namespace maxsim::cuda
