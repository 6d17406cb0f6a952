#include "kernels/cuda/host_documents/document_transfer.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {
namespace {

// Maximum number of offsets in a batch. This limit matters only for very short documents: in a batch of 128 MiB of F16
// with d = 128, for documents of fewer than 4 tokens on average.
constexpr int64_t kMaxBatchOffsets = int64_t{1} << 17;

// The bytes of a pinned slot that files are read into.
constexpr size_t kReadPartBytes = size_t{16} << 20;

// The bytes of a row of the widest documents.
constexpr int64_t kMaxRowBytes = DeviceRowBytes(ScalarType::kF32, kMaxDim);

// Number of thread blocks that copy to the cache.
constexpr int kKeepBlocks = 32;

// Returns how many gather copies a document of `bytes` takes.
int64_t NumCopies(int64_t bytes) { return (bytes + kGatherCopyBytes - 1) / kGatherCopyBytes; }

// Returns the maximum number of gather copies in a batch. Every document may need a copy over the link, and another
// copy to the cache.
int64_t MaxCopies(int64_t batch_bytes) { return 2 * (kMaxBatchOffsets / 2 + NumCopies(batch_bytes) + 1); }

// Writes the copies of one document to `copies`. Returns the end of what it has written.
GatherCopy* AddCopies(const uint8_t* from, uint8_t* to, int64_t bytes, GatherCopy* copies) {
  for (int64_t done = 0; done < bytes; done += kGatherCopyBytes) {
    *copies++ = {from + done, to + done, std::min(kGatherCopyBytes, bytes - done)};
  }
  return copies;
}

size_t TableBytes(int64_t batch_bytes) {
  return static_cast<size_t>(kMaxBatchOffsets + 2) * (sizeof(int64_t) + sizeof(float)) +
         static_cast<size_t>(MaxCopies(batch_bytes)) * sizeof(GatherCopy);
}

// Sets `slice` to the ranges of `count` rows of `ranges`, from row number `first` on, counted across all ranges.
void Slice(absl::Span<const RowRange> ranges, int64_t first, int64_t count, std::vector<RowRange>& slice) {
  slice.clear();
  for (const RowRange& range : ranges) {
    const int64_t skipped = std::min(first, range.count);
    const int64_t taken = std::min(range.count - skipped, count);
    if (taken > 0) slice.push_back({range.first + skipped, taken});
    first -= skipped;
    count -= taken;
    if (count == 0) return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentTransfer>> DocumentTransfer::Create(const Device* device, int64_t batch_bytes,
                                                                           int64_t cache_bytes) {
  std::unique_ptr<DocumentTransfer> transfer(new DocumentTransfer(device, batch_bytes, cache_bytes));
  MAXSIM_RETURN_IF_ERROR(transfer->Allocate(cache_bytes));
  return transfer;
}

// The cache follows the batches in the arena, one block of device memory. Each batch has room for one extra row,
// because its first row begins at a multiple of its documents' row_bytes.
DocumentTransfer::DocumentTransfer(const Device* device, int64_t batch_bytes, int64_t cache_bytes)
    : device_(device), batch_bytes_(batch_bytes), cache_(2 * (batch_bytes + kMaxRowBytes), cache_bytes) {
  batches_[1].begin = batch_bytes + kMaxRowBytes;
}

absl::Status DocumentTransfer::Allocate(int64_t cache_bytes) {
  MAXSIM_ASSIGN_OR_RETURN(stream_, Stream::Create());
  MAXSIM_ASSIGN_OR_RETURN(arena_,
                          DeviceBuffer::Allocate(static_cast<size_t>(2 * (batch_bytes_ + kMaxRowBytes) + cache_bytes),
                                                 "streamed documents"));
  for (Batch& batch : batches_) {
    MAXSIM_ASSIGN_OR_RETURN(batch.tables, DeviceBuffer::Allocate(TableBytes(batch_bytes_), "streamed documents"));
    MAXSIM_ASSIGN_OR_RETURN(batch.host_tables, PinnedBuffer::Allocate(TableBytes(batch_bytes_), "streamed documents"));
    for (Event* event : {&batch.tables_copied, &batch.loaded, &batch.scored}) {
      MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create());
    }
  }
  MAXSIM_ASSIGN_OR_RETURN(uploader_, Uploader::Create(kReadPartBytes));
  return absl::OkStatus();
}

DocumentTransfer::~DocumentTransfer() { Finish(); }

void DocumentTransfer::Finish() {
  cache_.Clear();
  if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
}

BatchCapacity DocumentTransfer::CapacityFor(const HostDocuments& documents) const {
  return {.rows = batch_bytes_ / documents.row_bytes(), .documents = kMaxBatchOffsets};
}

const CudaDocuments& DocumentTransfer::Describe(const HostDocuments& documents) {
  if (!memory_.has_value() || memory_->type() != documents.type() || memory_->dim() != documents.dim() ||
      memory_->rotation_seed() != documents.rotation_seed()) {
    const CudaDocuments::Shape shape{documents.type(), documents.dim(), 0,
                                     static_cast<int64_t>(arena_.bytes()) / documents.row_bytes()};
    memory_.emplace(device_, shape, arena_.as(), nullptr, nullptr, documents.rotation_seed());
  }
  return *memory_;
}

absl::StatusOr<DocumentTransfer::Batch*> DocumentTransfer::NextBatch(const HostDocuments& documents) {
  Batch& batch = batches_[next_];
  next_ = (next_ + 1) % batches_.size();
  Describe(documents);
  cache_.BeginPass();
  MAXSIM_RETURN_IF_ERROR(batch.tables_copied.Wait());
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream_.get(), batch.scored.get(), 0));
  return &batch;
}

