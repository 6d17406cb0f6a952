#include "collection/partition/part_logs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "collection/log/version_memory.h"
#include "collection/shard.h"

namespace maxsim::collection {
namespace {

std::string BytesOf(int64_t id) { return {reinterpret_cast<const char*>(&id), sizeof(id)}; }

// Returns the ids of documents whose position is above the collection's max_position. An int64 id is its eight bytes.
absl::StatusOr<std::unordered_set<std::string>> IdsBeyond(const StoredCollection& collection, const StopSignal* stop) {
  std::unordered_set<std::string> ids;
  if (collection.max_position == kMaxPosition) return ids;
  for (const ShardEntry& entry : collection.manifest.shards) {
    if (Stopped(stop)) return StopStatus(stop);
    const absl::StatusOr<std::shared_ptr<Shard>> opened =
        Shard::Open(collection.folder, collection.manifest, entry, Access::kMapped, /*check_checksum=*/false);
    if (!opened.ok()) return opened.status();
    const Shard& shard = **opened;
    const int64_t* const positions = shard.ordinals();
    if (positions == nullptr) return ids;  // a whole collection, which has no positions of writes
    const int64_t num_documents = shard.documents().num_documents;
    // Positions ascend.
    const int64_t* const beyond = std::upper_bound(positions, positions + num_documents, collection.max_position);
    for (int64_t document = beyond - positions; document < num_documents; ++document) {
      ids.insert(shard.id_type() == IdType::kString ? std::string(shard.string_id(document))
                                                    : BytesOf(shard.int_id(document)));
    }
  }
  return ids;
}

}  // namespace

uint64_t PositionOfParts(const PartSources& sources) {
  std::optional<uint64_t> lowest;
  uint64_t highest = 0;
  for (size_t idx = 0; idx < sources.logs.size(); ++idx) {
    highest = std::max(highest, sources.collections[idx].manifest.log_sequence.value_or(0));
    if (sources.logs[idx] == nullptr) continue;
    const uint64_t sequence = sources.logs[idx]->last_sequence();
    lowest = std::min(lowest.value_or(sequence), sequence);
  }
  return sources.stream().has_value() ? lowest.value_or(0) : highest;
}

absl::StatusOr<PartLogs> PartLogs::Plan(const PartSources& sources, const StopSignal* stop) {
  PartLogs logs(sources, stop);
  for (const StoredCollection& collection : sources.collections) {
    absl::StatusOr<std::unordered_set<std::string>> ids = IdsBeyond(collection, stop);
    if (!ids.ok()) return ids.status();
    logs.left_out_.push_back(*std::move(ids));
  }
  return logs;
}

absl::Status PartLogs::Make(const std::string& folder, const Manifest& manifest, const SlotRange& slots) const {
  NewLog made{.begin = PositionOfParts(*sources_), .stream = sources_->stream(), .remembered_bytes = 0};
  for (const std::unique_ptr<CollectionLog>& log : sources_->logs) {
    if (log == nullptr) continue;
    made.remembered_bytes = std::max(made.remembered_bytes, log->remembered_bytes());
    made.deleted_bytes = std::max(made.deleted_bytes, log->deleted_bytes());
  }
  return CollectionLog::Create(folder, LogFormat::Of(manifest), made, [&](const VersionVisitor& add) -> absl::Status {
    for (size_t source = 0; source < sources_->logs.size(); ++source) {
      if (sources_->logs[source] == nullptr) continue;
      absl::Status status = AddVersions(source, slots, made.deleted_bytes, add);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

// Calls `add` with the versions that one source has for `slots`. `deleted_bytes` is the new log's count of deleted
// bytes; deleted_at is shifted so that it stays as far below the count as in the source's log.
absl::Status PartLogs::AddVersions(size_t source, const SlotRange& slots, uint64_t deleted_bytes,
                                   const VersionVisitor& add) const {
  const StoredCollection& collection = sources_->collections[source];
  const CollectionLog& log = *sources_->logs[source];
  const bool has_strings = collection.manifest.id_type == IdType::kString;
  const uint64_t shift = deleted_bytes - log.deleted_bytes();
  int64_t num_read = 0;
  return log.ReadVersions([&](const IdVersion& id) -> absl::Status {
    if (num_read++ % kStopBlockDocuments == 0 && Stopped(stop_)) return StopStatus(stop_);
    const int32_t slot = has_strings ? SlotOf(id.string_id) : SlotOf(id.int_id);
    if (!slots.contains(slot) || !collection.slots.contains(slot)) return absl::OkStatus();
    const std::unordered_set<std::string>& left_out = left_out_[source];
    // Tests for the empty set first, the usual case, to avoid copying the id.
    if (!left_out.empty() && left_out.count(has_strings ? std::string(id.string_id) : BytesOf(id.int_id)) > 0) {
      return absl::OkStatus();
    }
    IdVersion copy = id;
    if (copy.version.deleted_at.has_value()) *copy.version.deleted_at += shift;
    return add(copy);
  });
}

}  // namespace maxsim::collection
