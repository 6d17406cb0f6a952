#include "bench/kernels/gpu_data.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/testing/random_fill.h"
#include "kernels/plan/rows.h"
#include "kernels/quantize.h"

namespace maxsim::bench {
namespace {

constexpr uint64_t kRotationSeed = 20;

// Returns at least `count` random elements in -kMaxInt8 .. kMaxInt8. All cases share them. They are valid until a
// call with a larger `count`. Not thread-safe.
const int8_t* RandomInt8(size_t count) {
  static std::vector<int8_t> elements;
  size_t begin = elements.size();
  if (begin < count) elements.resize((count + 7) / 8 * 8);
  for (; begin < elements.size(); begin += 8) {
    uint64_t bits = (begin + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    for (size_t byte = 0; byte < 8; ++byte) {
      elements[begin + byte] = std::max<int8_t>(static_cast<int8_t>(bits >> (8 * byte)), -kMaxInt8);
    }
  }
  return elements.data();
}

// Loads INT8 documents through the backend's interface, so that this code does not depend on their layout in device
// memory.
absl::Status LoadInt8(cuda::CudaBackend& backend, GpuData& data) {
  const GpuCase& shape = data.shape;
  // The root mean square of the elements is 73. So with this scale the norm of rows is near 1.
  const float scale = 1 / (73 * std::sqrt(static_cast<float>(shape.dim)));
  for (int64_t n = 0; n < shape.num_documents; ++n) {
    data.scales.push_back(scale * (0.75f + 0.5f * static_cast<float>(n % 97) / 97));
  }
  DocumentsView view;
  view.type = shape.type;
  view.dim = shape.dim;
  view.num_documents = shape.num_documents;
  view.tokens = RandomInt8(static_cast<size_t>(data.offsets.back() * shape.dim));
  view.offsets = data.offsets.data();
  view.scales = data.scales.data();
  view.rotation_seed = kRotationSeed;
  MAXSIM_ASSIGN_OR_RETURN(data.documents, backend.Load(view, Tier::kDevice, nullptr));
  return absl::OkStatus();
}

absl::Status MakeDocuments(cuda::CudaBackend& backend, GpuData& data, float scale) {
  const GpuCase& shape = data.shape;
  if (shape.type == ScalarType::kI8) return LoadInt8(backend, data);
  DocumentsView view;
  view.type = shape.type;
  view.dim = shape.dim;
  view.num_documents = shape.num_documents;
  view.offsets = data.offsets.data();
  const cuda::CudaDocuments::Shape size = cuda::CudaDocuments::Shape::Of(view);
  cuda::DeviceBuffer tokens, offsets;
  MAXSIM_ASSIGN_OR_RETURN(tokens, cuda::DeviceBuffer::Allocate(size.token_bytes(), "documents"));
  MAXSIM_ASSIGN_OR_RETURN(offsets, cuda::DeviceBuffer::Allocate(size.offset_bytes(), "offsets"));
  MAXSIM_RETURN_IF_CUDA_ERROR(cuda::FillRandom(shape.type, tokens.as(), size.num_tokens * shape.dim, kDocumentSeed,
                                               scale, cudaStreamPerThread));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(offsets.as(), data.offsets.data(), size.offset_bytes(), cudaMemcpyHostToDevice));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamPerThread));
  auto documents = std::make_unique<cuda::CudaDocuments>(backend.device(), size, std::move(tokens), std::move(offsets));
  data.device_documents = documents.get();
  data.documents = std::move(documents);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuData> MakeGpuData(cuda::CudaBackend& backend, const GpuCase& shape, int32_t top_k) {
  // Documents are made in device memory without the row padding that other widths need.
  if (shape.dim % kRowAlignColumns != 0) {
    return absl::InvalidArgumentError("the benchmark's widths are multiples of 8 columns");
  }
  GpuData data;
  data.shape = shape;
  data.offsets = OffsetsOf(shape);
  data.lists = ListsOf(shape);
  const float scale = 1.7f / std::sqrt(static_cast<float>(shape.dim));
  MAXSIM_RETURN_IF_ERROR(MakeDocuments(backend, data, scale));

  const ScalarType type = QueryType(shape.type);
  const size_t values = static_cast<size_t>(shape.query_tokens) * static_cast<size_t>(shape.dim);
  cuda::DeviceBuffer wide;
  MAXSIM_ASSIGN_OR_RETURN(wide, cuda::DeviceBuffer::Allocate(values * sizeof(float), "a query"));
  std::vector<float> row_major(values);
  data.query_tokens.resize(static_cast<size_t>(shape.num_queries));
  for (size_t i = 0; i < data.query_tokens.size(); ++i) {
    MAXSIM_RETURN_IF_CUDA_ERROR(cuda::FillRandom(ScalarType::kF32, wide.as(), static_cast<int64_t>(values),
                                                 kQuerySeed + i, scale, cudaStreamPerThread));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(row_major.data(), wide.as(), values * sizeof(float),
                                                cudaMemcpyDeviceToHost, cudaStreamPerThread));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamPerThread));
    data.query_tokens[i].resize(values * SizeOf(type));
    ConvertElements(ScalarType::kF32, row_major.data(), type, data.query_tokens[i].data(), values);
    Query query;
    query.tokens = data.query_tokens[i].data();
    query.num_tokens = shape.query_tokens;
    query.ordinals = shape.list_size == 0 ? nullptr : data.lists[i].data();
    query.num_candidates = shape.list_size;
    query.top_k = top_k;
    data.queries.push_back(query);
  }
  return data;
}

absl::StatusOr<DocumentsCopy> CopyDocuments(const GpuData& data, absl::Span<const uint32_t> ordinals) {
  const GpuCase& shape = data.shape;
  const size_t row_bytes = static_cast<size_t>(shape.dim) * SizeOf(shape.type);
  DocumentsCopy copy;
  copy.offsets.push_back(0);
  for (uint32_t n : ordinals) copy.offsets.push_back(copy.offsets.back() + data.offsets[n + 1] - data.offsets[n]);
  copy.rows.resize(static_cast<size_t>(copy.offsets.back()) * row_bytes);
  for (size_t i = 0; i < ordinals.size(); ++i) {
    const uint32_t n = ordinals[i];
    uint8_t* target = copy.rows.data() + static_cast<size_t>(copy.offsets[i]) * row_bytes;
    const size_t first = static_cast<size_t>(data.offsets[n]) * row_bytes;
    const size_t bytes = static_cast<size_t>(data.offsets[n + 1] - data.offsets[n]) * row_bytes;
    if (data.device_documents == nullptr) {
      std::memcpy(target, RandomInt8(first + bytes) + first, bytes);
      copy.scales.push_back(data.scales[n]);
    } else {
      MAXSIM_RETURN_IF_CUDA_ERROR(
          cudaMemcpy(target, data.device_documents->device_tokens() + first, bytes, cudaMemcpyDeviceToHost));
    }
  }
  copy.view.type = shape.type;
  copy.view.dim = shape.dim;
  copy.view.num_documents = static_cast<int64_t>(ordinals.size());
  copy.view.tokens = copy.rows.data();
  copy.view.offsets = copy.offsets.data();
  if (!copy.scales.empty()) {
    copy.view.scales = copy.scales.data();
    copy.view.rotation_seed = kRotationSeed;
  }
  return copy;
}

}  // namespace maxsim::bench
