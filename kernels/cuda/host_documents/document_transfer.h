// Brings documents that are not in the device's memory into two batches there, alternately: while one is scored, the
// next is on its way. Documents that lists name again and again stay in a cache beside the batches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_documents.h"
#include "kernels/cuda/host_documents/batch_plan.h"
#include "kernels/cuda/host_documents/document_cache.h"
#include "kernels/cuda/host_documents/gather.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"

namespace maxsim::cuda {

// What a transfer has brought over.
struct TransferCounts {
  int64_t bytes = 0;   // of rows that came over the link
  int64_t hits = 0;    // documents of lists that were in the cache ...
  int64_t misses = 0;  // ... and that were not
};

// Documents of a batch as scoring kernels take them.
struct DocumentBatch {
  const CudaDocuments* memory = nullptr;  // the rows, of which offsets count; its own offsets mean nothing
  const int64_t* offsets = nullptr;       // device memory
  const float* scales = nullptr;          // device memory; null but for I8
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
};

// Brings the documents of one executor's calls over. Not thread-safe.
class DocumentTransfer {
 public:
  // `batch_bytes` of tokens a batch, at least those of the longest document that is ever loaded. On the current
  // device, which `device` is.
  static absl::StatusOr<std::unique_ptr<DocumentTransfer>> Create(const Device* device, int64_t batch_bytes,
                                                                  int64_t cache_bytes);
  ~DocumentTransfer();

  // Returns how many of such documents a batch takes.
  BatchCapacity CapacityFor(const HostDocuments& documents) const;

  // Returns whether the kernels that need tensor maps can score such documents.
  bool HasMaps(const HostDocuments& documents) { return Describe(documents).maps() != nullptr; }

  // Starts to bring documents begin .. end over, which fit a batch, and lets `consumer` wait for them. Offset and scale
  // of document n are at index n - begin. Waits while both batches are in use. The result is valid until the call
  // after the next.
  absl::StatusOr<DocumentBatch> LoadRange(const HostDocuments& documents, int64_t begin, int64_t end,
                                          cudaStream_t consumer);

  // Starts to bring a list's documents over, as LoadRange does. Slot s has its offsets at 2 s and 2 s + 1, its scale at
  // 2 s.
  absl::StatusOr<DocumentBatch> LoadSlots(const HostDocuments& documents, absl::Span<const BatchSlot> slots,
                                          int64_t num_rows, cudaStream_t consumer);

  // To be called when everything that reads the batch of the last Load has been launched on `consumer`.
  absl::Status Release(cudaStream_t consumer);

  // Returns what came over the link, and documents of lists that did not have to, since the last call.
  TransferCounts TakeCounts() { return std::exchange(counts_, {}); }

  // Waits for everything that was started, and empties the cache. After an error, before the documents' memory may go.
  void Finish();

  // Returns the event of the last batch's arrival.
  const Event& last_loaded() const { return LastBatch().loaded; }

  size_t device_bytes() const;

 private:
  struct Batch {
    int64_t begin = 0;         // of its rows in the arena
    DeviceBuffer tables;       // offsets, scales, copies
    PinnedBuffer host_tables;  // what they are copied from
    Event tables_copied;
    Event loaded;
    Event scored;
  };

  // The tables of a batch with room for `offsets` offsets and `copies` copies.
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
  // The first row of the batch's, counted from the arena's begin.
  static int64_t FirstRow(const Batch& batch, int64_t row_bytes) { return (batch.begin + row_bytes - 1) / row_bytes; }
  const Batch& LastBatch() const { return batches_[(next_ + batches_.size() - 1) % batches_.size()]; }
  Batch& LastBatch() { return batches_[(next_ + batches_.size() - 1) % batches_.size()]; }
  static Tables Layout(const Batch& batch, int64_t num_offsets, bool scales, int64_t num_copies);
  absl::Status CopyTables(Batch& batch, const Tables& tables);
  absl::Status ReadRanges(const HostDocuments& documents, Batch& batch);
  absl::StatusOr<DocumentBatch> Loaded(Batch& batch, const Tables& tables, bool scales, cudaStream_t consumer);

  // Where a slot's rows are to be read, and what has to be copied for it.
  struct SlotPlace {
    int64_t first_row = 0;  // in the arena
    RowRange rows;          // of the documents
    bool hit = false;
    std::optional<int64_t> admitted;  // the row from which on it is to be kept
  };
  int64_t PlaceSlots(const HostDocuments& documents, absl::Span<const BatchSlot> slots, int64_t batch_row);
  absl::Status BringSlots(const HostDocuments& documents, const Tables& tables, int64_t num_copies, bool gather,
                          Batch& batch);
  absl::Status KeepAdmitted(const Tables& tables, int64_t first_copy, int64_t num_copies, const Batch& batch);

  std::optional<CudaDocuments> memory_;  // the arena, described for the documents of the last load
  const Device* const device_;
  const int64_t batch_bytes_;
  Stream stream_;
  // Both batches and the cache: one array of rows, so that a call finds all of its documents from one address.
  DeviceBuffer arena_;
  DocumentCache cache_;
  TransferCounts counts_;
  std::array<Batch, 2> batches_;
  size_t next_ = 0;
  Uploader uploader_;  // of kDisk
  std::vector<SlotPlace> slots_;
  std::vector<RowRange> ranges_, slice_;  // that files are read from
};

}  // namespace maxsim::cuda