DocumentTransfer::Tables DocumentTransfer::Layout(const Batch& batch, int64_t num_offsets, bool scales,
                                                  int64_t num_copies) {
  Tables tables{};
  uint8_t* const memory = batch.host_tables.as<uint8_t>();
  tables.copies_at = static_cast<size_t>(num_offsets) * sizeof(int64_t);
  tables.scales_at = tables.copies_at + static_cast<size_t>(num_copies) * sizeof(GatherCopy);
  tables.total = tables.scales_at + (scales ? static_cast<size_t>(num_offsets) * sizeof(float) : 0);
  tables.offsets = reinterpret_cast<int64_t*>(memory);
  tables.copies = reinterpret_cast<GatherCopy*>(memory + tables.copies_at);
  tables.scales = reinterpret_cast<float*>(memory + tables.scales_at);
  return tables;
}

absl::Status DocumentTransfer::CopyTables(Batch& batch, const Tables& tables) {
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(batch.tables.as(), batch.host_tables.as(), tables.total, cudaMemcpyHostToDevice, stream_.get()));
  return batch.tables_copied.Record(stream_.get());
}

absl::StatusOr<DocumentBatch> DocumentTransfer::Loaded(Batch& batch, const Tables& tables, bool scales,
                                                       cudaStream_t consumer) {
  MAXSIM_RETURN_IF_ERROR(batch.loaded.Record(stream_.get()));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(consumer, batch.loaded.get(), 0));
  const uint8_t* const memory = batch.tables.as<uint8_t>();
  DocumentBatch documents;
  documents.memory = &*memory_;
  documents.offsets = reinterpret_cast<const int64_t*>(memory);
  if (scales) documents.scales = reinterpret_cast<const float*>(memory + tables.scales_at);
  return documents;
}

