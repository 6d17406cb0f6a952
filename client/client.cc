#include "client/client.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/monotonic_clock.h"
#include "client/client_core.h"
#include "client/grpc_support.h"
#include "client/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/create_channel.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::client {
namespace {

// Keeps gRPC's queue for callbacks alive. There is one queue per process. It ends with the last channel that has made a
// call with a callback, and in gRPC 1.51 a thread may still poll it then: an assertion fails, or freed memory is used.
// So one channel without a server makes such a call and lives for ever.
void KeepCallbackQueue() {
  static const auto* const keeper = [] {
    auto* stub = new v1::Reranker::Stub(grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments()));
    grpc::ClientContext context;
    const v1::GetInfoRequest request;
    v1::GetInfoResponse response;
    absl::Notification failed;
    stub->async()->GetInfo(&context, &request, &response, [&failed](const grpc::Status&) { failed.Notify(); });
    failed.WaitForNotification();
    return stub;
  }();
  static_cast<void>(keeper);
}

}  // namespace

// Makes all attempts of one asynchronous Rerank. At any time either an attempt is pending, or an alarm that starts the
// next attempt. The callback of either holds a reference to this object. The mutex is not held during calls of gRPC's
// functions, because they may run a callback before they return.
class AsyncCall : public std::enable_shared_from_this<AsyncCall> {
 public:
  AsyncCall(std::shared_ptr<Client::Core> core, std::shared_ptr<const v1::RerankRequest> request, absl::Time deadline,
            const RetryOptions& retry, RerankCallback callback)
      : core_(std::move(core)),
        request_(std::move(request)),
        deadline_(deadline),
        retry_(retry, deadline),
        callback_(std::move(callback)) {}

  void StartAttempt() {
    auto context = std::make_shared<grpc::ClientContext>();
    core_->Prepare(deadline_, *context);
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      alarm_ = nullptr;
      context_ = context;
      cancelled = cancelled_;
    }
    if (cancelled) return Finish(absl::CancelledError("the call was cancelled"));
    response_.Clear();
    core_->Next().reranker->async()->Rerank(
        context.get(), request_.get(), &response_,
        [self = shared_from_this(), context](const grpc::Status& status) { self->AttemptDone(status, *context); });
  }

  void Cancel() {
    std::shared_ptr<grpc::ClientContext> context;
    std::shared_ptr<grpc::Alarm> alarm;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      context = context_;
      alarm = alarm_;
    }
    if (context != nullptr) context->TryCancel();
    if (alarm != nullptr) alarm->Cancel();
  }

 private:
  void AttemptDone(const grpc::Status& status, const grpc::ClientContext& context) {
    AttemptResult result{FromGrpcStatus(status), PushbackOf(context)};
    const std::optional<absl::Duration> delay = retry_.NextDelay(result, MonotonicNow(), UniformRandom);
    if (!delay.has_value()) return Finish(std::move(result.status));
    auto alarm = std::make_shared<grpc::Alarm>();
    {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
      alarm_ = alarm;
    }
    // The alarm calls StartAttempt both when it is due and when it is cancelled. StartAttempt checks cancelled_.
    alarm->Set(ToGrpcTime(MonotonicNow() + *delay), [self = shared_from_this()](bool) { self->StartAttempt(); });
    // If Cancel was called before the alarm was set, cancelling the alarm had no effect. So cancel it now.
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      cancelled = cancelled_;
    }
    if (cancelled) alarm->Cancel();
  }

  void Finish(absl::Status status) {
    {
      RerankCallback callback = std::move(callback_);
      if (status.ok()) {
        std::move(callback)(std::move(response_));
      } else {
        std::move(callback)(std::move(status));
      }
    }
    absl::MutexLock lock(&core_->mutex);
    core_->calls.erase(shared_from_this());
  }

  const std::shared_ptr<Client::Core> core_;
  const std::shared_ptr<const v1::RerankRequest> request_;
  const absl::Time deadline_;
  RetryState retry_;  // only the pending attempt uses it, response_ and callback_
  RerankCallback callback_;
  v1::RerankResponse response_;

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

void CallHandle::Cancel() const {
  if (const std::shared_ptr<AsyncCall> call = call_.lock()) call->Cancel();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> channels = MakeChannels(options);
  if (!channels.ok()) return channels.status();
  auto core = std::make_shared<Core>(options);
  for (std::shared_ptr<grpc::Channel>& channel : *channels) {
    Core::Connection& connection = core->connections.emplace_back();
    connection.channel = std::move(channel);
    connection.reranker = v1::Reranker::NewStub(connection.channel);
    connection.documents = v1::Documents::NewStub(connection.channel);
    connection.admin = v1::Admin::NewStub(connection.channel);
  }
  return std::unique_ptr<Client>(new Client(std::move(core)));
}

