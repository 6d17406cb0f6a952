#include "kernels/cuda/host_documents/document_stream.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {
namespace {

// Offsets of a block at most. In F16 with d = 128 it bounds blocks of 128 MiB whose documents are shorter than 4
// tokens.
constexpr int64_t kMaxBlockOffsets = int64_t{1} << 17;

// Pinned pieces that files are read into.
constexpr size_t kReadPieceBytes = size_t{16} << 20;

// Of a row of the widest documents.
constexpr int64_t kMaxRowBytes = DeviceRowBytes(ScalarType::kF32, kMaxDim);

// Thread blocks that copy to the cache.
constexpr int kKeepBlocks = 32;

int64_t NumPieces(int64_t bytes) { return (bytes + kGatherPieceBytes - 1) / kGatherPieceBytes; }

// To come over and to be kept.
int64_t MaxPieces(int64_t block_bytes) { return 2 * (kMaxBlockOffsets / 2 + NumPieces(block_bytes) + 1); }

// Returns the place behind the pieces.
GatherPiece* AddPieces(const uint8_t* from, uint8_t* to, int64_t bytes, GatherPiece* pieces) {
  for (int64_t done = 0; done < bytes; done += kGatherPieceBytes) {
    *pieces++ = {from + done, to + done, std::min(kGatherPieceBytes, bytes - done)};
  }
  return pieces;
}

size_t TableBytes(int64_t block_bytes) {
  return static_cast<size_t>(kMaxBlockOffsets + 2) * (sizeof(int64_t) + sizeof(float)) +
         static_cast<size_t>(MaxPieces(block_bytes)) * sizeof(GatherPiece);
}

// Ranges of rows, of which those from number `first` on are wanted, `count` of them.
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

absl::StatusOr<std::unique_ptr<DocumentStream>> DocumentStream::Create(const Device* device, int64_t block_bytes,
                                                                       int64_t cache_bytes) {
  std::unique_ptr<DocumentStream> stream(new DocumentStream(device, block_bytes, cache_bytes));
  MAXSIM_RETURN_IF_ERROR(stream->Allocate(cache_bytes));
  return stream;
}

// The cache is behind the blocks. Each of these has a row more than it holds, which its first row may begin in.
DocumentStream::DocumentStream(const Device* device, int64_t block_bytes, int64_t cache_bytes)
    : device_(device), block_bytes_(block_bytes), cache_(2 * (block_bytes + kMaxRowBytes), cache_bytes) {
  blocks_[1].begin = block_bytes + kMaxRowBytes;
}

absl::Status DocumentStream::Allocate(int64_t cache_bytes) {
  MAXSIM_ASSIGN_OR_RETURN(stream_, Stream::Create());
  MAXSIM_ASSIGN_OR_RETURN(arena_,
                          DeviceBuffer::Allocate(static_cast<size_t>(2 * (block_bytes_ + kMaxRowBytes) + cache_bytes),
                                                 "streamed documents"));
  for (Block& block : blocks_) {
    MAXSIM_ASSIGN_OR_RETURN(block.tables, DeviceBuffer::Allocate(TableBytes(block_bytes_), "streamed documents"));
    MAXSIM_ASSIGN_OR_RETURN(block.host_tables, PinnedBuffer::Allocate(TableBytes(block_bytes_), "streamed documents"));
    for (Event* event : {&block.tables_copied, &block.loaded, &block.scored}) {
      MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create());
    }
  }
  MAXSIM_ASSIGN_OR_RETURN(uploader_, Uploader::Create(kReadPieceBytes));
  return absl::OkStatus();
}

DocumentStream::~DocumentStream() { Finish(); }

void DocumentStream::Finish() {
  cache_.Clear();
  if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
}

size_t DocumentStream::device_bytes() const {
  size_t bytes = arena_.bytes();
  for (const Block& block : blocks_) bytes += block.tables.bytes();
  return bytes;
}

BlockCapacity DocumentStream::CapacityFor(const StreamedDocuments& documents) const {
  return {.rows = block_bytes_ / documents.row_bytes(), .documents = kMaxBlockOffsets};
}

const CudaDocuments& DocumentStream::Describe(const StreamedDocuments& documents) {
  if (!memory_.has_value() || memory_->type() != documents.type() || memory_->dim() != documents.dim() ||
      memory_->rotation_seed() != documents.rotation_seed()) {
    const CudaDocuments::Shape shape{documents.type(), documents.dim(), 0,
                                     static_cast<int64_t>(arena_.bytes()) / documents.row_bytes()};
    memory_.emplace(device_, shape, arena_.as(), nullptr, nullptr, documents.rotation_seed());
  }
  return *memory_;
}

absl::StatusOr<DocumentStream::Block*> DocumentStream::NextBlock(const StreamedDocuments& documents) {
  Block& block = blocks_[next_];
  next_ = (next_ + 1) % blocks_.size();
  Describe(documents);
  cache_.BeginPass();
  MAXSIM_RETURN_IF_ERROR(block.tables_copied.Wait());
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream_.get(), block.scored.get(), 0));
  return &block;
}

