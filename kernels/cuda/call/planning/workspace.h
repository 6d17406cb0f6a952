// The memory, the CUDA stream and the events that an executor uses for one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/call/planning/call_input.h"
#include "kernels/cuda/call/planning/call_wait.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/repeated_launch.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Owns all memory that a call needs. Allocate allocates it, and it never grows. Not thread-safe. Call Finish before
// destroying a workspace.
struct Workspace {
  explicit Workspace(const ExecutorOptions& options) : capacity(SliceCapacity::For(options)) {}

  // Allocates on `device`, which must be the current one. To be called once, before everything else. Returns
  // RESOURCE_EXHAUSTED, naming the buffer, if there is too little memory.
  absl::Status Allocate(const Device& device);

  // Waits for everything that was started on the CUDA stream. Does nothing before Allocate.
  void Finish();

  // Returns a part of the slice's input in device memory; `offset` is one of input.layout().
  template <class T>
  T* DeviceInput(size_t offset) const {
    return reinterpret_cast<T*>(device_input.as<uint8_t>() + offset);
  }

  // Return how many partial sums and how many JoinWord elements there is room for.
  int64_t partials_capacity() const { return static_cast<int64_t>(partials.bytes() / sizeof(float)); }
  int64_t join_words_capacity() const { return static_cast<int64_t>(join_words.bytes() / sizeof(JoinWord)); }

  const SliceCapacity capacity;

  // These three members keep state from call to call. The input keeps its vectors' memory, and the plan of the last
  // slice, which CudaExecutor::StartAgain launches once more. The wait has learned how long calls take. The repeated
  // launch counts identical launches, and owns the CUDA graph that replaces them.
  CallInput input;
  CallWait call_wait;
  RepeatedLaunch repeated_launch;

  // A call uses only this CUDA stream. Only document batches are copied on another one.
  Stream stream;
  // A call that takes copies begins at `start`, and each of its stages ends at one of the other events. Every call ends
  // at `done`, the only event that threads wait for asleep.
  Event start, copied_in, scored, selected, done;

  PinnedBuffer pinned_input;    // the input as CallInput::Write leaves it
  DeviceBuffer device_input;    // the input, and what the device adds to it (InputLayout)
  DeviceBuffer scores;          // float, [capacity.scores]
  DeviceBuffer partials;        // float: sums of query tiles and scores of unions; in Align DeviceMatch: the matches
  DeviceBuffer join_words;      // JoinWord, of joined lists
  DeviceBuffer keys;            // uint64_t, the candidates of large selections
  DeviceBuffer device_results;  // DeviceScored, [capacity.results]
  PinnedBuffer pinned_results;  // DeviceScored, [capacity.results]; in Align DeviceMatch: the matches
  PinnedBuffer times;           // one CallTimes
  DeviceBuffer placed;          // PlacedCandidate, [kMaxPlacedCandidates], on Hopper: a CandidateOrder's
  DeviceBuffer order_units;     // uint32_t, [kMaxPlacedCandidates], on Hopper: a CandidateOrder's

  // All zero before the first launch. Every launch leaves them zeroed for the next one; of a SelectWorkspace, it leaves
  // only the members that are marked "zero" zeroed.
  DeviceBuffer claims;               // uint32_t, one a row tile and 2 more
  DeviceBuffer team_words;           // uint32_t, [StreamTeams::kWords], on Hopper
  DeviceBuffer select_workspaces;    // SelectWorkspace, one a query
  DeviceBuffer single_launch_state;  // one SingleLaunchState

 private:
  absl::Status AllocateEvents();
  absl::Status AllocateScoring(const Device& device);
  absl::Status AllocateZeroed(const Device& device);
  absl::Status AllocateZeros(DeviceBuffer& buffer, size_t bytes, absl::string_view purpose);
};

}  // namespace maxsim::cuda
