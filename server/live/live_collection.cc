#include "server/live/live_collection.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/partition/snapshot_folder.h"
#include "server/live/local/live_collection_impl.h"
#include "server/live/stream/nats_stream.h"
#include "server/live/stream/streamed_collection.h"
#include "server/observability/log_event.h"
#include "server/observability/metrics.h"

namespace maxsim::live {
namespace {

// How often a thread that waits for Maintenance checks its stop signal.
constexpr std::chrono::milliseconds kStopPoll{20};

// A compaction may keep shards that have tombstones (of deleted documents). It leaves at most this fraction of the
// share of tombstones that makes a compaction due, so that the next one is not due immediately.
constexpr double kTombstonesLeft = 0.5;

CompactionResult ResultOf(const absl::Status& status) {
  if (status.ok()) return CompactionResult::kOk;
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ? CompactionResult::kStopped
                                                                       : CompactionResult::kFailed;
}

// Checks that the log's sequences come from the source that live.log names. The two kinds of logs number their writes
// differently.
absl::Status CheckKind(const collection::CollectionLog& log, const std::string& folder, LogKind kind) {
  const std::optional<collection::LogStream> stream = log.stream();
  if (kind == LogKind::kLocal && stream.has_value()) {
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " follows ", Describe(*stream), ", but live.log is local"));
  }
  if (kind == LogKind::kNats && !stream.has_value() && log.last_sequence() > 0) {
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " has writes of its own up to sequence ", log.last_sequence(),
            ", but live.log is nats, whose writes are those of a stream from its first message on; build the "
            "collection again in another folder, or serve it with live.log local"));
  }
  return absl::OkStatus();
}

