#include "kernels/cuda/documents/cuda_appendable.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/appended_length.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"
#include "kernels/validate.h"

namespace maxsim::cuda {

absl::StatusOr<std::shared_ptr<CudaAppendable>> CudaAppendable::Create(Device* device, const AppendableShape& shape) {
  std::shared_ptr<CudaAppendable> made(new CudaAppendable(device, shape));
  MAXSIM_RETURN_IF_ERROR(made->Allocate());
  return made;
}

CudaAppendable::CudaAppendable(Device* device, const AppendableShape& shape)
    : device_(device),
      shape_(shape),
      source_row_bytes_(static_cast<size_t>(shape.dim) * SizeOf(shape.type)),
      row_bytes_(static_cast<size_t>(DeviceRowBytes(shape.type, shape.dim))) {}

absl::Status CudaAppendable::Allocate() {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  const CudaDocuments::Shape full{shape_.type, shape_.dim, shape_.max_documents, shape_.max_tokens};
  MAXSIM_ASSIGN_OR_RETURN(arrays_->tokens, DeviceBuffer::Allocate(full.token_bytes(), "appended tokens"));
  MAXSIM_ASSIGN_OR_RETURN(arrays_->offsets, DeviceBuffer::Allocate(full.offset_bytes(), "appended offsets"));
  MAXSIM_ASSIGN_OR_RETURN(arrays_->scales, DeviceBuffer::Allocate(full.scale_bytes(), "appended scales"));
  MAXSIM_ASSIGN_OR_RETURN(copier_, AppendCopier::Create(device_->ordinal, "appending documents"));
  {
    const MutexLock lock(&reading_);
    MAXSIM_ASSIGN_OR_RETURN(read_stream_, Stream::Create());
    MAXSIM_ASSIGN_OR_RETURN(read_, Event::Create());
    MAXSIM_ASSIGN_OR_RETURN(read_staging_, PinnedBuffer::Allocate(AppendCopier::kSlotBytes, "reading documents back"));
  }
  // Writes the first offset. Appends write only past the last document and never rewrite an offset, so they write
  // nothing that a reader may be reading.
  return copier_.Clear(arrays_->offsets.as(), sizeof(int64_t));
}

DocumentLengths CudaAppendable::lengths() const {
  const MutexLock lock(&mutex_);
  return lengths_;
}

uint8_t* CudaAppendable::RowsAt(int64_t token) const {
  return arrays_->tokens.as<uint8_t>() + static_cast<size_t>(token) * row_bytes_;
}

absl::Status CudaAppendable::Append(const DocumentsView& documents) {
  const DocumentLengths before = lengths();
  MAXSIM_RETURN_IF_ERROR(ValidateAppend(shape_, before.num_documents(), before.num_tokens(), documents));
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  if (documents.num_documents == 0) return absl::OkStatus();
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(Copy(documents, before)));
  DocumentLengths after = before;
  after.Add(documents.offsets, documents.num_documents);
  const MutexLock lock(&mutex_);
  lengths_ = after;
  return absl::OkStatus();
}

absl::Status CudaAppendable::Copy(const DocumentsView& documents, const DocumentLengths& before) {
  const int64_t num_documents = documents.num_documents;
  const int64_t first = before.num_documents();
  std::vector<int64_t> ends(static_cast<size_t>(num_documents));
  WriteEnds(documents.offsets, num_documents, before.num_tokens(), ends.data());
  std::vector<AppendCopier::Piece> pieces = {
      {documents.tokens, documents.num_tokens(), source_row_bytes_, RowsAt(before.num_tokens()), row_bytes_},
      {ends.data(), num_documents, sizeof(int64_t), arrays_->offsets.as<int64_t>() + first + 1, sizeof(int64_t)}};
  if (shape_.type == ScalarType::kI8) {
    pieces.push_back(
        {documents.scales, num_documents, sizeof(float), arrays_->scales.as<float>() + first, sizeof(float)});
  }
  return copier_.Copy(pieces);
}

std::shared_ptr<const Documents> CudaAppendable::Snapshot() const {
  const DocumentLengths lengths = this->lengths();
  const CudaDocuments::Shape shape{.type = shape_.type,
                                   .dim = shape_.dim,
                                   .num_documents = lengths.num_documents(),
                                   .num_tokens = lengths.num_tokens(),
                                   .document_tokens = lengths.document_tokens(),
                                   .longest_tokens = lengths.longest_tokens(),
                                   .spread_tokens = lengths.spread_tokens()};
  const CurrentDevice current(device_->ordinal);  // for the tensor maps
  return std::make_shared<CudaDocuments>(device_, shape, arrays_->tokens.as(), arrays_->offsets.as<int64_t>(),
                                         arrays_->scales.as<float>(), shape_.rotation_seed, arrays_);
}

absl::Status CudaAppendable::ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const {
  MAXSIM_RETURN_IF_ERROR(ValidateReadRows(lengths().num_tokens(), first_token, num_tokens, rows));
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  if (num_tokens == 0) return absl::OkStatus();
  return device_->health.Note(CopyBack(first_token, num_tokens, static_cast<uint8_t*>(rows)));
}

absl::Status CudaAppendable::CopyBack(int64_t first_token, int64_t num_tokens, uint8_t* rows) const {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  const MutexLock lock(&reading_);
  FinishOnError started(read_stream_.get());
  const auto rows_of_piece = static_cast<int64_t>(read_staging_.bytes() / row_bytes_);
  const auto* const staged = read_staging_.as<uint8_t>();
  for (int64_t row = 0; row < num_tokens; row += rows_of_piece) {
    const int64_t count = std::min(rows_of_piece, num_tokens - row);
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(read_staging_.as(), RowsAt(first_token + row),
                                                static_cast<size_t>(count) * row_bytes_, cudaMemcpyDeviceToHost,
                                                read_stream_.get()));
    MAXSIM_RETURN_IF_ERROR(read_.Record(read_stream_.get()));
    MAXSIM_RETURN_IF_ERROR(read_.PollThenWait());
    for (int64_t i = 0; i < count; ++i, rows += source_row_bytes_) {
      std::memcpy(rows, staged + static_cast<size_t>(i) * row_bytes_, source_row_bytes_);
    }
  }
  started.Finished();
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
