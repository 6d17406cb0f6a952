// The expected time of a scan of codes on a GPU, for people who plan a machine. Nothing that is computed depends on it.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

// The shards, documents and tokens that one device scans for one query.
struct ScanSize {
  int64_t num_parts = 1;  // shards, each of which is scanned by kernels of its own
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
};

// Returns the expected seconds of a call that scans `planes` planes of codes of this shape for one query of 32 tokens.
// nullopt where no measurement says: on the CPU backend, on a GPU whose memory's rate scan_cost.cc does not know, and
// for shapes and numbers of planes that the device's kernels were not measured with.
std::optional<double> ExpectedScanSeconds(const BackendInfo& device, const CodeShape& shape, int planes,
                                          const ScanSize& size);

}  // namespace maxsim