// If the log is missing, checks that a new one may be created. With a stream it may not if shards already hold writes:
// a new log would lack the versions of the ids in these shards, so this server would apply later messages differently
// from other servers.
absl::Status CheckBeginsAtAll(const store::LiveRequest& request, LogKind kind) {
  const uint64_t held = request.manifest.log_sequence.value_or(0);
  // If the collection was never compacted, the stream still has all writes. Without a stream only the log has them.
  if (kind == LogKind::kLocal && held == 0) return collection::CheckLogIsThere(request.path, request.manifest);
  if (kind == LogKind::kLocal || held == 0 || collection::HasLog(request.path)) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat(
      request.path, ": its shards hold the writes up to sequence ", held,
      " and it has no log, which live.log nats needs; start from a snapshot of another server (maxsimctl snapshot)"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<store::LiveDocuments>> OpenLiveCollection(const store::LiveRequest& request,
                                                                         const LiveOptions& options,
                                                                         LiveThreads* threads, Metrics* metrics,
                                                                         const OpenStream& open_stream,
                                                                         Layouts* layouts) {
  using Log = collection::CollectionLog;
  const absl::Time begin = MonotonicNow();
  if (absl::Status status = CheckBeginsAtAll(request, options.log); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<LiveThreads::Place>> place = threads->Enter(request.name);
  if (!place.ok()) return place.status();
  const bool is_new = !collection::HasLog(request.path);
  // A new log begins after the writes that the generation holds, even if it replaces a log that was lost.
  const uint64_t begins_with = request.manifest.log_sequence.value_or(0);
  absl::StatusOr<std::unique_ptr<Log>> log =
      Log::Open(request.path, collection::LogFormat::Of(request.manifest),
                request.create ? Log::Mode::kCreate : Log::Mode::kMustExist, begins_with);
  if (!log.ok()) return log.status();
  if (absl::Status status = CheckKind(**log, request.path, options.log); !status.ok()) return status;
  log::Write(spdlog::level::info, "live_opened",
             {{"name", request.name},
              {"path", request.path},
              {"first_sequence", (*log)->first_sequence()},
              {"last_sequence", (*log)->last_sequence()},
              {"log_bytes", (*log)->num_bytes()},
              {"seconds", absl::ToDoubleSeconds(MonotonicNow() - begin)}});
  if (is_new && begins_with > 0) {
    log::Write(spdlog::level::warn, "log_begun_anew",
               {{"name", request.name}, {"path", request.path}, {"sequence", begins_with}});
  }
  const collection::LogFormat format = (*log)->format();
  auto live = std::make_unique<LiveCollection>(request, options, *std::move(place), metrics, *std::move(log));
  if (options.log == LogKind::kLocal) return std::shared_ptr<store::LiveDocuments>(std::move(live));
  std::unique_ptr<OrderedStream> stream =
      open_stream == nullptr ? MakeNatsStream(options.nats, request.name) : open_stream(request.name);
  return std::make_shared<StreamedCollection>(request.name,
                                              MessageRules{format, request.manifest.slots(), request.manifest.fields},
                                              std::move(live), std::move(stream), options, metrics, layouts);
}

LiveCollection::LiveCollection(store::LiveRequest request, const LiveOptions& options,
                               std::unique_ptr<LiveThreads::Place> place, Metrics* metrics,
                               std::unique_ptr<collection::CollectionLog> log)
    : request_(std::move(request)),
      options_(options),
      metrics_(metrics),
      format_(log->format()),
      allocator_(request_.name, format_, options_, request_.devices, request_.ledger),
      place_(std::move(place)),
      compactor_(
          std::make_unique<Compactor>(request_.name, options_, place_->compactors(),
                                      Compactor::Work{.compact =
                                                          [this](const StopSignal* stop, std::string_view reason) {
                                                            bool changed = false;
                                                            return CompactNow(stop, reason, &changed);
                                                          },
                                                      .truncate = [this] { return Truncate(); }})),
      queue_(request_.name, {.max_bytes = options_.max_queued_bytes, .max_queue_time = options_.max_queue_time}),
      log_(std::move(log)),
      writer_(request_.name, options_.compact, log_, compactor_.get(), metrics_),
      writing_task_(place_->writers(), [this] { return WriteOnce(); }) {}

LiveCollection::~LiveCollection() { Stop(); }

std::shared_ptr<collection::CollectionLog> LiveCollection::log() const {
  const MutexLock lock(&mutex_);
  return log_;
}

std::optional<collection::LogStream> LiveCollection::stream() const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  return log == nullptr ? std::nullopt : log->stream();
}

absl::Status LiveCollection::Follow(const collection::LogStream& stream) {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  return log == nullptr ? Unloading() : log->Follow(stream);
}

absl::Status LiveCollection::Unloading() const {
  return absl::UnavailableError(Cat("collection ", request_.name, " is being unloaded"));
}

absl::Status LiveCollection::Maintenance::Begin(const StopSignal* stop) {
  MutexLock lock(&live_->mutex_);
  while (live_->maintained_ && !live_->stopping_) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    live_->changed_.WaitFor(lock, kStopPoll);
  }
  if (live_->stopping_) return live_->Unloading();
  held_ = true;
  live_->maintained_ = true;
  return absl::OkStatus();
}

LiveCollection::Maintenance::~Maintenance() {
  if (!held_) return;
  {
    const MutexLock lock(&live_->mutex_);
    live_->maintained_ = false;
  }
  live_->changed_.NotifyAll();
}

void LiveCollection::Stop() {
  stop_.Request(absl::StatusCode::kUnavailable);
  {
    MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) {
      while (!stopped_) changed_.Wait(lock);
      return;
    }
  }
  changed_.NotifyAll();
  writing_task_.Wake();
  {
    MutexLock lock(&mutex_);
    while (!writer_ended_) changed_.Wait(lock);
  }
  writing_task_.Stop();
  compactor_->Stop();
  std::shared_ptr<collection::CollectionLog> closed;
  Publish publish;  // Freed at the end of Stop, after the pause (LiveWriter::Close). It refers to the store's entry.
  {
    MutexLock lock(&mutex_);
    while (maintained_ || paused_ || waiting_pauses_ > 0) changed_.Wait(lock);
    closed = std::move(log_);
    log_ = nullptr;
  }
  {
    const WriterPause pause(this);
    publish = writer_.Close();
  }
  closed.reset();
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
  }
  changed_.NotifyAll();
}

