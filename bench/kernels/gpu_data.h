// Inputs of a benchmark's case, made where they are wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/kernels/gpu_shapes.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/maxsim.h"

namespace maxsim::bench {

// Documents in device memory, queries and lists in host memory. Values are spread evenly, rows have a norm near 1.
// Other programs can make the same ones (compare_peers.py does): value i of an array is FillRandom's, a function of the
// array's seed and i; documents have kDocumentSeed, query n has kQuerySeed + n. INT8 documents are random bytes.
struct GpuData {
  GpuCase shape;
  std::vector<int64_t> offsets;  // [num_documents + 1]
  std::unique_ptr<Documents> documents;
  const cuda::CudaDocuments* device_documents = nullptr;  // the same; null for INT8
  std::vector<float> scales;                              // INT8: [num_documents]
  std::vector<std::vector<uint8_t>> query_tokens;
  std::vector<std::vector<uint32_t>> lists;
  std::vector<Query> queries;  // refer to the above
};

inline constexpr uint64_t kDocumentSeed = 11;
inline constexpr uint64_t kQuerySeed = 1000;

// The status of the backend where it refuses the documents' type.
absl::StatusOr<GpuData> MakeGpuData(cuda::CudaBackend& backend, const GpuCase& shape, int32_t top_k);

// Copies of some documents in host memory, for the reference.
struct DocumentsCopy {
  std::vector<int64_t> offsets;
  std::vector<uint8_t> rows;
  std::vector<float> scales;
  DocumentsView view;  // refers to the above
};
absl::StatusOr<DocumentsCopy> CopyDocuments(const GpuData& data, absl::Span<const uint32_t> ordinals);

}  // namespace maxsim::bench
