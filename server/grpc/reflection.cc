#include "server/grpc/reflection.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/status.h"
#include "google/protobuf/message.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/call/status.h"

namespace maxsim::rpc {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> WithPublicServices(std::vector<std::string> services) {
  // Reflection describes gRPC's health service by the descriptor that this program links. The linker would leave that
  // out if nothing referred to it.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  services.emplace_back(grpc::health::v1::Health::service_full_name());
  services.emplace_back(grpc::reflection::v1::ServerReflection::service_full_name());
  services.emplace_back(grpc::reflection::v1alpha::ServerReflection::service_full_name());
  return services;
}

}  // namespace

// A stream reads a request, then makes the answer, then writes it. So at most one gRPC operation is in progress. End is
// called on other threads. Operations are started without holding the mutex, because gRPC may call back on the same
// thread. While an operation is being started, `starting_` keeps other threads from calling Finish, after which gRPC
// may delete the call.
class ReflectionStream : public Reflection::Reactor, public std::enable_shared_from_this<ReflectionStream> {
 public:
  ReflectionStream(grpc::CallbackServerContext* context, Reflection* reflection)
      : context_(context), reflection_(reflection), call_(reflection->calls_) {}

  void Start() {
    self_ = shared_from_this();
    absl::Status admitted = Admit();
    if (admitted.ok()) admitted = reflection_->Add(self_);
    if (!admitted.ok()) return Conclude(client::ToGrpcStatus(admitted));
    Proceed(Operation::kRead);
  }

  void OnReadDone(bool ok) override {
    const std::shared_ptr<ReflectionStream> keep = self_;
    if (!ok) return Conclude(grpc::Status::OK);
    absl::Status status = Admit();
    grpc::reflection::v1::ServerReflectionRequest request;
    if (const size_t limit = reflection_->limits_.max_request_bytes; status.ok() && message_.Length() > limit) {
      status = absl::InvalidArgumentError(
          absl::StrCat("the request has ", message_.Length(), " bytes, more than the limit ", limit));
    }
    if (status.ok()) status = ParseMessage(message_, request);
    message_.Clear();
    if (!status.ok()) return Conclude(client::ToGrpcStatus(status));
    answer_ = ToBuffer(reflection_->descriptors_.Answer(request));
    Proceed(Operation::kWrite);
  }

  void OnWriteDone(bool ok) override {
    const std::shared_ptr<ReflectionStream> keep = self_;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
    }
    if (!ok) return Conclude({grpc::StatusCode::CANCELLED, "the client cancelled the call"});
    Proceed(Operation::kRead);
  }

  void OnCancel() override {
    const std::shared_ptr<ReflectionStream> keep = self_;
    Conclude({grpc::StatusCode::CANCELLED, "the client cancelled the call"});
  }

  void OnDone() override {
    reflection_->Remove(self_);
    call_.End();
    const std::shared_ptr<ReflectionStream> last = std::move(self_);
  }

  bool IdleSince(Clock::time_point time) {
    MutexLock lock(&mutex_);
    return last_request_ < time;
  }

  // Ends the stream with `status`, unless its end was decided before. If an answer is being written, cancels the call,
  // because the client may never read that answer.
  void End(const grpc::Status& status) {
    bool is_writing = false;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      if (!end_.has_value()) end_ = status;
      is_writing = writing_;
      ++starting_;
    }
    if (is_writing) context_->TryCancel();
    Started();
  }

 private:
  enum class Operation { kRead, kWrite };

  // Check the token for each request: it may become invalid meanwhile.
  absl::Status Admit() const { return Authenticate(*reflection_->authenticator_, *context_, service::Scope::kSearch); }

  // Starts the operation or, if the stream's end is decided, ends the stream.
  void Proceed(Operation operation) {
    bool goes_on = false;
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      goes_on = !end_.has_value();
      if (goes_on && operation == Operation::kWrite) {
        writing_ = true;
        last_request_ = Clock::now();
      }
      ++starting_;
    }
    if (goes_on && operation == Operation::kRead) StartRead(&message_);
    if (goes_on && operation == Operation::kWrite) StartWrite(&answer_);
    Started();
  }

  void Conclude(const grpc::Status& status) {
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      if (!end_.has_value()) end_ = status;
      ++starting_;
    }
    Started();
  }

  // Ends the period that ++starting_ began. Finishes the call if its end is decided, no answer is being written and no
  // other thread is starting an operation.
  void Started() {
    grpc::Status status;
    {
      MutexLock lock(&mutex_);
      --starting_;
      if (!end_.has_value() || finished_ || writing_ || starting_ > 0) return;
      finished_ = true;
      status = *end_;
    }
    Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  Reflection* const reflection_;
  service::CallTracker::Call call_;
  std::shared_ptr<ReflectionStream> self_;  // set before the first operation, cleared by OnDone
  grpc::ByteBuffer message_;                // being read
  grpc::ByteBuffer answer_;                 // being written

  Mutex mutex_;
  Clock::time_point last_request_ ABSL_GUARDED_BY(mutex_) = Clock::now();
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);  // how the stream ends, once that is known
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;                 // threads that are about to start an operation
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
};

Reflection::Reflection(std::vector<std::string> services, const service::Authenticator* authenticator,
                       service::CallTracker* calls, Limits limits)
    : descriptors_(WithPublicServices(std::move(services))),
      authenticator_(authenticator),
      calls_(calls),
      limits_(limits) {}

Reflection::Reactor* Reflection::Begin(grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<ReflectionStream>(context, this);
  ReflectionStream* const reactor = stream.get();
  reactor->Start();
  return reactor;
}

absl::Status Reflection::Add(const std::shared_ptr<ReflectionStream>& stream) {
  MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError("the server is draining");
  if (streams_.size() >= static_cast<size_t>(limits_.max_streams)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(streams_.size(), " reflection streams are open, which is the limit"));
  }
  streams_.insert(stream);
  return absl::OkStatus();
}

void Reflection::Remove(const std::shared_ptr<ReflectionStream>& stream) {
  MutexLock lock(&mutex_);
  streams_.erase(stream);
}

std::vector<std::shared_ptr<ReflectionStream>> Reflection::OpenStreams() {
  MutexLock lock(&mutex_);
  return {streams_.begin(), streams_.end()};
}

void Reflection::EndIdleStreams() {
  const Clock::time_point oldest = Clock::now() - limits_.max_idle;
  for (const std::shared_ptr<ReflectionStream>& stream : OpenStreams()) {
    if (stream->IdleSince(oldest)) stream->End({grpc::StatusCode::UNAVAILABLE, "the reflection stream was idle"});
  }
}

void Reflection::Drain() {
  {
    MutexLock lock(&mutex_);
    draining_ = true;
  }
  for (const std::shared_ptr<ReflectionStream>& stream : OpenStreams()) {
    stream->End({grpc::StatusCode::UNAVAILABLE, "the server is draining"});
  }
}

}  // namespace maxsim::rpc
