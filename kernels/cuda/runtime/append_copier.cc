#include "kernels/cuda/runtime/append_copier.h"

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device.h"

namespace maxsim::cuda {
namespace {

// Pieces that are staged together begin at multiples of this many bytes, so that copies are aligned.
constexpr size_t kStagedAlignment = 16;

size_t StagedBytes(const AppendCopier::Piece& piece) {
  const size_t bytes = static_cast<size_t>(piece.num_rows) * piece.to_row_bytes;
  return (bytes + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
}

}  // namespace

absl::StatusOr<AppendCopier> AppendCopier::Create(int ordinal, absl::string_view purpose) {
  AppendCopier copier;
  copier.ordinal_ = ordinal;
  MAXSIM_ASSIGN_OR_RETURN(copier.stream_, Stream::Create());
  MAXSIM_ASSIGN_OR_RETURN(copier.copied_, Event::Create());
  MAXSIM_ASSIGN_OR_RETURN(copier.small_staging_, PinnedBuffer::Allocate(kSmallBytes, purpose));
  MAXSIM_ASSIGN_OR_RETURN(copier.uploader_, Uploader::Create(kSlotBytes));
  return copier;
}

absl::Status AppendCopier::Clear(void* to, size_t bytes) {
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(to, 0, bytes, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(copied_.Record(stream_.get()));
  return copied_.Wait();
}

absl::Status AppendCopier::Copy(absl::Span<const Piece> pieces) {
  const CurrentDevice current(ordinal_);
  MAXSIM_RETURN_IF_ERROR(current.status());
  size_t staged_bytes = 0;
  for (const Piece& piece : pieces) staged_bytes += StagedBytes(piece);
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(staged_bytes <= kSmallBytes ? CopySmall(pieces) : CopyLarge(pieces));
  MAXSIM_RETURN_IF_ERROR(copied_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(copied_.PollThenWait());
  started.Finished();
  return absl::OkStatus();
}

absl::Status AppendCopier::CopySmall(absl::Span<const Piece> pieces) {
  auto* staged = small_staging_.as<uint8_t>();
  for (const Piece& piece : pieces) {
    PadRows(piece.from, piece.num_rows, piece.from_row_bytes, staged, piece.to_row_bytes);
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(piece.to, staged,
                                                static_cast<size_t>(piece.num_rows) * piece.to_row_bytes,
                                                cudaMemcpyHostToDevice, stream_.get()));
    staged += StagedBytes(piece);
  }
  return absl::OkStatus();
}

absl::Status AppendCopier::CopyLarge(absl::Span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    MAXSIM_RETURN_IF_ERROR(uploader_.CopyRows(piece.from, piece.num_rows, piece.from_row_bytes, piece.to,
                                              piece.to_row_bytes, stream_.get()));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
