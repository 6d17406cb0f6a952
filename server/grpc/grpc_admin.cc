#include "server/grpc/grpc_admin.h"

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/monotonic_clock.h"
#include "client/status.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/grpc/snapshot_stream.h"
#include "server/observability/logging.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"

namespace maxsim::rpc {
namespace {

using Clock = StopSignal::Clock;
using service::Worker;

// A cancellation within this time before the call's deadline counts as DEADLINE_EXCEEDED: by the client's own clock the
// deadline has passed a little earlier.
constexpr std::chrono::milliseconds kDeadlineSlack{100};

Clock::time_point SteadyDeadlineOf(const grpc::CallbackServerContext& context) {
  const absl::Time deadline = DeadlineOf(context);
  if (deadline == absl::InfiniteFuture()) return Clock::time_point::max();
  return Clock::now() + absl::ToChronoNanoseconds(deadline - MonotonicNow());
}

// A call that changes collections. Its work stops soon after the client cancels the call or its deadline passes.
class ChangeCall final : public UnaryCall {
 public:
  ChangeCall(service::CallTracker* calls, Worker* worker, Clock::time_point deadline, tracing::Span span)
      : UnaryCall(calls), worker_(worker), stop_(std::make_shared<StopSignal>(deadline)), span_(std::move(span)) {}

  const std::shared_ptr<StopSignal>& stop() const { return stop_; }

  // Returns the call's span, which lives as long as the call.
  tracing::Span* span() { return &span_; }

  void OnCancel() override {
    const bool is_late = stop_->deadline() - Clock::now() < kDeadlineSlack;
    stop_->Request(is_late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled);
    worker_->Withdraw(stop_.get());
  }

 private:
  Worker* const worker_;
  const std::shared_ptr<StopSignal> stop_;
  tracing::Span span_;
};

// Returns the name of a method's span: a literal, because spans do not copy names.
std::string_view SpanNameOf(std::string_view method) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "maxsim.v1.Admin/ListCollections",    "maxsim.v1.Admin/LoadCollection",      "maxsim.v1.Admin/ReloadCollection",
      "maxsim.v1.Admin/UnloadCollection",   "maxsim.v1.Admin/CreateCollection",    "maxsim.v1.Admin/CompactCollection",
      "maxsim.v1.Admin/SnapshotCollection", "maxsim.v1.Admin/BootstrapCollection", "maxsim.v1.Admin/ReadSnapshot",
      "maxsim.v1.Admin/SetLayout"};
  for (const std::string_view name : kNames) {
    if (name.substr(name.rfind('/') + 1) == method) return name;
  }
  return "maxsim.v1.Admin";
}

}  // namespace

