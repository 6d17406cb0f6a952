// Copies large host arrays to the device through two pinned slots: while one travels, the other is filled.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"

namespace maxsim::cuda {

// Copies `num_rows` rows of `source_row_bytes` in host memory to rows of `target_row_bytes`, which are at least as
// wide, and fills the difference with zeros.
void PadRows(const void* source, int64_t num_rows, size_t source_row_bytes, void* target, size_t target_row_bytes);

// Move-only. Not thread-safe. All copies of one uploader go to one CUDA stream.
class Uploader {
 public:
  // `slot_bytes` is the size of each pinned slot, at least one row (16 KiB).
  static absl::StatusOr<Uploader> Create(size_t slot_bytes);

  Uploader() = default;

  // Copies `num_rows` rows of `source_row_bytes` at `source` to rows of `target_row_bytes` at `target` in device
  // memory, which are at least as wide and at most a slot, and fills the difference with zeros. `source` may be
  // pageable; `source` has been read when CopyRows returns. The copy is done when `stream` has reached this point.
  absl::Status CopyRows(const void* source, int64_t num_rows, size_t source_row_bytes, void* target,
                        size_t target_row_bytes, cudaStream_t stream);

  // Copies `num_rows` rows of `row_bytes` to `target` in device memory. `fill` writes `count` rows, from row `first`
  // on, to pinned memory at `to`. If `fill` fails, the copy ends and returns its error.
  absl::Status CopyFilled(int64_t num_rows, size_t row_bytes,
                          absl::FunctionRef<absl::Status(int64_t first, int64_t count, uint8_t* to)> fill, void* target,
                          cudaStream_t stream);

  // Copies `bytes` from `source`, which may be pageable, to `target` in device memory, as CopyRows does.
  absl::Status CopyBytes(const void* source, size_t bytes, void* target, cudaStream_t stream);

 private:
  struct Slot {
    PinnedBuffer buffer;
    Event free;  // the last copy out of the buffer is done
  };

  // Returns the next slot. Waits until its last copy is done.
  absl::StatusOr<Slot*> NextSlot();
  absl::Status Send(Slot& slot, size_t bytes, void* target, cudaStream_t stream);

  std::array<Slot, 2> slots_;
  size_t next_ = 0;  // the slot that NextSlot returns next
};

}  // namespace maxsim::cuda
