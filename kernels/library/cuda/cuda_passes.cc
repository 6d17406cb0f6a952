#include "kernels/library/cuda/cuda_passes.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/cuda/forward.h"
#include "kernels/library/cuda/hopper_forward.h"
#include "kernels/library/cuda/service_forward.h"

namespace maxsim::library {
namespace {

// Maximum numbers of thread blocks of a grid, and of entries and rows, so that indices fit 32 bits.
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxEntries = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxGradientRows = std::numeric_limits<uint32_t>::max() - int64_t{1};

// Returns the size of the workspace in bytes. Sets params->partials if queries have several query tiles.
size_t LayOutForward(void* memory, ForwardParams* params) {
  Workspace workspace(memory);
  if (params->plan.query_tiles > 1) {
    params->partials = workspace.Take<float>(params->problem.num_pairs * params->plan.query_tiles);
  }
  return workspace.bytes();
}

// Plans the call for the service's kernels, and lays out their memory. Returns the workspace's bytes, or 0 if these
// kernels cannot score the call.
size_t LayOutService(void* memory, const DeviceProblem& problem, ScorePlan* plan, ServiceForward* forward) {
  forward->problem = problem;
  if (!PlanServiceForward(problem, plan, &forward->shape)) return 0;
  forward->row_bytes = plan->row_bytes;
  Workspace workspace(memory);
  LayOutServiceForward(&workspace, forward);
  return workspace.bytes();
}

// Checks that the grids of the backward pass and the indices of its sort fit 32 bits.
Status CheckGradientSizes(const DeviceProblem& problem) {
  const auto check = [](int64_t count, const char* what, int64_t most) -> Status {
    if (count <= most) return {};
    return Unsupported("the call has " + std::to_string(count) + " " + what + "; gradients on CUDA are of at most " +
                       std::to_string(most));
  };
  const int64_t num_tokens = problem.queries.num_sequences * problem.queries.max_tokens;
  if (Status status = check(num_tokens, "query tokens", kMaxEntries); !status.ok()) return status;
  if (!SortsDocumentMatches(problem)) return check(problem.num_pairs, "pairs", kMaxBlocks);
  if (Status status = check(NumEntries(problem), "matches", kMaxEntries); !status.ok()) return status;
  return check(problem.documents.num_rows, "document rows", kMaxGradientRows);
}

Status LayOutBackward(void* memory, BackwardParams* params, size_t* bytes) {
  *bytes = 0;
  if (!SortsDocumentMatches(params->problem)) return {};
  const int64_t num_entries = NumEntries(params->problem);
  const int64_t num_rows = params->problem.documents.num_rows;
  size_t sort_bytes = 0;
  if (num_entries > 0) {
    Status status = CudaFailure(SortBytes(num_entries, num_rows, &sort_bytes), "sorting matches");
    if (!status.ok()) return status;
  }
  Workspace workspace(memory);
  TakeMatches(num_entries, num_rows, sort_bytes, &workspace, &params->matches);
  *bytes = workspace.bytes();
  return {};
}

template <ScalarType kType>
cudaError_t LaunchPortable(const ForwardParams& params, bool token_scales, cudaStream_t stream) {
  return token_scales ? ForwardLauncher<kType, true>::Launch(params, stream)
                      : ForwardLauncher<kType, false>::Launch(params, stream);
}

cudaError_t LaunchForward(const ForwardParams& params, ScalarType type, bool token_scales, cudaStream_t stream) {
  if (HopperForwardParams hopper{}; PrepareHopperForward(params, type, &hopper)) {
    return type == ScalarType::kF16    ? HopperForwardLauncher<ScalarType::kF16>::Launch(hopper, stream)
           : type == ScalarType::kBF16 ? HopperForwardLauncher<ScalarType::kBF16>::Launch(hopper, stream)
                                       : HopperForwardLauncher<ScalarType::kI8>::Launch(hopper, stream);
  }
  switch (type) {
    case ScalarType::kF32:
      return ForwardLauncher<ScalarType::kF32, false>::Launch(params, stream);
    case ScalarType::kF16:
      return LaunchPortable<ScalarType::kF16>(params, token_scales, stream);
    case ScalarType::kBF16:
      return LaunchPortable<ScalarType::kBF16>(params, token_scales, stream);
    case ScalarType::kI8:
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;  // CheckTokens has refused residual codes
  }
  return LaunchPortable<ScalarType::kI8>(params, token_scales, stream);
}

}  // namespace

bool CudaAvailable() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  for (int device = 0; device < count; ++device) {
    int major = 0;
    int minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
        10 * major + minor >= MAXSIM_LOWEST_CUDA_ARCHITECTURE) {
      return true;
    }
  }
  return false;
}