Client::Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Client::~Client() {
  std::vector<std::shared_ptr<AsyncCall>> calls;
  {
    absl::MutexLock lock(&core_->mutex);
    calls.assign(core_->calls.begin(), core_->calls.end());
  }
  for (const std::shared_ptr<AsyncCall>& call : calls) call->Cancel();
  const auto none_left = [this] {
    core_->mutex.AssertHeld();
    return core_->calls.empty();
  };
  absl::MutexLock lock(&core_->mutex);
  core_->mutex.Await(absl::Condition(&none_left));
}

absl::StatusOr<v1::RerankResponse> Client::Rerank(const v1::RerankRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::reranker, &v1::Reranker::Stub::Rerank, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

CallHandle Client::RerankAsync(std::shared_ptr<const v1::RerankRequest> request, const CallOptions& call,
                               RerankCallback callback) {
  KeepCallbackQueue();
  auto started = std::make_shared<AsyncCall>(core_, std::move(request), DeadlineOf(call, options().timeout),
                                             core_->Retry(call), std::move(callback));
  {
    absl::MutexLock lock(&core_->mutex);
    core_->calls.insert(started);
  }
  started->StartAttempt();
  return CallHandle(started);
}

std::unique_ptr<RerankSession> Client::OpenSession(absl::Duration timeout) {
  std::unique_ptr<RerankSession> session(new RerankSession);
  core_->Prepare(timeout == absl::ZeroDuration() ? absl::InfiniteFuture() : MonotonicNow() + timeout,
                 session->context_);
  session->stream_ = core_->Next().reranker->RerankStream(&session->context_);
  return session;
}

absl::StatusOr<v1::UpsertResponse> Client::Upsert(const v1::UpsertRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Upsert, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::DeleteResponse> Client::Delete(const v1::DeleteRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Delete, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::DeleteResponse> Client::DeleteMatching(v1::DeleteRequest request, const CallOptions& call) {
  if (request.matching_case() == v1::DeleteRequest::MATCHING_NOT_SET) {
    return InvalidField("filter", "is not set, and neither is filter_text; to delete documents by ids, call Delete");
  }
  v1::DeleteResponse sum;
  // A router's error may say how many documents other groups have deleted. Count them now: the next attempt does not
  // find these documents.
  const auto note_failure = [&sum](const absl::Status& failed) {
    sum.set_num_deleted(sum.num_deleted() + NumDeletedOf(failed).value_or(0));
  };
  for (bool has_more = true; has_more;) {
    const absl::StatusOr<v1::DeleteResponse> answer =
        core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Delete, request,
                    DeadlineOf(call, options().timeout), core_->Retry(call), note_failure);
    if (!answer.ok()) {
      absl::Status failed = answer.status();
      if (sum.num_deleted() > 0) SetPartlyDeleted(sum.num_deleted(), failed);
      return failed;
    }
    sum.set_num_deleted(sum.num_deleted() + answer->num_deleted());
    sum.set_num_missing(sum.num_missing() + answer->num_missing());
    sum.set_num_stale(sum.num_stale() + answer->num_stale());
    sum.set_sequence(std::max(sum.sequence(), answer->sequence()));
    request.set_min_sequence(std::max(request.min_sequence(), answer->sequence()));
    has_more = answer->has_more();
    if (has_more && answer->num_deleted() + answer->num_missing() + answer->num_stale() == 0) {
      return absl::InternalError("the server's answer is wrong: has_more is set, but no document was found");
    }
  }
  return sum;
}

absl::StatusOr<v1::GetResponse> Client::Get(const v1::GetRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Get, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::ScrollResponse> Client::Scroll(const v1::ScrollRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Scroll, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::CountResponse> Client::Count(const v1::CountRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Count, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::FacetsResponse> Client::Facets(const v1::FacetsRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::documents, &v1::Documents::Stub::Facets, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::RerankRequest& request, const CallOptions& call) {
  return core_->Call(&Core::Connection::reranker, &v1::Reranker::Stub::Explain, request,
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

absl::StatusOr<v1::GetInfoResponse> Client::GetInfo(const CallOptions& call) {
  return core_->Call(&Core::Connection::reranker, &v1::Reranker::Stub::GetInfo, v1::GetInfoRequest(),
                     DeadlineOf(call, options().timeout), core_->Retry(call));
}

bool Client::connected() const {
  for (const Core::Connection& connection : core_->connections) {
    if (connection.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return true;
  }
  return false;
}

const ClientOptions& Client::options() const { return core_->options; }

}  // namespace maxsim::client
