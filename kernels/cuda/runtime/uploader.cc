#include "kernels/cuda/runtime/uploader.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<Uploader> Uploader::Create(size_t piece_bytes) {
  Uploader uploader;
  for (Piece& piece : uploader.pieces_) {
    MAXSIM_ASSIGN_OR_RETURN(piece.buffer, PinnedBuffer::Allocate(piece_bytes, "uploading documents"));
    MAXSIM_ASSIGN_OR_RETURN(piece.free, Event::Create());
  }
  return uploader;
}

absl::StatusOr<Uploader::Piece*> Uploader::NextPiece() {
  Piece& piece = pieces_[next_];
  next_ = (next_ + 1) % pieces_.size();
  MAXSIM_RETURN_IF_ERROR(piece.free.Wait());
  return &piece;
}

absl::Status Uploader::Send(Piece& piece, size_t bytes, void* target, cudaStream_t stream) {
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(target, piece.buffer.as<uint8_t>(), bytes, cudaMemcpyHostToDevice, stream));
  return piece.free.Record(stream);
}

absl::Status Uploader::CopyRows(const void* source, int64_t num_rows, size_t source_row_bytes, void* target,
                                size_t target_row_bytes, cudaStream_t stream) {
  if (source_row_bytes == target_row_bytes) {
    return CopyBytes(source, static_cast<size_t>(num_rows) * source_row_bytes, target, stream);
  }
  const uint8_t* from = static_cast<const uint8_t*>(source);
  const auto pad = [&](int64_t, int64_t count, uint8_t* out) {
    for (int64_t i = 0; i < count; ++i, from += source_row_bytes, out += target_row_bytes) {
      std::memcpy(out, from, source_row_bytes);
      std::memset(out + source_row_bytes, 0, target_row_bytes - source_row_bytes);
    }
    return absl::OkStatus();
  };
  return CopyFilled(num_rows, target_row_bytes, pad, target, stream);
}

absl::Status Uploader::CopyFilled(int64_t num_rows, size_t row_bytes,
                                  absl::FunctionRef<absl::Status(int64_t first, int64_t count, uint8_t* to)> fill,
                                  void* target, cudaStream_t stream) {
  uint8_t* to = static_cast<uint8_t*>(target);
  const int64_t rows_of_piece = static_cast<int64_t>(pieces_[0].buffer.bytes() / row_bytes);
  for (int64_t row = 0; row < num_rows; row += rows_of_piece) {
    const int64_t count = std::min(rows_of_piece, num_rows - row);
    Piece* piece = nullptr;
    MAXSIM_ASSIGN_OR_RETURN(piece, NextPiece());
    MAXSIM_RETURN_IF_ERROR(fill(row, count, piece->buffer.as<uint8_t>()));
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    MAXSIM_RETURN_IF_ERROR(Send(*piece, bytes, to, stream));
    to += bytes;
  }
  return absl::OkStatus();
}

absl::Status Uploader::CopyBytes(const void* source, size_t bytes, void* target, cudaStream_t stream) {
  const uint8_t* from = static_cast<const uint8_t*>(source);
  uint8_t* to = static_cast<uint8_t*>(target);
  while (bytes > 0) {
    Piece* piece = nullptr;
    MAXSIM_ASSIGN_OR_RETURN(piece, NextPiece());
    const size_t count = std::min(bytes, piece->buffer.bytes());
    std::memcpy(piece->buffer.as<uint8_t>(), from, count);
    MAXSIM_RETURN_IF_ERROR(Send(*piece, count, to, stream));
    from += count;
    to += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
