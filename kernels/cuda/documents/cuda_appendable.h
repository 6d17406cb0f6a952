// Documents in device memory to which more documents can be appended (AppendableDocuments, kernels/maxsim.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/runtime/append_copier.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/maxsim.h"
#include "kernels/plan/document_lengths.h"

namespace maxsim::cuda {

// The arrays are those of CudaDocuments. They never move, and a byte is never written again after it was appended, so
// snapshots are CudaDocuments in borrowed memory. An append does not disturb running kernels: kernels read only rows of
// their snapshot's documents, and the snapshot's tensor maps end with its last token.
//
// Copies go through CUDA streams of their own, from and to pinned memory that is allocated at the start: an append
// (AppendCopier) or ReadRows waits for its own copies, and no executor waits for either.
class CudaAppendable final : public AppendableDocuments {
 public:
  // Makes room for `shape`, which is valid, on `device`, which must outlive the result and its snapshots. Returns
  // RESOURCE_EXHAUSTED if there is too little memory. The caller must pass errors to DeviceHealth::Note.
  static absl::StatusOr<std::shared_ptr<CudaAppendable>> Create(Device* device, const AppendableShape& shape);

  absl::Status Append(const DocumentsView& documents) override;
  std::shared_ptr<const Documents> Snapshot() const override;
  absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const override;

 private:
  // Snapshots hold on to the arrays.
  struct Arrays {
    DeviceBuffer tokens;   // [max_tokens, row_bytes]
    DeviceBuffer offsets;  // int64_t, [max_documents + 1]; the first one is 0 from the start
    DeviceBuffer scales;   // float, [max_documents] of I8
  };

  CudaAppendable(Device* device, const AppendableShape& shape);

  absl::Status Allocate();
  DocumentLengths lengths() const;

  // Returns the device memory of a token's row.
  uint8_t* RowsAt(int64_t token) const;
  // Copies the documents to the arrays, after those of `before`, and waits for it.
  absl::Status Copy(const DocumentsView& documents, const DocumentLengths& before);
  absl::Status CopyBack(int64_t first_token, int64_t num_tokens, uint8_t* rows) const;

  Device* const device_;
  const AppendableShape shape_;
  const size_t source_row_bytes_;  // as in DocumentsView
  const size_t row_bytes_;         // in device memory
  const std::shared_ptr<Arrays> arrays_ = std::make_shared<Arrays>();

  AppendCopier copier_;  // belongs to the thread that appends

  mutable Mutex mutex_;
  DocumentLengths lengths_ ABSL_GUARDED_BY(mutex_);  // of what was appended

  // ReadRows copies under this mutex.
  mutable Mutex reading_;
  Stream read_stream_ ABSL_GUARDED_BY(reading_);
  mutable Event read_ ABSL_GUARDED_BY(reading_);
  PinnedBuffer read_staging_ ABSL_GUARDED_BY(reading_);
};

}  // namespace maxsim::cuda