absl::StatusOr<DocumentBatch> DocumentTransfer::LoadRange(const HostDocuments& documents, int64_t begin, int64_t end,
                                                          cudaStream_t consumer) {
  Batch* batch = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(batch, NextBatch(documents));
  const int64_t* const offsets = documents.offsets() + begin;
  const int64_t count = end - begin;
  const bool scales = documents.scales() != nullptr;
  const Tables tables = Layout(*batch, count + 1, scales, 0);
  const int64_t row_bytes = documents.row_bytes();
  const int64_t first_row = FirstRow(*batch, row_bytes);
  for (int64_t n = 0; n <= count; ++n) tables.offsets[n] = first_row + offsets[n] - offsets[0];
  if (scales) std::copy_n(documents.scales() + begin, count, tables.scales);
  MAXSIM_RETURN_IF_ERROR(CopyTables(*batch, tables));

  const RowRange rows{offsets[0], offsets[count] - offsets[0]};
  counts_.bytes += rows.count * row_bytes;
  if (documents.tier() == Tier::kHost) {
    MAXSIM_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(arena_.as<uint8_t>() + first_row * row_bytes, documents.pinned_rows() + rows.first * row_bytes,
                        static_cast<size_t>(rows.count * row_bytes), cudaMemcpyHostToDevice, stream_.get()));
  } else {
    ranges_.assign(1, rows);
    MAXSIM_RETURN_IF_ERROR(ReadRanges(documents, *batch));
  }
  absl::StatusOr<DocumentBatch> loaded = Loaded(*batch, tables, scales, consumer);
  if (!loaded.ok()) return loaded;
  loaded->codebook = documents.codebook();
  loaded->num_documents = count;
  loaded->num_tokens = rows.count;
  return loaded;
}

// Fills locations_, and fills ranges_ with the rows that must be copied to the device. Returns the number of these
// rows. The first of them goes to row `batch_row` of the arena.
int64_t DocumentTransfer::LocateSlots(const HostDocuments& documents, absl::Span<const BatchSlot> slots,
                                      int64_t batch_row) {
  const int64_t row_bytes = documents.row_bytes();
  int64_t num_rows = 0;
  locations_.clear();
  ranges_.clear();
  for (const BatchSlot& slot : slots) {
    const int64_t* const offset = documents.offsets() + slot.document;
    SlotLocation& location = locations_.emplace_back();
    location.rows = {offset[0], offset[1] - offset[0]};
    const DocumentCache::Key key{documents.id(), slot.document};
    if (const std::optional<int64_t> found = cache_.Find(key)) {
      location.hit = true;
      location.first_row = *found / row_bytes;
      ++counts_.hits;
      continue;
    }
    location.first_row = batch_row + num_rows;
    location.admitted = cache_.Admit(key, location.rows.count * row_bytes, row_bytes);
    num_rows += location.rows.count;
    ranges_.push_back(location.rows);
    ++counts_.misses;
  }
  counts_.bytes += num_rows * row_bytes;
  return num_rows;
}

absl::StatusOr<DocumentBatch> DocumentTransfer::LoadSlots(const HostDocuments& documents,
                                                          absl::Span<const BatchSlot> slots, int64_t num_rows,
                                                          cudaStream_t consumer) {
  Batch* batch = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(batch, NextBatch(documents));
  const int64_t row_bytes = documents.row_bytes();
  const int64_t missing_rows = LocateSlots(documents, slots, FirstRow(*batch, row_bytes));
  const bool gather =
      documents.tier() == Tier::kHost &&
      missing_rows * row_bytes < static_cast<int64_t>(ranges_.size()) * device_->link.copy_document_bytes;
  // tables.copies has first the copies over the link, and then the copies from the batch to the cache.
  int64_t num_gathered = 0, num_kept = 0;
  for (const SlotLocation& slot : locations_) {
    const int64_t copies = NumCopies(slot.rows.count * row_bytes);
    if (gather && !slot.hit) num_gathered += copies;
    if (slot.admitted.has_value()) num_kept += copies;
  }
  const bool scales = documents.scales() != nullptr;
  const Tables tables = Layout(*batch, 2 * static_cast<int64_t>(slots.size()), scales, num_gathered + num_kept);
  uint8_t* const arena = arena_.as<uint8_t>();
  GatherCopy* gathered = tables.copies;
  GatherCopy* kept = tables.copies + num_gathered;
  for (size_t s = 0; s < slots.size(); ++s) {
    const SlotLocation& slot = locations_[s];
    tables.offsets[2 * s] = slot.first_row;
    tables.offsets[2 * s + 1] = slot.first_row + slot.rows.count;
    if (scales) tables.scales[2 * s] = documents.scales()[slots[s].document];
    uint8_t* const rows = arena + slot.first_row * row_bytes;
    const int64_t bytes = slot.rows.count * row_bytes;
    if (gather && !slot.hit) {
      gathered = AddCopies(documents.pinned_rows() + slot.rows.first * row_bytes, rows, bytes, gathered);
    }
    if (slot.admitted.has_value()) kept = AddCopies(rows, arena + *slot.admitted, bytes, kept);
  }
  MAXSIM_RETURN_IF_ERROR(CopyTables(*batch, tables));
  MAXSIM_RETURN_IF_ERROR(BringSlots(documents, tables, num_gathered, gather, *batch));
  absl::StatusOr<DocumentBatch> loaded = Loaded(*batch, tables, scales, consumer);
  if (!loaded.ok()) return loaded;
  loaded->codebook = documents.codebook();
  loaded->num_documents = static_cast<int64_t>(slots.size());
  loaded->num_tokens = num_rows;
  MAXSIM_RETURN_IF_ERROR(KeepAdmitted(tables, num_gathered, num_kept, *batch));
  return loaded;
}

