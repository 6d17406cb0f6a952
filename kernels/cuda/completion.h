// How the device tells the host that a call is done without a copy or an event: the last thread block of a call's last
// kernel writes a number to pinned memory, and times beside it.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

// In pinned memory, written by the device. Times are of the device's clock, in nanoseconds.
struct CallRecord {
  uint64_t input_begin;  // the call's first kernel starts ...
  uint64_t input_end;    // ... and has the input on the device
  uint64_t scores_end;   // selection begins
  uint64_t results_end;  // selection is done
  uint32_t done;         // number of the last call that is done; written last, when its results can be seen
  uint32_t unused;
};

// In device memory. Zero before the first launch.
struct CompletionState {
  uint64_t scores_end;  // for the record, as it is written at the end
  uint32_t num_blocks;  // thread blocks that are done; zero again after each launch
  uint32_t unused;
};

// What the last kernel of a call is told.
struct Completion {
  CallRecord* record = nullptr;  // null: nobody is waiting for it
  CompletionState* state = nullptr;
  uint32_t call = 0;  // number of the call, never 0
  uint32_t unused = 0;
};

}  // namespace maxsim::cuda
