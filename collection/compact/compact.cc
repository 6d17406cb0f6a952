#include "collection/compact/compact.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/guard.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/field_files.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_encoder.h"
#include "collection/build/shard_plan.h"
#include "collection/build/shard_writer.h"
#include "collection/compact/changed_ids.h"
#include "collection/compact/merged_documents.h"
#include "collection/compact/pace.h"
#include "collection/compact/shard_groups.h"
#include "collection/shard.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::collection {
namespace {

// Carries out one call of Compact, step by step.
class Compaction {
 public:
  Compaction(const std::string& folder, CollectionLog& log, uint64_t through, const CompactOptions& options)
      : folder_(folder),
        log_(log),
        through_(through),
        options_(options),
        files_(folder),
        pace_(options.bytes_per_second, options.stop) {}

  absl::StatusOr<CompactResult> Run();

 private:
  absl::Status Check() const;
  absl::Status FindTombstones();
  absl::Status FindTombstonesOf(size_t shard, const ChangedIds& changed);
  void PlanGroups();
  bool MustWrite(size_t shard) const;
  bool ChangesNothing() const;
  absl::Status WriteShards();
  absl::Status WriteGroup(const ShardGroup& group);
  absl::Status WritePlans(const DocumentRun& run, const Catalog& catalog);
  absl::Status WriteSideFiles(ShardEntry& entry);
  absl::Status EncodeShard(ShardEntry& entry, int64_t bytes_before);
  absl::Status Publish();
  absl::Status Report(CompactStep step) const {
    if (absl::Status status = StopStatus(options_.stop); !status.ok()) return status;
    return options_.observer == nullptr ? absl::OkStatus() : options_.observer(step);
  }
  int64_t NumLive(size_t shard) const {
    return before_.shards[shard].num_documents - static_cast<int64_t>(tombstones_[shard].size());
  }

  const std::string& folder_;
  CollectionLog& log_;
  const uint64_t through_;
  const CompactOptions& options_;
  std::optional<FolderLock> lock_;  // declared before the files, which are removed while the lock is held
  UnpublishedFiles files_;
  Pace pace_;

