// Brings documents that are not in the device's memory into two blocks there, by turns: while one is scored, the next
// is on its way. Documents that lists name again and again stay in a cache beside the blocks.
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
#include "kernels/cuda/host_documents/block_plan.h"
#include "kernels/cuda/host_documents/document_cache.h"
#include "kernels/cuda/host_documents/gather.h"
#include "kernels/cuda/host_documents/streamed_documents.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"

namespace maxsim::cuda {

// What a stream of documents has done.
struct StreamCounts {
  int64_t bytes = 0;   // of rows that came over the link
  int64_t hits = 0;    // documents of lists that were in the cache ...
  int64_t misses = 0;  // ... and that were not
};

// Documents of a block as scoring kernels take them.
struct BlockDocuments {
  const CudaDocuments* memory = nullptr;  // the rows, of which offsets count; its own offsets mean nothing
  const int64_t* offsets = nullptr;       // device memory
  const float* scales = nullptr;          // device memory; null but for I8
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
};

// Not thread-safe: an executor's own.
class DocumentStream {
 public:
  // `block_bytes` of tokens a block, at least those of the longest document that is ever loaded. On the current
  // device, which `device` is.
  static absl::StatusOr<std::unique_ptr<DocumentStream>> Create(const Device* device, int64_t block_bytes,
                                                                int64_t cache_bytes);
  ~DocumentStream();

  // What a block takes of such documents.
  BlockCapacity CapacityFor(const StreamedDocuments& documents) const;

  // Whether the kernels that need tensor maps can score such documents.
  bool HasMaps(const StreamedDocuments& documents) { return Describe(documents).maps() != nullptr; }

  // Starts to bring documents begin .. end over, which fit a block, and lets `consumer` wait for them. Offset and scale
  // of document n are at index n - begin. Blocks while both blocks are in use. The result is valid until the call
  // after the next.
  absl::StatusOr<BlockDocuments> LoadRange(const StreamedDocuments& documents, int64_t begin, int64_t end,
                                           cudaStream_t consumer);

  // The same for a list. Slot s has its offsets at 2 s and 2 s + 1, its scale at 2 s.
  absl::StatusOr<BlockDocuments> LoadSlots(const StreamedDocuments& documents, absl::Span<const BlockSlot> slots,
                                           int64_t num_rows, cudaStream_t consumer);

  // To be called when everything that reads the block of the last Load has been launched on `consumer`.
  absl::Status Release(cudaStream_t consumer);

  // What came over the link, and documents of lists that did not have to, since the last call.
  StreamCounts TakeCounts() { return std::exchange(counts_, {}); }

  // Waits for everything that was started, and empties the cache. After an error, before the documents' memory may go.
  void Finish();

  // When the last block had come over.
  const Event& last_loaded() const { return LastBlock().loaded; }

  size_t device_bytes() const;

 private:
  struct Block {
    int64_t begin = 0;         // of its rows in the arena
    DeviceBuffer tables;       // offsets, scales, pieces
    PinnedBuffer host_tables;  // what they are copied from
    Event tables_copied;
    Event loaded;
    Event scored;
  };

  // The tables of a block with room for `offsets` offsets and `pieces` pieces.
  struct Tables {
    int64_t* offsets;
    float* scales;
    GatherPiece* pieces;
    size_t scales_at, pieces_at, total;
  };

  DocumentStream(const Device* device, int64_t block_bytes, int64_t cache_bytes);
  absl::Status Allocate(int64_t cache_bytes);
  const CudaDocuments& Describe(const StreamedDocuments& documents);
  absl::StatusOr<Block*> NextBlock(const StreamedDocuments& documents);
  // The first row of the block's, counted from the arena's begin.
  static int64_t FirstRow(const Block& block, int64_t row_bytes) { return (block.begin + row_bytes - 1) / row_bytes; }
  const Block& LastBlock() const { return blocks_[(next_ + blocks_.size() - 1) % blocks_.size()]; }
  Block& LastBlock() { return blocks_[(next_ + blocks_.size() - 1) % blocks_.size()]; }
  static Tables Layout(const Block& block, int64_t num_offsets, bool scales, int64_t num_pieces);
  absl::Status CopyTables(Block& block, const Tables& tables);
  absl::Status ReadRanges(const StreamedDocuments& documents, Block& block);
  absl::StatusOr<BlockDocuments> Loaded(Block& block, const Tables& tables, bool scales, cudaStream_t consumer);

  // Where a slot's rows are to be read, and what has to be copied for it.
  struct SlotPlace {
    int64_t first_row = 0;  // in the arena
    RowRange rows;          // of the documents
    bool hit = false;
    std::optional<int64_t> admitted;  // the row from which on it is to be kept
  };
  int64_t PlaceSlots(const StreamedDocuments& documents, absl::Span<const BlockSlot> slots, int64_t block_row);
  absl::Status BringSlots(const StreamedDocuments& documents, const Tables& tables, int64_t num_pieces, bool gather,
                          Block& block);
  absl::Status KeepAdmitted(const Tables& tables, int64_t first_piece, int64_t num_pieces, const Block& block);

  std::optional<CudaDocuments> memory_;  // the arena, described for the documents of the last load
  const Device* const device_;
  const int64_t block_bytes_;
  Stream stream_;
  // Both blocks and the cache: one array of rows, so that a call finds all of its documents from one address.
  DeviceBuffer arena_;
  DocumentCache cache_;
  StreamCounts counts_;
  std::array<Block, 2> blocks_;
  size_t next_ = 0;
  Uploader uploader_;  // of kDisk
  std::vector<SlotPlace> slots_;
  std::vector<RowRange> ranges_, slice_;  // that files are read from
};

}  // namespace maxsim::cuda
