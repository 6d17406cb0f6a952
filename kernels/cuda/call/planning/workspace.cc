#include "kernels/cuda/call/planning/workspace.h"

#include <algorithm>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/hopper_stream/single_launch_call.h"
#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/list_join.h"
#include "kernels/plan/order.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

// In the largest call, the partial sums have room for passes of this many candidates. Smaller passes would leave the
// device half empty.
constexpr int64_t kPassCandidates = 2048;

// The workspace has room for kMaxJoinedLists scores of unions per candidate, but for at most kMaxUnionScores in total:
// 16 MB.
constexpr int64_t kMaxUnionScores = int64_t{4} << 20;

// The words of the bitmaps of joined lists take 8 MB: one join over 32 million documents, or 32 over a million.
constexpr int64_t kJoinWords = int64_t{1} << 20;

int64_t PartialsCapacity(const SliceCapacity& capacity) {
  const int64_t unions = std::min(kMaxJoinedLists * capacity.candidates, kMaxUnionScores);
  return std::max({capacity.candidates, capacity.partial_query_tiles * kPassCandidates, unions});
}

}  // namespace

absl::Status Workspace::Allocate(const Device& device) {
  MAXSIM_RETURN_IF_ERROR(AllocateEvents());
  MAXSIM_RETURN_IF_ERROR(AllocateScoring(device));
  MAXSIM_RETURN_IF_ERROR(AllocateZeroed(device));
  const size_t result_bytes = static_cast<size_t>(capacity.results) * sizeof(DeviceScored);
  MAXSIM_ASSIGN_OR_RETURN(times, PinnedBuffer::Allocate(sizeof(CallTimes), "times"));
  MAXSIM_ASSIGN_OR_RETURN(device_results, DeviceBuffer::Allocate(result_bytes, "results"));
  MAXSIM_ASSIGN_OR_RETURN(pinned_results, PinnedBuffer::Allocate(result_bytes, "results"));
  return absl::OkStatus();
}

void Workspace::Finish() {
  if (stream.get() != nullptr) cudaStreamSynchronize(stream.get());
}

absl::Status Workspace::AllocateEvents() {
  MAXSIM_ASSIGN_OR_RETURN(stream, Stream::Create());
  for (Event* event : {&start, &copied_in, &scored, &selected}) {
    MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create(Event::Use::kTime));
  }
  MAXSIM_ASSIGN_OR_RETURN(done, Event::Create());
  return absl::OkStatus();
}

absl::Status Workspace::AllocateScoring(const Device& device) {
  MAXSIM_ASSIGN_OR_RETURN(pinned_input, PinnedBuffer::Allocate(capacity.InputBytes(), "queries and candidates"));
  MAXSIM_ASSIGN_OR_RETURN(device_input, DeviceBuffer::Allocate(capacity.DeviceBytes(), "queries and candidates"));
  MAXSIM_ASSIGN_OR_RETURN(scores,
                          DeviceBuffer::Allocate(static_cast<size_t>(capacity.scores) * sizeof(float), "scores"));
  MAXSIM_ASSIGN_OR_RETURN(
      partials,
      DeviceBuffer::Allocate(static_cast<size_t>(PartialsCapacity(capacity)) * sizeof(float), "partial sums"));
  MAXSIM_ASSIGN_OR_RETURN(join_words,
                          DeviceBuffer::Allocate(static_cast<size_t>(kJoinWords) * sizeof(JoinWord), "joined lists"));
  const size_t most_keys = static_cast<size_t>(MostSelectKeys(capacity.queries, capacity.results, device.limits));
  MAXSIM_ASSIGN_OR_RETURN(keys, DeviceBuffer::Allocate(most_keys * sizeof(uint64_t), "selection"));
  if (!device.limits.hopper) return absl::OkStatus();
  MAXSIM_ASSIGN_OR_RETURN(
      placed, DeviceBuffer::Allocate(size_t{kMaxPlacedCandidates} * sizeof(PlacedCandidate), "ordered candidates"));
  MAXSIM_ASSIGN_OR_RETURN(
      order_units, DeviceBuffer::Allocate(size_t{kMaxPlacedCandidates} * sizeof(uint32_t), "ordered candidates"));
  return absl::OkStatus();
}

absl::Status Workspace::AllocateZeroed(const Device& device) {
  if (device.limits.hopper) {
    MAXSIM_RETURN_IF_ERROR(AllocateZeros(team_words, StreamTeams::kWords * sizeof(uint32_t), "cut documents"));
  }
  const size_t num_claims = static_cast<size_t>(capacity.rows / kQueryTileTokens) + 2;
  MAXSIM_RETURN_IF_ERROR(AllocateZeros(claims, num_claims * sizeof(uint32_t), "claims of work"));
  MAXSIM_RETURN_IF_ERROR(
      AllocateZeros(select_workspaces, static_cast<size_t>(capacity.queries) * sizeof(SelectWorkspace), "selection"));
  return AllocateZeros(single_launch_state, sizeof(SingleLaunchState), "single-launch calls");
}

absl::Status Workspace::AllocateZeros(DeviceBuffer& buffer, size_t bytes, absl::string_view purpose) {
  MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, purpose));
  return MAXSIM_CUDA_STATUS(cudaMemsetAsync(buffer.as(), 0, bytes, stream.get()));
}

}  // namespace maxsim::cuda
