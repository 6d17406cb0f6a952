// How scattered documents in pinned host memory come over fastest on this machine, measured when a backend is made.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace maxsim::cuda {

struct LinkProfile {
  int gather_blocks = 16;                          // thread blocks of LaunchGather
  int64_t copy_document_bytes = int64_t{4} << 20;  // documents of at least so many are copied one by one instead
  double gather_bytes = 0, copy_bytes = 0;         // a second: gathered, and copied in large pieces

  // "copies 55.4 GB/s; gathers 48.0 GB/s by 16 thread blocks, documents below 1024 KiB"
  std::string ToString() const;
};

// Takes 64 MiB of device and of pinned memory for some 30 ms. On the current device.
absl::StatusOr<LinkProfile> MeasureLink();

}  // namespace maxsim::cuda
