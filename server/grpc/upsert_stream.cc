#include "server/grpc/upsert_stream.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "client/status.h"
#include "grpcpp/alarm.h"
#include "maxsim/v1/documents.pb.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/hidden_folders.h"

namespace maxsim::rpc {
namespace {

// If a collection has no room for a request, the request is offered again for up to kMaxWait. The time between two
// offers is kShortestWait to kLongestWait.
constexpr absl::Duration kMaxWait = absl::Seconds(60);
constexpr absl::Duration kShortestWait = absl::Milliseconds(10);
constexpr absl::Duration kLongestWait = absl::Seconds(1);

// Puts the request's number in the stream before the name of the error's field, as in "requests[3].documents". If the
// error has no field, puts the number before its message.
absl::Status InRequest(uint64_t number, const absl::Status& status) {
  const std::string request = Cat("requests[", number, "]");
  const std::string field = client::FieldOf(status);
  if (!field.empty()) return client::WithField(status, Cat(request, ".", field));
  return WithMessage(status, Cat(request, ": ", std::string(status.message())));
}

}  // namespace

// Three threads may run in this object: one of gRPC's (reads, cancellation), one of the collection's or of the
// encoder's (acknowledgements), and the alarm's. `self_` keeps the object alive until gRPC no longer uses it; a request
// in flight may keep it alive for longer. gRPC's operations are started without holding the mutex, as in
// RerankStreamCall. The thread that has set an operation's flag (reading_, finished_) under the mutex starts the
// operation, so no operation is started twice.
class UpsertStreamCall : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                         public DrainableStream,
                         public std::enable_shared_from_this<UpsertStreamCall> {
 public:
  UpsertStreamCall(grpc::CallbackServerContext* context, grpc::ByteBuffer* response, service::DocumentApi* service,
                   AdmitRequest admit, uint64_t client, int max_in_flight, StreamRegistry* registry,
                   service::CallTracker* tracker, const tracing::Tracer* tracer)
      : context_(context),
        response_(response),
        service_(service),
        admit_(std::move(admit)),
        client_(client),
        max_in_flight_(max_in_flight),
        registry_(registry),
        deadline_(DeadlineOf(*context)),
        tracer_(tracer),
        parent_(ParentOf(tracer, *context)),
        call_(tracker) {}

  void Start() {
    self_ = shared_from_this();
    const absl::Status admitted = admit_().status();
    {
      MutexLock lock(&mutex_);
      failure_ = admitted;
    }
    if (registry_->Add(self_)) Drain();
    Proceed();
  }

  void Drain() override {
    {
      MutexLock lock(&mutex_);
      draining_ = true;
    }
    StopWaiting();
    Proceed();
  }

  void OnReadDone(bool ok) override {
    const absl::Time arrival = MonotonicNow();
    const std::shared_ptr<UpsertStreamCall> keep = self_;
    const absl::StatusOr<service::Caller> admitted = ok ? admit_() : service::Caller();
    bool offer = false;
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok) reads_done_ = true;
      if (ok) offer = BeginRequest(admitted, arrival);
    }
    if (offer) Offer();
    Proceed();
  }

  void OnCancel() override {
    const std::shared_ptr<UpsertStreamCall> keep = self_;
    cancelled_->store(true, std::memory_order_relaxed);
    StopWaiting();
    Proceed();
  }

  void OnDone() override {
    registry_->Remove(self_);
    // Not in the destructor: a request in flight may keep the object alive.
    call_.End();
    const std::shared_ptr<UpsertStreamCall> last = std::move(self_);
  }

 private:
  // One attempt to hand a request over to the service. The mutex guards it.
  struct Attempt {
    uint64_t request = 0;  // its number in the stream
    bool is_over = false;  // the request was handed over, or refused
  };
  enum class End { kNo, kOk, kFailed, kDrained, kCancelled };

  // Notes the request that was read. Returns whether to hand it over to the service.
  bool BeginRequest(const absl::StatusOr<service::Caller>& admitted, absl::Time arrival)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return false;
    failure_.Update(admitted.status());
    if (!failure_.ok() || draining_) return false;
    caller_ = *admitted;
    handling_ = true;
    arrival_ = arrival;
    ++num_requests_;
    return true;
  }

  // Offers the request in message_ to the service.
  void Offer() {
    auto attempt = std::make_shared<Attempt>();
    absl::Time arrival;
    service::Caller caller;
    {
      MutexLock lock(&mutex_);
      attempt->request = num_requests_ - 1;
      arrival = arrival_;
      caller = caller_;
      ++in_flight_;
    }
    v1::UpsertRequest request;
    // message_ keeps its bytes, because the request may have to be offered again.
    if (absl::Status parsed = ParseMessage(message_, request); !parsed.ok()) {
      service_->CountUnread(kUpsertStream, arrival, parsed);
      return Refuse(*attempt, InRequest(attempt->request, parsed));
    }
    service_->Upsert(
        std::move(request),
        {.method = kUpsertStream,
         .arrival = arrival,
         .deadline = deadline_,
         .client = client_,
         .cancelled = cancelled_,
         .span = StartSpan(tracer_, "maxsim.v1.Documents/UpsertStream", parent_, arrival),
         .caller = std::move(caller)},
        [this, keep = self_, attempt](const absl::StatusOr<v1::UpsertResponse>& response) {
          response.ok() ? Acknowledge(*attempt, *response) : TakeError(*attempt, response.status());
        },
        [this, keep = self_, attempt] {
          {
            MutexLock lock(&mutex_);
            EndHandling(*attempt);
          }
          Proceed();
        });
  }

  // Ends the handling of the request in message_, which was handed over, acknowledged or refused. Returns true at the
  // first call for an attempt. Later calls return false and do nothing, because message_ may already hold the next
  // request.
  bool EndHandling(Attempt& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(attempt.is_over, true)) return false;
    handling_ = false;
    waiting_since_.reset();
    return true;
  }

  void Acknowledge(Attempt& attempt, const v1::UpsertResponse& response) {
    {
      MutexLock lock(&mutex_);
      EndHandling(attempt);
      --in_flight_;
      for (const v1::WriteResult& result : response.results()) {
        const bool is_applied = result.outcome() == v1::WRITE_OUTCOME_APPLIED;
        is_applied ? answer_.set_num_applied(answer_.num_applied() + 1)
                   : answer_.set_num_stale(answer_.num_stale() + 1);
      }
      answer_.set_num_requests(answer_.num_requests() + 1);
      answer_.set_sequence(std::max(answer_.sequence(), response.sequence()));
      answer_.set_encoded_tokens(answer_.encoded_tokens() + response.encoded_tokens());
    }
    Proceed();
  }

  void TakeError(Attempt& attempt, const absl::Status& status) {
    if (WaitForRoom(attempt, status)) return;
    Refuse(attempt, InRequest(attempt.request, status));
  }

  void Refuse(Attempt& attempt, const absl::Status& status) {
    {
      MutexLock lock(&mutex_);
      EndHandling(attempt);
      --in_flight_;
      failure_.Update(status);
    }
    StopWaiting();
    Proceed();
  }

  // If `status` says that the collection has no room now, arranges to offer the request again later, and returns true.
  // Returns false if the request must be refused. Never repeats a request that was handed over: later requests may have
  // been handed over after it, and the order would be lost.
  bool WaitForRoom(Attempt& attempt, const absl::Status& status) {
    const std::optional<absl::Duration> delay = client::RetryAfter(status);
    if (!absl::IsResourceExhausted(status) || !delay.has_value()) return false;
    {
      MutexLock lock(&mutex_);
      const absl::Time now = MonotonicNow();
      const bool is_tired = waiting_since_.has_value() && now - *waiting_since_ > kMaxWait;
      if (attempt.is_over || is_tired || !GoesOn()) return false;
      attempt.is_over = true;  // The request goes on with another attempt.
      if (!waiting_since_.has_value()) waiting_since_ = now;
      --in_flight_;
    }
    // Each wait makes a new alarm, because an alarm must not be set again within its own callback. Do not keep an alarm
    // that has fired in alarm_: it would keep this call alive.
    const auto alarm = std::make_shared<grpc::Alarm>();
    const auto has_fired = std::make_shared<bool>(false);
    alarm->Set(FromNow(std::clamp(*delay, kShortestWait, kLongestWait)),
               [this, keep = self_, has_fired](bool) { OfferAgain(*has_fired); });
    {
      MutexLock lock(&mutex_);
      if (!*has_fired) alarm_ = alarm;
    }
    // If the stream ended before alarm_ was set, StopWaiting found no alarm.
    if (IsEnding()) alarm->Cancel();
    return true;
  }

  // If a request waits for room, ends the wait, and the request is dropped. Call it after the stream has been ended
  // (GoesOn returns false).
  void StopWaiting() {
    std::shared_ptr<grpc::Alarm> alarm;
    {
      MutexLock lock(&mutex_);
      alarm = alarm_;
    }
    if (alarm != nullptr) alarm->Cancel();
  }

  bool IsEnding() {
    MutexLock lock(&mutex_);
    return !GoesOn();
  }

  // Returns whether the stream still takes requests. After a request has failed, it takes none. So the request that the
  // stream's error names is the first one that may be missing.
  bool GoesOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !draining_ && !*cancelled_ && failure_.ok(); }

  // `has_fired` is guarded by mutex_.
  void OfferAgain(bool& has_fired) {
    std::shared_ptr<grpc::Alarm> fired;
    bool is_ending = false;
    {
      MutexLock lock(&mutex_);
      has_fired = true;
      fired.swap(alarm_);
      is_ending = !GoesOn();
      if (is_ending) handling_ = false;
    }
    if (!is_ending) Offer();
    Proceed();
  }

  // Starts what can be started now: a read, or the end of the stream.
  void Proceed() {
    bool read = false;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      ++starting_;
      if (!reading_ && !handling_ && !reads_done_ && GoesOn() && in_flight_ < max_in_flight_) {
        reading_ = true;
        read = true;
      }
    }
    if (read) {
      message_.Clear();
      StartRead(&message_);
    }
    End end = End::kNo;
    absl::Status failure;
    {
      MutexLock lock(&mutex_);
      --starting_;
      end = DecideEnd();
      failure = failure_;
      finished_ = finished_ || end != End::kNo;
      if (end == End::kOk) {
        failure = Guarded([&] {
          mutex_.AssertHeld();
          *response_ = ToBuffer(answer_);
          return absl::OkStatus();
        });
      }
    }
    // After Finish, gRPC may delete this call at any moment.
    if (end == End::kOk) Finish(client::ToGrpcStatus(failure));
    if (end == End::kFailed) {
      AddTrailers(failure, *context_);
      Finish(client::ToGrpcStatus(service::ForClient(failure)));
    }
    if (end == End::kDrained) Finish({grpc::StatusCode::UNAVAILABLE, "the server is draining"});
    if (end == End::kCancelled) Finish({grpc::StatusCode::CANCELLED, "the client cancelled the call"});
  }

  // Returns whether, and how, the stream ends now. It must not end while another thread is starting an operation,
  // because gRPC may delete the call after Finish. That other thread calls DecideEnd again when it has started its
  // operation.
  End DecideEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || starting_ > 0 || handling_ || in_flight_ > 0) return End::kNo;
    if (*cancelled_) return End::kCancelled;
    if (!failure_.ok()) return End::kFailed;
    if (reads_done_) return End::kOk;
    return draining_ ? End::kDrained : End::kNo;
  }

  grpc::CallbackServerContext* const context_;  // until OnDone
  grpc::ByteBuffer* const response_;            // until Finish
  service::DocumentApi* const service_;
  const AdmitRequest admit_;
  const uint64_t client_;
  const int max_in_flight_;
  StreamRegistry* const registry_;
  const absl::Time deadline_;
  const tracing::Tracer* const tracer_;
  const tracing::RemoteParent parent_;
  service::CallTracker::Call call_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<UpsertStreamCall> self_;  // set before the first operation, cleared by OnDone
  grpc::ByteBuffer message_;                // of the read in progress, or of the request that is handled

  Mutex mutex_;
  v1::UpsertStreamResponse answer_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_requests_ ABSL_GUARDED_BY(mutex_) = 0;  // that were read
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // requests that were offered, and are neither written nor refused
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;   // threads that are about to start an operation
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;               // message_ holds a request that was not handed over yet
  std::shared_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);  // set while a request waits for room
  absl::Time arrival_ ABSL_GUARDED_BY(mutex_);                  // of the request in message_
  std::optional<absl::Time> waiting_since_ ABSL_GUARDED_BY(mutex_);  // since when that request waits for room
  service::Caller caller_ ABSL_GUARDED_BY(mutex_);                   // of the request in message_
  bool reads_done_ ABSL_GUARDED_BY(mutex_) = false;                  // the client has closed its side
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);   // why no more is read
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
};

grpc::ServerReadReactor<grpc::ByteBuffer>* StartUpsertStream(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response, service::DocumentApi* service,
                                                             AdmitRequest admit, uint64_t client, int max_in_flight,
                                                             StreamRegistry* registry, service::CallTracker* tracker,
                                                             const tracing::Tracer* tracer) {
  auto stream = std::make_shared<UpsertStreamCall>(context, response, service, std::move(admit), client, max_in_flight,
                                                   registry, tracker, tracer);
  UpsertStreamCall* const reactor = stream.get();
  reactor->Start();
  return reactor;
}

}  // namespace maxsim::rpc
