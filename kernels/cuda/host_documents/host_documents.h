// Documents outside of the device's memory: in pinned host memory, or where a view's memory lies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_documents.h"
#include "kernels/cuda/loaded_documents.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"

namespace maxsim::cuda {

// Consecutive rows of documents.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Immutable. Rows are as in device memory, DeviceRowBytes each, zeros behind the columns.
class HostDocuments final : public LoadedDocuments {
 public:
  using Shape = CudaDocuments::Shape;

  // `tier` is kHost, which copies the view, or kDisk, which holds on to `keep_alive`. The view must be valid.
  // `device` and its pool must outlive the result. RESOURCE_EXHAUSTED when there is no pinned memory for it; DATA_LOSS
  // when the view's source cannot be read.
  static absl::StatusOr<std::unique_ptr<HostDocuments>> Load(const Device* device, ThreadPool* readers,
                                                             const DocumentsView& view, Tier tier,
                                                             std::shared_ptr<const void> keep_alive);

  // What Load takes.
  static MemoryNeed BytesNeeded(const Shape& shape, Tier tier);

  ScalarType type() const override { return shape_.type; }
  int32_t dim() const override { return shape_.dim; }
  int64_t num_documents() const override { return shape_.num_documents; }
  int64_t num_tokens() const override { return shape_.num_tokens; }
  MemoryNeed memory() const override { return BytesNeeded(shape_, tier_); }
  const HostDocuments* host() const override { return this; }

  // A number that no other documents of the process have or had.
  uint64_t id() const { return id_; }
  const Shape& shape() const { return shape_; }
  Tier tier() const { return tier_; }
  int64_t row_bytes() const { return shape_.row_bytes(); }
  const int64_t* offsets() const { return view_.offsets; }  // [num_documents + 1]
  const float* scales() const { return view_.scales; }      // [num_documents] of I8; others: null
  uint64_t rotation_seed() const { return view_.rotation_seed; }

  // kHost: all rows, which the device can read. kDisk: null.
  const uint8_t* pinned_rows() const { return rows_.as<uint8_t>(); }

  // Copies the rows of the ranges, one behind the other, to `to`, with several threads. DATA_LOSS when they cannot be
  // read. kDisk only.
  absl::Status ReadRows(absl::Span<const RowRange> ranges, uint8_t* to) const;

  // OK when every row that was read so far was one that was loaded (MemorySource::Check).
  absl::Status Check() const { return view_.source == nullptr ? absl::OkStatus() : view_.source->Check(); }

 private:
  HostDocuments(const Device* device, ThreadPool* readers, const DocumentsView& view, Tier tier);

  absl::Status ReadPart(const RowRange& rows, uint8_t* to) const;

  const uint64_t id_;
  ThreadPool* const readers_;
  const Tier tier_;
  const Shape shape_;
  DocumentsView view_;  // kHost: of what is here; its tokens are null
  std::shared_ptr<const void> keep_alive_;
  PinnedBuffer rows_;
  std::vector<int64_t> offsets_;
  std::vector<float> scales_;
};

}  // namespace maxsim::cuda
