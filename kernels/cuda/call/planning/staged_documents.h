// The documents that came with a request (Executor::Stage), in device memory that an executor keeps for them.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/uploader.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Owns the memory. Not thread-safe.
class StagedDocuments {
 public:
  // Allocates room for the documents that `options` allow, on the current device. To be called once, before Stage.
  // Returns RESOURCE_EXHAUSTED if there is too little memory.
  absl::Status Allocate(const ExecutorOptions& options);

  // Starts to copy the documents of `view` to `device`, and returns the copied documents. `view` must be valid and must
  // fit (CheckStageLimits); `device` must be the current one. Overwrites the documents of an earlier Stage; the result
  // is valid until the next Stage. `stream` is the CUDA stream of the calls that use the documents, so that no thread
  // has to wait for the copies. When Stage returns, it has read the view's memory.
  absl::StatusOr<const CudaDocuments*> Stage(const Device* device, const DocumentsView& view,
                                             const CudaDocuments::Shape& shape, cudaStream_t stream);

 private:
  absl::Status Upload(const DocumentsView& view, const CudaDocuments::Shape& shape, cudaStream_t stream);

  Uploader uploader_;
  DeviceBuffer tokens_;   // [rows, row_bytes], of options.max_staged_bytes
  DeviceBuffer offsets_;  // int64_t, [options.max_staged_documents + 1]
  DeviceBuffer scales_;   // float, [options.max_staged_documents]
  std::optional<CudaDocuments> documents_;
};

}  // namespace maxsim::cuda
