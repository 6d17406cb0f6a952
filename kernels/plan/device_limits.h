// The limits of a device that the planners depend on.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/score_tile.h"

namespace maxsim {

// The limits of one device.
struct DeviceLimits {
  int32_t num_sms = 0;
  int32_t shared_bytes_per_block = 0;  // the opt-in maximum, in bytes
  int32_t shared_bytes_per_sm = 0;
  int32_t reserved_shared_bytes = 1024;  // shared memory that CUDA reserves in every thread block
  int32_t max_threads_per_sm = 0;
  bool hopper = false;  // whether the compute capability is 9.0
  // Whether the documents of the call have tensor maps, which the wide and deep tilings need.
  bool tensor_maps = true;
  // The tilings (kernels with tile sizes) that may be chosen, as bits 1 << ScoreTile. Tests and measurements restrict
  // the choice.
  uint32_t tiles = ~uint32_t{0};

  constexpr bool Allows(ScoreTile tile) const { return (tiles >> static_cast<uint32_t>(tile) & 1) != 0; }
  std::string ToString() const;
};

}  // namespace maxsim
