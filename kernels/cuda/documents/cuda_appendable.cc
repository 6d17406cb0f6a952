#include "kernels/cuda/documents/cuda_appendable.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"
#include "kernels/validate.h"

namespace maxsim::cuda {
namespace {

// The bytes of documents that are staged together, in one piece: some dozens of usual ones.
constexpr size_t kSmallBytes = size_t{256} << 10;

// The bytes of each other piece of pinned memory: its copy takes longer than starting it does.
constexpr size_t kAppendSlotBytes = size_t{1} << 20;

// An event that is waited for asleep is seen some 25 us late (call/call_wait.cc), longer than the copy of a small
// document takes. So it is polled for at first.
constexpr auto kPollTime = std::chrono::microseconds(50);

absl::Status PollThenWait(const Event& event) {
  const auto end = std::chrono::steady_clock::now() + kPollTime;
  while (!event.IsDone() && std::chrono::steady_clock::now() < end) {
  }
  return event.Wait();
}

// Writes where the documents of `view` end, first .. first + count of them, counted from `first_token` on.
void WriteEnds(const DocumentsView& view, int64_t first, int64_t count, int64_t first_token, void* to) {
  auto* const ends = static_cast<int64_t*>(to);
  for (int64_t n = 0; n < count; ++n) ends[n] = first_token + view.offsets[first + n + 1];
}

}  // namespace

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
  MAXSIM_ASSIGN_OR_RETURN(stream_, Stream::Create());
  MAXSIM_ASSIGN_OR_RETURN(copied_, Event::Create());
  MAXSIM_ASSIGN_OR_RETURN(small_staging_, PinnedBuffer::Allocate(kSmallBytes, "appending documents"));
  MAXSIM_ASSIGN_OR_RETURN(uploader_, Uploader::Create(kAppendSlotBytes));
  {
    const MutexLock lock(&reading_);
    MAXSIM_ASSIGN_OR_RETURN(read_stream_, Stream::Create());
    MAXSIM_ASSIGN_OR_RETURN(read_, Event::Create());
    MAXSIM_ASSIGN_OR_RETURN(read_staging_, PinnedBuffer::Allocate(kAppendSlotBytes, "reading documents back"));
  }
  // Appends write where documents end and no offset a second time, so that nobody writes what others read.
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(arrays_->offsets.as(), 0, sizeof(int64_t), stream_.get()));
  MAXSIM_RETURN_IF_ERROR(copied_.Record(stream_.get()));
  return copied_.Wait();
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
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(Copy(documents, {before.num_documents(), before.num_tokens()})));
  DocumentLengths after = before;
  after.Add(documents.offsets, documents.num_documents);
  const MutexLock lock(&mutex_);
  lengths_ = after;
  return absl::OkStatus();
}

absl::Status CudaAppendable::Copy(const DocumentsView& documents, const Place& place) {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  const CudaDocuments::Shape shape{shape_.type, shape_.dim, documents.num_documents, documents.num_tokens()};
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(shape.total_bytes() <= kSmallBytes ? CopySmall(documents, place)
                                                            : CopyLarge(documents, place));
  MAXSIM_RETURN_IF_ERROR(copied_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(PollThenWait(copied_));
  started.Finished();
  return absl::OkStatus();
}

absl::Status CudaAppendable::CopySmall(const DocumentsView& documents, const Place& place) {
  // The rows are first, whose bytes are a multiple of 16, and then the offsets.
  const int64_t num_tokens = documents.num_tokens();
  const auto num_documents = static_cast<size_t>(documents.num_documents);
  const size_t token_bytes = static_cast<size_t>(num_tokens) * row_bytes_;
  const size_t end_bytes = num_documents * sizeof(int64_t);
  uint8_t* const rows = small_staging_.as<uint8_t>();
  uint8_t* const ends = rows + token_bytes;
  PadRows(documents.tokens, num_tokens, source_row_bytes_, rows, row_bytes_);
  WriteEnds(documents, 0, documents.num_documents, place.token, ends);
  const auto send = [this](void* target, const uint8_t* from, size_t bytes) {
    return MAXSIM_CUDA_STATUS(cudaMemcpyAsync(target, from, bytes, cudaMemcpyHostToDevice, stream_.get()));
  };
  MAXSIM_RETURN_IF_ERROR(send(RowsAt(place.token), rows, token_bytes));
  MAXSIM_RETURN_IF_ERROR(send(EndsAt(place), ends, end_bytes));
  if (shape_.type != ScalarType::kI8) return absl::OkStatus();
  uint8_t* const scales = ends + end_bytes;
  std::memcpy(scales, documents.scales, num_documents * sizeof(float));
  return send(ScalesAt(place), scales, num_documents * sizeof(float));
}

absl::Status CudaAppendable::CopyLarge(const DocumentsView& documents, const Place& place) {
  MAXSIM_RETURN_IF_ERROR(uploader_.CopyRows(documents.tokens, documents.num_tokens(), source_row_bytes_,
                                            RowsAt(place.token), row_bytes_, stream_.get()));
  const auto fill = [&](int64_t first, int64_t count, uint8_t* to) {
    WriteEnds(documents, first, count, place.token, to);
    return absl::OkStatus();
  };
  MAXSIM_RETURN_IF_ERROR(
      uploader_.CopyFilled(documents.num_documents, sizeof(int64_t), fill, EndsAt(place), stream_.get()));
  if (shape_.type != ScalarType::kI8) return absl::OkStatus();
  return uploader_.CopyBytes(documents.scales, static_cast<size_t>(documents.num_documents) * sizeof(float),
                             ScalesAt(place), stream_.get());
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
    MAXSIM_RETURN_IF_ERROR(PollThenWait(read_));
    for (int64_t i = 0; i < count; ++i, rows += source_row_bytes_) {
      std::memcpy(rows, staged + static_cast<size_t>(i) * row_bytes_, source_row_bytes_);
    }
  }
  started.Finished();
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
