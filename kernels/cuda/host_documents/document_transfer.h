// Copies host documents to the device, into two document batches in turn: while one batch is scored, the next is
// copied. Documents that lists name repeatedly stay in a cache in device memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/host_documents/batch_plan.h"
#include "kernels/cuda/host_documents/document_cache.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/gather.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"

namespace maxsim::cuda {

// Counters of a transfer.
struct TransferCounts {
  int64_t bytes = 0;   // bytes of rows that came over the link
  int64_t hits = 0;    // listed documents that were in the cache
  int64_t misses = 0;  // listed documents that were not in the cache
};

// A document batch as scoring kernels take it.
struct DocumentBatch {
  const CudaDocuments* memory = nullptr;   // all rows in the arena, without offsets; `offsets` count its rows
  const int64_t* offsets = nullptr;        // in device memory, at the indices that LoadRange and LoadSlots name
  const float* scales = nullptr;           // in device memory, at the indices that they name; null unless I8
  const CudaCodebook* codebook = nullptr;  // that of the host documents; null unless they are residual codes
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
};

// Copies the host documents of one executor's calls to the device. Not thread-safe.
class DocumentTransfer {
 public:
  // Allocates on `device`, which is the current one and must outlive the result. A batch has room for `batch_bytes`
  // bytes of rows; every document that is loaded later must fit. The cache has room for `cache_bytes`. Returns
  // RESOURCE_EXHAUSTED if device or pinned memory is too small.
  static absl::StatusOr<std::unique_ptr<DocumentTransfer>> Create(const Device* device, int64_t batch_bytes,
                                                                  int64_t cache_bytes);

  // Waits for everything that was started.
  ~DocumentTransfer();

  // Returns how many rows and documents of this type and dimension a batch has room for.
  BatchCapacity CapacityFor(const HostDocuments& documents) const;

  // Returns whether the kernels that need tensor maps can score documents of this type and dimension.
  bool HasMaps(const HostDocuments& documents) { return Describe(documents).maps() != nullptr; }

  // Starts to copy the documents begin .. end - 1, which must fit a batch, to the device, and makes the CUDA stream
  // `consumer` wait for the copies. The offset and the scale of document n are at index n - begin. Blocks until the
  // tables of the batch that is reused have been copied. There are two batches, so the result is valid until the second
  // LoadRange or LoadSlots after this one. Returns DATA_LOSS if the rows cannot be read.
  absl::StatusOr<DocumentBatch> LoadRange(const HostDocuments& documents, int64_t begin, int64_t end,
                                          cudaStream_t consumer);

  // Starts to copy the documents of `slots`, which have `num_rows` rows, to the device, as LoadRange does. The
  // document of slot s has its offsets at index 2 s and 2 s + 1, and its scale at 2 s.
  absl::StatusOr<DocumentBatch> LoadSlots(const HostDocuments& documents, absl::Span<const BatchSlot> slots,
                                          int64_t num_rows, cudaStream_t consumer);

  // Allows the batch of the last LoadRange or LoadSlots to be reused when `consumer` has reached this point. Call it
  // after all kernels that read the batch have been launched on `consumer`.
  absl::Status Release(cudaStream_t consumer);

  // Returns the bytes copied, and how many listed documents were and were not in the cache, since the last call of
  // TakeCounts.
  TransferCounts TakeCounts() { return std::exchange(counts_, {}); }

  // Waits for everything that was started, and empties the cache. Must be called after an error, before the
  // documents' memory may be freed.
  void Finish();

  // Returns the event that marks the arrival of the last batch.
  const Event& last_loaded() const { return LastBatch().loaded; }

 private:
  struct Batch {
    int64_t begin = 0;         // byte of the arena where its rows begin
    DeviceBuffer tables;       // offsets, gather copies, scales
    PinnedBuffer host_tables;  // the same, where the host writes them
    Event tables_copied;       // host_tables may be written again
    Event loaded;              // its documents have come over
    Event scored;              // nothing reads its documents any more
  };

  // The tables of a batch: where they are in host_tables, and at which bytes they begin there and in `tables`.
  struct Tables {
    int64_t* offsets;
    float* scales;
    GatherCopy* copies;
    size_t scales_at, copies_at, total;
  };

  DocumentTransfer(const Device* device, int64_t batch_bytes, int64_t cache_bytes);
  absl::Status Allocate(int64_t cache_bytes);
  const CudaDocuments& Describe(const HostDocuments& documents);
  absl::StatusOr<Batch*> NextBatch(const HostDocuments& documents);
  // Returns the first row of the batch, counted from the arena's begin.
  static int64_t FirstRow(const Batch& batch, int64_t row_bytes) { return (batch.begin + row_bytes - 1) / row_bytes; }
  const Batch& LastBatch() const { return batches_[(next_ + batches_.size() - 1) % batches_.size()]; }
  Batch& LastBatch() { return batches_[(next_ + batches_.size() - 1) % batches_.size()]; }
  static Tables Layout(const Batch& batch, int64_t num_offsets, bool scales, int64_t num_copies);
  absl::Status CopyTables(Batch& batch, const Tables& tables);
  absl::Status ReadRanges(const HostDocuments& documents, Batch& batch);
  absl::StatusOr<DocumentBatch> Loaded(Batch& batch, const Tables& tables, bool scales, cudaStream_t consumer);

  // SlotLocation says where the rows of a slot's document are read, and what has to be copied for them.
  struct SlotLocation {
    int64_t first_row = 0;            // the first row that kernels read, in the arena
    RowRange rows;                    // the rows among those of all host documents
    bool hit = false;                 // whether they are in the cache
    std::optional<int64_t> admitted;  // byte of the arena from which on the cache is to keep them
  };
  int64_t LocateSlots(const HostDocuments& documents, absl::Span<const BatchSlot> slots, int64_t batch_row);
  absl::Status BringSlots(const HostDocuments& documents, const Tables& tables, int64_t num_copies, bool gather,
                          Batch& batch);
  absl::Status KeepAdmitted(const Tables& tables, int64_t first_copy, int64_t num_copies, const Batch& batch);

  std::optional<CudaDocuments> memory_;  // the arena, described for the documents of the last load
  const Device* const device_;
  const int64_t batch_bytes_;
  Stream stream_;
  // The arena holds both batches, followed by the cache. The arena is one array of rows, so that a kernel finds all
  // documents of a batch from one address.
  DeviceBuffer arena_;
  DocumentCache cache_;
  TransferCounts counts_;  // since the last TakeCounts
  std::array<Batch, 2> batches_;
  size_t next_ = 0;                      // the batch that the next Load uses
  Uploader uploader_;                    // brings rows over that are read from files
  std::vector<SlotLocation> locations_;  // of the slots of the last LoadSlots
  std::vector<RowRange> ranges_;         // the rows of the last Load that are not in the cache
  std::vector<RowRange> slice_;          // the part of ranges_ that is being read
};

}  // namespace maxsim::cuda