absl::Status GrpcAdmin::CheckAccepted() const {
  if (accepts_changes_) return absl::OkStatus();
  return absl::UnavailableError("the server is loading its configured collections");
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* GrpcAdmin::RunOnWorker(grpc::CallbackServerContext* context, const char* method,
                                                 Worker::Length length, const grpc::ByteBuffer& request,
                                                 grpc::ByteBuffer* response, Work<Request, Response> work) {
  const service::CallTracker::Call arriving(calls_);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  Request parsed;
  absl::Status status = Authenticate(*authenticator_, *context, service::Scope::kAdmin);
  if (status.ok()) status = ParseMessage(request, parsed);
  if (status.ok()) status = CheckAccepted();
  // A call without a valid token is not traced.
  tracing::Span span = status.ok() ? StartSpan(tracer_, SpanNameOf(method), *context, arrival) : tracing::Span();
  span.SetAttribute("maxsim.collection", parsed.name());
  auto* const call = new ChangeCall(calls_, worker_, SteadyDeadlineOf(*context), std::move(span));
  grpc::ServerUnaryReactor* const reactor = call;
  tracing::Span* const of_call = call->span();
  const auto finish = [this, reactor, of_call, arrival, method](const absl::Status& end) {
    metrics_->CountRequest(method, end.code(), MonotonicNow() - arrival);
    service::EndCall(end, *of_call);
    reactor->Finish(client::ToGrpcStatus(end));
  };
  if (!status.ok()) {
    finish(status);
    return reactor;
  }
  log::Write(spdlog::level::info, "admin_call",
             {{"method", method}, {"name", parsed.name()}, {"peer", context->peer()}});
  // After Finish the reactor may be deleted, so take what the task needs now.
  const std::shared_ptr<StopSignal> stop = call->stop();
  std::string key = parsed.name();
  worker_->Post(std::move(key), length, stop,
                [finish, parsed = std::move(parsed), response, stop, span = of_call->AsParent(),
                 work = std::move(work)](const absl::Status& turn) mutable {
                  if (!turn.ok()) return finish(turn);
                  absl::Status done;
                  try {
                    Response answer;
                    done = work(parsed, answer, {.stop = stop.get(), .span = span});
                    if (done.ok()) *response = ToBuffer(answer);
                  } catch (const std::bad_alloc&) {
                    done = absl::ResourceExhaustedError("out of memory");
                  }
                  finish(done);
                });
  return reactor;
}

grpc::ServerUnaryReactor* GrpcAdmin::ListCollections(grpc::CallbackServerContext* context,
                                                     const v1::ListCollectionsRequest*,
                                                     v1::ListCollectionsResponse* response) {
  const absl::Time arrival = MonotonicNow();
  const absl::Status status = Authenticate(*authenticator_, *context, service::Scope::kAdmin);
  if (status.ok()) {
    const tracing::Span span = StartSpan(tracer_, SpanNameOf("ListCollections"), *context, arrival);
    for (v1::CollectionInfo& info : collections_->List()) *response->add_collections() = std::move(info);
  }
  metrics_->CountRequest("ListCollections", status.code(), MonotonicNow() - arrival);
  auto* reactor = new UnaryCall(calls_);
  reactor->Finish(client::ToGrpcStatus(status));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcAdmin::LoadCollection(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::LoadCollectionRequest, v1::LoadCollectionResponse>(
      context, "LoadCollection", Worker::Length::kLong, *request, response,
      [this](const v1::LoadCollectionRequest& wanted, v1::LoadCollectionResponse& answer,
             const service::ChangeContext& change) {
        auto info = collections_->LoadForClient(wanted, change);
        if (!info.ok()) return info.status();
        *answer.mutable_collection() = *std::move(info);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::ReloadCollection(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::ReloadCollectionRequest, v1::ReloadCollectionResponse>(
      context, "ReloadCollection", Worker::Length::kLong, *request, response,
      [this](const v1::ReloadCollectionRequest& wanted, v1::ReloadCollectionResponse& answer,
             const service::ChangeContext& change) {
        auto reloaded = collections_->Reload(wanted, change);
        if (!reloaded.ok()) return reloaded.status();
        answer = *std::move(reloaded);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::UnloadCollection(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::UnloadCollectionRequest, v1::UnloadCollectionResponse>(
      context, "UnloadCollection", Worker::Length::kShort, *request, response,
      [this](const v1::UnloadCollectionRequest& wanted, v1::UnloadCollectionResponse&,
             const service::ChangeContext& change) {
        return collections_->Unload(wanted.name(), wanted.remove_settings(), change);
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::CreateCollection(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::CreateCollectionRequest, v1::CreateCollectionResponse>(
      context, "CreateCollection", Worker::Length::kLong, *request, response,
      [this](const v1::CreateCollectionRequest& wanted, v1::CreateCollectionResponse& answer,
             const service::ChangeContext& change) {
        auto info = collections_->CreateForClient(wanted, change);
        if (!info.ok()) return info.status();
        *answer.mutable_collection() = *std::move(info);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::CompactCollection(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::CompactCollectionRequest, v1::CompactCollectionResponse>(
      context, "CompactCollection", Worker::Length::kLong, *request, response,
      [this](const v1::CompactCollectionRequest& wanted, v1::CompactCollectionResponse& answer,
             const service::ChangeContext& change) {
        bool changed = false;
        auto info = collections_->Compact(wanted.name(), &changed, change);
        if (!info.ok()) return info.status();
        *answer.mutable_collection() = *std::move(info);
        answer.set_changed(changed);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::SnapshotCollection(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::SnapshotCollectionRequest, v1::SnapshotCollectionResponse>(
      context, "SnapshotCollection", Worker::Length::kLong, *request, response,
      [this](const v1::SnapshotCollectionRequest& wanted, v1::SnapshotCollectionResponse& answer,
             const service::ChangeContext& change) {
        const absl::StatusOr<uint64_t> sequence = collections_->SnapshotForClient(wanted.name(), wanted.path(), change);
        if (!sequence.ok()) return sequence.status();
        answer.set_sequence(*sequence);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::SetLayout(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return RunOnWorker<v1::SetLayoutRequest, v1::SetLayoutResponse>(
      context, "SetLayout", Worker::Length::kShort, *request, response,
      [this](const v1::SetLayoutRequest& wanted, v1::SetLayoutResponse& answer, const service::ChangeContext& change) {
        absl::StatusOr<v1::SlotLayout> layout = collections_->SetLayout(wanted, change);
        if (!layout.ok()) return layout.status();
        *answer.mutable_layout() = *std::move(layout);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* GrpcAdmin::BootstrapCollection(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return RunOnWorker<v1::BootstrapCollectionRequest, v1::BootstrapCollectionResponse>(
      context, "BootstrapCollection", Worker::Length::kLong, *request, response,
      [this](const v1::BootstrapCollectionRequest& wanted, v1::BootstrapCollectionResponse& answer,
             const service::ChangeContext& change) {
        auto bootstrapped = collections_->Bootstrap(wanted, change);
        if (!bootstrapped.ok()) return bootstrapped.status();
        answer = *std::move(bootstrapped);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GrpcAdmin::ReadSnapshot(grpc::CallbackServerContext* context,
                                                                    const grpc::ByteBuffer* request) {
  static constexpr char kMethod[] = "ReadSnapshot";
  const service::CallTracker::Call arriving(calls_);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  v1::ReadSnapshotRequest parsed;
  absl::Status status = Authenticate(*authenticator_, *context, service::Scope::kAdmin);
  if (status.ok()) status = ParseMessage(*request, parsed);
  if (status.ok()) status = CheckAccepted();
  if (!status.ok()) {
    metrics_->CountRequest(kMethod, status.code(), MonotonicNow() - arrival);
    return RefuseSnapshotStream(status, calls_);
  }
  const auto span = std::make_shared<tracing::Span>(StartSpan(tracer_, SpanNameOf(kMethod), *context, arrival));
  span->SetAttribute("maxsim.collection", parsed.name());
  log::Write(spdlog::level::info, "admin_call",
             {{"method", kMethod}, {"name", parsed.name()}, {"peer", context->peer()}});
  return StartSnapshotStream(
      context, std::make_shared<StopSignal>(SteadyDeadlineOf(*context)),
      [this, name = parsed.name(), span](service::SnapshotSink sink, const StopSignal& stop) {
        return collections_->ReadSnapshot(name, sink, {.stop = &stop, .span = span->AsParent()});
      },
      [this, arrival, span](const absl::Status& end) {
        metrics_->CountRequest(kMethod, end.code(), MonotonicNow() - arrival);
        service::EndCall(end, *span);
      },
      &stream_threads_, &streams_, calls_);
}

}  // namespace maxsim::rpc
