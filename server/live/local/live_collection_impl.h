// The implementation of LiveDocuments (live_collection.h).
//
// The writer is a task on threads that all collections share. Each step takes the calls that are queued and has
// LiveWriter write them as one group.
//
// Invariants:
//  - The collection serves its generation and the records of the log after log_sequence, in their order.
//  - While `writing_` is true, `writer_` belongs to the thread that writes. While `paused_` is true, it belongs to the
//    holder of a WriterPause. The two are never true at once.
//  - A new generation replaces the previous one, and is published, during a WriterPause. So snapshots are published
//    in the order of their sequences.
//
// Locks: `mutex_` is only held for moments, never while the store, the log or the compactor is called. The store holds
// its entry's lock, but not its own mutex, while it calls Serve, and while it calls Stop to unload. Compaction waits
// for the entry's lock in LiveRequest::reload, and gives up when Stop asks it to. `publish` takes the store's mutex; no
// thread waits for this object while it holds that mutex. Maintenance (compaction, truncation, copying to a folder)
// runs one operation at a time. A maintenance operation may wait for a pause. A pause only waits for the group that is
// being written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "collection/compact/compact.h"
#include "collection/log/collection_log.h"
#include "server/live/local/changes_writer.h"
#include "server/live/local/compactor.h"
#include "server/live/local/live_options.h"
#include "server/live/local/live_threads.h"
#include "server/live/local/live_writer.h"
#include "server/live/local/segment_allocator.h"
#include "server/live/local/shared_threads.h"
#include "server/live/local/write_queue.h"
#include "server/store/collection_store.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

class LiveCollection final : public store::LiveDocuments {
 public:
  LiveCollection(store::LiveRequest request, const LiveOptions& options, std::unique_ptr<LiveThreads::Place> place,
                 Metrics* metrics, std::unique_ptr<collection::CollectionLog> log);
  ~LiveCollection() override;

  void Submit(std::vector<store::Write> writes, const store::WriteCaller& caller, Done done) override;
  // Applies messages of a stream, and calls `done` in the way that Submit does. The first message must have sequence
  // state().sequence + 1. `done` gets the results of all messages, or of the first few if segments have no room for
  // more. If the first message fails, `done` gets its error, and no message was applied. Only one call may run at a
  // time, and no Submit meanwhile.
  void ApplyMessages(uint64_t first_sequence, std::vector<store::Write> messages, Done done);
  // stream returns the stream that the log follows. Follow makes the log follow a stream (CollectionLog::Follow).
  std::optional<collection::LogStream> stream() const;
  absl::Status Follow(const collection::LogStream& stream);
  // Returns the threads for the collection's calls to a stream. They are not started yet.
  SharedThreads* publishers() const { return place_->publishers(); }
  // Returns the log's limit for the bytes of remembered versions of deleted ids; 0 while the collection is being
  // unloaded.
  uint64_t remembered_bytes() const {
    const std::shared_ptr<collection::CollectionLog> log = this->log();
    return log == nullptr ? 0 : log->remembered_bytes();
  }
  absl::Status Compact(const StopSignal* stop, bool* changed) override;
  absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal* stop) override;
  store::LiveState state() const override;
  absl::StatusOr<uint64_t> VersionOf(std::string_view id) const override;
  absl::StatusOr<uint64_t> VersionOf(int64_t id) const override;
  absl::Status ReadBehind(uint64_t sequence, const collection::CollectionLog::Visitor& visit) const override;
  absl::StatusOr<uint64_t> VersionOfWrite(uint64_t sequence) const override;
  absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest& manifest) const override;
  absl::Status Serve(std::shared_ptr<const store::Generation> generation, Publish publish,
                     const StopSignal* stop) override;
  void Stop() override;

 private:
  // Keeps the writer from writing groups while this object lives. The holder must not wait for another thread.
  class WriterPause {
   public:
    explicit WriterPause(LiveCollection* live);
    ~WriterPause();
    WriterPause(const WriterPause&) = delete;
    WriterPause& operator=(const WriterPause&) = delete;

   private:
    LiveCollection* const live_;
  };
  // The exclusive right to read and drop files of generations. Begin waits until no other operation holds it, or until
  // `stop` or Stop ends the wait.
  class Maintenance {
   public:
    explicit Maintenance(LiveCollection* live) : live_(live) {}
    ~Maintenance();
    Maintenance(const Maintenance&) = delete;
    Maintenance& operator=(const Maintenance&) = delete;
    absl::Status Begin(const StopSignal* stop);

   private:
    LiveCollection* const live_;
    bool held_ = false;
  };
  // The thread that writes (writing.cc):
  absl::Time WriteOnce();
  void AnswerExpired(std::vector<WriteQueue::Expired>& expired);
  void Accept(WriteCall call, bool is_bounded);

  // Serving (serving.cc):
  absl::StatusOr<std::unique_ptr<ChangesWriter>> FollowLog(const std::shared_ptr<const store::Generation>& generation,
                                                           const StopSignal* stop);
  absl::Status TakeOver(std::unique_ptr<ChangesWriter> writer, Publish publish, const StopSignal* stop);
  absl::Status CheckFollowsLog(const collection::Manifest& manifest) const;
  absl::Status NameLogSequence(const collection::Manifest& manifest);

  absl::Status CompactNow(const StopSignal* stop, std::string_view reason, bool* changed);
  absl::Status ServePublished(const collection::Manifest& published, const StopSignal* stop);
  absl::Status Truncate();
  absl::Status DropCompacted(collection::CollectionLog& log);
  void ReportCompaction(std::string_view reason, const absl::Status& status,
                        const absl::StatusOr<collection::CompactResult>& result, absl::Duration took, bool stopped);
  void SetCompacting(bool is_compacting);
  std::shared_ptr<collection::CollectionLog> log() const;  // null after Stop
  absl::Status Unloading() const;

  const store::LiveRequest request_;
  const LiveOptions options_;
  Metrics* const metrics_;  // may be null
  const collection::LogFormat format_;
  SegmentAllocator allocator_;
  const std::unique_ptr<LiveThreads::Place> place_;  // declared before the members that run on its threads
  const std::unique_ptr<Compactor> compactor_;
  StopSignal stop_;

  mutable Mutex mutex_;
  ConditionVariable changed_;  // notifies pauses, maintenance and Stop
  WriteQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_ended_ ABSL_GUARDED_BY(mutex_) = false;  // no more groups will be written
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool maintained_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<collection::CollectionLog> log_ ABSL_GUARDED_BY(mutex_);
  bool is_compacting_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t served_generation_ ABSL_GUARDED_BY(mutex_) = 0;

  LiveWriter writer_;  // used by the thread that writes or, during a pause, by the holder of the WriterPause

  bool compaction_failed_ = false;  // whether the last compaction failed; only for the holder of Maintenance

  SharedTask writing_task_;  // last, because its steps use the other members
};

}  // namespace maxsim::live
