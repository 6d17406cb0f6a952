#include "server/grpc/rerank_stream.h"

#include <atomic>
#include <iterator>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "client/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/grpc/stream_response.h"
#include "server/service/call/call_record.h"

namespace maxsim::rpc {
namespace {

constexpr char kMethod[] = "RerankStream";
constexpr char kSpan[] = "maxsim.v1.Reranker/RerankStream";

}  // namespace

// Two threads may run in this object: one of gRPC's (reads, writes, cancellation) and one of the scheduler's (answers).
// `self_` keeps the object alive until gRPC no longer uses it; a request in flight may keep it alive for longer. gRPC's
// operations are started without holding the mutex, because StartRead, StartWrite and Finish may call back on the same
// thread. The thread that has set an operation's flag (reading_, writing_, finished_) under the mutex starts the
// operation, so no operation is started twice.
class RerankStreamCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public DrainableStream,
                         public std::enable_shared_from_this<RerankStreamCall> {
 public:
  RerankStreamCall(grpc::CallbackServerContext* context, service::RerankApi* service, AdmitRequest admit,
                   uint64_t client, int max_in_flight, AnswerBudget* answers, StreamRegistry* registry,
                   service::CallTracker* tracker, const tracing::Tracer* tracer)
      : context_(context),
        service_(service),
        admit_(std::move(admit)),
        client_(client),
        max_in_flight_(max_in_flight),
        max_unread_bytes_(answers->max_stream_bytes()),
        registry_(registry),
        deadline_(DeadlineOf(*context)),
        tracer_(tracer),
        parent_(ParentOf(tracer, *context)),
        call_(tracker),
        account_(answers, context) {}

  void Start() {
    self_ = shared_from_this();
    if (const absl::Status admitted = admit_().status(); !admitted.ok()) {
      {
        MutexLock lock(&mutex_);
        finished_ = true;
      }
      return Finish(client::ToGrpcStatus(admitted));
    }
    if (registry_->Add(self_)) Drain();
    Proceed();
  }

  void Drain() override {
    {
      MutexLock lock(&mutex_);
      draining_ = true;
    }
    Proceed();
  }

  void OnReadDone(bool ok) override {
    const absl::Time arrival = MonotonicNow();
    const std::shared_ptr<RerankStreamCall> keep = self_;
    const absl::StatusOr<service::Caller> admitted = ok ? admit_() : service::Caller();
    if (ok && admitted.ok() && Accept()) TakeRequest(arrival, *admitted);
    {
      // Only from here on may the next read begin, since it overwrites message_.
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok) reads_done_ = true;
      refused_.Update(admitted.status());
    }
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    const std::shared_ptr<RerankStreamCall> keep = self_;
    Answers written;
    Answers dropped;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      written.splice(written.end(), answers_, answers_.begin());
      unread_bytes_ -= written.front().message.Length();
      --in_flight_;
      if (!ok) Break(dropped);
    }
    account_.Remove(written.front().message.Length());
    WriteRecords(written, /*is_sent=*/ok);
    WriteRecords(dropped, /*is_sent=*/false);
    Proceed();
  }

  void OnCancel() override {
    const std::shared_ptr<RerankStreamCall> keep = self_;
    cancelled_->store(true, std::memory_order_relaxed);
    Answers dropped;
    {
      MutexLock lock(&mutex_);
      Break(dropped);
    }
    WriteRecords(dropped, /*is_sent=*/false);
    Proceed();
  }

  void OnDone() override {
    registry_->Remove(self_);
    // Not in the destructor: a request in flight may keep the object alive.
    call_.End();
    account_.Close();
    const std::shared_ptr<RerankStreamCall> last = std::move(self_);
  }

 private:
  struct WaitingAnswer {
    grpc::ByteBuffer message;
    // The record (metrics, log line), until it is written. Null if there is none.
    std::unique_ptr<service::CallRecord> record;
  };
  // A list, because splitting a list allocates nothing, and because gRPC reads an answer at an address that must not
  // change.
  using Answers = std::list<WaitingAnswer>;

  // A request that was read and has no answer yet. If the request is lost because memory ran out, the destructor counts
  // it and ends the stream.
  class Unanswered {
   public:
    Unanswered(std::shared_ptr<RerankStreamCall> stream, absl::Time arrival)
        : stream_(std::move(stream)), arrival_(arrival) {}
    Unanswered(Unanswered&&) = default;
    Unanswered& operator=(Unanswered&&) = delete;
    ~Unanswered() {
      if (stream_ != nullptr) stream_->Lose(arrival_);
    }

    // Returns the stream. From now on the caller must answer and count the request.
    std::shared_ptr<RerankStreamCall> Take() { return std::exchange(stream_, nullptr); }

   private:
    std::shared_ptr<RerankStreamCall> stream_;
    absl::Time arrival_;
  };

  enum class End { kNo, kOk, kRefused, kDrained, kCancelled };

  // Counts a request that was read, and returns true if it must be answered. This is so unless the stream has finished,
  // even if the stream was told to end while the request was read.
  bool Accept() {
    MutexLock lock(&mutex_);
    if (finished_) return false;
    ++in_flight_;
    return true;
  }

  // Stops the writing of answers, because the client reads no more of them or memory ran out. Moves the unsent answers
  // to `dropped`, which must be empty. An answer that is being written stays in answers_ until gRPC has finished with
  // it.
  void Break(Answers& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    broken_ = true;
    dropped.splice(dropped.end(), answers_, writing_ ? std::next(answers_.begin()) : answers_.begin(), answers_.end());
    for (const WaitingAnswer& answer : dropped) unread_bytes_ -= answer.message.Length();
  }

  // Returns the reason why the client does not get the answers of this stream.
  absl::Status WhyEnded() const {
    if (absl::Status ended = account_.ended(); !ended.ok()) return ended;
    if (MonotonicNow() >= deadline_) return absl::DeadlineExceededError("the answer came after the deadline");
    return absl::CancelledError("the client cancelled the call");
  }

  // Writes the records (metrics, log lines) of answers. `is_sent` says whether the client got them. Runs on threads of
  // gRPC and of the scheduler, so it must not throw.
  void WriteRecords(const Answers& answers, bool is_sent) const {
    const absl::Status status = is_sent ? absl::OkStatus() : Guarded([&] { return WhyEnded(); });
    for (const WaitingAnswer& answer : answers) {
      if (answer.record != nullptr) answer.record->Write(status);
    }
  }

  // Handles the request that was read. If memory runs out, cancels the stream, because there is no memory for an error
  // message.
  void TakeRequest(absl::Time arrival, const service::Caller& caller) {
    try {
      ParseAndRerank(arrival, caller);
    } catch (const std::bad_alloc&) {
      context_->TryCancel();
    }
  }

  void ParseAndRerank(absl::Time arrival, const service::Caller& caller) {
    Unanswered unanswered(self_, arrival);
    v1::RerankRequest request;
    const absl::Status parsed = ParseMessage(message_, request);
    message_.Clear();
    if (!parsed.ok()) {
      unanswered.Take();
      service_->CountUnread(kMethod, arrival, parsed);
      return Answer(ToStreamResponse("", parsed), nullptr);
    }
    const std::string id = request.request_id();
    auto record = std::make_unique<service::CallRecord>();
    service::CallRecord* const of_call = record.get();
    service_->Rerank(std::move(request),
                     {.method = kMethod,
                      .arrival = arrival,
                      .deadline = deadline_,
                      .client = client_,
                      .cancelled = cancelled_,
                      .span = StartSpan(tracer_, kSpan, parent_, arrival),
                      .record = of_call,
                      .caller = caller},
                     [unanswered = std::move(unanswered), id,
                      record = std::move(record)](absl::StatusOr<v1::RerankResponse> response) mutable {
                       const std::shared_ptr<RerankStreamCall> stream = unanswered.Take();
                       stream->AnswerRequest(id, std::move(response), std::move(record));
                     });
  }

  // Runs on a thread of the scheduler, so it must not throw.
  void AnswerRequest(const std::string& id, absl::StatusOr<v1::RerankResponse> response,
                     std::unique_ptr<service::CallRecord> record) {
    record->EndTime();
    if (!response.ok()) record->Write(response.status());
    try {
      const grpc::ByteBuffer answer = ToStreamResponse(id, std::move(response));
      Answer(answer, std::move(record));
    } catch (const std::bad_alloc&) {
      if (record != nullptr) record->Write(NoMemory());
      Abandon();
    }
  }

  // Queues an answer for writing. `record` may be null. It is written exactly once, even if this throws std::bad_alloc.
  void Answer(const grpc::ByteBuffer& message, std::unique_ptr<service::CallRecord> record) {
    const uint64_t bytes = message.Length();
    Answers answer;
    try {
      answer.push_back({message, nullptr});
      // Add the answer to the budget before it can be written, because OnWriteDone removes it again. Do not hold the
      // mutex, because the budget may cancel this call.
      account_.Add(bytes);
    } catch (const std::bad_alloc&) {
      if (record != nullptr) record->Write(NoMemory());
      throw;
    }
    answer.front().record = std::move(record);
    {
      MutexLock lock(&mutex_);
      if (!finished_ && !broken_) {
        // Write the record before a small answer is sent, because a client that has its answer may then look at the
        // metrics.
        if (answers_.empty() && bytes <= kSentAtOnceBytes) WriteRecords(answer, /*is_sent=*/true);
        answers_.splice(answers_.end(), answer);
        unread_bytes_ += bytes;
      }
    }
    if (!answer.empty()) return WriteRecords(answer, /*is_sent=*/false);
    Proceed();
  }

  // Called when memory ran out and a request is lost.
  void Lose(absl::Time arrival) {
    Guarded([&] {
      service_->CountUnread(kMethod, arrival, NoMemory());
      return absl::OkStatus();
    }).IgnoreError();
    Abandon();
  }

  // Ends the stream, because memory ran out and the client would miss an answer.
  void Abandon() {
    Answers dropped;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      Break(dropped);
    }
    WriteRecords(dropped, /*is_sent=*/false);
    Proceed();
  }

  // Starts what can be started now: a write, a read, or the end of the stream.
  void Proceed() {
    bool read = false;
    const grpc::ByteBuffer* write = nullptr;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      ++starting_;
      if (!broken_ && !writing_ && !answers_.empty()) {
        writing_ = true;
        write = &answers_.front().message;
      }
      if (!broken_ && !reading_ && !reads_done_ && !draining_ && refused_.ok() && in_flight_ < max_in_flight_ &&
          unread_bytes_ <= max_unread_bytes_) {
        reading_ = true;
        read = true;
      }
    }
    if (write != nullptr) StartWrite(write);
    if (read) StartRead(&message_);
    End end = End::kNo;
    absl::Status refused;
    {
      MutexLock lock(&mutex_);
      --starting_;
      end = DecideEnd();
      refused = refused_;
      finished_ = finished_ || end != End::kNo;
    }
    // After Finish, gRPC may delete this call at any moment.
    if (end == End::kOk) Finish(grpc::Status::OK);
    if (end == End::kRefused) Finish(client::ToGrpcStatus(refused));
    if (end == End::kDrained) Finish({grpc::StatusCode::UNAVAILABLE, "the server is draining"});
    if (end == End::kCancelled) Finish({grpc::StatusCode::CANCELLED, "the client cancelled the call"});
  }

  // Returns whether, and how, the stream ends now. It must not end while another thread is starting an operation,
  // because gRPC may delete the call after Finish. That other thread calls DecideEnd again when it has started its
  // operation.
  End DecideEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || starting_ > 0 || writing_) return End::kNo;
    if (broken_) return End::kCancelled;
    if (in_flight_ > 0) return End::kNo;
    if (!refused_.ok()) return End::kRefused;
    if (reads_done_) return End::kOk;
    return draining_ ? End::kDrained : End::kNo;
  }

  grpc::CallbackServerContext* const context_;  // until OnDone
  service::RerankApi* const service_;
  const AdmitRequest admit_;
  const uint64_t client_;
  const int max_in_flight_;
  const uint64_t max_unread_bytes_;
  StreamRegistry* const registry_;
  const absl::Time deadline_;
  const tracing::Tracer* const tracer_;
  const tracing::RemoteParent parent_;
  service::CallTracker::Call call_;
  AnswerBudget::Account account_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<RerankStreamCall> self_;  // set before the first operation, cleared by OnDone
  grpc::ByteBuffer message_;                // of the read in progress, or of the request that is handled

  Mutex mutex_;
  Answers answers_ ABSL_GUARDED_BY(mutex_);            // the front one is being written while writing_
  uint64_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of answers_
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;          // requests that were read and whose answers are not written yet
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;           // threads that are about to start an operation
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;       // a read is under way, or what it read is being handled
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_done_ ABSL_GUARDED_BY(mutex_) = false;  // the client has closed its side
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);   // why requests are no longer read
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;    // the call was cancelled, or a write failed: no answer can arrive
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
};

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartRerankStream(
    grpc::CallbackServerContext* context, service::RerankApi* service, AdmitRequest admit, uint64_t client,
    int max_in_flight, AnswerBudget* answers, StreamRegistry* registry, service::CallTracker* tracker,
    const tracing::Tracer* tracer) {
  auto stream = std::make_shared<RerankStreamCall>(context, service, std::move(admit), client, max_in_flight, answers,
                                                   registry, tracker, tracer);
  RerankStreamCall* const reactor = stream.get();
  reactor->Start();
  return reactor;
}

}  // namespace maxsim::rpc
