#include "server/cluster/snapshot_client.h"

#include <utility>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "client/client.h"
#include "client/grpc_support.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/async_stream.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/observed/attempt_spans.h"

namespace maxsim::cluster {
namespace {

// A call may wait for minutes, until the server has compacted a collection, hashed a large file, or taken its turn. So
// only pings tell whether the server is still there. Servers allow a ping every ten seconds.
constexpr absl::Duration kPingInterval = absl::Seconds(20);
constexpr absl::Duration kPingTimeout = absl::Seconds(10);

// A server answers GetInfo within milliseconds. After this time it counts as one that does not answer.
constexpr absl::Duration kInfoTimeout = absl::Seconds(3);

constexpr absl::Duration kStopPoll = absl::Milliseconds(50);

class SnapshotCall final : public service::IncomingSnapshot {
 public:
  SnapshotCall(std::unique_ptr<v1::Admin::Stub> stub, const client::ClientOptions& options,
               const std::string& collection, const tracing::SpanParent& span, const StopSignal* stop)
      : stub_(std::move(stub)), stop_(stop) {
    client::CallMetadata(options).AddTo(context_);
    AddTrace(span, context_);
    v1::ReadSnapshotRequest request;
    request.set_name(collection);
    reader_ = stub_->AsyncReadSnapshot(&context_, request, &queue_, this);
  }

  ~SnapshotCall() override {
    context_.TryCancel();
    if (is_starting_) Await();
    if (!has_ended_) End().IgnoreError();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  absl::StatusOr<bool> Next(v1::ReadSnapshotResponse& message) override {
    bool ok = true;
    if (std::exchange(is_starting_, false)) ok = Await();
    if (ok) {
      reader_->Read(&message, this);
      ok = Await();
    }
    if (ok) return true;
    const absl::Status status = End();
    if (Stopped(stop_)) return stop_->status();
    if (!status.ok()) return status;
    return false;
  }

 private:
  // Waits for the operation that was started last. Cancels the call once the signal is stopped.
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    while (client::NextEvent(queue_, MonotonicNow() + kStopPoll, &tag, &ok) == grpc::CompletionQueue::TIMEOUT) {
      if (Stopped(stop_)) context_.TryCancel();
    }
    return ok;
  }

  absl::Status End() {
    has_ended_ = true;
    grpc::Status status;
    reader_->Finish(&status, this);
    Await();
    return ErrorOfReplica(status);
  }

  const std::unique_ptr<v1::Admin::Stub> stub_;
  const StopSignal* const stop_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::ReadSnapshotResponse>> reader_;
  bool is_starting_ = true;  // the start of the call was not awaited yet
  bool has_ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<service::IncomingSnapshot>> ReadSnapshotOf(client::ClientOptions options,
                                                                          const std::string& collection,
                                                                          const tracing::SpanParent& span,
                                                                          const StopSignal* stop) {
  options.load_balancing = "pick_first";
  options.keepalive_time = kPingInterval;
  options.keepalive_timeout = kPingTimeout;
  if (absl::Status status = client::ValidateClientOptions(options); !status.ok()) return status;
  const auto credentials = client::MakeCredentials(options.tls);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments = client::MakeChannelArguments(options);
  // The client only reads, so without this gRPC would stop after two pings.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  std::unique_ptr<v1::Admin::Stub> stub =
      v1::Admin::NewStub(grpc::CreateCustomChannel(options.target, *credentials, arguments));
  return std::make_unique<SnapshotCall>(std::move(stub), options, collection, span, stop);
}

absl::StatusOr<v1::GetInfoResponse> GetInfoOf(client::ClientOptions options) {
  const absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(options);
  if (!client.ok()) return client.status();
  return (*client)->GetInfo({.timeout = kInfoTimeout, .max_attempts = 1});
}

}  // namespace maxsim::cluster
