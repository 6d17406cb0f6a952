// Makes the inputs of a case of the GPU benchmark, each in the memory in which the case needs it.
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

// Documents in device memory, queries and lists in host memory. Values are distributed evenly, and the norm of rows
// is near 1. Other programs can make the same inputs, as compare_peers.py does: FillRandom computes value i of an
// array from the array's seed and i. The seed of the documents is kDocumentSeed, and that of query n is kQuerySeed +
// n. INT8 documents are random bytes.
struct GpuData {
  GpuCase shape;
  std::vector<int64_t> offsets;  // [num_documents + 1]
  std::unique_ptr<Documents> documents;
  const cuda::CudaDocuments* device_documents = nullptr;  // `documents`; null for INT8
  std::vector<float> scales;                              // INT8: [num_documents]
  std::vector<std::vector<uint8_t>> query_tokens;
  std::vector<std::vector<uint32_t>> lists;
  std::vector<Query> queries;  // refer to query_tokens and lists
};

inline constexpr uint64_t kDocumentSeed = 11;
inline constexpr uint64_t kQuerySeed = 1000;

// Makes the inputs of `shape`. Every query asks for the best `top_k`. Returns the backend's status if the backend
// refuses the documents' type.
absl::StatusOr<GpuData> MakeGpuData(cuda::CudaBackend& backend, const GpuCase& shape, int32_t top_k);

// Copies of some documents in host memory, from which the FP64 reference computes scores.
struct DocumentsCopy {
  std::vector<int64_t> offsets;
  std::vector<uint8_t> rows;
  std::vector<float> scales;
  DocumentsView view;  // refers to the members above
};

// Copies the documents with these ordinals. In the copy, the ordinal of a document is its index in `ordinals`.
absl::StatusOr<DocumentsCopy> CopyDocuments(const GpuData& data, absl::Span<const uint32_t> ordinals);

}  // namespace maxsim::bench
