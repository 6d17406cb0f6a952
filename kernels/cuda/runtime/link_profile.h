// Measures, when a backend is made, the fastest way to copy scattered documents from pinned memory to the device.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace maxsim::cuda {

struct LinkProfile {
  int gather_blocks = 16;                          // thread blocks of LaunchGather
  int64_t copy_document_bytes = int64_t{4} << 20;  // documents of at least this mean size are copied one by one
  double gather_bytes = 0;                         // bytes per second of gathers
  double copy_bytes = 0;                           // bytes per second of copies in large pieces

  // Returns a text such as "copies 55.4 GB/s; gathers 48.0 GB/s by 16 thread blocks, documents below 1024 KiB". The
  // last number is copy_document_bytes: smaller documents are gathered, not copied.
  std::string ToString() const;
};

// Measures the link of the current device. Takes 64 MiB of device and of pinned memory for some 30 ms.
absl::StatusOr<LinkProfile> MeasureLink();

}  // namespace maxsim::cuda