// Starts to copy to the device the slots that are not in the cache.
absl::Status DocumentTransfer::BringSlots(const HostDocuments& documents, const Tables& tables, int64_t num_copies,
                                          bool gather, Batch& batch) {
  if (documents.tier() == Tier::kDisk) return ReadRanges(documents, batch);
  if (gather) {
    return MAXSIM_CUDA_STATUS(
        LaunchGather(reinterpret_cast<const GatherCopy*>(batch.tables.as<uint8_t>() + tables.copies_at), num_copies,
                     device_->link.gather_blocks, stream_.get()));
  }
  const int64_t row_bytes = documents.row_bytes();
  for (const SlotLocation& slot : locations_) {
    if (slot.hit) continue;
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
        arena_.as<uint8_t>() + slot.first_row * row_bytes, documents.pinned_rows() + slot.rows.first * row_bytes,
        static_cast<size_t>(slot.rows.count * row_bytes), cudaMemcpyHostToDevice, stream_.get()));
  }
  return absl::OkStatus();
}

// Starts to copy from the batch to the cache the documents that the cache has admitted. The call does not wait for
// these copies.
absl::Status DocumentTransfer::KeepAdmitted(const Tables& tables, int64_t first_copy, int64_t num_copies,
                                            const Batch& batch) {
  if (num_copies == 0) return absl::OkStatus();
  // Kernels may still read the documents that these copies overwrite, to score the previous batch. So the copies wait
  // for them.
  if (cache_.Overwrites()) {
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream_.get(), batches_[next_].scored.get(), 0));
  }
  const auto* const copies = reinterpret_cast<const GatherCopy*>(batch.tables.as<uint8_t>() + tables.copies_at);
  return MAXSIM_CUDA_STATUS(LaunchGather(copies + first_copy, num_copies, kKeepBlocks, stream_.get()));
}

// Reads the rows of ranges_ from the documents' file, one range after another, and starts to copy them to the batch.
absl::Status DocumentTransfer::ReadRanges(const HostDocuments& documents, Batch& batch) {
  const int64_t row_bytes = documents.row_bytes();
  int64_t num_rows = 0;
  for (const RowRange& range : ranges_) num_rows += range.count;
  return uploader_.CopyFilled(
      num_rows, static_cast<size_t>(row_bytes),
      [&](int64_t first, int64_t count, uint8_t* to) {
        Slice(ranges_, first, count, slice_);
        return documents.ReadRows(slice_, to);
      },
      arena_.as<uint8_t>() + FirstRow(batch, row_bytes) * row_bytes, stream_.get());
}

absl::Status DocumentTransfer::Release(cudaStream_t consumer) { return LastBatch().scored.Record(consumer); }

}  // namespace maxsim::cuda