DocumentStream::Tables DocumentStream::Layout(const Block& block, int64_t num_offsets, bool scales,
                                              int64_t num_pieces) {
  Tables tables{};
  uint8_t* const memory = block.host_tables.as<uint8_t>();
  tables.pieces_at = static_cast<size_t>(num_offsets) * sizeof(int64_t);
  tables.scales_at = tables.pieces_at + static_cast<size_t>(num_pieces) * sizeof(GatherPiece);
  tables.total = tables.scales_at + (scales ? static_cast<size_t>(num_offsets) * sizeof(float) : 0);
  tables.offsets = reinterpret_cast<int64_t*>(memory);
  tables.pieces = reinterpret_cast<GatherPiece*>(memory + tables.pieces_at);
  tables.scales = reinterpret_cast<float*>(memory + tables.scales_at);
  return tables;
}

absl::Status DocumentStream::CopyTables(Block& block, const Tables& tables) {
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(block.tables.as(), block.host_tables.as(), tables.total, cudaMemcpyHostToDevice, stream_.get()));
  return block.tables_copied.Record(stream_.get());
}

absl::StatusOr<BlockDocuments> DocumentStream::Loaded(Block& block, const Tables& tables, bool scales,
                                                      cudaStream_t consumer) {
  MAXSIM_RETURN_IF_ERROR(block.loaded.Record(stream_.get()));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(consumer, block.loaded.get(), 0));
  const uint8_t* const memory = block.tables.as<uint8_t>();
  BlockDocuments documents;
  documents.memory = &*memory_;
  documents.offsets = reinterpret_cast<const int64_t*>(memory);
  if (scales) documents.scales = reinterpret_cast<const float*>(memory + tables.scales_at);
  return documents;
}

absl::StatusOr<BlockDocuments> DocumentStream::LoadRange(const StreamedDocuments& documents, int64_t begin, int64_t end,
                                                         cudaStream_t consumer) {
  Block* block = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(block, NextBlock(documents));
  const int64_t* const offsets = documents.offsets() + begin;
  const int64_t count = end - begin;
  const bool scales = documents.scales() != nullptr;
  const Tables tables = Layout(*block, count + 1, scales, 0);
  const int64_t row_bytes = documents.row_bytes();
  const int64_t first_row = FirstRow(*block, row_bytes);
  for (int64_t n = 0; n <= count; ++n) tables.offsets[n] = first_row + offsets[n] - offsets[0];
  if (scales) std::copy_n(documents.scales() + begin, count, tables.scales);
  MAXSIM_RETURN_IF_ERROR(CopyTables(*block, tables));

  const RowRange rows{offsets[0], offsets[count] - offsets[0]};
  counts_.bytes += rows.count * row_bytes;
  if (documents.tier() == Tier::kHost) {
    MAXSIM_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(arena_.as<uint8_t>() + first_row * row_bytes, documents.pinned_rows() + rows.first * row_bytes,
                        static_cast<size_t>(rows.count * row_bytes), cudaMemcpyHostToDevice, stream_.get()));
  } else {
    ranges_.assign(1, rows);
    MAXSIM_RETURN_IF_ERROR(ReadRanges(documents, *block));
  }
  absl::StatusOr<BlockDocuments> loaded = Loaded(*block, tables, scales, consumer);
  if (!loaded.ok()) return loaded;
  loaded->num_documents = count;
  loaded->num_tokens = rows.count;
  return loaded;
}

// Fills slots_ and ranges_: where each slot is to be read, and the rows that have to come over. Returns their number.
int64_t DocumentStream::PlaceSlots(const StreamedDocuments& documents, absl::Span<const BlockSlot> slots,
                                   int64_t block_row) {
  const int64_t row_bytes = documents.row_bytes();
  int64_t num_rows = 0;
  slots_.clear();
  ranges_.clear();
  for (const BlockSlot& slot : slots) {
    const int64_t* const offset = documents.offsets() + slot.document;
    SlotPlace& place = slots_.emplace_back();
    place.rows = {offset[0], offset[1] - offset[0]};
    const DocumentCache::Key key{documents.id(), slot.document};
    if (const std::optional<int64_t> found = cache_.Find(key)) {
      place.hit = true;
      place.first_row = *found / row_bytes;
      ++counts_.hits;
      continue;
    }
    place.first_row = block_row + num_rows;
    place.admitted = cache_.Admit(key, place.rows.count * row_bytes, row_bytes);
    num_rows += place.rows.count;
    ranges_.push_back(place.rows);
    ++counts_.misses;
  }
  counts_.bytes += num_rows * row_bytes;
  return num_rows;
}

