// Turns CUDA's errors into absl::Status. The message carries the call, its file and line, and CUDA's name and text.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::cuda {

// Returns the status of `error`: OK, RESOURCE_EXHAUSTED when memory ran out, INTERNAL when the call was wrong and the
// device still works, or UNAVAILABLE for everything else: the device or its context is lost, and no later call can
// succeed. Clears CUDA's last error.
absl::Status CudaStatus(cudaError_t error, const char* call, const char* file, int line);

}  // namespace maxsim::cuda

// Evaluates to the status of a CUDA call or of a launcher that returns cudaError_t.
#define MAXSIM_CUDA_STATUS(call) ::maxsim::cuda::CudaStatus((call), #call, __FILE__, __LINE__)

// Returns from the function when `expression`, an absl::Status, is not OK.
#define MAXSIM_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                        \
    if (absl::Status maxsim_status = (expression); !maxsim_status.ok()) return maxsim_status; \
  } while (false)

#define MAXSIM_RETURN_IF_CUDA_ERROR(call) MAXSIM_RETURN_IF_ERROR(MAXSIM_CUDA_STATUS(call))

// Assigns the value of `expression`, an absl::StatusOr, to `target`, or returns its status.
// NOLINTBEGIN(bugprone-macro-parentheses): a target that is assigned to takes no parentheses.
#define MAXSIM_ASSIGN_OR_RETURN(target, expression) \
  do {                                              \
    auto maxsim_or = (expression);                  \
    if (!maxsim_or.ok()) return maxsim_or.status(); \
    target = std::move(maxsim_or).value();          \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)
