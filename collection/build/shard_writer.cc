#include "collection/build/shard_writer.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/output_file.h"
#include "collection/build/shard_file.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

// The memory for all buffers together (two per open file), and the minimum size of one buffer. The minimum keeps the
// cost of a system call small compared with the bytes it writes.
constexpr size_t kAllBufferBytes = size_t{256} << 20;
constexpr size_t kLeastBufferBytes = size_t{64} << 10;

// Number of payloads between two reports of progress.
constexpr int64_t kPayloadInterval = 1024;

class ShardsWriter {
 public:
  ShardsWriter(const ShardSets& sets, const Catalog& catalog, TokenSource& tokens, PayloadSource* payloads,
               const ShardsObserver& observer)
      : sets_(sets),
        catalog_(catalog),
        payloads_(payloads),
        observer_(observer),
        row_bytes_(sets.layout.dim * static_cast<int64_t>(SizeOf(sets.layout.storage))),
        buffer_bytes_(
            std::clamp(kAllBufferBytes / (2 * sets.sets.size()), kLeastBufferBytes, OutputFile::kBufferBytes)),
        reader_({sets.layout.storage, sets.layout.rotation_seed, sets.num_threads, sets.refuse_lossy}, catalog, tokens),
        open_(sets.sets.size()) {}

  absl::Status Write() {
    while (next_document_ < catalog_.num_documents()) {
      const absl::StatusOr<RowReader::Block> block = reader_.Next();
      if (!block.ok()) return block.status();
      if (absl::Status status = Deal(*block); !status.ok()) return status;
      if (absl::Status status = Report(); !status.ok()) return status;
    }
    if (observer_.loss != nullptr) observer_.loss->Add(reader_.loss());
    return absl::OkStatus();
  }

 private:
  // The shard of a set (output folder) that is being written or, if `file` is null, comes next.
  struct OpenShard {
    std::unique_ptr<ShardFile> file;  // null before its first row
    size_t plan = 0;
    int64_t num_documents = 0;  // whose rows it has
  };

  size_t SetOf(int64_t document) const {
    return sets_.set_of_slot.empty() ? 0 : sets_.set_of_slot[static_cast<size_t>(catalog_.slot(document))];
  }
  absl::Status Deal(const RowReader::Block& block);
  absl::Status Open(size_t set_idx);
  absl::Status EndDocument(size_t set_idx, int64_t document);
  absl::Status DealPayloads(int64_t last_document);
  absl::Status FinishShard(size_t set_idx);
  absl::Status Report() const {
    if (observer_.on_progress == nullptr) return absl::OkStatus();
    int64_t bytes = finished_bytes_;
    for (const OpenShard& open : open_) bytes += open.file == nullptr ? 0 : open.file->num_bytes();
    return observer_.on_progress(next_document_, bytes);
  }

  const ShardSets& sets_;
  const Catalog& catalog_;
  PayloadSource* const payloads_;
  const ShardsObserver& observer_;
  const int64_t row_bytes_;
  const size_t buffer_bytes_;
  RowReader reader_;
  std::vector<OpenShard> open_;  // [sets]
  int64_t next_document_ = 0;    // the first whose rows are not all written
  int64_t next_payload_ = 0;     // the first document whose payload is not
  int64_t finished_bytes_ = 0;   // of shards that are complete
};

// Appends a block's rows to the files of their sets. Rows of neighbouring documents of one set take one append.
absl::Status ShardsWriter::Deal(const RowReader::Block& block) {
  const char* run = block.rows;
  int64_t run_rows = 0;
  int64_t rows_left = block.num_rows;
  int64_t first_row = block.first_row;  // of the document
  while (rows_left > 0) {
    const int64_t document = next_document_;
    const size_t set_idx = SetOf(document);
    if (absl::Status status = Open(set_idx); !status.ok()) return status;
    const int64_t count = std::min(rows_left, catalog_.lengths[static_cast<size_t>(document)] - first_row);
    run_rows += count;
    rows_left -= count;
    const bool ends = first_row + count == catalog_.lengths[static_cast<size_t>(document)];
    const bool ends_shard =
        ends && open_[set_idx].num_documents + 1 == sets_.sets[set_idx].plans[open_[set_idx].plan].num_documents;
    if (rows_left == 0 || ends_shard || (ends && SetOf(document + 1) != set_idx)) {
      if (absl::Status status = open_[set_idx].file->AppendRows(run, run_rows); !status.ok()) return status;
      run += run_rows * row_bytes_;
      run_rows = 0;
    }
    if (!ends) break;
    first_row = 0;
    if (absl::Status status = EndDocument(set_idx, document); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Begins the set's next shard, if none is open.
absl::Status ShardsWriter::Open(size_t set_idx) {
  OpenShard& open = open_[set_idx];
  if (open.file != nullptr) return absl::OkStatus();
  const ShardSet& set = sets_.sets[set_idx];
  const std::string name = ShardFileName(set.generation, set.first_file + static_cast<int64_t>(open.plan));
  absl::StatusOr<std::unique_ptr<ShardFile>> file =
      ShardFile::Create(set.folder, name, set.plans[open.plan], sets_.layout, catalog_, set.documents, buffer_bytes_);
  if (!file.ok()) return file.status();
  open.file = *std::move(file);
  return absl::OkStatus();
}

// Counts a document after its last row, adds its scale, and finishes the shard if this was its last document.
absl::Status ShardsWriter::EndDocument(size_t set_idx, int64_t document) {
  OpenShard& open = open_[set_idx];
  ++next_document_;
  ++open.num_documents;
  if (sets_.layout.storage == ScalarType::kI8) {
    const absl::StatusOr<float> scale = reader_.ScaleOf(document);
    if (!scale.ok()) return scale.status();
    open.file->AddScale(*scale);
  }
  if (open.num_documents < sets_.sets[set_idx].plans[open.plan].num_documents) return absl::OkStatus();
  if (catalog_.has_payloads()) {
    if (absl::Status status = DealPayloads(document); !status.ok()) return status;
  }
  return FinishShard(set_idx);
}

// Writes the payloads of all documents up to `last_document`, of all sets. Called when the rows of one shard are
// complete. Other sets' shards may then get payloads before all their rows (ShardFile).
absl::Status ShardsWriter::DealPayloads(int64_t last_document) {
  for (; next_payload_ <= last_document; ++next_payload_) {
    const absl::StatusOr<std::string_view> payload = payloads_->Next();
    if (!payload.ok()) return payload.status();
    absl::Status status = open_[SetOf(next_payload_)].file->AddPayload(*payload);
    if (status.ok() && next_payload_ % kPayloadInterval == 0) status = Report();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ShardsWriter::FinishShard(size_t set_idx) {
  OpenShard& open = open_[set_idx];
  absl::StatusOr<ShardEntry> entry = open.file->Finish();
  if (!entry.ok()) return entry.status();
  finished_bytes_ += entry->num_bytes;
  open = {.file = nullptr, .plan = open.plan + 1, .num_documents = 0};
  return observer_.on_shard(set_idx, *std::move(entry));
}

}  // namespace

absl::Status WriteShards(const ShardSets& sets, const Catalog& catalog, TokenSource& tokens, PayloadSource* payloads,
                         const ShardsObserver& observer) {
  return ShardsWriter(sets, catalog, tokens, payloads, observer).Write();
}

}  // namespace maxsim::collection
