#include "kernels/cuda/call/paths/copied_path.h"

#include "kernels/cuda/call/launch/score_launcher.h"
#include "kernels/cuda/call/launch/score_pass.h"
#include "kernels/cuda/call/launch/slice_input.h"
#include "kernels/cuda/call/paths/slice_results.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::Status CopiedPath::Run() const {
  Workspace& workspace = context_.workspace;
  FinishOnError started(workspace.stream.get());
  MAXSIM_RETURN_IF_ERROR(CopyInput(context_, ListedOffsets(documents_)));
  MAXSIM_RETURN_IF_ERROR(ExpandMask(workspace));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(workspace, documents_));
  MAXSIM_RETURN_IF_ERROR(workspace.copied_in.Record(workspace.stream.get()));
  const ScorePass pass = ScorePass::Over(documents_, workspace.input.most_candidates());
  MAXSIM_RETURN_IF_ERROR(ScoreLauncher(context_).LaunchScores(pass));
  MAXSIM_RETURN_IF_ERROR(SelectAndCopyResults(context_));
  started.Finished();
  return AddStageSeconds(context_, workspace.copied_in);
}

}  // namespace maxsim::cuda
