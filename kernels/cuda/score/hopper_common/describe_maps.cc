#include "kernels/cuda/score/hopper_common/describe_maps.h"

#include <array>
#include <atomic>

#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// Returns the driver's function cuTensorMapEncodeTiled, or null if the driver has no such function. It is looked up at
// run time so that the program need not link the driver's library.
EncodeTiled FindEncodeTiled() {
  static std::atomic<EncodeTiled> known = nullptr;
  EncodeTiled encode = known.load(std::memory_order_relaxed);
  if (encode != nullptr) return encode;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) !=
          cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();  // clears the error; otherwise the check after a later, successful launch would report it
    return nullptr;
  }
  encode = reinterpret_cast<EncodeTiled>(function);
  known.store(encode, std::memory_order_relaxed);
  return encode;
}

// Returns the bytes of an element. Tensor maps describe rows of INT8, BF16 or F16.
cuuint64_t ElementBytes(ScalarType type) { return type == ScalarType::kI8 ? 1 : 2; }

// Encodes the tensor map of rows in kRank dimensions. The first dimension is 128 bytes of columns, swizzled.
template <size_t kRank>
cudaError_t Encode(ScalarType type, const void* memory, const std::array<cuuint64_t, kRank>& dims,
                   const std::array<cuuint64_t, kRank - 1>& strides, const std::array<cuuint32_t, kRank>& box,
                   CUtensorMap& map) {
  const EncodeTiled encode = FindEncodeTiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const CUtensorMapDataType element = type == ScalarType::kI8     ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                      : type == ScalarType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  std::array<cuuint32_t, kRank> steps;
  steps.fill(1);
  const CUresult result = encode(&map, element, kRank, const_cast<void*>(memory), dims.data(), strides.data(),
                                 box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t DescribeRows(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, int32_t box_rows,
                         CUtensorMap& map) {
  const cuuint64_t bytes = static_cast<cuuint64_t>(row_bytes), element_bytes = ElementBytes(type);
  return Encode<2>(type, rows, {bytes / element_bytes, static_cast<cuuint64_t>(num_rows)}, {bytes},
                   {static_cast<cuuint32_t>(kWideHalfBytes / element_bytes), static_cast<cuuint32_t>(box_rows)}, map);
}

cudaError_t DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                              DocumentMaps& maps) {
  for (int32_t i = 0; i < DocumentMaps::kOctets; ++i) {
    const cudaError_t error = DescribeRows(type, tokens, num_tokens, row_bytes, (i + 1) * kOctetTokens, maps.octets[i]);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                            QueryMap& map) {
  constexpr cuuint32_t kHalfRows = kQueryTileTokens / 2;
  const cuuint64_t bytes = static_cast<cuuint64_t>(row_bytes), element_bytes = ElementBytes(type);
  return Encode<4>(type, rows,
                   {bytes / element_bytes, kHalfRows, 2, static_cast<cuuint64_t>(num_rows / kQueryTileTokens)},
                   {bytes, kHalfRows * bytes, kQueryTileTokens * bytes},
                   {static_cast<cuuint32_t>(kDeepChunkBytes / element_bytes), kHalfRows, 1,
                    static_cast<cuuint32_t>(TraitsOf(tile).query_tiles())},
                   map.rows);
}

}  // namespace maxsim::cuda::sm90
