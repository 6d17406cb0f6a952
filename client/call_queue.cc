#include "client/call_queue.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "client/grpc_support.h"
#include "client/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

namespace maxsim::client {
namespace {

class UnaryQueue final : public CallQueue {
 public:
  UnaryQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels, const ClientOptions& options)
      : timeout_(options.timeout), metadata_(options) {
    for (const std::shared_ptr<grpc::Channel>& channel : channels) stubs_.emplace_back(channel);
  }

  ~UnaryQueue() override {
    Close();
    Answer ignored;
    while (Next(absl::InfiniteFuture(), ignored) != Event::kClosed) {
    }
  }

  void Start(const EncodedRequest& request, uint64_t tag) override {
    auto* call = new Call;
    call->tag = tag;
    if (timeout_ != absl::InfiniteDuration()) call->context.set_deadline(ToGrpcTime(MonotonicNow() + timeout_));
    metadata_.AddTo(call->context);
    next_stub_ = next_stub_ + 1 < stubs_.size() ? next_stub_ + 1 : 0;
    call->reader = stubs_[next_stub_].PrepareUnaryCall(&call->context, method_, request.Buffer(), &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, call);
  }

  Event Next(absl::Time deadline, Answer& answer) override {
    void* tag = nullptr;
    bool ok = false;
    switch (NextEvent(queue_, deadline, &tag, &ok)) {
      case grpc::CompletionQueue::TIMEOUT:
        return Event::kTimeout;
      case grpc::CompletionQueue::SHUTDOWN:
        return Event::kClosed;
      case grpc::CompletionQueue::GOT_EVENT:
        break;
    }
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    answer.tag = call->tag;
    answer.status = FromGrpcStatus(call->status);
    if (answer.status.ok() && !ParseMessage(call->response, answer.response)) {
      answer.status = absl::InternalError("the answer is not a RerankResponse");
    }
    return Event::kAnswer;
  }

  void Close() override {
    if (std::exchange(closed_, true)) return;
    queue_.Shutdown();
  }

 private:
  struct Call {
    uint64_t tag = 0;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
    grpc::ByteBuffer response;
    grpc::Status status;
  };

  const std::string method_ = "/maxsim.v1.Reranker/Rerank";
  const absl::Duration timeout_;
  const CallMetadata metadata_;
  std::vector<grpc::GenericStub> stubs_;
  size_t next_stub_ = 0;
  bool closed_ = false;
  grpc::CompletionQueue queue_;
};

// Encodes the field request_id: its tag, the length of the text, and the text.
grpc::Slice RequestIdField(std::string_view request_id) {
  constexpr uint32_t kTag = v1::RerankRequest::kRequestIdFieldNumber << 3 | 2;
  std::string field;
  field.push_back(static_cast<char>(kTag));
  for (size_t rest = request_id.size();; rest >>= 7) {
    field.push_back(static_cast<char>(rest < 128 ? rest : (rest & 127) | 128));
    if (rest < 128) break;
  }
  field.append(request_id);
  return grpc::Slice(field);
}

}  // namespace

CallMetadata::CallMetadata(const ClientOptions& options) {
  if (!options.bearer_token.empty()) {
    entries_.emplace_back("authorization", absl::StrCat("Bearer ", options.bearer_token));
  }
  if (!options.client_id.empty()) entries_.emplace_back(options.client_key, options.client_id);
}

void CallMetadata::AddTo(grpc::ClientContext& context) const {
  for (const auto& [key, value] : entries_) context.AddMetadata(key, value);
}

gpr_timespec ToGrpcTime(absl::Time time) {
  if (time == absl::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(time - MonotonicNow()), GPR_TIMESPAN));
}

grpc::CompletionQueue::NextStatus NextEvent(grpc::CompletionQueue& queue, absl::Time deadline, void** tag, bool* ok) {
  if (deadline == absl::InfiniteFuture()) {
    return queue.Next(tag, ok) ? grpc::CompletionQueue::GOT_EVENT : grpc::CompletionQueue::SHUTDOWN;
  }
  return queue.AsyncNext(tag, ok, ToGrpcTime(deadline));
}

EncodedRequest::EncodedRequest(const v1::RerankRequest& request) {
  const size_t size = request.ByteSizeLong();
  slice_ = grpc::Slice(grpc_slice_malloc(size), grpc::Slice::STEAL_REF);
  request.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice_.begin()));
}

grpc::ByteBuffer EncodedRequest::Buffer() const { return grpc::ByteBuffer(&slice_, 1); }

grpc::ByteBuffer EncodedRequest::BufferWithId(std::string_view request_id) const {
  // protobuf accepts the fields of a message in any order.
  const grpc::Slice slices[] = {RequestIdField(request_id), slice_};
  return grpc::ByteBuffer(slices, 2);
}

std::unique_ptr<CallQueue> MakeCallQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                         const ClientOptions& options) {
  return std::make_unique<UnaryQueue>(channels, options);
}

}  // namespace maxsim::client
