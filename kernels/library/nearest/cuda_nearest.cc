// Nearest points on CUDA: lays out the workspace and launches kernels.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/nearest/nearest_kernels.h"
#include "kernels/library/nearest/nearest_problem.h"

namespace maxsim::library {
namespace {

// Plans the call and returns the bytes of its workspace.
size_t LayOutNearest(const NearestProblem& problem, void* memory, NearestParams* params) {
  params->call = problem.call;
  PlanNearest(params);
  Workspace workspace(memory);
  if (params->num_splits > 1) {
    params->split_distances = workspace.Take<float>(params->num_splits * problem.num_x());
    params->split_argmin = workspace.Take<int32_t>(params->num_splits * problem.num_x());
  }
  return workspace.bytes();
}

Status LayOutNearestGradients(const NearestProblem& problem, void* memory, NearestGradientParams* params,
                              size_t* bytes) {
  size_t sort_bytes = 0;
  if (problem.num_x() > 0) {
    Status status = CudaFailure(SortBytes(problem.num_x(), problem.num_y(), &sort_bytes), "sorting nearest points");
    if (!status.ok()) return status;
  }
  Workspace workspace(memory);
  TakeMatches(problem.num_x(), problem.num_y(), sort_bytes, &workspace, &params->matches);
  *bytes = workspace.bytes();
  return {};
}

}  // namespace

Status CudaNearestWorkspaceBytes(const NearestProblem& problem, int32_t pass, size_t* bytes) {
  if (pass == MAXSIM_FORWARD) {
    NearestParams params{};
    *bytes = LayOutNearest(problem, nullptr, &params);
    return {};
  }
  NearestGradientParams params{};
  return LayOutNearestGradients(problem, nullptr, &params, bytes);
}

Status CudaNearest(const NearestProblem& problem, float* distances, int32_t* argmin) {
  if (problem.num_x() == 0) return {};
  NearestParams params{};
  LayOutNearest(problem, problem.call.workspace, &params);
  params.distances = distances;
  params.argmin = argmin;
  const auto stream = static_cast<cudaStream_t>(problem.call.stream);
  cudaError_t error =
      problem.call.dim <= kSmallNearestDim ? LaunchSmallNearest(params, stream) : LaunchWideNearest(params, stream);
  if (error == cudaSuccess && params.num_splits > 1) error = LaunchJoinSplits(params, stream);
  return CudaFailure(error, "nearest points");
}

Status CudaNearestBackward(const NearestProblem& problem, const maxsim_nearest_gradients& gradients) {
  NearestGradientParams params{};
  params.call = problem.call;
  params.argmin = gradients.argmin;
  params.distance_gradients = gradients.distance_gradients;
  params.x_gradients = gradients.x_gradients;
  params.y_gradients = gradients.y_gradients;
  const size_t four = 4 * SizeOf(problem.type());
  params.aligned = problem.call.dim % 4 == 0 && IsAligned(problem.call.x, four) && IsAligned(problem.call.y, four) &&
                   IsAligned(gradients.y_gradients, four);
  const auto stream = static_cast<cudaStream_t>(problem.call.stream);
  if (gradients.x_gradients != nullptr) {
    Status status = CudaFailure(LaunchXGradients(params, stream), "gradients of x");
    if (!status.ok()) return status;
  }
  if (gradients.y_gradients == nullptr) return {};
  size_t bytes = 0;
  if (Status status = LayOutNearestGradients(problem, problem.call.workspace, &params, &bytes); !status.ok()) {
    return status;
  }
  return CudaFailure(LaunchYGradients(params, stream), "gradients of y");
}

}  // namespace maxsim::library
