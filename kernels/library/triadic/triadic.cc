// Implements the functions of triadic.h: reads the caller's structures and chooses the backend.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/library/problem/finish.h"
#include "kernels/library/problem/read_struct.h"
#include "kernels/library/triadic/triadic_problem.h"
#include "kernels/limits.h"

namespace maxsim::library {
namespace {

constexpr size_t kFirstTriadicCallSize = 144;
constexpr size_t kFirstTriadicGradientsSize = 72;
constexpr size_t kFirstTriadicMaxCallSize = 136;
constexpr size_t kFirstTriadicMaxGradientsSize = 48;
static_assert(sizeof(maxsim_triadic_call) == kFirstTriadicCallSize);
static_assert(sizeof(maxsim_triadic_gradients) == kFirstTriadicGradientsSize);
static_assert(sizeof(maxsim_triadic_max_call) == kFirstTriadicMaxCallSize);
static_assert(sizeof(maxsim_triadic_max_gradients) == kFirstTriadicMaxGradientsSize);

constexpr int64_t kMaxTriadicRows = 65536;  // of one problem, so that a pair of indices has 32 bits
constexpr int64_t kMaxTriadicProblemRows = std::numeric_limits<int32_t>::max();
constexpr int32_t kMaxTriadicDim = 128;

// Checks the number of rows of an axis in each problem, and the number in all problems together.
Status CheckAxis(const char* member, int64_t num_problems, int64_t max_rows) {
  Status status = CheckRange("call", member, max_rows, 0, kMaxTriadicRows);
  if (!status.ok() || num_problems == 0 || max_rows <= kMaxTriadicProblemRows / num_problems) return status;
  return InvalidArgument(Text("call", member, max_rows,
                              "with num_problems = " + std::to_string(num_problems) + " it must be at most " +
                                  std::to_string(kMaxTriadicProblemRows / num_problems)));
}

template <typename Call>
Status CheckCommon(const Call& call, int32_t max_dim) {
  return First(CheckRange("call", ".device", call.device, MAXSIM_CPU, MAXSIM_CUDA),
               CheckRange("call", ".type", call.type, MAXSIM_F32, MAXSIM_BF16),
               CheckRange("call", ".dim", call.dim, 1, max_dim),
               CheckRange("call", ".index_type", call.index_type, MAXSIM_INT64, MAXSIM_INT32),
               CheckRange("call", ".num_problems", call.num_problems, 0, kMaxTriadicProblemRows),
               CheckRange("call", ".num_threads", call.num_threads, 0, 4096),
               CheckAxis(".max_first", call.num_problems, call.max_first),
               CheckAxis(".max_second", call.num_problems, call.max_second));
}

Status CheckTriadicPass(int32_t pass) {
  if (pass == MAXSIM_FORWARD || pass == MAXSIM_BACKWARD) return {};
  return InvalidArgument("pass is " + std::to_string(pass) + "; must be MAXSIM_FORWARD or MAXSIM_BACKWARD");
}

Status WorkspaceBytesOf(const TriadicProblem& problem, int32_t pass, size_t* bytes) {
  return CudaTriadicWorkspaceBytes(problem, pass, bytes);
}
Status WorkspaceBytesOf(const TriadicMaxProblem& problem, int32_t pass, size_t* bytes) {
  return CudaTriadicMaxWorkspaceBytes(problem, pass, bytes);
}

template <typename Problem>
Status CheckTriadicWorkspace(const Problem& problem, int32_t pass, const char* source) {
  size_t wanted = 0;
  if (Status status = WorkspaceBytesOf(problem, pass, &wanted); !status.ok()) return status;
  return CheckWorkspaceMemory(problem.call.workspace, problem.call.workspace_bytes, wanted, source);
}

// Implements maxsim_triadic_workspace_bytes and maxsim_triadic_max_workspace_bytes.
template <typename Problem>
Status TriadicWorkspace(Status read, const Problem& problem, int32_t pass, size_t* bytes) {
  Status status = First(std::move(read), CheckTriadicPass(pass));
  if (!status.ok()) return status;
  if (bytes == nullptr) return InvalidArgument("bytes is null");
  *bytes = 0;  // the CPU's passes allocate for themselves
  return problem.call.device == MAXSIM_CPU ? Status{} : WorkspaceBytesOf(problem, pass, bytes);
}

Status TriadicForward(const maxsim_triadic_call* call, void* output, float* lse) {
  TriadicProblem problem;
  if (Status status = ReadTriadic(call, &problem); !status.ok()) return status;
  const bool any = problem.call.num_problems * problem.call.num_queries > 0;
  if (any && output == nullptr) return InvalidArgument("output is null");
  if (any && lse == nullptr) return InvalidArgument("lse is null");
  if (problem.call.device == MAXSIM_CPU) return CpuTriadic(problem, output, lse);
  Status status = CheckTriadicWorkspace(problem, MAXSIM_FORWARD, "maxsim_triadic_workspace_bytes");
  return status.ok() ? CudaTriadic(problem, output, lse) : status;
}

Status TriadicBackward(const maxsim_triadic_call* call, const maxsim_triadic_gradients* given) {
  TriadicProblem problem;
  maxsim_triadic_gradients gradients;
  if (Status status = ReadTriadic(call, &problem); !status.ok()) return status;
  if (Status status = ReadTriadicGradients(problem, given, &gradients); !status.ok()) return status;
  if (problem.call.device == MAXSIM_CPU) return CpuTriadicBackward(problem, gradients);
  Status status = CheckTriadicWorkspace(problem, MAXSIM_BACKWARD, "maxsim_triadic_workspace_bytes");
  return status.ok() ? CudaTriadicBackward(problem, gradients) : status;
}

Status TriadicMaxForward(const maxsim_triadic_max_call* call, float* maxima, int32_t* argmax) {
  TriadicMaxProblem problem;
  if (Status status = ReadTriadicMax(call, &problem); !status.ok()) return status;
  if (problem.num_query_rows() > 0 && maxima == nullptr) return InvalidArgument("maxima is null");
  if (problem.num_query_rows() > 0 && argmax == nullptr) return InvalidArgument("argmax is null");
  if (problem.call.device == MAXSIM_CPU) return CpuTriadicMax(problem, maxima, argmax);
  Status status = CheckTriadicWorkspace(problem, MAXSIM_FORWARD, "maxsim_triadic_max_workspace_bytes");
  return status.ok() ? CudaTriadicMax(problem, maxima, argmax) : status;
}

Status TriadicMaxBackward(const maxsim_triadic_max_call* call, const maxsim_triadic_max_gradients* given) {
  TriadicMaxProblem problem;
  maxsim_triadic_max_gradients gradients;
  if (Status status = ReadTriadicMax(call, &problem); !status.ok()) return status;
  if (Status status = ReadTriadicMaxGradients(problem, given, &gradients); !status.ok()) return status;
  if (problem.call.device == MAXSIM_CPU) return CpuTriadicMaxBackward(problem, gradients);
  if (gradients.first_gradients != nullptr || gradients.second_gradients != nullptr) {
    Status status = CheckTriadicWorkspace(problem, MAXSIM_BACKWARD, "maxsim_triadic_max_workspace_bytes");
    if (!status.ok()) return status;
  }
  return CudaTriadicMaxBackward(problem, gradients);
}

}  // namespace

Status ReadTriadic(const maxsim_triadic_call* call, TriadicProblem* problem) {
  Status status = ReadStruct("call", call, kFirstTriadicCallSize, &problem->call);
  if (!status.ok()) return status;
  const maxsim_triadic_call& read = problem->call;
  status = First(CheckCommon(read, kMaxTriadicDim), CheckAxis(".num_queries", read.num_problems, read.num_queries));
  if (!status.ok()) return status;
  if (!std::isfinite(read.scale)) return InvalidArgument("call.scale is not finite");
  const bool any_first = read.num_problems > 0 && read.max_first > 0;
  const bool any_second = read.num_problems > 0 && read.max_second > 0;
  return First(CheckPresent("call", ".queries", read.queries, read.num_problems > 0 && read.num_queries > 0),
               CheckPresent("call", ".first_keys", read.first_keys, any_first),
               CheckPresent("call", ".first_values", read.first_values, any_first),
               CheckPresent("call", ".second_keys", read.second_keys, any_second),
               CheckPresent("call", ".second_values", read.second_values, any_second));
}

Status ReadTriadicGradients(const TriadicProblem& problem, const maxsim_triadic_gradients* given,
                            maxsim_triadic_gradients* gradients) {
  Status status = ReadStruct("gradients", given, kFirstTriadicGradientsSize, gradients);
  if (!status.ok()) return status;
  const bool any = problem.call.num_problems * problem.call.num_queries > 0;
  return First(CheckPresent("gradients", ".output", gradients->output, any),
               CheckPresent("gradients", ".lse", gradients->lse, any),
               CheckPresent("gradients", ".output_gradients", gradients->output_gradients, any));
}

Status ReadTriadicMax(const maxsim_triadic_max_call* call, TriadicMaxProblem* problem) {
  Status status = ReadStruct("call", call, kFirstTriadicMaxCallSize, &problem->call);
  if (!status.ok()) return status;
  const maxsim_triadic_max_call& read = problem->call;
  return First(CheckCommon(read, kMaxDim), CheckAxis(".max_queries", read.num_problems, read.max_queries),
               CheckRange("call", ".reserved", read.reserved, 0, 0),
               CheckPresent("call", ".queries", read.queries, read.num_problems > 0 && read.max_queries > 0),
               CheckPresent("call", ".first", read.first, read.num_problems > 0 && read.max_first > 0),
               CheckPresent("call", ".second", read.second, read.num_problems > 0 && read.max_second > 0));
}

Status ReadTriadicMaxGradients(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients* given,
                               maxsim_triadic_max_gradients* gradients) {
  Status status = ReadStruct("gradients", given, kFirstTriadicMaxGradientsSize, gradients);
  if (!status.ok()) return status;
  const bool any = problem.num_query_rows() > 0;
  return First(CheckPresent("gradients", ".argmax", gradients->argmax, any),
               CheckPresent("gradients", ".maximum_gradients", gradients->maximum_gradients, any));
}

}  // namespace maxsim::library

