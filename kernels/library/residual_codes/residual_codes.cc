// The functions of residual_codes.h.
#include "kernels/library/include/maxsim/residual_codes.h"

#include <string>
#include <vector>

#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/cpu_backward.h"
#include "kernels/library/cpu/cpu_forward.h"
#include "kernels/library/problem/finish.h"
#include "kernels/library/problem/read_struct.h"
#include "kernels/library/residual_codes/coded_problem.h"
#include "kernels/library/residual_codes/cuda_codes.h"
#include "kernels/library/residual_codes/residual_decoder.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {
namespace {

// Decodes documents to FP32 and widens queries to FP32, so that decoded values are not rounded again.
Status CpuCodesForward(const CodedProblem& coded, float* scores, int32_t* argmax) {
  const CodedRowDecoder decoder(coded);
  Problem problem = coded.problem;
  std::vector<float> queries;
  if (problem.type() != ScalarType::kF32) {
    queries.resize(static_cast<size_t>(problem.queries.num_rows) * static_cast<size_t>(problem.dim()));
    ConvertElements(problem.type(), problem.queries.rows, ScalarType::kF32, queries.data(), queries.size());
    problem.queries.rows = queries.data();
    problem.queries.type = MAXSIM_F32;
    problem.documents.type = MAXSIM_F32;
  }
  return CpuForward(problem, *cpu::AvailableIsas().front(), scores, argmax, &decoder);
}

Status CodesForward(const maxsim_call* call, const maxsim_residual_codes* codes, float* scores, int32_t* argmax) {
  CodedProblem problem;
  if (Status status = ReadCodedProblem(call, codes, &problem); !status.ok()) return status;
  if (scores == nullptr && problem.problem.num_pairs > 0) return InvalidArgument("scores is null");
  if (problem.problem.call.device == MAXSIM_CUDA) {
    size_t wanted = 0;
    if (Status status = CudaCodesWorkspaceBytes(problem, &wanted); !status.ok()) return status;
    const maxsim_call& read = problem.problem.call;
    if (Status status =
            CheckWorkspaceMemory(read.workspace, read.workspace_bytes, wanted, "maxsim_residual_codes_workspace_bytes");
        !status.ok()) {
      return status;
    }
    return CudaCodesForward(problem, scores, argmax);
  }
  if (Status status = CheckHostCodes(problem); !status.ok()) return status;
  return CpuCodesForward(problem, scores, argmax);
}

Status CodesBackward(const maxsim_call* call, const maxsim_residual_codes* codes, const maxsim_gradients* given) {
  CodedProblem problem;
  maxsim_gradients gradients;
  if (Status status = ReadCodedProblem(call, codes, &problem); !status.ok()) return status;
  if (Status status = ReadGradients(problem.problem, given, &gradients); !status.ok()) return status;
  if (gradients.document_gradients != nullptr) {
    return InvalidArgument("gradients.document_gradients is not null; residual codes have no gradients");
  }
  if (problem.problem.call.device == MAXSIM_CUDA) return CudaCodesBackward(problem, gradients);
  if (Status status = CheckHostCodes(problem); !status.ok()) return status;
  const CodedRowDecoder decoder(problem);
  return CpuBackward(problem.problem, gradients, &decoder);
}

}  // namespace
}  // namespace maxsim::library

maxsim_status maxsim_residual_codes_workspace_bytes(const maxsim_call* call, const maxsim_residual_codes* codes,
                                                    size_t* bytes) {
  return maxsim::library::Finish([&]() -> maxsim::library::Status {
    maxsim::library::CodedProblem problem;
    if (maxsim::library::Status status = ReadCodedProblem(call, codes, &problem); !status.ok()) return status;
    if (bytes == nullptr) return maxsim::library::InvalidArgument("bytes is null");
    *bytes = 0;  // the CPU's pass allocates for itself
    if (problem.problem.call.device == MAXSIM_CPU) return {};
    return CudaCodesWorkspaceBytes(problem, bytes);
  });
}

maxsim_status maxsim_residual_codes_forward(const maxsim_call* call, const maxsim_residual_codes* codes, float* scores,
                                            int32_t* argmax) {
  return maxsim::library::Finish([&] { return maxsim::library::CodesForward(call, codes, scores, argmax); });
}

maxsim_status maxsim_residual_codes_backward(const maxsim_call* call, const maxsim_residual_codes* codes,
                                             const maxsim_gradients* gradients) {
  return maxsim::library::Finish([&] { return maxsim::library::CodesBackward(call, codes, gradients); });
}
