#include "server/grpc/snapshot_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "client/status.h"
#include "server/grpc/messages/message_buffer.h"

namespace maxsim::rpc {
namespace {

// A client that takes no message for this time loses the stream. The time is long, because a client that reads
// snapshots of several servers first waits until all of them have made theirs.
constexpr absl::Duration kMaxWriteTime = absl::Minutes(5);

// When the stream has been told to end, the message that is being written has this time. Then the call is cut off.
constexpr absl::Duration kLastWriteTime = absl::Seconds(1);

constexpr std::chrono::milliseconds kStopPoll{50};

absl::Status ClientHasGone() { return absl::CancelledError("the client has gone"); }

class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  RefusedStream(const absl::Status& status, service::CallTracker* tracker) : call_(tracker) {
    Finish(client::ToGrpcStatus(status));
  }
  void OnDone() override { delete this; }

 private:
  service::CallTracker::Call call_;
};

}  // namespace

// Two threads run in this object: one of the worker's, which makes and passes the messages, and one of gRPC's. `self_`
// keeps the object alive until gRPC no longer uses it; the worker's task holds a reference, too.
class SnapshotStreamCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public DrainableStream,
                           public std::enable_shared_from_this<SnapshotStreamCall> {
 public:
  SnapshotStreamCall(grpc::CallbackServerContext* context, std::shared_ptr<StopSignal> stop, service::Worker* worker,
                     StreamRegistry* registry, service::CallTracker* tracker)
      : context_(context), stop_(std::move(stop)), worker_(worker), registry_(registry), call_(tracker) {}

  void Start(WriteStream write, StreamEnd end) {
    self_ = shared_from_this();
    if (registry_->Add(self_)) Drain();
    // Each stream's task has a key of its own. The worker runs tasks of one key one after another, but streams of one
    // collection may run at the same time.
    static std::atomic<uint64_t> num_started{0};
    worker_->Post(absl::StrCat(num_started.fetch_add(1)), service::Worker::Length::kLong, stop_,
                  [call = self_, write = std::move(write), end = std::move(end)](const absl::Status& turn) {
                    const auto sink = [&](const v1::ReadSnapshotResponse& message) { return call->Write(message); };
                    const absl::Status status = turn.ok() ? Guarded([&] { return write(sink, *call->stop_); }) : turn;
                    end(status);
                    call->Finish(client::ToGrpcStatus(status));
                  });
  }

  void Drain() override {
    stop_->Request(absl::StatusCode::kUnavailable);
    worker_->Withdraw(stop_.get());
  }

  void OnWriteDone(bool ok) override {
    const MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
    changed_.NotifyAll();
  }

  void OnCancel() override {
    stop_->Request(absl::StatusCode::kCancelled);
    worker_->Withdraw(stop_.get());
  }

  void OnDone() override {
    registry_->Remove(self_);
    call_.End();
    const std::shared_ptr<SnapshotStreamCall> last = std::move(self_);
  }

 private:
  // Writes a message, and waits until gRPC has taken it.
  absl::Status Write(const v1::ReadSnapshotResponse& message) {
    if (absl::Status status = stop_->status(); !status.ok()) return status;
    message_ = ToBuffer(message);
    {
      const MutexLock lock(&mutex_);
      if (broken_) return ClientHasGone();
      writing_ = true;
    }
    StartWrite(&message_);
    absl::Time until = MonotonicNow() + kMaxWriteTime;
    MutexLock lock(&mutex_);
    while (writing_) {
      const absl::Time now = MonotonicNow();
      if (stop_->stopped()) until = std::min(until, now + kLastWriteTime);
      if (now >= until) {
        stop_->Request(absl::StatusCode::kDeadlineExceeded);
        lock.Unlock();
        context_->TryCancel();
        lock.Lock();
        while (writing_) changed_.Wait(lock);  // gRPC ends the write of a call that is cancelled
        break;
      }
      changed_.WaitFor(lock, kStopPoll);
    }
    if (absl::Status status = stop_->status(); !status.ok()) return status;
    return broken_ ? ClientHasGone() : absl::OkStatus();
  }

  grpc::CallbackServerContext* const context_;  // until OnDone
  const std::shared_ptr<StopSignal> stop_;
  service::Worker* const worker_;
  StreamRegistry* const registry_;
  service::CallTracker::Call call_;
  std::shared_ptr<SnapshotStreamCall> self_;
  grpc::ByteBuffer message_;  // the worker's thread changes it while no write is under way
  Mutex mutex_;
  ConditionVariable changed_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // a write failed, so no message can arrive
};

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartSnapshotStream(grpc::CallbackServerContext* context,
                                                                std::shared_ptr<StopSignal> stop, WriteStream write,
                                                                StreamEnd end, service::Worker* worker,
                                                                StreamRegistry* registry,
                                                                service::CallTracker* tracker) {
  auto stream = std::make_shared<SnapshotStreamCall>(context, std::move(stop), worker, registry, tracker);
  SnapshotStreamCall* const reactor = stream.get();
  reactor->Start(std::move(write), std::move(end));
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RefuseSnapshotStream(const absl::Status& status,
                                                                 service::CallTracker* tracker) {
  return new RefusedStream(status, tracker);
}

}  // namespace maxsim::rpc
