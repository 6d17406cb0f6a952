#include "collection/build/encode.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/process/cores.h"
#include "base/text.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_encoder.h"
#include "collection/generations/kept_generations.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_summary.h"

namespace maxsim::collection {
namespace {

// Carries out one call of EncodeCollection, step by step.
class Encoding {
 public:
  Encoding(const EncodeOptions& options, const BuildObserver& observer)
      : options_(options), observer_(observer), files_(options.folder) {}

  absl::StatusOr<EncodeResult> Run();

 private:
  absl::Status Open();
  bool HasCodesAlready() const;
  absl::Status EncodeShards();
  absl::Status Publish();

  const EncodeOptions& options_;
  const BuildObserver& observer_;
  std::optional<FolderLock> lock_;      // declared before the files, which are removed while the lock is held
  std::unique_ptr<CollectionLog> log_;  // of a live collection
  Tombstones tombstones_;
  UnpublishedFiles files_;
  Manifest before_;
  Manifest next_;
  BuildProgress progress_;
  EncodeResult result_;
};

absl::Status Encoding::Open() {
  absl::StatusOr<Manifest> manifest = ReadManifest(options_.folder);
  if (!manifest.ok()) return manifest.status();  // a folder without a collection gets no lock file
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(options_.folder);
  if (!lock.ok()) return lock.status();
  lock_.emplace(*std::move(lock));
  manifest = ReadManifest(options_.folder);
  if (!manifest.ok()) return manifest.status();
  before_ = *std::move(manifest);
  if (IsResidual(before_.storage)) {
    return absl::FailedPreconditionError(Cat(options_.folder, ": is stored as ", Name(before_.storage),
                                             ", which has no codes for scans; use --storage i8 of maxsim import"));
  }
  if (!HasLog(options_.folder)) return CheckLogIsThere(options_.folder, before_);
  absl::StatusOr<std::unique_ptr<CollectionLog>> log =
      CollectionLog::Open(options_.folder, LogFormat::Of(before_), CollectionLog::Mode::kMustExist);
  if (absl::IsFailedPrecondition(log.status())) {
    return Prefix("a live collection is encoded while no server has it loaded: ", log.status());
  }
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  // The log stores the tombstones (marks of deleted documents) per generation. The next generation has the same shards,
  // so it needs a copy of them.
  absl::StatusOr<Tombstones> tombstones = log_->TombstonesOf(before_);
  if (!tombstones.ok()) return tombstones.status();
  tombstones_ = *std::move(tombstones);
  return absl::OkStatus();
}

// Returns whether no shard must be encoded: no codes are requested, or the collection already has them.
bool Encoding::HasCodesAlready() const {
  const CodesRequest& asked = options_.codes;
  if (asked.planes == 0) return true;
  if (!before_.codes.has_value() || before_.codes->planes < asked.planes) return false;
  if (asked.factors.has_value() && *asked.factors != before_.codes->factors) return false;
  return before_.storage == ScalarType::kI8 || before_.codes->rotation_seed == asked.rotation_seed;
}

absl::Status Encoding::EncodeShards() {
  const absl::StatusOr<CodesFormat> format = ChooseCodesFormat(options_.codes, {{options_.folder, &before_}});
  if (!format.ok()) return format.status();
  next_.codes = *format;
  for (const ShardEntry& entry : next_.shards) progress_.bytes_total += CodesBytes(next_, entry);
  progress_.documents_total = next_.num_documents;
  progress_.shards_total = static_cast<int64_t>(next_.shards.size());
  if (absl::Status status = CheckSpace(options_.folder, progress_.bytes_total); !status.ok()) return status;
  if (absl::Status status = Report(observer_, progress_, BuildProgress::Stage::kEncoding); !status.ok()) return status;
  ShardEncoder encoder(ThreadsOrOnePerCore(options_.num_threads), [this](int64_t bytes) {
    progress_.bytes_done += bytes;
    return Report(observer_, progress_, BuildProgress::Stage::kEncoding);
  });
  int64_t bytes_done = 0;
  for (size_t idx = 0; idx < next_.shards.size(); ++idx) {
    ShardEntry& entry = next_.shards[idx];
    absl::StatusOr<std::vector<CodeFileEntry>> code_files =
        encoder.Encode(options_.folder, next_, entry, next_.generation, static_cast<int64_t>(idx),
                       /*check_checksum=*/true, files_);
    if (!code_files.ok()) return code_files.status();
    entry.code_files = *std::move(code_files);
    bytes_done += CodeFileBytes(entry, options_.codes.planes);
    progress_.bytes_done = bytes_done;
    progress_.documents_done += entry.num_documents;
    progress_.shards_done += 1;
    if (absl::Status status = Report(observer_, progress_, BuildProgress::Stage::kEncoding); !status.ok())
      return status;
  }
  result_.bytes_made = bytes_done;
  return absl::OkStatus();
}

absl::Status Encoding::Publish() {
  next_.created_by = options_.created_by;
  next_.created_at = CreationTime();
  if (log_ != nullptr) {
    if (absl::Status status = log_->PutTombstones(next_, tombstones_); !status.ok()) return status;
  }
  if (absl::Status status = Report(observer_, progress_, BuildProgress::Stage::kPublishing); !status.ok())
    return status;
  if (log_ == nullptr) {
    if (absl::Status status = KeepPrevious(options_.folder); !status.ok()) return status;
  }
  absl::Status status = PublishGeneration(next_, options_.folder, files_, &result_.synchronised);
  if (!status.ok()) return status;
  progress_.synchronised = result_.synchronised;
  Report(observer_, progress_, BuildProgress::Stage::kPublished).IgnoreError();
  // If the folder could not be synced to disk, keeps the old files: a power failure may bring back the old manifest,
  // which needs them.
  if (result_.synchronised.ok()) RemoveOldGenerations(options_.folder, next_, before_);
  return absl::OkStatus();
}

absl::StatusOr<EncodeResult> Encoding::Run() {
  if (absl::Status status = CheckCodesRequest(options_.codes); !status.ok()) return status;
  if (absl::Status status = Open(); !status.ok()) return status;
  RemoveLeftovers(options_.folder, before_);
  const int planes_before = before_.codes.has_value() ? before_.codes->planes : 0;
  const bool is_there = HasCodesAlready();
  if (is_there && planes_before == options_.codes.planes) {
    result_.manifest = std::move(before_);
    return std::move(result_);
  }
  next_ = before_;
  next_.generation = before_.generation + 1;
  for (ShardEntry& entry : next_.shards) {
    entry.code_files.resize(is_there ? NumCodeFiles(options_.codes.planes) : 0);
  }
  if (!is_there) {
    next_.codes.reset();
    if (absl::Status status = EncodeShards(); !status.ok()) return status;
  } else if (options_.codes.planes == 0) {
    next_.codes.reset();
  } else {
    next_.codes->planes = options_.codes.planes;
  }
  if (absl::Status status = Publish(); !status.ok()) return status;
  result_.changed = true;
  result_.manifest = std::move(next_);
  return std::move(result_);
}

}  // namespace

absl::StatusOr<EncodeResult> EncodeCollection(const EncodeOptions& options, const BuildObserver& observer) {
  return Encoding(options, observer).Run();
}

}  // namespace maxsim::collection