maxsim_status maxsim_triadic_workspace_bytes(const maxsim_triadic_call* call, int32_t pass, size_t* bytes) {
  return maxsim::library::Finish([&] {
    maxsim::library::TriadicProblem problem;
    maxsim::library::Status read = maxsim::library::ReadTriadic(call, &problem);
    return maxsim::library::TriadicWorkspace(std::move(read), problem, pass, bytes);
  });
}

maxsim_status maxsim_triadic(const maxsim_triadic_call* call, void* output, float* lse) {
  return maxsim::library::Finish([&] { return maxsim::library::TriadicForward(call, output, lse); });
}

maxsim_status maxsim_triadic_backward(const maxsim_triadic_call* call, const maxsim_triadic_gradients* gradients) {
  return maxsim::library::Finish([&] { return maxsim::library::TriadicBackward(call, gradients); });
}

maxsim_status maxsim_triadic_max_workspace_bytes(const maxsim_triadic_max_call* call, int32_t pass, size_t* bytes) {
  return maxsim::library::Finish([&] {
    maxsim::library::TriadicMaxProblem problem;
    maxsim::library::Status read = maxsim::library::ReadTriadicMax(call, &problem);
    return maxsim::library::TriadicWorkspace(std::move(read), problem, pass, bytes);
  });
}

maxsim_status maxsim_triadic_max(const maxsim_triadic_max_call* call, float* maxima, int32_t* argmax) {
  return maxsim::library::Finish([&] { return maxsim::library::TriadicMaxForward(call, maxima, argmax); });
}

maxsim_status maxsim_triadic_max_backward(const maxsim_triadic_max_call* call,
                                          const maxsim_triadic_max_gradients* gradients) {
  return maxsim::library::Finish([&] { return maxsim::library::TriadicMaxBackward(call, gradients); });
}
