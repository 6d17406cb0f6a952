// Host documents: documents outside of the device's memory, in pinned host memory or where a view's memory lies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/documents/loaded_documents.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"

namespace maxsim::cuda {

// RowRange names `count` consecutive rows of documents, from row `first` on.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Immutable and thread-safe. Rows are laid out as in device memory: DeviceRowBytes each, with zeros after the columns.
class HostDocuments final : public LoadedDocuments {
 public:
  using Shape = CudaDocuments::Shape;

  // If `tier` is kHost, copies the documents. If it is kDisk, keeps `keep_alive`, which owns the view's memory. The
  // view must be valid, and `device` must be the current one. `device` and `readers` must outlive the result. Returns
  // RESOURCE_EXHAUSTED if there is no pinned memory for the rows; DATA_LOSS if the view's source cannot be read.
  static absl::StatusOr<std::unique_ptr<HostDocuments>> Load(const Device* device, ThreadPool* readers,
                                                             const DocumentsView& view, Tier tier,
                                                             std::shared_ptr<const void> keep_alive);

  // Returns the memory that Load takes, without the codebook of residual codes (CudaCodebook::BytesNeeded).
  static MemoryNeed BytesNeeded(const Shape& shape, Tier tier);

  ScalarType type() const override { return shape_.type; }
  int32_t dim() const override { return shape_.dim; }
  int64_t num_documents() const override { return shape_.num_documents; }
  int64_t num_tokens() const override { return shape_.num_tokens; }
  MemoryNeed memory() const override {
    MemoryNeed need = BytesNeeded(shape_, tier_);
    if (codebook_ != nullptr) need.device_bytes += codebook_->bytes();
    return need;
  }
  const HostDocuments* host() const override { return this; }

  // Returns a number that no other host documents of the process have or had.
  uint64_t id() const { return id_; }
  const Shape& shape() const { return shape_; }
  Tier tier() const { return tier_; }
  int64_t row_bytes() const { return shape_.row_bytes(); }
  const int64_t* offsets() const { return view_.offsets; }  // [num_documents + 1]
  const float* scales() const { return view_.scales; }      // [num_documents] of I8; null of other types
  uint64_t rotation_seed() const { return view_.rotation_seed; }
  // Returns the codebook that decodes residual codes, in device memory. Returns null if type() is another type.
  const CudaCodebook* codebook() const { return codebook_.get(); }

  // Returns all rows of kHost documents, in pinned memory that the device can read; null for kDisk.
  const uint8_t* pinned_rows() const { return rows_.as<uint8_t>(); }

  // Copies the rows of the ranges to `to`, one range after another, with several threads, and waits for the copies.
  // Returns DATA_LOSS if the rows cannot be read. For kDisk only.
  absl::Status ReadRows(absl::Span<const RowRange> ranges, uint8_t* to) const;

  // Returns OK if all rows that were read so far are unchanged since the documents were loaded, otherwise DATA_LOSS
  // (MemorySource::Check).
  absl::Status Check() const { return view_.source == nullptr ? absl::OkStatus() : view_.source->Check(); }

 private:
  HostDocuments(const Device* device, ThreadPool* readers, const DocumentsView& view, Tier tier);

  absl::Status ReadPart(const RowRange& rows, uint8_t* to) const;

  const uint64_t id_;
  ThreadPool* const readers_;
  const Tier tier_;
  const Shape shape_;
  DocumentsView view_;                      // of kHost it shows offsets_ and scales_, and its tokens are null
  std::shared_ptr<const void> keep_alive_;  // owns the view's memory of kDisk
  std::unique_ptr<const CudaCodebook> codebook_;
  // Copies that kHost makes of the view's arrays; empty for kDisk.
  PinnedBuffer rows_;
  std::vector<int64_t> offsets_;
  std::vector<float> scales_;
};

}  // namespace maxsim::cuda
