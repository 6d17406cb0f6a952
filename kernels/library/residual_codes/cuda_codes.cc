#include "kernels/library/residual_codes/cuda_codes.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/cuda/forward.h"
#include "kernels/library/residual_codes/coded_forward.h"
#include "kernels/plan/rows.h"

namespace maxsim::library {
namespace {

// Maximum number of thread blocks of a grid, and of pairs, whose numbers have 32 bits in the kernel.
constexpr int64_t kMaxCodedBlocks = std::numeric_limits<int32_t>::max();

constexpr int64_t DividedUp(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// Returns the plan of a call, which depends only on the call's shape.
CodedPlan PlanCoded(const DeviceProblem& problem) {
  CodedPlan plan;
  plan.query_tiles = std::max<int64_t>(NumQueryTiles(problem.queries.max_tokens), 1);
  plan.resident = CodedQueryStays(problem.queries.dim, static_cast<ScalarType>(problem.queries.type));
  const int64_t units = problem.queries.num_sequences * plan.query_tiles;
  if (units == 0 || problem.list_length == 0) return plan;
  // Every warp of a block has at least one document.
  const int64_t most = DividedUp(problem.list_length, kCodedWarps);
  const int64_t splits = std::clamp<int64_t>(DividedUp(kWantedCodedBlocks, units), 1, most);
  plan.documents_per_block = DividedUp(problem.list_length, splits);
  plan.splits = DividedUp(problem.list_length, plan.documents_per_block);
  plan.num_blocks = units * plan.splits;
  return plan;
}

// Returns the parameters of a call, and writes the size of its workspace to `bytes`.
CodedParams MakeParams(const CodedProblem& coded, size_t* bytes) {
  CodedParams params{};
  params.problem = DeviceProblemOf(coded.problem);
  params.codes = coded.codes;
  params.row_bytes = coded.problem.dim() * static_cast<int64_t>(SizeOf(coded.problem.type()));
  params.packed_row_bytes = coded.packed_row_bytes();
  params.plan = PlanCoded(params.problem);
  params.aligned = coded.problem.dim() % kCodedLaneColumns == 0 && params.row_bytes % 16 == 0 &&
                   IsAligned(params.problem.queries.rows, 16) && IsAligned(params.codes.centroids, 16) &&
                   IsAligned(params.codes.residuals, static_cast<size_t>(params.codes.nbits));
  Workspace workspace(coded.problem.call.workspace);
  if (params.plan.query_tiles > 1) {
    params.partials = workspace.Take<float>(params.problem.num_pairs * params.plan.query_tiles);
  }
  *bytes = workspace.bytes();
  return params;
}

Status CheckPairs(const Problem& problem) {
  if (problem.num_pairs <= kMaxCodedBlocks) return {};
  return Unsupported("the call has " + std::to_string(problem.num_pairs) +
                     " pairs; one call on CUDA has at most 2147483647");
}

cudaError_t LaunchCoded(const CodedParams& params, ScalarType type, cudaStream_t stream) {
  switch (type) {
    case ScalarType::kF16:
      return CodedLauncher<ScalarType::kF16>::Launch(params, stream);
    case ScalarType::kBF16:
      return CodedLauncher<ScalarType::kBF16>::Launch(params, stream);
    default:
      return CodedLauncher<ScalarType::kF32>::Launch(params, stream);
  }
}

}  // namespace

Status CudaCodesWorkspaceBytes(const CodedProblem& problem, size_t* bytes) {
  MakeParams(problem, bytes);
  return {};
}

Status CudaCodesForward(const CodedProblem& problem, float* scores, int32_t* argmax) {
  if (Status status = CheckPairs(problem.problem); !status.ok()) return status;
  size_t bytes = 0;
  CodedParams params = MakeParams(problem, &bytes);
  params.scores = scores;
  params.argmax = argmax;
  if (params.plan.num_blocks == 0) return {};
  if (params.plan.num_blocks > kMaxCodedBlocks) {
    return Unsupported("the call has " + std::to_string(params.plan.num_blocks) +
                       " queries' tiles of 32 tokens; one call on CUDA has at most 2147483647");
  }
  const auto stream = static_cast<cudaStream_t>(problem.problem.call.stream);
  cudaError_t error = LaunchCoded(params, problem.problem.type(), stream);
  if (error == cudaSuccess && params.partials != nullptr) {
    ForwardParams added{};
    added.problem = params.problem;
    added.plan.query_tiles = params.plan.query_tiles;
    added.scores = params.scores;
    added.partials = params.partials;
    error = LaunchAddPartials(added, stream);
  }
  return CudaFailure(error, "scoring residual codes");
}

Status CudaCodesBackward(const CodedProblem& problem, const maxsim_gradients& gradients) {
  if (Status status = CheckPairs(problem.problem); !status.ok()) return status;
  const maxsim_tokens& queries = problem.problem.queries;
  if (queries.num_sequences * queries.max_tokens > kMaxCodedBlocks) {
    return Unsupported("the call has " + std::to_string(queries.num_sequences * queries.max_tokens) +
                       " query tokens; gradients on CUDA are of at most 2147483647");
  }
  CodedGradientParams params{};
  params.problem = DeviceProblemOf(problem.problem);
  params.codes = problem.codes;
  params.packed_row_bytes = problem.packed_row_bytes();
  params.argmax = gradients.argmax;
  params.score_gradients = gradients.score_gradients;
  params.query_gradients = gradients.query_gradients;
  params.weight_gradients = gradients.weight_gradients;
  const auto stream = static_cast<cudaStream_t>(problem.problem.call.stream);
  return CudaFailure(LaunchCodedGradients(params, stream), "gradients of queries");
}

}  // namespace maxsim::library
