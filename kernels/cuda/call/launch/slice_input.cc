#include "kernels/cuda/call/launch/slice_input.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/candidates/expand_mask.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"
#include "kernels/quantize.h"

namespace maxsim::cuda {

absl::Status WriteInput(Workspace& workspace) {
  const InputLayout& layout = workspace.input.layout();
  if (layout.total > workspace.pinned_input.bytes() || layout.device_total > workspace.device_input.bytes()) {
    return absl::InternalError(absl::StrCat("a slice takes ", layout.total, " bytes of input, ", layout.device_total,
                                            " on the device; there is room for ", workspace.pinned_input.bytes(),
                                            " and ", workspace.device_input.bytes()));
  }
  workspace.input.Write(workspace.pinned_input.as<uint8_t>());
  return absl::OkStatus();
}

InputCopy InputByKernel(const Workspace& workspace, const int64_t* offsets) {
  return {.pinned = workspace.pinned_input.as(),
          .device = workspace.device_input.as(),
          .bytes = workspace.input.layout().total,
          .ordinals = workspace.input.layout().ordinals,
          .num_ordinals = workspace.input.mask_words() > 0 ? 0 : static_cast<size_t>(workspace.input.num_ordinals()),
          .offsets = offsets};
}

absl::Status CopyInput(const CallContext& context, const int64_t* offsets) {
  Workspace& workspace = context.workspace;
  const cudaStream_t stream = workspace.stream.get();
  MAXSIM_RETURN_IF_ERROR(WriteInput(workspace));
  MAXSIM_RETURN_IF_ERROR(workspace.start.Record(stream));
  // After a copy engine has finished, a kernel begins some microseconds later, and stage_events would count that gap
  // as the kernel's time. So with stage_events a kernel copies the input.
  if (context.tuning.stage_events) {
    return MAXSIM_CUDA_STATUS(
        LaunchCopyInput(InputByKernel(workspace, offsets), workspace.times.as<CallTimes>(), stream));
  }
  return MAXSIM_CUDA_STATUS(cudaMemcpyAsync(workspace.device_input.as(), workspace.pinned_input.as(),
                                            workspace.input.layout().total, cudaMemcpyHostToDevice, stream));
}

absl::Status ExpandMask(const Workspace& workspace) {
  const InputLayout& layout = workspace.input.layout();
  if (workspace.input.mask_words() == 0) return absl::OkStatus();
  const MaskExpansion expansion{.words = workspace.DeviceInput<uint64_t>(layout.mask),
                                .ranks = workspace.DeviceInput<uint32_t>(layout.mask_ranks),
                                .num_words = workspace.input.mask_words(),
                                .ordinals = workspace.DeviceInput<uint32_t>(layout.ordinals)};
  return MAXSIM_CUDA_STATUS(LaunchExpandMask(expansion, workspace.stream.get()));
}

absl::Status QuantizeQueries(const Workspace& workspace, const CudaDocuments& documents) {
  if (documents.type() != ScalarType::kI8) return absl::OkStatus();
  const uint8_t* const input = workspace.DeviceInput<uint8_t>(0);
  return MAXSIM_CUDA_STATUS(
      LaunchQuantizeQueries(QuantizeParamsOf(workspace, input, documents, nullptr), workspace.stream.get()));
}

QuantizeParams QuantizeParamsOf(const Workspace& workspace, const uint8_t* input, const CudaDocuments& documents,
                                CallTimes* times) {
  const InputLayout& layout = workspace.input.layout();
  QuantizeParams params{};
  params.values = reinterpret_cast<const float*>(input + layout.query_rows);
  params.weights = reinterpret_cast<const float*>(input + layout.row_weights);
  params.rows = workspace.DeviceInput<int8_t>(layout.quantized_rows);
  params.factors = workspace.DeviceInput<float>(layout.factors);
  params.rotation_seed = documents.rotation_seed();
  params.value_pitch = DeviceRowBytes(ScalarType::kF32, documents.dim()) / static_cast<int64_t>(sizeof(float));
  params.num_rows = static_cast<int32_t>(workspace.input.num_rows());
  params.dim = documents.dim();
  params.row_bytes = static_cast<int32_t>(documents.row_bytes());
  params.operand_order = workspace.input.operand_order() ? 1 : 0;
  params.rotation_factor = RotationFactor(documents.dim());
  params.times = times;
  return params;
}

}  // namespace maxsim::cuda
