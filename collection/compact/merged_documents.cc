#include "collection/compact/merged_documents.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/folder.h"
#include "base/text.h"
#include "collection/formats/element_type.h"
#include "collection/positions.h"

namespace maxsim::collection {

absl::StatusOr<bool> DocumentWalk::Next() {
  absl::StatusOr<bool> found = NextOfShards();
  if (!found.ok() || *found) return found;
  if (next_upsert_ == run_.upserts.size()) return false;
  if (absl::Status status = TakeUpsert(run_.upserts[next_upsert_++].sequence); !status.ok()) return status;
  return true;
}

absl::StatusOr<bool> DocumentWalk::NextOfShards() {
  while (true) {
    if (shard_ == nullptr) {
      if (next_shard_ == run_.shards.size()) return false;
      const ShardEntry& entry = run_.manifest->shards[run_.shards[next_shard_]];
      absl::StatusOr<std::shared_ptr<const Shard>> opened =
          Shard::Open(Folder(*run_.folder), *run_.manifest, entry, Access::kMapped, check_checksums_, run_.stop);
      if (!opened.ok()) return opened.status();
      shard_ = *std::move(opened);
      next_ordinal_ = 0;
      next_tombstone_ = 0;
    }
    const std::vector<uint32_t>& tombstones = (*run_.tombstones)[run_.shards[next_shard_]];
    while (next_tombstone_ < tombstones.size() && tombstones[next_tombstone_] == next_ordinal_) {
      ++next_tombstone_;
      ++next_ordinal_;
    }
    if (next_ordinal_ < shard_->documents().num_documents) {
      TakeDocument(next_ordinal_++);
      return true;
    }
    if (absl::Status status = shard_->Check(); !status.ok()) return status;
    shard_.reset();
    ++next_shard_;
  }
}

void DocumentWalk::TakeDocument(int64_t ordinal) {
  const DocumentsView& documents = shard_->documents();
  if (shard_->id_type() == IdType::kString) {
    string_id_ = shard_->string_id(ordinal);
  } else {
    int_id_ = shard_->int_id(ordinal);
  }
  const auto row_bytes = static_cast<size_t>(documents.dim) * SizeOf(documents.type);
  const auto first = static_cast<size_t>(documents.offsets[ordinal]);
  num_tokens_ = static_cast<int32_t>(documents.offsets[ordinal + 1] - documents.offsets[ordinal]);
  scale_ = documents.scales == nullptr ? 0 : documents.scales[ordinal];
  rows_ = {static_cast<const char*>(documents.tokens) + first * row_bytes,
           static_cast<size_t>(num_tokens_) * row_bytes};
  payload_ = shard_->payload(ordinal);
  if (shard_->ordinals() != nullptr) position_ = shard_->ordinals()[ordinal];
}

absl::Status DocumentWalk::TakeUpsert(uint64_t sequence) {
  bool found = false;
  absl::Status status = run_.log->Read(sequence - 1, sequence, [&](const LogRecord& record) {
    found = true;
    copied_id_.assign(record.string_id);
    int_id_ = record.int_id;
    num_tokens_ = record.num_tokens;
    scale_ = record.scale;
    if (with_rows_) copied_rows_.assign(record.rows);
    copied_payload_.assign(record.payload);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!found) return absl::DataLossError(Cat("the log has no write with sequence ", sequence));
  string_id_ = copied_id_;
  rows_ = copied_rows_;
  payload_ = copied_payload_;
  position_ = PositionOfWrite(sequence);
  return StopStatus(run_.stop);
}

absl::StatusOr<std::unique_ptr<Catalog>> ReadCatalog(const DocumentRun& run, bool has_payloads) {
  auto catalog = std::make_unique<Catalog>(run.manifest->id_type);
  DocumentWalk walk(run, /*check_checksums=*/true, /*with_rows=*/false);
  while (true) {
    absl::StatusOr<bool> found = walk.Next();
    if (!found.ok()) return found.status();
    if (!*found) return catalog;
    absl::Status added =
        run.manifest->id_type == IdType::kString ? catalog->ids.Add(walk.string_id()) : catalog->ids.Add(walk.int_id());
    // The live documents of the shards and the log have distinct ids, so a duplicate means that a file is damaged.
    if (!added.ok()) return absl::DataLossError(Cat(*run.folder, ": ", ForStrCat(std::string(added.message()))));
    catalog->lengths.push_back(walk.num_tokens());
    if (has_payloads) catalog->payload_sizes.push_back(static_cast<int32_t>(walk.payload().size()));
    if (run.manifest->partition.has_value()) catalog->positions.push_back(walk.position());
  }
}

ElementType MergedTokens::type() const { return StoredElementType(run_.manifest->storage); }

absl::StatusOr<const void*> MergedTokens::Next(int64_t num_rows) {
  const auto wanted = static_cast<size_t>(num_rows * dim()) * SizeOf(type());
  block_.resize(wanted);
  for (size_t done = 0; done < wanted;) {
    if (rest_.empty()) {
      absl::StatusOr<bool> found = walk_.Next();
      if (!found.ok()) return found.status();
      if (!*found) return absl::OutOfRangeError("the read asks for more token vectors than there are");
      rest_ = walk_.rows();
      if (run_.manifest->storage == ScalarType::kI8) scales_.push_back(walk_.scale());
    }
    const size_t count = std::min(wanted - done, rest_.size());
    std::memcpy(block_.data() + done, rest_.data(), count);
    rest_.remove_prefix(count);
    done += count;
  }
  if (absl::Status status = walk_.Check(); !status.ok()) return status;
  return block_.data();
}

absl::StatusOr<float> MergedTokens::NextStoredScale() {
  if (scales_.empty()) return absl::OutOfRangeError("the read asks for more scales than there are documents");
  const float scale = scales_.front();
  scales_.pop_front();
  return scale;
}

absl::StatusOr<std::string_view> MergedPayloads::Next() {
  absl::StatusOr<bool> found = walk_.Next();
  if (!found.ok()) return found.status();
  if (!*found) return absl::OutOfRangeError("the read asks for more payloads than there are");
  return walk_.payload();
}

}  // namespace maxsim::collection
