// The operators of triadic.h on CUDA: lays out workspaces and launches kernels.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/triadic/triadic_kernels.h"
#include "kernels/library/triadic/triadic_problem.h"

namespace maxsim::library {
namespace {

TriadicParams TriadicParamsOf(const TriadicProblem& problem, const TriadicRoles& roles) {
  TriadicParams params{};
  params.roles = roles;
  params.num_problems = problem.call.num_problems;
  params.dim = problem.call.dim;
  params.index_type = problem.call.index_type;
  params.scale = problem.call.scale;
  params.aligned = problem.call.dim % 8 == 0 && IsAligned(roles.inner.keys, 16) && IsAligned(roles.inner.values, 16);
  return params;
}

// Results of a forward pass, one per query. A backward pass that reads them must round the products of queries and keys
// as this forward pass did.
struct QuerySums {
  const float* lse;
  const float* delta;  // <output, gradient of the output>, for every query
};

// The workspace of the backward pass.
struct TriadicBackwardMemory {
  float* deltas;
  // The results of a second forward pass (QueriesOwnSecondRows). Null unless products are rounded to 16 bits.
  char* second_output;
  float* second_lse;
  float* second_deltas;
};

size_t LayOutTriadicBackward(const TriadicProblem& problem, void* workspace_memory, TriadicBackwardMemory* memory) {
  *memory = {};
  Workspace workspace(workspace_memory);
  const int64_t num_queries = problem.call.num_problems * problem.call.num_queries;
  memory->deltas = workspace.Take<float>(num_queries);
  if (problem.type() != ScalarType::kF32) {
    memory->second_output = workspace.Take<char>(num_queries * static_cast<int64_t>(problem.row_bytes()));
    memory->second_lse = workspace.Take<float>(num_queries);
    memory->second_deltas = workspace.Take<float>(num_queries);
  }
  return workspace.bytes();
}

Status RunForwardPass(const TriadicProblem& problem, const TriadicRoles& roles, void* output, float* lse) {
  TriadicParams params = TriadicParamsOf(problem, roles);
  params.result = output;
  params.result_lse = lse;
  const auto stream = static_cast<cudaStream_t>(problem.call.stream);
  return CudaFailure(LaunchTriadicPass(params, problem.type(), TriadicMode::kOutput, stream), "attention");
}

Status ComputeDeltas(const TriadicProblem& problem, const void* output, const void* output_gradients, float* deltas) {
  return CudaFailure(LaunchTriadicDeltas(output, output_gradients, problem.type(), problem.call.dim,
                                         problem.call.num_problems * problem.call.num_queries, deltas,
                                         static_cast<cudaStream_t>(problem.call.stream)),
                     "products of outputs and gradients");
}

// Runs one pass of the backward pass. Does nothing if `result` is null.
Status RunGradientPass(const TriadicProblem& problem, const TriadicRoles& roles, TriadicMode mode,
                       const QuerySums& sums, void* result) {
  if (result == nullptr) return {};
  TriadicParams params = TriadicParamsOf(problem, roles);
  params.lse = sums.lse;
  params.delta = sums.delta;
  params.result = result;
  return CudaFailure(LaunchTriadicPass(params, problem.type(), mode, static_cast<cudaStream_t>(problem.call.stream)),
                     "gradients of attention");
}

// Lays out the workspace: memory for a sort per side (first, second) whose gradients are requested.
Status LayOutTriadicMaxGradients(const TriadicMaxProblem& problem, void* memory, TriadicMaxGradientParams* params,
                                 size_t* bytes) {
  Workspace workspace(memory);
  const int64_t num_entries = problem.num_query_rows();
  for (const int side : {0, 1}) {
    const int64_t num_rows = side == 0 ? problem.num_first_rows() : problem.num_second_rows();
    size_t sort_bytes = 0;
    if (num_entries > 0) {
      Status status = CudaFailure(SortBytes(num_entries, num_rows, &sort_bytes), "sorting pairs");
      if (!status.ok()) return status;
    }
    TakeMatches(num_entries, num_rows, sort_bytes, &workspace,
                side == 0 ? &params->first_matches : &params->second_matches);
  }
  *bytes = workspace.bytes();
  return {};
}

size_t LayOutTriadicMax(const TriadicMaxProblem& problem, void* memory, TriadicMaxParams* params) {
  params->call = problem.call;
  PlanTriadicMax(params);
  Workspace workspace(memory);
  if (params->num_splits > 1) {
    params->split_maxima = workspace.Take<float>(params->num_splits * problem.num_query_rows());
    params->split_pairs = workspace.Take<uint32_t>(params->num_splits * problem.num_query_rows());
  }
  return workspace.bytes();
}

}  // namespace

cudaError_t LaunchTriadicPass(const TriadicParams& params, ScalarType type, TriadicMode mode, cudaStream_t stream) {
  if (params.num_problems * params.roles.owner.max_rows == 0) return cudaSuccess;
  switch (type) {
    case ScalarType::kF32:
      return LaunchPlainPassF32(params, mode, stream);
    case ScalarType::kF16:
      return mode == TriadicMode::kOutput ? LaunchTensorPassF16(params, stream)
                                          : LaunchPlainPassF16(params, mode, stream);
    default:
      return LaunchTensorPassBF16(params, mode, stream);
  }
}

Status CudaTriadicWorkspaceBytes(const TriadicProblem& problem, int32_t pass, size_t* bytes) {
  TriadicBackwardMemory memory;
  *bytes = pass == MAXSIM_BACKWARD ? LayOutTriadicBackward(problem, nullptr, &memory) : 0;
  return {};
}

Status CudaTriadic(const TriadicProblem& problem, void* output, float* lse) {
  return RunForwardPass(problem, QueriesOwn(problem.call, nullptr), output, lse);
}

Status CudaTriadicBackward(const TriadicProblem& problem, const maxsim_triadic_gradients& gradients) {
  TriadicBackwardMemory memory;
  LayOutTriadicBackward(problem, problem.call.workspace, &memory);
  const void* const output_gradients = gradients.output_gradients;
  Status status = ComputeDeltas(problem, gradients.output, output_gradients, memory.deltas);
  if (!status.ok()) return status;
  const QuerySums saved = {gradients.lse, memory.deltas};
  QuerySums of_second = saved;
  const bool any_second = gradients.second_key_gradients != nullptr || gradients.second_value_gradients != nullptr;
  if (memory.second_lse != nullptr && any_second) {
    // The saved lse was computed from rounded products of queries and first keys. The passes of SecondOwn round
    // products of queries and second keys instead, so computes the softmax again from these.
    const TriadicRoles roles = QueriesOwnSecondRows(problem.call, nullptr);
    status = RunForwardPass(problem, roles, memory.second_output, memory.second_lse);
    if (status.ok()) status = ComputeDeltas(problem, memory.second_output, output_gradients, memory.second_deltas);
    if (!status.ok()) return status;
    of_second = {memory.second_lse, memory.second_deltas};
  }
  const struct {
    TriadicRoles roles;
    TriadicMode mode;
    QuerySums sums;
    void* result;
  } passes[] = {
      {QueriesOwn(problem.call, output_gradients), TriadicMode::kKeys, saved, gradients.query_gradients},
      {FirstOwn(problem.call, output_gradients), TriadicMode::kKeys, saved, gradients.first_key_gradients},
      {SecondOwn(problem.call, output_gradients), TriadicMode::kKeys, of_second, gradients.second_key_gradients},
      {FirstOwn(problem.call, output_gradients), TriadicMode::kValues, saved, gradients.first_value_gradients},
      {SecondOwn(problem.call, output_gradients), TriadicMode::kValues, of_second, gradients.second_value_gradients},
  };
  for (const auto& pass : passes) {
    status = RunGradientPass(problem, pass.roles, pass.mode, pass.sums, pass.result);
    if (!status.ok()) return status;
  }
  return {};
}

Status CudaTriadicMaxWorkspaceBytes(const TriadicMaxProblem& problem, int32_t pass, size_t* bytes) {
  if (pass == MAXSIM_FORWARD) {
    TriadicMaxParams params{};
    *bytes = LayOutTriadicMax(problem, nullptr, &params);
    return {};
  }
  TriadicMaxGradientParams params{};
  return LayOutTriadicMaxGradients(problem, nullptr, &params, bytes);
}

Status CudaTriadicMax(const TriadicMaxProblem& problem, float* maxima, int32_t* argmax) {
  TriadicMaxParams params{};
  LayOutTriadicMax(problem, problem.call.workspace, &params);
  params.maxima = maxima;
  params.argmax = argmax;
  return CudaFailure(LaunchTriadicMax(params, static_cast<cudaStream_t>(problem.call.stream)), "three-way MaxSim");
}

Status CudaTriadicMaxBackward(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients& gradients) {
  TriadicMaxGradientParams params{};
  params.call = problem.call;
  params.argmax = gradients.argmax;
  params.maximum_gradients = gradients.maximum_gradients;
  params.query_gradients = gradients.query_gradients;
  params.first_gradients = gradients.first_gradients;
  params.second_gradients = gradients.second_gradients;
  const size_t four = 4 * SizeOf(problem.type());
  params.aligned = problem.call.dim % 4 == 0;
  for (const void* const rows :
       {problem.call.queries, problem.call.first, problem.call.second,
        static_cast<const void*>(gradients.query_gradients), static_cast<const void*>(gradients.first_gradients),
        static_cast<const void*>(gradients.second_gradients)}) {
    params.aligned = params.aligned && IsAligned(rows, four);
  }
  if (gradients.first_gradients != nullptr || gradients.second_gradients != nullptr) {
    size_t bytes = 0;
    Status status = LayOutTriadicMaxGradients(problem, problem.call.workspace, &params, &bytes);
    if (!status.ok()) return status;
  }
  return CudaFailure(LaunchTriadicMaxGradients(params, static_cast<cudaStream_t>(problem.call.stream)),
                     "gradients of three-way MaxSim");
}

}  // namespace maxsim::library
