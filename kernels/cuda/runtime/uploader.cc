#include "kernels/cuda/runtime/uploader.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

void PadRows(const void* source, int64_t num_rows, size_t source_row_bytes, void* target, size_t target_row_bytes) {
  const auto* from = static_cast<const uint8_t*>(source);
  auto* to = static_cast<uint8_t*>(target);
  if (source_row_bytes == target_row_bytes) {
    std::memcpy(to, from, static_cast<size_t>(num_rows) * source_row_bytes);
    return;
  }
  for (int64_t i = 0; i < num_rows; ++i, from += source_row_bytes, to += target_row_bytes) {
    std::memcpy(to, from, source_row_bytes);
    std::memset(to + source_row_bytes, 0, target_row_bytes - source_row_bytes);
  }
}

absl::StatusOr<Uploader> Uploader::Create(size_t slot_bytes) {
  Uploader uploader;
  for (Slot& slot : uploader.slots_) {
    MAXSIM_ASSIGN_OR_RETURN(slot.buffer, PinnedBuffer::Allocate(slot_bytes, "uploading documents"));
    MAXSIM_ASSIGN_OR_RETURN(slot.free, Event::Create());
  }
  return uploader;
}

absl::StatusOr<Uploader::Slot*> Uploader::NextSlot() {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  MAXSIM_RETURN_IF_ERROR(slot.free.Wait());
  return &slot;
}

absl::Status Uploader::Send(Slot& slot, size_t bytes, void* target, cudaStream_t stream) {
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(target, slot.buffer.as<uint8_t>(), bytes, cudaMemcpyHostToDevice, stream));
  return slot.free.Record(stream);
}

absl::Status Uploader::CopyRows(const void* source, int64_t num_rows, size_t source_row_bytes, void* target,
                                size_t target_row_bytes, cudaStream_t stream) {
  if (source_row_bytes == target_row_bytes) {
    return CopyBytes(source, static_cast<size_t>(num_rows) * source_row_bytes, target, stream);
  }
  const auto* const from = static_cast<const uint8_t*>(source);
  const auto pad = [&](int64_t first, int64_t count, uint8_t* to) {
    PadRows(from + static_cast<size_t>(first) * source_row_bytes, count, source_row_bytes, to, target_row_bytes);
    return absl::OkStatus();
  };
  return CopyFilled(num_rows, target_row_bytes, pad, target, stream);
}

absl::Status Uploader::CopyFilled(int64_t num_rows, size_t row_bytes,
                                  absl::FunctionRef<absl::Status(int64_t first, int64_t count, uint8_t* to)> fill,
                                  void* target, cudaStream_t stream) {
  uint8_t* to = static_cast<uint8_t*>(target);
  const int64_t rows_of_slot = static_cast<int64_t>(slots_[0].buffer.bytes() / row_bytes);
  for (int64_t row = 0; row < num_rows; row += rows_of_slot) {
    const int64_t count = std::min(rows_of_slot, num_rows - row);
    Slot* slot = nullptr;
    MAXSIM_ASSIGN_OR_RETURN(slot, NextSlot());
    MAXSIM_RETURN_IF_ERROR(fill(row, count, slot->buffer.as<uint8_t>()));
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    MAXSIM_RETURN_IF_ERROR(Send(*slot, bytes, to, stream));
    to += bytes;
  }
  return absl::OkStatus();
}

absl::Status Uploader::CopyBytes(const void* source, size_t bytes, void* target, cudaStream_t stream) {
  const uint8_t* from = static_cast<const uint8_t*>(source);
  uint8_t* to = static_cast<uint8_t*>(target);
  while (bytes > 0) {
    Slot* slot = nullptr;
    MAXSIM_ASSIGN_OR_RETURN(slot, NextSlot());
    const size_t count = std::min(bytes, slot->buffer.bytes());
    std::memcpy(slot->buffer.as<uint8_t>(), from, count);
    MAXSIM_RETURN_IF_ERROR(Send(*slot, count, to, stream));
    from += count;
    to += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
