#include "kernels/library/cuda/cuda_passes.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <string>

#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/cuda/forward.h"

namespace maxsim::library {
namespace {

// The most thread blocks of a grid, and the most entries and rows that 32 bits count.
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxEntries = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxGradientRows = std::numeric_limits<uint32_t>::max() - int64_t{1};

// Fills in where the sums of query tiles go, and returns the bytes that they take.
size_t LayOutForward(void* memory, ForwardParams* params) {
  Workspace workspace(memory);
  if (params->plan.query_tiles > 1) {
    params->partials = workspace.Take<float>(params->problem.num_pairs * params->plan.query_tiles);
  }
  return workspace.bytes();
}

// Checks that the grids of the backward pass and the indices of its sort are of 32 bits.
Status CheckGradientSizes(const DeviceProblem& problem) {
  const int64_t num_entries = NumEntries(problem);
  const int64_t num_tokens = problem.queries.num_sequences * problem.queries.max_tokens;
  const int64_t num_rows = problem.documents.num_rows;
  if (num_entries <= kMaxEntries && num_tokens <= kMaxEntries && num_rows <= kMaxGradientRows) return {};
  return Unsupported("the call has " + std::to_string(num_entries) + " matches, " + std::to_string(num_tokens) +
                     " query tokens and " + std::to_string(num_rows) +
                     " document rows; gradients on CUDA are of at most " + std::to_string(kMaxEntries) + ", " +
                     std::to_string(kMaxEntries) + " and " + std::to_string(kMaxGradientRows));
}

Status LayOutBackward(void* memory, BackwardParams* params, size_t* bytes) {
  const int64_t num_entries = NumEntries(params->problem);
  const int64_t num_rows = params->problem.documents.num_rows;
  params->sort_bytes = 0;
  if (num_entries > 0) {
    Status status = CudaFailure(SortBytes(num_entries, num_rows, &params->sort_bytes), "sorting matches");
    if (!status.ok()) return status;
  }
  Workspace workspace(memory);
  params->keys = workspace.Take<uint32_t>(num_entries);
  params->entries = workspace.Take<uint32_t>(num_entries);
  params->other_keys = workspace.Take<uint32_t>(num_entries);
  params->other_entries = workspace.Take<uint32_t>(num_entries);
  params->row_begin = workspace.Take<uint32_t>(num_rows);
  params->row_end = workspace.Take<uint32_t>(num_rows);
  params->sort_memory = workspace.Take<char>(static_cast<int64_t>(params->sort_bytes));
  *bytes = workspace.bytes();
  return {};
}

cudaError_t LaunchForward(const ForwardParams& params, ScalarType type, bool token_scales, cudaStream_t stream) {
  switch (type) {
    case ScalarType::kF32:
      return ForwardLauncher<ScalarType::kF32, false>::Launch(params, stream);
    case ScalarType::kF16:
      return ForwardLauncher<ScalarType::kF16, false>::Launch(params, stream);
    case ScalarType::kBF16:
      return ForwardLauncher<ScalarType::kBF16, false>::Launch(params, stream);
    case ScalarType::kI8:
      break;
  }
  return token_scales ? ForwardLauncher<ScalarType::kI8, true>::Launch(params, stream)
                      : ForwardLauncher<ScalarType::kI8, false>::Launch(params, stream);
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
    *bytes = LayOutForward(nullptr, &params);
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
  if (params.document_gradients == nullptr) return {};
  size_t bytes = 0;
  if (Status status = LayOutBackward(problem.call.workspace, &params, &bytes); !status.ok()) return status;
  return CudaFailure(LaunchDocumentGradients(params, stream), "gradients of documents");
}

}  // namespace maxsim::library
