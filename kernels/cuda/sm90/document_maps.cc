#include "kernels/cuda/sm90/document_maps.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_error.h"

namespace maxsim::cuda::sm90 {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found at run time so that nothing links the driver's library.
absl::Status Find(EncodeTiled& encode) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return absl::UnimplementedError("the driver has no cuTensorMapEncodeTiled");
  }
  encode = reinterpret_cast<EncodeTiled>(function);
  return absl::OkStatus();
}

}  // namespace

absl::Status DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                               DocumentMaps& maps) {
  EncodeTiled encode = nullptr;
  MAXSIM_RETURN_IF_ERROR(Find(encode));
  const CUtensorMapDataType element = type == ScalarType::kI8     ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                      : type == ScalarType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const cuuint64_t element_bytes = SizeOf(type);
  const cuuint64_t dims[2] = {static_cast<cuuint64_t>(row_bytes) / element_bytes, static_cast<cuuint64_t>(num_tokens)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t steps[2] = {1, 1};
  for (int32_t i = 0; i < kWideTokens / kBoxRows; ++i) {
    const cuuint32_t box[2] = {kWideHalfBytes / static_cast<cuuint32_t>(element_bytes),
                               static_cast<cuuint32_t>((i + 1) * kBoxRows)};
    const CUresult result = encode(&maps.rows[i], element, 2, const_cast<void*>(tokens), dims, strides, box, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
      return absl::InvalidArgumentError(absl::StrCat("cuTensorMapEncodeTiled refused ", num_tokens, " rows of ",
                                                     row_bytes, " bytes with error ", static_cast<int>(result)));
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda::sm90
