// Fills in the parameters of the scoring kernels and launches them. The files score_launcher.h and .cc are the only
// part of the executor that uses ScoreParams and the structs derived from it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/call/launch/quantize_launch.h"
#include "kernels/cuda/call/launch/score_pass.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/residual/params.h"
#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// The launch of a single-launch call (kernels/cuda/score/hopper_stream/single_launch_call.h). If two of these are
// equal byte for byte, and their plans have the same type, row width and grid, they launch the same work.
struct SingleLaunch {
  QuantizeParams queries;  // the launch that rounds the query first; `rows` is null if the query needs no rounding
  StreamParams scores;

  int32_t team_blocks() const { return scores.teams.blocks; }
};
static_assert(std::is_trivially_copyable_v<SingleLaunch>);

// Launches the kernels of a slice (queries of a call that fit the workspace together) on the workspace's CUDA stream.
// The slice's plan is workspace.input; its input is on the device or on its way there. All errors are CUDA's.
class ScoreLauncher {
 public:
  explicit ScoreLauncher(const CallContext& context) : context_(context) {}

  // Starts everything that scores the pass. If the plan says so, joins lists and orders candidates. Launches the
  // scoring kernel, several times if the partial sums of all candidates do not fit the workspace, and then adds the
  // partial sums. The scores are written to workspace.scores. Records in the trace whether candidates were ordered, and
  // the thread blocks of a team.
  absl::Status LaunchScores(const ScorePass& pass) const;

  // Starts the kernel that finds the matching tokens of a query of `query_tokens` tokens in the pass's documents.
  // workspace.input must hold the plan, made by CallInput::PlanMatches. The kernel writes the matches, [documents,
  // query_tokens], to workspace.partials.
  absl::Status LaunchMatches(const ScorePass& pass, int32_t query_tokens) const;

  // Returns the launch for LaunchSingle, for a slice that is a single-launch call over `documents`. The launch reads
  // the input in workspace.pinned_input and writes the results to workspace.pinned_results.
  SingleLaunch SingleLaunchOf(const CudaDocuments& documents) const;
  absl::Status LaunchSingle(const SingleLaunch& launch) const;

 private:
  absl::Status JoinLists() const;
  absl::StatusOr<CandidateOrder> OrderCandidates(const ScorePass& pass) const;
  // Fills in the parameters that are the same for every launch of the pass.
  void FillPass(const ScorePass& pass, ScoreParams& params) const;
  // These fill in the parameters of the launch that scores `count` candidates of the pass, from candidate `first` on.
  void FillScores(const ScorePass& pass, int64_t first, int64_t count, ScoreParams& params) const;
  void FillHopper(const ScorePass& pass, int64_t first, int64_t count, HopperParams& params) const;
  void FillWorkQueue(const ScorePass& pass, int64_t first, int64_t count, const CandidateOrder& order,
                     WorkQueueParams& params) const;
  // Fills in the codebook, and the sizes of its and the documents' rows.
  void FillResidual(const ScorePass& pass, ResidualParams& params) const;
  StreamParams StreamParamsOf(const ScorePass& pass, int64_t first, int64_t count) const;
  // Launches the plan's kernel over `count` candidates from `first` on. `queries` describes the query rows to a deep
  // kernel.
  cudaError_t LaunchKernel(const ScorePass& pass, int64_t first, int64_t count, const CandidateOrder& order,
                           const sm90::QueryMap& queries) const;

  const CallContext context_;
};

}  // namespace maxsim::cuda
