#include "kernels/cuda/call/paths/alignment.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cuda/call/launch/score_launcher.h"
#include "kernels/cuda/call/launch/slice_input.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

static_assert(sizeof(TokenMatch) == sizeof(DeviceMatch) &&
              offsetof(TokenMatch, similarity) == offsetof(DeviceMatch, similarity));

size_t Alignment::DocumentsOfPart() const {
  const Workspace& workspace = context_.workspace;
  const size_t room = std::min(workspace.partials.bytes(), workspace.pinned_results.bytes()) / sizeof(DeviceMatch);
  return std::clamp<size_t>(room / static_cast<size_t>(query_.num_tokens), 1,
                            static_cast<size_t>(workspace.capacity.candidates));
}

absl::Status Alignment::RunResident(const CudaDocuments& documents, absl::Span<const uint32_t> ordinals,
                                    absl::Span<TokenMatch> matches) const {
  const size_t tokens = static_cast<size_t>(query_.num_tokens);
  const size_t most = DocumentsOfPart();
  for (size_t begin = 0; begin < ordinals.size(); begin += most) {
    const size_t count = std::min(most, ordinals.size() - begin);
    MAXSIM_RETURN_IF_ERROR(RunPart(ScorePass::Over(documents, static_cast<int64_t>(count)),
                                   ordinals.subspan(begin, count), matches.subspan(begin * tokens, count * tokens)));
  }
  return absl::OkStatus();
}

absl::Status Alignment::RunPart(const ScorePass& pass, absl::Span<const uint32_t> ordinals,
                                absl::Span<TokenMatch> matches) const {
  Workspace& workspace = context_.workspace;
  MAXSIM_RETURN_IF_ERROR(
      workspace.input.PlanMatches(query_, ordinals, pass.memory->type(), pass.memory->dim(), context_.device.limits));
  context_.trace.plan = workspace.input.score_plan();
  const cudaStream_t stream = workspace.stream.get();
  FinishOnError started(stream);
  MAXSIM_RETURN_IF_ERROR(CopyInput(context_, nullptr));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(workspace, *pass.memory));
  MAXSIM_RETURN_IF_ERROR(ScoreLauncher(context_).LaunchMatches(pass, query_.num_tokens));
  const size_t bytes = matches.size() * sizeof(TokenMatch);
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(workspace.pinned_results.as(), workspace.partials.as(), bytes, cudaMemcpyDeviceToHost, stream));
  MAXSIM_RETURN_IF_ERROR(workspace.done.Record(stream));
  MAXSIM_RETURN_IF_ERROR(workspace.done.Wait());
  started.Finished();
  std::memcpy(static_cast<void*>(matches.data()), workspace.pinned_results.as(), bytes);
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