absl::StatusOr<uint64_t> LiveCollection::VersionOf(std::string_view id) const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  return log == nullptr ? Unloading() : log->VersionOf(id);
}

absl::StatusOr<uint64_t> LiveCollection::VersionOf(int64_t id) const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  return log == nullptr ? Unloading() : log->VersionOf(id);
}

absl::Status LiveCollection::ReadBehind(uint64_t sequence, const collection::CollectionLog::Visitor& visit) const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  return log == nullptr ? Unloading() : log->ReadBehind(sequence, visit);
}

absl::StatusOr<uint64_t> LiveCollection::VersionOfWrite(uint64_t sequence) const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  if (log == nullptr) return Unloading();
  uint64_t version = 0;
  absl::Status status = log->Read(sequence - 1, sequence, [&](const collection::LogRecord& record) {
    version = record.version;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return version;
}

store::LiveState LiveCollection::state() const {
  std::shared_ptr<collection::CollectionLog> log;
  store::LiveState state = writer_.state();
  {
    const MutexLock lock(&mutex_);
    state.is_compacting = is_compacting_;
    log = log_;
  }
  if (log != nullptr) state.log_bytes = log->num_bytes();
  state.compaction = compactor_->status();
  return state;
}

void LiveCollection::SetCompacting(bool is_compacting) {
  const MutexLock lock(&mutex_);
  is_compacting_ = is_compacting;
}

absl::Status LiveCollection::Compact(const StopSignal* stop, bool* changed) {
  *changed = false;
  return CompactNow(stop, "request", changed);
}

absl::Status LiveCollection::CompactNow(const StopSignal* stop, std::string_view reason, bool* changed) {
  const StopSignal either(&stop_, stop);
  Maintenance maintenance(this);
  if (absl::Status status = maintenance.Begin(&either); !status.ok()) return status;
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  const absl::Time begin = MonotonicNow();
  uint64_t through = 0;
  {
    const WriterPause pause(this);
    ChangesWriter* const served = writer_.changes();
    if (served == nullptr) return absl::UnavailableError(Cat("collection ", request_.name, " is not served"));
    through = served->sequence();
    // Seal makes later writes go to new segments, which the next generation can share. But each failed compaction would
    // leave another nearly empty segment, until no more segments fit. So the compaction after a failed one does not
    // seal: documents that are written during it are appended a second time, for the next generation.
    const bool has_more = through > served->generation().manifest().log_sequence.value_or(0);
    if (has_more && !compaction_failed_) served->Seal();
  }
  SetCompacting(true);
  const collection::CompactOptions options{
      .max_tombstone_share = std::min(collection::CompactOptions().max_tombstone_share,
                                      kTombstonesLeft * options_.compact_at_tombstone_share),
      .bytes_per_second = options_.compact_bytes_per_second,
      .created_by = "maxsimd",
      .stop = &either};
  const absl::StatusOr<collection::CompactResult> result = collection::Compact(request_.path, *log, through, options);
  absl::Status status = result.status();
  if (status.ok()) status = ServePublished(result->manifest, &either);
  compaction_failed_ = !status.ok();
  if (!status.ok()) {
    const WriterPause pause(this);
    writer_.changes()->Unseal();  // After a reload, changes() is a new writer, which has taken over the seal.
  }
  SetCompacting(false);
  *changed = result.ok() && result->changed;
  ReportCompaction(reason, status, result, MonotonicNow() - begin, either.stopped());
  return status;
}

void LiveCollection::ReportCompaction(std::string_view reason, const absl::Status& status,
                                      const absl::StatusOr<collection::CompactResult>& result, absl::Duration took,
                                      bool stopped) {
  const bool changed = result.ok() && result->changed;
  if (metrics_ != nullptr && (!status.ok() || changed)) {
    metrics_->live().CountCompaction(request_.name, stopped ? CompactionResult::kStopped : ResultOf(status), took,
                                     result.ok() ? static_cast<uint64_t>(result->bytes_written) : 0);
  }
  if (!status.ok()) {
    log::Write(stopped ? spdlog::level::info : spdlog::level::err, "compaction_failed",
               {{"name", request_.name}, {"reason", reason}, {"error", status.ToString()}});
  } else if (changed) {
    log::Write(spdlog::level::info, "compacted",
               {{"name", request_.name},
                {"reason", reason},
                {"generation", result->manifest.generation},
                {"log_sequence", result->manifest.log_sequence.value_or(0)},
                {"shards_kept", result->shards_kept},
                {"shards_written", result->shards_written},
                {"bytes_written", result->bytes_written},
                {"tombstones_left", result->tombstones_left},
                {"lossy_tokens", result->loss.num_tokens()},
                {"seconds", absl::ToDoubleSeconds(took)}});
  }
}

// Loads the published generation unless it is already served. Even if this compaction changed nothing, an earlier one
// may have published a generation whose load failed.
absl::Status LiveCollection::ServePublished(const collection::Manifest& published, const StopSignal* stop) {
  {
    const MutexLock lock(&mutex_);
    if (served_generation_ == published.generation) return absl::OkStatus();
  }
  return request_.reload(stop);
}

absl::Status LiveCollection::Truncate() {
  Maintenance maintenance(this);
  // If the maintenance cannot begin, the next start of the server truncates the log.
  if (absl::Status status = maintenance.Begin(&stop_); !status.ok()) return absl::OkStatus();
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  const uint64_t first = log->first_sequence();
  if (absl::Status status = DropCompacted(*log); !status.ok()) return status;
  return log->first_sequence() > first ? log->ReclaimSpace() : absl::OkStatus();
}

// Drops the log records that the served generation holds, unless a later generation is published.
absl::Status LiveCollection::DropCompacted(collection::CollectionLog& log) {
  const uint64_t through = writer_.state().compacted_sequence;
  int64_t generation = 0;
  {
    const MutexLock lock(&mutex_);
    generation = served_generation_;
  }
  std::optional<FolderLock> build_lock;
  if (through > log.first_sequence()) {
    // A build of a generation holds this lock from its check that the log has all later writes until it has published
    // the generation. Nothing is dropped in this time.
    absl::StatusOr<FolderLock> acquired = FolderLock::Acquire(request_.path);
    if (absl::IsFailedPrecondition(acquired.status())) return absl::OkStatus();  // a build runs: next time
    if (!acquired.ok()) return acquired.status();
    build_lock.emplace(*std::move(acquired));
  }
  // A later generation may have been published that could not be loaded. It needs its tombstones, which Truncate
  // would drop. So the log is truncated only after that generation is served.
  const absl::StatusOr<collection::Manifest> published = collection::ReadManifest(request_.path);
  if (!published.ok()) return published.status();
  if (published->generation != generation) return absl::OkStatus();
  // Makes the manifest durable before the log drops records. Otherwise, after a power failure, the folder could have an
  // older manifest, which needs these records.
  if (absl::Status status = SyncFolder(request_.path); !status.ok()) return status;
  return log.Truncate(through, generation);
}

absl::StatusOr<uint64_t> LiveCollection::SnapshotTo(const std::string& folder, const StopSignal* stop) {
  const StopSignal either(&stop_, stop);
  Maintenance maintenance(this);
  if (absl::Status status = maintenance.Begin(&either); !status.ok()) return status;
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  const absl::Time begin = MonotonicNow();
  collection::Manifest manifest;
  {
    const WriterPause pause(this);
    ChangesWriter* const served = writer_.changes();
    if (served == nullptr) return absl::UnavailableError(Cat("collection ", request_.name, " is not served"));
    manifest = served->generation().manifest();
  }
  absl::StatusOr<uint64_t> sequence = collection::MakeSnapshotFolder(request_.path, manifest, *log, folder, &either);
  if (!sequence.ok()) return sequence;
  log::Write(spdlog::level::info, "snapshot_made",
             {{"name", request_.name},
              {"folder", folder},
              {"generation", manifest.generation},
              {"sequence", *sequence},
              {"seconds", absl::ToDoubleSeconds(MonotonicNow() - begin)}});
  return sequence;
}

}  // namespace maxsim::live
