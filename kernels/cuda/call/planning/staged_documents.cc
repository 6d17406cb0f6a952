#include "kernels/cuda/call/planning/staged_documents.h"

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/stream.h"

namespace maxsim::cuda {
namespace {

// The bytes of a pinned slot. Slots are small, because staged documents are small and a call waits for their copies.
constexpr size_t kSlotBytes = size_t{4} << 20;

}  // namespace

absl::Status StagedDocuments::Allocate(const ExecutorOptions& options) {
  const size_t most_documents = static_cast<size_t>(options.max_staged_documents);
  MAXSIM_ASSIGN_OR_RETURN(uploader_, Uploader::Create(kSlotBytes));
  MAXSIM_ASSIGN_OR_RETURN(tokens_,
                          DeviceBuffer::Allocate(static_cast<size_t>(options.max_staged_bytes), "staged documents"));
  MAXSIM_ASSIGN_OR_RETURN(offsets_, DeviceBuffer::Allocate((most_documents + 1) * sizeof(int64_t), "staged documents"));
  MAXSIM_ASSIGN_OR_RETURN(scales_, DeviceBuffer::Allocate(most_documents * sizeof(float), "staged documents"));
  return absl::OkStatus();
}

absl::StatusOr<const CudaDocuments*> StagedDocuments::Stage(const Device* device, const DocumentsView& view,
                                                            const CudaDocuments::Shape& shape, cudaStream_t stream) {
  documents_.reset();
  MAXSIM_RETURN_IF_ERROR(Upload(view, shape, stream));
  documents_.emplace(device, shape, tokens_.as(), offsets_.as<int64_t>(), scales_.as<float>(), view.rotation_seed);
  return &*documents_;
}

absl::Status StagedDocuments::Upload(const DocumentsView& view, const CudaDocuments::Shape& shape,
                                     cudaStream_t stream) {
  FinishOnError started(stream);
  MAXSIM_RETURN_IF_ERROR(uploader_.CopyRows(view.tokens, shape.num_tokens,
                                            static_cast<size_t>(RowBytes(view.type, view.dim)), tokens_.as(),
                                            static_cast<size_t>(shape.row_bytes()), stream));
  if (shape.num_documents > 0) {
    MAXSIM_RETURN_IF_ERROR(uploader_.CopyBytes(view.offsets, shape.offset_bytes(), offsets_.as(), stream));
    MAXSIM_RETURN_IF_ERROR(uploader_.CopyBytes(view.scales, shape.scale_bytes(), scales_.as(), stream));
  }
  started.Finished();
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
