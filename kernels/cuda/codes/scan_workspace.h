// Computes how much device memory the workspace of one scanner takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codes/codes.h"
#include "kernels/plan/device_limits.h"

namespace maxsim::cuda {

// The most scores (queries times candidates) of one pass over an object's codes: 2 GiB. A single query always takes one
// pass, even if it has more scores.
inline constexpr int64_t kMaxPassScores = int64_t{1} << 29;

// Does what Backend::ScanBytesNeeded says, for passes of at most kMaxPassScores. `num_documents` may come from a
// file: if it is more than a shard can have, it counts as that maximum.
size_t MaxScanWorkspaceBytes(const CodeShape& shape, int64_t num_documents, const DeviceLimits& limits);

}  // namespace maxsim::cuda
