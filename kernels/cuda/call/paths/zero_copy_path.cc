#include "kernels/cuda/call/paths/zero_copy_path.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/call/launch/score_launcher.h"
#include "kernels/cuda/call/launch/score_pass.h"
#include "kernels/cuda/call/launch/slice_input.h"
#include "kernels/cuda/call/paths/slice_results.h"
#include "kernels/cuda/call/planning/call_arrival.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {
namespace {

// Returns about how many bytes the slice's row tiles read of the documents.
double EstimatedWork(const CallInput& input, const CudaDocuments& documents) {
  const double mean_tokens =
      static_cast<double>(documents.num_tokens()) / std::max(static_cast<double>(documents.num_documents()), 1.0);
  return static_cast<double>(input.most_candidates()) * mean_tokens * static_cast<double>(documents.row_bytes()) *
         static_cast<double>(input.score_plan().num_row_tiles);
}

}  // namespace

bool ZeroCopyPath::Fits(const CallContext& context) {
  const CallInput& input = context.workspace.input;
  return !context.tuning.stage_events && input.mask_words() == 0 &&
         input.layout().total <= context.tuning.zero_copy_input_bytes &&
         input.num_results() <= context.tuning.zero_copy_results;
}

absl::Status ZeroCopyPath::Run() const {
  return RunWithoutCopies(context_, documents_, [this] { return Launch(); });
}

absl::Status ZeroCopyPath::Launch() const {
  const Workspace& workspace = context_.workspace;
  CallTimes* const times = workspace.times.as<CallTimes>();
  MAXSIM_RETURN_IF_CUDA_ERROR(
      LaunchCopyInput(InputByKernel(workspace, ListedOffsets(documents_)), times, workspace.stream.get()));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(workspace, documents_));
  const ScorePass pass = ScorePass::Over(documents_, workspace.input.most_candidates());
  MAXSIM_RETURN_IF_ERROR(ScoreLauncher(context_).LaunchScores(pass));
  return LaunchSelection(context_, workspace.pinned_results.as<DeviceScored>(), times);
}

absl::Status RunWithoutCopies(const CallContext& context, const CudaDocuments& documents,
                              absl::FunctionRef<absl::Status()> launch) {
  Workspace& workspace = context.workspace;
  const CallInput& input = workspace.input;
  MAXSIM_RETURN_IF_ERROR(WriteInput(workspace));
  CallTimes* const times = workspace.times.as<CallTimes>();
  CallArrival arrival({workspace.pinned_results.as<DeviceScored>(), static_cast<size_t>(input.num_results())}, times);
  FinishOnError started(workspace.stream.get());
  MAXSIM_RETURN_IF_ERROR(launch());
  const CallWait::Clock::time_point begin = CallWait::Clock::now();
  MAXSIM_RETURN_IF_ERROR(workspace.done.Record(workspace.stream.get()));
  MAXSIM_RETURN_IF_ERROR(workspace.call_wait.Wait(context.tuning.wait_mode, arrival, workspace.done, begin,
                                                  EstimatedWork(input, documents)));
  if (!arrival.IsComplete()) return absl::InternalError("the kernels of a call ended without all of its results");
  started.Finished();
  const auto seconds = [](uint64_t from, uint64_t to) { return to > from ? static_cast<double>(to - from) * 1e-9 : 0; };
  StageSeconds& stages = context.trace.seconds;
  stages.copy_in += seconds(times->input_begin, times->input_end);
  stages.score += seconds(times->input_end, times->scores_end);
  stages.select += seconds(times->scores_end, times->results_end);
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