Status CudaWorkspaceBytes(const Problem& problem, int32_t pass, size_t* bytes) {
  if (pass == MAXSIM_FORWARD) {
    ForwardParams params{};
    params.problem = DeviceProblemOf(problem);
    params.plan = PlanForward(params.problem);
    // This function does not know whether the call wants matches, which the service's kernels do not find. So the
    // workspace must be large enough for both.
    ScorePlan plan;
    ServiceForward service;
    *bytes = std::max(LayOutForward(nullptr, &params), LayOutService(nullptr, params.problem, &plan, &service));
    return {};
  }
  BackwardParams params{};
  params.problem = DeviceProblemOf(problem);
  if (Status status = CheckGradientSizes(params.problem); !status.ok()) return status;
  return LayOutBackward(nullptr, &params, bytes);
}

Status CudaForward(const Problem& problem, float* scores, int32_t* argmax) {
  ForwardParams params{};
  params.problem = DeviceProblemOf(problem);
  params.plan = PlanForward(params.problem);
  params.scores = scores;
  params.argmax = argmax;
  params.aligned =
      params.plan.row_bytes % 16 == 0 && IsAligned(problem.queries.rows, 16) && IsAligned(problem.documents.rows, 16);
  LayOutForward(problem.call.workspace, &params);
  if (params.plan.num_blocks == 0) return {};
  if (params.plan.num_blocks > kMaxBlocks || params.problem.num_pairs > kMaxBlocks) {
    return Unsupported("the call has " + std::to_string(params.problem.num_pairs) +
                       " pairs; one call on CUDA has at most 2147483647");
  }
  const auto stream = static_cast<cudaStream_t>(problem.call.stream);
  if (argmax == nullptr && params.aligned) {
    ScorePlan plan;
    ServiceForward service;
    if (LayOutService(problem.call.workspace, params.problem, &plan, &service) > 0) {
      service.scores = scores;
      return CudaFailure(LaunchServiceForward(plan, service, stream), "scoring");
    }
  }
  cudaError_t error = LaunchForward(params, problem.type(), problem.scales_document_tokens(), stream);
  if (error == cudaSuccess && params.partials != nullptr) error = LaunchAddPartials(params, stream);
  return CudaFailure(error, "scoring");
}

Status CudaBackward(const Problem& problem, const maxsim_gradients& gradients) {
  BackwardParams params{};
  params.problem = DeviceProblemOf(problem);
  if (Status status = CheckGradientSizes(params.problem); !status.ok()) return status;
  params.argmax = gradients.argmax;
  params.score_gradients = gradients.score_gradients;
  params.query_gradients = gradients.query_gradients;
  params.document_gradients = gradients.document_gradients;
  params.weight_gradients = gradients.weight_gradients;
  const size_t four = 4 * SizeOf(problem.type());
  params.aligned = problem.dim() % 4 == 0 && IsAligned(problem.queries.rows, four) &&
                   IsAligned(problem.documents.rows, four) && IsAligned(gradients.query_gradients, four) &&
                   IsAligned(gradients.document_gradients, four);
  const auto stream = static_cast<cudaStream_t>(problem.call.stream);
  if (params.query_gradients != nullptr || params.weight_gradients != nullptr) {
    Status status = CudaFailure(LaunchQueryGradients(params, stream), "gradients of queries");
    if (!status.ok()) return status;
  }
  if (params.document_gradients == nullptr || params.problem.documents.num_rows == 0) return {};
  size_t bytes = 0;
  if (Status status = LayOutBackward(problem.call.workspace, &params, &bytes); !status.ok()) return status;
  return CudaFailure(SortsDocumentMatches(params.problem) ? LaunchSortedDocumentGradients(params, stream)
                                                          : LaunchDocumentGradients(params, stream),
                     "gradients of documents");
}

}  // namespace maxsim::library
