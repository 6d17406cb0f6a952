// The implementation of LiveDocuments (live_collection.h).
//
// A step of the writer runs on one of the threads that all collections share, and has LiveWriter write everything that
// waits as one group.
//
// Invariants:
//  - The collection serves its generation and the records of the log after log_sequence, in their order.
//  - `writer_` belongs to the thread that writes while `writing_`, and to the holder of a WriterPause while `paused_`;
//    the two exclude each other.
//  - A generation takes the place of the one before, and is published, during a pause. So snapshots are published in
//    the order of their sequences.
//
// Locks: `mutex_` is held for moments, never while the store, the log or the compactor is called. The store holds its
// entry (not its mutex) while it calls Serve, and Stop for an unload. Compaction waits for the entry in
// LiveRequest::reload, and gives up when Stop asks it to. `publish` takes the store's mutex; no thread waits for this
// object with that mutex held. Maintenance (compaction, truncation, copying to a folder) runs one operation at a time,
// which waits for pauses; a pause waits for the group that is being written, and for nothing else.
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
  // Applies messages of a stream and calls `done` as Submit does. The first message must have sequence state().sequence
  // + 1. An answer has the results of all messages, or of the first few if segments have no room for more. An error is
  // that of the first message; then nothing was applied. One call at a time, and no call of Submit meanwhile.
  void ApplyMessages(uint64_t first_sequence, std::vector<store::Write> messages, Done done);
  // Return the stream that the log follows, and make the log follow one (CollectionLog::Follow).
  std::optional<collection::LogStream> stream() const;
  absl::Status Follow(const collection::LogStream& stream);
  // Returns the threads for the collection's calls to a stream. They are not started yet.
  SharedThreads* publishers() const { return place_->publishers(); }
  // Returns the log's limit for versions of deleted ids; 0 while it is being unloaded.
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
  // Stops the writing thread between two groups while this lives. The holder must not wait for another thread.
  class WriterPause {
   public:
    explicit WriterPause(LiveCollection* live);
    ~WriterPause();
    WriterPause(const WriterPause&) = delete;
    WriterPause& operator=(const WriterPause&) = delete;

   private:
    LiveCollection* const live_;
  };
  // While held, no other holder reads or drops files of generations. Begin waits for that, until `stop` or Stop.
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
  const std::unique_ptr<LiveThreads::Place> place_;  // before the members that run on its threads
  const std::unique_ptr<Compactor> compactor_;
  StopSignal stop_;

  mutable Mutex mutex_;
  ConditionVariable changed_;  // notifies pauses, maintenance and Stop
  WriteQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_ended_ ABSL_GUARDED_BY(mutex_) = false;  // no further group will be written
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool maintained_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<collection::CollectionLog> log_ ABSL_GUARDED_BY(mutex_);
  bool is_compacting_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t served_generation_ ABSL_GUARDED_BY(mutex_) = 0;

  LiveWriter writer_;  // belongs to the thread that writes and to pauses

  bool compaction_failed_ = false;  // the last one; belongs to the holder of Maintenance

  SharedTask writing_task_;  // last, because its steps use the other members
};

}  // namespace maxsim::live
