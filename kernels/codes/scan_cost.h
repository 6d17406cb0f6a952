// Estimates how long a GPU takes to scan codes, for capacity planning. Does not affect scans.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

// The numbers of shards, documents and tokens that one device scans for one query.
struct ScanSize {
  int64_t num_parts = 1;  // shards; each one is scanned by its own kernels
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
};

// Returns the expected seconds of a call that scans `planes` planes of codes of this shape for one query of 32 tokens.
// Returns nullopt if no measurement applies: for the CPU backend, for a GPU that is not listed in scan_cost.cc, and for
// shapes and numbers of planes that were not measured.
std::optional<double> ExpectedScanSeconds(const BackendInfo& device, const CodeShape& shape, int planes,
                                          const ScanSize& size);

}  // namespace maxsim
