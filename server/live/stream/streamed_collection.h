// A live collection whose writes a stream orders, so that several servers apply the same writes in the same order.
//
//   Submit -> queue -> publisher -> stream -> follower -> LiveCollection::ApplyMessages -> log, segments, snapshot
//                                                      -> the call's answer
//
// The publisher, a task on threads that all collections share, sends each write of a call as a message, in order. The
// follower, a thread of the collection, receives the messages of all servers in the order of the stream, and has the
// collection apply them. The local log stores messages under their sequences in the stream, so the log's last sequence
// is this server's position in the stream. The outcome of a write is decided when it is applied, and only depends on
// the messages before it. A call is answered when its own messages have come back and are applied. Acknowledgements
// (Listener) only tell which messages must be sent again, and how many writes of a failed call are in the stream.
//
// Locks: `mutex_` is only held for moments. Calls of the collection, of `done` and of the stream are made without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/live/local/live_collection_impl.h"
#include "server/live/local/shared_threads.h"
#include "server/live/shared/layouts.h"
#include "server/live/stream/ordered_stream.h"
#include "server/live/stream/pending_calls.h"
#include "server/live/stream/retention.h"
#include "server/live/stream/stream_doubt.h"
#include "server/live/stream/stream_message.h"

namespace maxsim {
class Metrics;
enum class StreamOutcome;
}  // namespace maxsim

namespace maxsim::live {

class StreamedCollection final : public store::LiveDocuments {
 public:
  // `layouts` may be null: then the collection has no layout. Otherwise it must outlive the object.
  StreamedCollection(std::string name, MessageRules rules, std::unique_ptr<LiveCollection> collection,
                     std::unique_ptr<OrderedStream> stream, const LiveOptions& options, Metrics* metrics,
                     Layouts* layouts);
  ~StreamedCollection() override;

  void Submit(std::vector<store::Write> writes, const store::WriteCaller& caller, Done done) override;
  absl::Status Compact(const StopSignal* stop, bool* changed) override { return collection_->Compact(stop, changed); }
  absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal* stop) override {
    return collection_->SnapshotTo(folder, stop);
  }
  store::LiveState state() const override;
  absl::StatusOr<collection::SlotLayout> SetLayout(const std::vector<collection::SlotOwner>& owners,
                                                   uint64_t expected_revision) override;
  absl::StatusOr<uint64_t> VersionOf(std::string_view id) const override { return collection_->VersionOf(id); }
  absl::StatusOr<uint64_t> VersionOf(int64_t id) const override { return collection_->VersionOf(id); }
  absl::Status ReadBehind(uint64_t sequence, const collection::CollectionLog::Visitor& visit) const override {
    return collection_->ReadBehind(sequence, visit);
  }
  absl::StatusOr<uint64_t> VersionOfWrite(uint64_t sequence) const override {
    return collection_->VersionOfWrite(sequence);
  }
  absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest& manifest) const override {
    return collection_->TombstonesOf(manifest);
  }
  // The first call starts to follow the stream.
  absl::Status Serve(std::shared_ptr<const store::Generation> generation, Publish publish,
                     const StopSignal* stop) override;
  void Stop() override;
  // Waits until all accepted calls are answered (each has a time limit), and then leaves the stream.
  void EndWrites() override;

 private:
  // The publisher (publishing.cc):
  absl::Time PublishOnce();
  bool TakeCalls(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void ObserveRate(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefuseExpired(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void Refuse(std::vector<WriteQueue::Expired> expired);
  std::unique_ptr<PendingCall> Encode(WriteCall& call) const;
  bool SendNext(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(PendingCall& call, size_t idx, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void SendAgain(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailOverdue(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Overdue(const PendingCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSize(const PendingCall& call) const;
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAcknowledged(std::string_view id, const absl::StatusOr<uint64_t>& sequence);
  // Removes a call and answers it, with the lock released.
  void Fail(const PendingCall& call, absl::Status status, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // The follower (following.cc, decoding.cc):
  void RunFollower();
  absl::Status FollowStream();
  absl::StatusOr<StreamInfo> OpenStream(uint64_t position, bool is_known);
  absl::Status CheckStream(const StreamInfo& info, uint64_t position) const;
  absl::StatusOr<std::vector<StreamMessage>> ReceiveFirst(uint64_t sequence);
  absl::Status CheckNextVersion(uint64_t position, const StreamInfo& info, std::vector<StreamMessage>& messages);
  absl::StatusOr<std::vector<StreamMessage>> SubscribeAfter(uint64_t position, const StreamInfo& info);
  absl::Status ApplyAll(const std::vector<StreamMessage>& messages);
  absl::StatusOr<store::WriteResults> Apply(absl::Span<const StreamMessage> messages,
                                            std::vector<StreamOutcome>* outcomes);
  std::vector<store::Write> Decode(absl::Span<const StreamMessage> messages,
                                   std::vector<StreamOutcome>* outcomes) const;
  void Resolve(absl::Span<const StreamMessage> messages, const store::WriteResults& results);
  void ResolveUnknown(absl::Span<const StreamMessage> messages);
  void ResolveLate(absl::Span<const StreamMessage> messages);
  void CountMessages(absl::Span<const StreamOutcome> decoded, const store::WriteResults& results);
  void LookAtRetention();
  void NoteBlocked(const absl::Status& status);
  void NoteLost(const absl::Status& status);
  void WaitUnlessLeaving(absl::Duration duration);
  bool leaving() const;
  uint64_t position() const { return collection_->state().sequence; }

  const std::string name_;
  const MessageRules rules_;
  const LiveOptions options_;
  Metrics* const metrics_;  // may be null
  Layouts* const layouts_;  // may be null
  const std::unique_ptr<LiveCollection> collection_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  WriteQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool is_backlogged_ ABSL_GUARDED_BY(mutex_) = false;  // the queue was not empty after calls were last taken from it
  absl::Time next_check_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // time of the next check for overdue calls
  // A step is running, and may hold calls that are not in queue_ or pending_.
  bool publishing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time rate_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t taken_work_ ABSL_GUARDED_BY(mutex_) = 0;  // since rate_since_
  PendingCalls pending_ ABSL_GUARDED_BY(mutex_);
  bool served_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;  // no more calls are accepted
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;   // the follower must end
  bool left_ ABSL_GUARDED_BY(mutex_) = false;      // the publisher and the follower have ended
  // The stream was found to be this collection's, and messages arrive.
  bool following_ ABSL_GUARDED_BY(mutex_) = false;
  // The stream's last sequence when the collection began to follow it.
  uint64_t catch_up_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t applied_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);     // why the collection does not follow the stream
  absl::Status blocked_ ABSL_GUARDED_BY(mutex_);  // why the next message cannot be applied

  SharedTask publisher_;  // its steps have ended when Stop returns
  // Declared after the members that its listener uses, so that it is destroyed before them.
  const std::unique_ptr<OrderedStream> stream_;

  RetentionWatch retention_;  // only the follower changes it
  // Only the follower uses these.
  StreamDoubt doubt_;
  struct {
    uint64_t sequence = 0;
    uint64_t hash = 0;
  } last_message_;  // the last applied message; sequence 0 if this process has applied none
  // The position at which the collection last found that the next message is of a later version.
  std::optional<uint64_t> before_later_version_;

  std::thread follower_;
};

}  // namespace maxsim::live
