// Records how an executor ran a call, for tests, benchmarks and logs. Nothing that a call does depends on it.
#pragma once

#include <cstdint>

#include "kernels/plan/score.h"

namespace maxsim::cuda {

// The way that a call takes.
enum class CallPath : uint8_t {
  kNone,           // nothing was launched: there were no candidates
  kSingleLaunch,   // one launch (kernels/cuda/call/paths/single_launch_path.h)
  kZeroCopy,       // kernels alone (kernels/cuda/call/paths/zero_copy_path.h)
  kCopied,         // copies in and out (kernels/cuda/call/paths/copied_path.h)
  kHostDocuments,  // documents come over in batches (kernels/cuda/host_documents/host_document_calls.h)
  kAlignment,      // Executor::Align (kernels/cuda/call/paths/alignment.h)
};

// Seconds on the device, by stage.
struct StageSeconds {
  // The copy of the input and, if the call takes copies, the rounding of queries to INT8. In a zero-copy call that
  // rounding is part of `score`.
  double copy_in = 0;
  double score = 0;   // scoring, with the adding of partial sums
  double select = 0;  // top-k
  double copy_out = 0;
};

// CallTrace describes the last call of TopK or Align up to its end, or up to the point at which it failed.
struct CallTrace {
  CallPath path = CallPath::kNone;  // of the last slice that had candidates
  bool graph_replayed = false;      // whether that slice was a single-launch call that replayed a CUDA graph
  bool ordered = false;             // whether candidates of any slice were ordered
  int num_joins = 0;                // joins of candidate lists in the last slice
  // The thread blocks of a team in the last pass (StreamShares): 1 if it had no teams, 0 if it ran no stream kernel.
  int32_t team_blocks = 0;
  ScorePlan plan;        // of the last slice
  StageSeconds seconds;  // of all slices together; zero after Align
};

}  // namespace maxsim::cuda
