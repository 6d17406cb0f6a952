// Copies appended rows to arrays in device memory (CudaAppendable, CudaAppendableCodes).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"

namespace maxsim::cuda {

// Each AppendCopier copies through a CUDA stream of its own, from pinned memory that is allocated at the start
// (kPinnedBytes). So an append waits only for its own copies, and no executor waits for an append. Move-only. Not
// thread-safe: only the thread that appends may use an AppendCopier.
class AppendCopier {
 public:
  // The rows that an append copies to one array. Rows in device memory are at least as wide as in host memory; the
  // difference is filled with zeros.
  struct Piece {
    const void* from = nullptr;  // host memory
    int64_t num_rows = 0;
    size_t from_row_bytes = 0;
    void* to = nullptr;  // device memory
    size_t to_row_bytes = 0;
  };

  // An append of up to this many bytes (some dozen usual documents) puts all its pieces into one pinned buffer.
  static constexpr size_t kSmallBytes = size_t{256} << 10;
  // Larger appends go through two pinned slots of this size, so large that copying a slot takes longer than starting
  // the copy.
  static constexpr size_t kSlotBytes = size_t{1} << 20;
  static constexpr size_t kPinnedBytes = kSmallBytes + 2 * kSlotBytes;

  // `ordinal` is CUDA's number of the current device. `purpose` names the pinned memory in errors. Returns
  // RESOURCE_EXHAUSTED if there is not enough pinned memory.
  static absl::StatusOr<AppendCopier> Create(int ordinal, absl::string_view purpose);

  AppendCopier() = default;

  // Sets `bytes` of device memory to zero, and waits for it. The device must be the current one.
  absl::Status Clear(void* to, size_t bytes);

  // Copies the pieces, in this order, and waits until all are copied. After an error nothing reads the pieces any more.
  absl::Status Copy(absl::Span<const Piece> pieces);

 private:
  // The two functions start the copies. CopySmall is for pieces that together fit in small_staging_, CopyLarge for all
  // others.
  absl::Status CopySmall(absl::Span<const Piece> pieces);
  absl::Status CopyLarge(absl::Span<const Piece> pieces);

  int ordinal_ = 0;
  Stream stream_;
  Event copied_;
  PinnedBuffer small_staging_;
  Uploader uploader_;
};

}  // namespace maxsim::cuda