  Manifest before_;
  Tombstones tombstones_;  // of the previous generation, and those that the log's records add
  std::vector<LiveUpsert> upserts_;
  bool adds_payloads_ = false;  // the collection had no payloads, but a write has one
  // The members of groups_ are the shards that have a live document and, last, the documents from the log. For each
  // member that is a shard, this vector has the shard's index.
  std::vector<size_t> shards_of_members_;
  std::vector<ShardGroup> groups_;
  Manifest next_;
  Tombstones next_tombstones_;
  CompactResult result_;
};

absl::Status Compaction::Check() const {
  if (!before_.log_sequence.has_value()) {
    return absl::FailedPreconditionError(
        Cat(folder_,
            ": the manifest names no log_sequence, so it is not known which writes its shards hold; "
            "name the last one with maxsim-shard build --log-sequence"));
  }
  if (through_ > log_.last_sequence()) {
    return Invalid(folder_, ": sequence ", through_, " is to be compacted, but the log ends with ",
                   log_.last_sequence());
  }
  if (*before_.log_sequence > log_.last_sequence()) {
    return absl::DataLossError(Cat(folder_, ": the shards hold the writes up to sequence ", *before_.log_sequence,
                                   ", but the log ends with ", log_.last_sequence(), ": it has lost some"));
  }
  if (options_.max_shard_bytes < kMinMaxShardBytes) {
    return Invalid("max-shard-bytes: ", options_.max_shard_bytes, "; must be at least ", kMinMaxShardBytes);
  }
  return absl::OkStatus();
}

absl::Status Compaction::FindTombstones() {
  absl::StatusOr<Tombstones> noted = log_.TombstonesOf(before_);
  if (!noted.ok()) return noted.status();
  tombstones_ = *std::move(noted);
  absl::StatusOr<ChangedIds> changed = ChangedIds::Read(log_, *before_.log_sequence, through_, options_.stop);
  if (!changed.ok()) return changed.status();
  for (size_t shard = 0; shard < before_.shards.size() && !changed->empty(); ++shard) {
    if (absl::Status status = FindTombstonesOf(shard, *changed); !status.ok()) return status;
  }
  upserts_ = changed->upserts();
  if (!before_.has_payloads) {
    adds_payloads_ =
        std::any_of(upserts_.begin(), upserts_.end(), [](const LiveUpsert& it) { return it.payload_bytes > 0; });
  }
  return absl::OkStatus();
}

absl::Status Compaction::FindTombstonesOf(size_t shard, const ChangedIds& changed) {
  absl::StatusOr<std::shared_ptr<const Shard>> opened = Shard::Open(
      Folder(folder_), before_, before_.shards[shard], Access::kMapped, /*check_checksum=*/false, options_.stop);
  if (!opened.ok()) return opened.status();
  std::vector<uint32_t> found;
  for (int64_t ordinal = 0; ordinal < (*opened)->documents().num_documents; ++ordinal) {
    const bool is_changed = before_.id_type == IdType::kString ? changed.Contains((*opened)->string_id(ordinal))
                                                               : changed.Contains((*opened)->int_id(ordinal));
    if (is_changed) found.push_back(static_cast<uint32_t>(ordinal));
  }
  std::vector<uint32_t> merged;
  std::set_union(found.begin(), found.end(), tombstones_[shard].begin(), tombstones_[shard].end(),
                 std::back_inserter(merged));
  tombstones_[shard] = std::move(merged);
  return absl::OkStatus();
}

bool Compaction::MustWrite(size_t shard) const {
  if (adds_payloads_) return true;
  const auto dead = static_cast<double>(tombstones_[shard].size());
  return dead > options_.max_tombstone_share * static_cast<double>(before_.shards[shard].num_documents);
}

void Compaction::PlanGroups() {
  std::vector<GroupMember> members;
  for (size_t shard = 0; shard < before_.shards.size(); ++shard) {
    if (NumLive(shard) == 0) continue;
    const ShardEntry& entry = before_.shards[shard];
    const bool is_written = MustWrite(shard);
    // For a shard that need not be rewritten, counts dead documents, too. Otherwise the shard could count as small, be
    // joined with a neighbour, and be rewritten after all.
    const double share = static_cast<double>(NumLive(shard)) / static_cast<double>(entry.num_documents);
    const double num_bytes = static_cast<double>(entry.num_bytes) * (is_written ? share : 1);
    members.push_back({static_cast<int64_t>(num_bytes), is_written});
    shards_of_members_.push_back(shard);
  }
  if (!upserts_.empty()) {
    const int64_t row_bytes = before_.dim * static_cast<int64_t>(SizeOf(before_.storage));
    int64_t num_bytes = 0;
    for (const LiveUpsert& upsert : upserts_) num_bytes += upsert.num_tokens * row_bytes + upsert.payload_bytes;
    members.push_back({num_bytes, /*is_written=*/true});
  }
  groups_ = GroupShards(members, options_.max_shard_bytes);
}

bool Compaction::ChangesNothing() const {
  if (through_ > *before_.log_sequence || shards_of_members_.size() != before_.shards.size()) return false;
  return std::none_of(groups_.begin(), groups_.end(), [](const ShardGroup& group) { return group.is_written; });
}

absl::Status Compaction::WriteShards() {
  int64_t needed = 0;
  for (const ShardGroup& group : groups_) needed += group.is_written ? group.num_bytes : 0;
  if (before_.codes.has_value()) {
    const double row_bytes = static_cast<double>(before_.dim) * static_cast<double>(SizeOf(before_.storage));
    const auto code_bytes = static_cast<double>(CodeBytes(before_.dim, before_.codes->planes) + 1);
    needed += static_cast<int64_t>(static_cast<double>(needed) * code_bytes / row_bytes);
  }
  if (!before_.fields.empty()) {
    for (const ShardEntry& entry : before_.shards) needed += FieldFileBytes(entry);
    for (const LiveUpsert& upsert : upserts_) needed += upsert.payload_bytes;
  }
  if (absl::Status status = CheckSpace(folder_, needed); !status.ok()) return status;
  for (const ShardGroup& group : groups_) {
    if (group.is_written) {
      if (absl::Status status = WriteGroup(group); !status.ok()) return status;
      continue;
    }
    const size_t shard = shards_of_members_[group.begin];
    next_.shards.push_back(before_.shards[shard]);
    next_tombstones_.push_back(tombstones_[shard]);
    result_.tombstones_left += static_cast<int64_t>(tombstones_[shard].size());
    ++result_.shards_kept;
  }
  return absl::OkStatus();
}

absl::Status Compaction::WriteGroup(const ShardGroup& group) {
  DocumentRun run{.folder = &folder_,
                  .manifest = &before_,
                  .log = &log_,
                  .tombstones = &tombstones_,
                  .shards = {},
                  .upserts = {},
                  .stop = options_.stop};
  for (size_t member = group.begin; member < group.end; ++member) {
    if (member < shards_of_members_.size()) {
      run.shards.push_back(shards_of_members_[member]);
    } else {
      run.upserts = upserts_;
    }
  }
  if (absl::Status status = Report(CompactStep::kWriting); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Catalog>> catalog = ReadCatalog(run, next_.has_payloads);
  if (!catalog.ok()) return catalog.status();
  return WritePlans(run, **catalog);
}

absl::Status Compaction::WritePlans(const DocumentRun& run, const Catalog& catalog) {
  int64_t num_tokens = 0;
  for (const int32_t length : catalog.lengths) num_tokens += length;
  MergedTokens tokens(run, num_tokens);
  MergedPayloads payloads(run);
  ShardSets sets{.layout = {.storage = before_.storage,
                            .rotation_seed = before_.rotation_seed,
                            .dim = before_.dim,
                            .id_type = before_.id_type,
                            .has_payloads = next_.has_payloads,
                            .has_ordinals = before_.partition.has_value()},
                 .sets = {{.folder = folder_,
                           .generation = next_.generation,
                           .first_file = result_.shards_written,
                           .documents = {.size = catalog.num_documents()},
                           .plans = {}}},
                 .set_of_slot = {}};
  ShardSet& set = sets.sets.front();
  set.plans = PlanShards(catalog, set.documents, sets.layout, options_.max_shard_bytes);
  const int64_t bytes_before = result_.bytes_written;
  const absl::Status status = collection::WriteShards(
      sets, catalog, tokens, &payloads,
      {.on_progress = [&](int64_t /*documents*/, int64_t num_bytes) { return pace_.Wait(bytes_before + num_bytes); },
       .on_shard =
           [&](size_t /*set_idx*/, ShardEntry entry) {
             files_.Add(entry.file);
             if (absl::Status written = WriteSideFiles(entry); !written.ok()) return written;
             ++result_.shards_written;
             result_.bytes_written += entry.num_bytes + FieldFileBytes(entry) + CodeFileBytes(entry, kMaxPlanes);
             next_.shards.push_back(std::move(entry));
             next_tombstones_.emplace_back();
             return Report(CompactStep::kShardWritten);
           },
       .loss = &result_.loss});
  // Rows and payloads were valid when they were written to a shard or to the log, so an invalid one means damage.
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

// Writes the field file and the code files of a new shard, if the collection has fields or codes.
absl::Status Compaction::WriteSideFiles(ShardEntry& entry) {
  int64_t num_bytes = result_.bytes_written + entry.num_bytes;
  if (!next_.fields.empty()) {
    absl::StatusOr<FileEntry> written =
        WriteFieldFile(folder_, next_, entry, next_.generation, result_.shards_written, files_);
    if (!written.ok()) return written.status();
    num_bytes += written->num_bytes;
    entry.field_file = *std::move(written);
    if (absl::Status status = pace_.Wait(num_bytes); !status.ok()) return status;
  }
  return next_.codes.has_value() ? EncodeShard(entry, num_bytes) : absl::OkStatus();
}

// `bytes_before` is the number of bytes that were written before the codes.
absl::Status Compaction::EncodeShard(ShardEntry& entry, int64_t bytes_before) {
  // Use one thread, because a server answers requests during a compaction.
  ShardEncoder encoder(1, [&, num_bytes = bytes_before](int64_t encoded) mutable {
    num_bytes += encoded;
    return pace_.Wait(num_bytes);
  });
  absl::StatusOr<std::vector<CodeFileEntry>> code_files =
      encoder.Encode(folder_, next_, entry, next_.generation, result_.shards_written, /*check_checksum=*/false, files_);
  if (!code_files.ok()) return code_files.status();
  entry.code_files = *std::move(code_files);
  return absl::OkStatus();
}

absl::Status Compaction::Publish() {
  if (static_cast<int64_t>(next_.shards.size()) > kMaxShards) {
    return Invalid("max-shard-bytes: ", options_.max_shard_bytes, " makes ", next_.shards.size(),
                   " shards, the limit is ", kMaxShards);
  }
  for (const ShardEntry& entry : next_.shards) {
    next_.num_documents += entry.num_documents;
    next_.num_tokens += entry.num_tokens;
  }
  next_.created_at = CreationTime();
  if (absl::Status status = Report(CompactStep::kNotingTombstones); !status.ok()) return status;
  if (absl::Status status = log_.PutTombstones(next_, next_tombstones_); !status.ok()) return status;
  if (absl::Status status = Report(CompactStep::kPublishing); !status.ok()) return status;
  absl::Status synchronised;
  if (absl::Status s = PublishGeneration(next_, folder_, files_, &synchronised); !s.ok()) return s;
  Report(CompactStep::kPublished).IgnoreError();
  // If the folder could not be synced to disk, keeps the old files: a power failure may bring back the old manifest,
  // which needs them.
  if (synchronised.ok()) RemoveOldGenerations(folder_, next_, before_);
  return absl::OkStatus();
}

absl::StatusOr<CompactResult> Compaction::Run() {
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(folder_);
  if (!lock.ok()) return lock.status();
  lock_.emplace(*std::move(lock));
  absl::StatusOr<Manifest> before = ReadManifest(folder_);
  if (!before.ok()) return before.status();
  before_ = *std::move(before);
  if (absl::Status status = Check(); !status.ok()) return status;
  RemoveLeftovers(folder_, before_);
  if (absl::Status status = Report(CompactStep::kReading); !status.ok()) return status;
  if (absl::Status status = FindTombstones(); !status.ok()) return status;
  PlanGroups();
  if (ChangesNothing()) {
    result_.shards_kept = static_cast<int64_t>(before_.shards.size());
    for (const std::vector<uint32_t>& of_shard : tombstones_) {
      result_.tombstones_left += static_cast<int64_t>(of_shard.size());
    }
    result_.manifest = std::move(before_);
    return std::move(result_);
  }
  next_ = before_;
  next_.generation = before_.generation + 1;
  next_.has_payloads = before_.has_payloads || adds_payloads_;
  next_.log_sequence = std::max(through_, *before_.log_sequence);
  next_.created_by = options_.created_by;
  next_.num_documents = 0;
  next_.num_tokens = 0;
  next_.shards.clear();
  if (absl::Status status = WriteShards(); !status.ok()) return status;
  if (absl::Status status = Publish(); !status.ok()) return status;
  result_.changed = true;
  result_.manifest = std::move(next_);
  return std::move(result_);
}

}  // namespace

absl::StatusOr<CompactResult> Compact(const std::string& folder, CollectionLog& log, uint64_t through,
                                      const CompactOptions& options) {
  return Guarded([&]() -> absl::StatusOr<CompactResult> { return Compaction(folder, log, through, options).Run(); });
}

}  // namespace maxsim::collection