absl::StatusOr<BlockDocuments> DocumentStream::LoadSlots(const StreamedDocuments& documents,
                                                         absl::Span<const BlockSlot> slots, int64_t num_rows,
                                                         cudaStream_t consumer) {
  Block* block = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(block, NextBlock(documents));
  const int64_t row_bytes = documents.row_bytes();
  const int64_t missing_rows = PlaceSlots(documents, slots, FirstRow(*block, row_bytes));
  const bool gather =
      documents.tier() == Tier::kHost &&
      missing_rows * row_bytes < static_cast<int64_t>(ranges_.size()) * device_->link.copy_document_bytes;
  // Pieces that come over the link, and behind them those that the cache keeps.
  int64_t num_gathered = 0, num_kept = 0;
  for (const SlotPlace& slot : slots_) {
    const int64_t pieces = NumPieces(slot.rows.count * row_bytes);
    if (gather && !slot.hit) num_gathered += pieces;
    if (slot.admitted.has_value()) num_kept += pieces;
  }
  const bool scales = documents.scales() != nullptr;
  const Tables tables = Layout(*block, 2 * static_cast<int64_t>(slots.size()), scales, num_gathered + num_kept);
  uint8_t* const arena = arena_.as<uint8_t>();
  GatherPiece* gathered = tables.pieces;
  GatherPiece* kept = tables.pieces + num_gathered;
  for (size_t s = 0; s < slots.size(); ++s) {
    const SlotPlace& slot = slots_[s];
    tables.offsets[2 * s] = slot.first_row;
    tables.offsets[2 * s + 1] = slot.first_row + slot.rows.count;
    if (scales) tables.scales[2 * s] = documents.scales()[slots[s].document];
    uint8_t* const place = arena + slot.first_row * row_bytes;
    const int64_t bytes = slot.rows.count * row_bytes;
    if (gather && !slot.hit) {
      gathered = AddPieces(documents.pinned_rows() + slot.rows.first * row_bytes, place, bytes, gathered);
    }
    if (slot.admitted.has_value()) kept = AddPieces(place, arena + *slot.admitted, bytes, kept);
  }
  MAXSIM_RETURN_IF_ERROR(CopyTables(*block, tables));
  MAXSIM_RETURN_IF_ERROR(BringSlots(documents, tables, num_gathered, gather, *block));
  absl::StatusOr<BlockDocuments> loaded = Loaded(*block, tables, scales, consumer);
  if (!loaded.ok()) return loaded;
  loaded->num_documents = static_cast<int64_t>(slots.size());
  loaded->num_tokens = num_rows;
  MAXSIM_RETURN_IF_ERROR(KeepAdmitted(tables, num_gathered, num_kept, *block));
  return loaded;
}

// Starts to bring over the slots that are not in the cache.
absl::Status DocumentStream::BringSlots(const StreamedDocuments& documents, const Tables& tables, int64_t num_pieces,
                                        bool gather, Block& block) {
  if (documents.tier() == Tier::kDisk) return ReadRanges(documents, block);
  if (gather) {
    return MAXSIM_CUDA_STATUS(
        LaunchGather(reinterpret_cast<const GatherPiece*>(block.tables.as<uint8_t>() + tables.pieces_at), num_pieces,
                     device_->link.gather_blocks, stream_.get()));
  }
  const int64_t row_bytes = documents.row_bytes();
  for (const SlotPlace& slot : slots_) {
    if (slot.hit) continue;
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
        arena_.as<uint8_t>() + slot.first_row * row_bytes, documents.pinned_rows() + slot.rows.first * row_bytes,
        static_cast<size_t>(slot.rows.count * row_bytes), cudaMemcpyHostToDevice, stream_.get()));
  }
  return absl::OkStatus();
}

// Copies what was admitted from the block to the cache: after the call has been let go on, for which it is nothing.
absl::Status DocumentStream::KeepAdmitted(const Tables& tables, int64_t first_piece, int64_t num_pieces,
                                          const Block& block) {
  if (num_pieces == 0) return absl::OkStatus();
  // The pass before may still read what stood there.
  if (cache_.Overwrites()) {
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream_.get(), blocks_[next_].scored.get(), 0));
  }
  const auto* const pieces = reinterpret_cast<const GatherPiece*>(block.tables.as<uint8_t>() + tables.pieces_at);
  return MAXSIM_CUDA_STATUS(LaunchGather(pieces + first_piece, num_pieces, kKeepBlocks, stream_.get()));
}

// Reads ranges_, one behind the other, into the block.
absl::Status DocumentStream::ReadRanges(const StreamedDocuments& documents, Block& block) {
  const int64_t row_bytes = documents.row_bytes();
  int64_t num_rows = 0;
  for (const RowRange& range : ranges_) num_rows += range.count;
  return uploader_.CopyFilled(
      num_rows, static_cast<size_t>(row_bytes),
      [&](int64_t first, int64_t count, uint8_t* to) {
        Slice(ranges_, first, count, slice_);
        return documents.ReadRows(slice_, to);
      },
      arena_.as<uint8_t>() + FirstRow(block, row_bytes) * row_bytes, stream_.get());
}

absl::Status DocumentStream::Release(cudaStream_t consumer) { return LastBlock().scored.Record(consumer); }

}  // namespace maxsim::cuda
