#include "kernels/cuda/call/paths/slice_results.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/select/topk_launch.h"

namespace maxsim::cuda {

static_assert(sizeof(Scored) == sizeof(DeviceScored) && offsetof(Scored, position) == offsetof(DeviceScored, position));

absl::Status LaunchSelection(const CallContext& context, DeviceScored* results, CallTimes* times) {
  const Workspace& workspace = context.workspace;
  const CallInput& input = workspace.input;
  SelectCall call{};
  call.queries = workspace.DeviceInput<SelectQuery>(input.layout().select_queries);
  call.scores = workspace.scores.as<float>();
  call.workspaces = workspace.select_workspaces.as<SelectWorkspace>();
  call.keys = workspace.keys.as<uint64_t>();
  call.results = results;
  call.num_large = input.num_large_selections();
  call.num_small = input.num_select_queries() - call.num_large;
  call.most_splits = input.most_splits();
  call.most_rank_blocks = input.most_rank_blocks();
  call.only = input.first_selection();
  return MAXSIM_CUDA_STATUS(LaunchSelect(call, times, context.device.overlap, workspace.stream.get()));
}

absl::Status SelectAndCopyResults(const CallContext& context) {
  Workspace& workspace = context.workspace;
  const cudaStream_t stream = workspace.stream.get();
  MAXSIM_RETURN_IF_ERROR(workspace.scored.Record(stream));
  MAXSIM_RETURN_IF_ERROR(LaunchSelection(context, workspace.device_results.as<DeviceScored>(), nullptr));
  MAXSIM_RETURN_IF_ERROR(workspace.selected.Record(stream));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(workspace.pinned_results.as(), workspace.device_results.as(),
                                              static_cast<size_t>(workspace.input.num_results()) * sizeof(DeviceScored),
                                              cudaMemcpyDeviceToHost, stream));
  MAXSIM_RETURN_IF_ERROR(workspace.done.Record(stream));
  return workspace.done.Wait();
}

absl::Status AddStageSeconds(const CallContext& context, const Event& copied_in) {
  const auto add = [](double& total, const Event& begin, const Event& end) -> absl::Status {
    double seconds = 0;
    MAXSIM_ASSIGN_OR_RETURN(seconds, end.SecondsSince(begin));
    total += seconds;
    return absl::OkStatus();
  };
  const Workspace& workspace = context.workspace;
  StageSeconds& stages = context.trace.seconds;
  MAXSIM_RETURN_IF_ERROR(add(stages.copy_in, workspace.start, copied_in));
  MAXSIM_RETURN_IF_ERROR(add(stages.score, copied_in, workspace.scored));
  MAXSIM_RETURN_IF_ERROR(add(stages.select, workspace.scored, workspace.selected));
  return add(stages.copy_out, workspace.selected, workspace.done);
}

void GiveResults(const Workspace& workspace, absl::Span<std::vector<Scored>> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const CallInput::ResultRange range = workspace.input.results()[i];
    results[i].resize(static_cast<size_t>(range.count));
    if (range.count == 0) continue;
    std::memcpy(static_cast<void*>(results[i].data()), workspace.pinned_results.as<DeviceScored>() + range.offset,
                results[i].size() * sizeof(Scored));
  }
}

}  // namespace maxsim::cuda
