// Implements the functions of maxsim.h: reads the caller's structures, chooses the backend, and keeps error texts.
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/cpu_backward.h"
#include "kernels/library/cpu/cpu_forward.h"
#include "kernels/library/cpu/host_tokens.h"
#include "kernels/library/cuda/cuda_passes.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/finish.h"
#include "kernels/library/problem/problem.h"
#include "kernels/library/problem/read_struct.h"
#include "kernels/library/problem/status.h"
#include "maxsim_version.h"

namespace maxsim::library {
namespace {

// Returns where the calling thread's last error is kept.
std::string& LastError() {
  thread_local std::string text;
  return text;
}

// Checks that the call's workspace is large enough for a pass.
Status CheckWorkspace(const Problem& problem, int32_t pass) {
  size_t wanted = 0;
  if (problem.call.device == MAXSIM_CUDA) {
    if (Status status = CudaWorkspaceBytes(problem, pass, &wanted); !status.ok()) return status;
  }
  return CheckWorkspaceMemory(problem.call.workspace, problem.call.workspace_bytes, wanted, "maxsim_workspace_bytes");
}

Status Forward(const maxsim_call* call, float* scores, int32_t* argmax) {
  Problem problem;
  if (Status status = ReadProblem(call, &problem); !status.ok()) return status;
  if (scores == nullptr && problem.num_pairs > 0) return InvalidArgument("scores is null");
  if (Status status = CheckWorkspace(problem, MAXSIM_FORWARD); !status.ok()) return status;
  if (problem.call.device == MAXSIM_CUDA) return CudaForward(problem, scores, argmax);
  if (Status status = CheckHostIndices(problem); !status.ok()) return status;
  return CpuForward(problem, *cpu::AvailableIsas().front(), scores, argmax);
}

Status Backward(const maxsim_call* call, const maxsim_gradients* given) {
  Problem problem;
  maxsim_gradients gradients;
  if (Status status = ReadProblem(call, &problem); !status.ok()) return status;
  if (Status status = ReadGradients(problem, given, &gradients); !status.ok()) return status;
  if (gradients.document_gradients != nullptr) {
    if (Status status = CheckWorkspace(problem, MAXSIM_BACKWARD); !status.ok()) return status;
  }
  if (problem.call.device == MAXSIM_CUDA) return CudaBackward(problem, gradients);
  if (Status status = CheckHostIndices(problem); !status.ok()) return status;
  return CpuBackward(problem, gradients);
}

}  // namespace

maxsim_status Finish(absl::FunctionRef<Status()> body) {
  try {
    Status status;
    try {
      status = body();
    } catch (const std::bad_alloc&) {
      status = {MAXSIM_OUT_OF_MEMORY, "no host memory for the call"};
    } catch (const std::exception& error) {
      status = {MAXSIM_INTERNAL, error.what()};
    } catch (...) {
      status = {MAXSIM_INTERNAL, "an exception of an unknown type"};
    }
    if (!status.ok()) LastError() = std::move(status.message);
    return status.code;
  } catch (...) {
    return MAXSIM_OUT_OF_MEMORY;  // without a text: there was no memory to write one
  }
}

}  // namespace maxsim::library

using maxsim::library::Finish;

const char* maxsim_version() { return maxsim::kVersion; }

const char* maxsim_last_error() { return maxsim::library::LastError().c_str(); }

maxsim_status maxsim_device_available(int32_t device, int32_t* available) {
  return Finish([&]() -> maxsim::library::Status {
    if (device != MAXSIM_CPU && device != MAXSIM_CUDA) {
      return maxsim::library::InvalidArgument("device is " + std::to_string(device) +
                                              "; must be MAXSIM_CPU or MAXSIM_CUDA");
    }
    if (available == nullptr) return maxsim::library::InvalidArgument("available is null");
    *available = device == MAXSIM_CPU || maxsim::library::CudaAvailable() ? 1 : 0;
    return {};
  });
}

maxsim_status maxsim_workspace_bytes(const maxsim_call* call, int32_t pass, size_t* bytes) {
  return Finish([&]() -> maxsim::library::Status {
    maxsim::library::Problem problem;
    if (maxsim::library::Status status = ReadProblem(call, &problem); !status.ok()) return status;
    if (pass != MAXSIM_FORWARD && pass != MAXSIM_BACKWARD) {
      return maxsim::library::InvalidArgument("pass is " + std::to_string(pass) +
                                              "; must be MAXSIM_FORWARD or MAXSIM_BACKWARD");
    }
    if (bytes == nullptr) return maxsim::library::InvalidArgument("bytes is null");
    *bytes = 0;  // the CPU's passes allocate for themselves
    return problem.call.device == MAXSIM_CUDA ? CudaWorkspaceBytes(problem, pass, bytes) : maxsim::library::Status{};
  });
}

maxsim_status maxsim_forward(const maxsim_call* call, float* scores, int32_t* argmax) {
  return Finish([&] { return maxsim::library::Forward(call, scores, argmax); });
}

maxsim_status maxsim_backward(const maxsim_call* call, const maxsim_gradients* gradients) {
  return Finish([&] { return maxsim::library::Backward(call, gradients); });
}
