// Implements the functions of nearest.h: reads the caller's structures and chooses the backend.
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/library/nearest/nearest_problem.h"
#include "kernels/library/problem/finish.h"
#include "kernels/library/problem/read_struct.h"
#include "kernels/limits.h"

namespace maxsim::library {
namespace {

constexpr size_t kFirstNearestCallSize = 112;
constexpr size_t kFirstNearestGradientsSize = 40;
static_assert(sizeof(maxsim_nearest_call) == kFirstNearestCallSize);
static_assert(sizeof(maxsim_nearest_gradients) == kFirstNearestGradientsSize);

constexpr int64_t kMaxPoints = std::numeric_limits<int32_t>::max();

Status CheckNumPoints(const char* member, int64_t num_sets, int64_t max_points) {
  Status status = CheckRange("call", member, max_points, 0, kMaxPoints);
  if (!status.ok() || num_sets == 0 || max_points <= kMaxPoints / num_sets) return status;
  return InvalidArgument(Text(
      "call", member, max_points,
      "with num_sets = " + std::to_string(num_sets) + " it must be at most " + std::to_string(kMaxPoints / num_sets)));
}

Status CheckNearestPass(int32_t pass) {
  if (pass == MAXSIM_FORWARD || pass == MAXSIM_BACKWARD) return {};
  return InvalidArgument("pass is " + std::to_string(pass) + "; must be MAXSIM_FORWARD or MAXSIM_BACKWARD");
}

Status CheckNearestWorkspace(const NearestProblem& problem, int32_t pass) {
  size_t wanted = 0;
  if (Status status = CudaNearestWorkspaceBytes(problem, pass, &wanted); !status.ok()) return status;
  return CheckWorkspaceMemory(problem.call.workspace, problem.call.workspace_bytes, wanted,
                              "maxsim_nearest_workspace_bytes");
}

Status NearestForward(const maxsim_nearest_call* call, float* distances, int32_t* argmin) {
  NearestProblem problem;
  if (Status status = ReadNearest(call, &problem); !status.ok()) return status;
  if (problem.num_x() > 0 && distances == nullptr) return InvalidArgument("distances is null");
  if (problem.num_x() > 0 && argmin == nullptr) return InvalidArgument("argmin is null");
  if (problem.call.device == MAXSIM_CPU) return CpuNearest(problem, distances, argmin);
  if (Status status = CheckNearestWorkspace(problem, MAXSIM_FORWARD); !status.ok()) return status;
  return CudaNearest(problem, distances, argmin);
}

Status NearestBackward(const maxsim_nearest_call* call, const maxsim_nearest_gradients* given) {
  NearestProblem problem;
  maxsim_nearest_gradients gradients;
  if (Status status = ReadNearest(call, &problem); !status.ok()) return status;
  if (Status status = ReadNearestGradients(problem, given, &gradients); !status.ok()) return status;
  if (problem.call.device == MAXSIM_CPU) return CpuNearestBackward(problem, gradients);
  if (gradients.y_gradients != nullptr) {
    if (Status status = CheckNearestWorkspace(problem, MAXSIM_BACKWARD); !status.ok()) return status;
  }
  return CudaNearestBackward(problem, gradients);
}

}  // namespace

Status ReadNearest(const maxsim_nearest_call* call, NearestProblem* problem) {
  if (Status status = ReadStruct("call", call, kFirstNearestCallSize, &problem->call); !status.ok()) return status;
  const maxsim_nearest_call& read = problem->call;
  return First(CheckRange("call", ".device", read.device, MAXSIM_CPU, MAXSIM_CUDA),
               CheckRange("call", ".type", read.type, MAXSIM_F32, MAXSIM_BF16),
               CheckRange("call", ".dim", read.dim, 1, kMaxDim),
               CheckRange("call", ".index_type", read.index_type, MAXSIM_INT64, MAXSIM_INT32),
               CheckRange("call", ".num_sets", read.num_sets, 0, kMaxPoints),
               CheckRange("call", ".num_threads", read.num_threads, 0, 4096),
               CheckRange("call", ".reserved", read.reserved, 0, 0),
               CheckNumPoints(".max_x", read.num_sets, read.max_x), CheckNumPoints(".max_y", read.num_sets, read.max_y),
               CheckPresent("call", ".x", read.x, read.num_sets > 0 && read.max_x > 0),
               CheckPresent("call", ".y", read.y, read.num_sets > 0 && read.max_y > 0));
}

Status ReadNearestGradients(const NearestProblem& problem, const maxsim_nearest_gradients* given,
                            maxsim_nearest_gradients* gradients) {
  if (Status status = ReadStruct("gradients", given, kFirstNearestGradientsSize, gradients); !status.ok()) {
    return status;
  }
  return First(CheckPresent("gradients", ".argmin", gradients->argmin, problem.num_x() > 0),
               CheckPresent("gradients", ".distance_gradients", gradients->distance_gradients, problem.num_x() > 0));
}

}  // namespace maxsim::library

maxsim_status maxsim_nearest_workspace_bytes(const maxsim_nearest_call* call, int32_t pass, size_t* bytes) {
  return maxsim::library::Finish([&]() -> maxsim::library::Status {
    maxsim::library::NearestProblem problem;
    maxsim::library::Status status =
        maxsim::library::First(maxsim::library::ReadNearest(call, &problem), maxsim::library::CheckNearestPass(pass));
    if (!status.ok()) return status;
    if (bytes == nullptr) return maxsim::library::InvalidArgument("bytes is null");
    *bytes = 0;  // the CPU's passes allocate for themselves
    if (problem.call.device == MAXSIM_CPU) return {};
    return maxsim::library::CudaNearestWorkspaceBytes(problem, pass, bytes);
  });
}

maxsim_status maxsim_nearest(const maxsim_nearest_call* call, float* distances, int32_t* argmin) {
  return maxsim::library::Finish([&] { return maxsim::library::NearestForward(call, distances, argmin); });
}

maxsim_status maxsim_nearest_backward(const maxsim_nearest_call* call, const maxsim_nearest_gradients* gradients) {
  return maxsim::library::Finish([&] { return maxsim::library::NearestBackward(call, gradients); });
}
