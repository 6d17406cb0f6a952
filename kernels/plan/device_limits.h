// What the planners need to know of a device.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/score_tile.h"

namespace maxsim {

// What the plan needs to know of a device.
struct DeviceLimits {
  int32_t num_sms = 0;
  int32_t shared_bytes_per_block = 0;  // opt-in maximum
  int32_t shared_bytes_per_sm = 0;
  int32_t reserved_shared_bytes = 1024;  // of every block, by the system
  int32_t max_threads_per_sm = 0;
  bool hopper = false;            // compute capability 9.0
  bool tensor_maps = true;        // the documents in question have them (the wide and deep tiles need them)
  uint32_t tiles = ~uint32_t{0};  // tilings that may be chosen, bit 1 << ScoreTile; for tests and measurements

  constexpr bool Allows(ScoreTile tile) const { return (tiles >> static_cast<uint32_t>(tile) & 1) != 0; }
  std::string ToString() const;
};

}  // namespace maxsim
