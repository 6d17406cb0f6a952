// Implements the CallQueue that sends its requests in RerankStreams.
#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/call_queue.h"
#include "client/grpc_support.h"
#include "client/session.h"
#include "client/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"

namespace maxsim::client {
namespace {

constexpr char kRerankStreamMethod[] = "/maxsim.v1.Reranker/RerankStream";

// Only the two threads of this queue lock the mutex. A thread starts an operation of gRPC's in two steps. Under the
// mutex it sets the operation's flag, so that no operation is started twice, and adds it to `pending`, so that the
// stream outlives the operation. Then it unlocks the mutex and starts the operation.
class SessionQueue final : public CallQueue {
 public:
  SessionQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels, const ClientOptions& options)
      : metadata_(options), streams_(channels.size()) {
    for (const std::shared_ptr<grpc::Channel>& channel : channels) stubs_.emplace_back(channel);
  }

  ~SessionQueue() override {
    Close();
    Answer ignored;
    while (Next(absl::InfiniteFuture(), ignored) != Event::kClosed) {
    }
  }

  void Start(const EncodedRequest& request, uint64_t tag) override {
    next_channel_ = next_channel_ + 1 < stubs_.size() ? next_channel_ + 1 : 0;
    Stream* opened = nullptr;
    Stream* writer = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (streams_[next_channel_] == nullptr) {
        streams_[next_channel_] = std::make_unique<Stream>(next_channel_);
        opened = streams_[next_channel_].get();
        opened->pending = 1;
        ++num_streams_;
      }
      Stream& stream = *streams_[next_channel_];
      stream.unanswered.insert(tag);
      stream.waiting.push_back(request.BufferWithId(absl::StrCat(tag)));
      if (TakeWrite(stream)) writer = &stream;
    }
    if (opened != nullptr) Open(*opened);
    if (writer != nullptr) writer->call->Write(writer->outgoing, &writer->write);
  }

  Event Next(absl::Time deadline, Answer& answer) override {
    while (true) {
      if (!failed_.empty()) {
        answer.tag = failed_.front().first;
        answer.status = std::move(failed_.front().second);
        failed_.pop_front();
        return Event::kAnswer;
      }
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
      if (Handle(*static_cast<Operation*>(tag), ok, answer)) return Event::kAnswer;
    }
  }

  void Close() override {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(closed_, true)) return;
    for (const std::unique_ptr<Stream>& stream : streams_) {
      if (stream != nullptr) stream->context.TryCancel();
    }
    if (num_streams_ == 0) queue_.Shutdown();
  }

 private:
  struct Stream;
  enum class OperationKind { kOpen, kWrite, kRead, kFinish };
  struct Operation {
    Stream* stream;
    OperationKind kind;
  };
  struct Stream {
    explicit Stream(size_t channel_idx) : channel(channel_idx) {}
    const size_t channel;
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    Operation open{this, OperationKind::kOpen}, write{this, OperationKind::kWrite}, read{this, OperationKind::kRead},
        finish{this, OperationKind::kFinish};
    grpc::ByteBuffer outgoing, incoming;
    grpc::Status status;
    bool is_open = false, writing = false;
    int pending = 0;  // operations that gRPC has not completed
    std::deque<grpc::ByteBuffer> waiting;
    absl::flat_hash_set<uint64_t> unanswered;
  };

  void Open(Stream& stream) {
    metadata_.AddTo(stream.context);
    stream.call = stubs_[stream.channel].PrepareCall(&stream.context, kRerankStreamMethod, &queue_);
    stream.call->StartCall(&stream.open);
  }

  // Claims the next write, if one can be started.
  bool TakeWrite(Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!stream.is_open || stream.writing || stream.waiting.empty()) return false;
    stream.writing = true;
    stream.outgoing.Swap(&stream.waiting.front());
    stream.waiting.pop_front();
    ++stream.pending;
    return true;
  }

  // Returns true if it has written an answer to `answer`.
  bool Handle(const Operation& operation, bool ok, Answer& answer) {
    Stream& stream = *operation.stream;
    bool answered = false, read = false, write = false, finish = false;
    if (operation.kind == OperationKind::kRead && ok) answered = TakeAnswer(stream, answer);
    {
      absl::MutexLock lock(&mutex_);
      --stream.pending;
      switch (operation.kind) {
        case OperationKind::kOpen:
          stream.is_open = read = ok;
          finish = !ok;
          break;
        case OperationKind::kWrite:
          stream.writing = !ok;  // after a failure no write follows, and the read fails too
          break;
        case OperationKind::kRead:
          read = ok;
          finish = !ok;
          break;
        case OperationKind::kFinish:
          break;
      }
      if (finish) stream.is_open = false;
      write = TakeWrite(stream);
      stream.pending += (read ? 1 : 0) + (finish ? 1 : 0);
      if (stream.pending == 0) Remove(stream);
    }
    if (read) stream.call->Read(&stream.incoming, &stream.read);
    if (write) stream.call->Write(stream.outgoing, &stream.write);
    if (finish) stream.call->Finish(&stream.status, &stream.finish);
    return answered;
  }

  // Takes the answer that was read. Returns false if it belongs to no request of this stream. Such an answer is an
  // error of the whole stream, which is reported when the stream ends.
  bool TakeAnswer(Stream& stream, Answer& answer) {
    uint64_t tag = 0;
    const bool parsed = ParseMessage(stream.incoming, message_) && absl::SimpleAtoi(message_.request_id(), &tag);
    {
      absl::MutexLock lock(&mutex_);
      if (!parsed || stream.unanswered.erase(tag) == 0) {
        stream.context.TryCancel();
        return false;
      }
    }
    answer.tag = tag;
    answer.status = StatusOf(message_);
    if (answer.status.ok()) answer.response.Swap(message_.mutable_response());
    return true;
  }

  // Called when the stream has ended and no operation of it is pending. Fails its unanswered requests.
  void Remove(Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Status status = FromGrpcStatus(stream.status);
    if (status.ok()) status = absl::UnavailableError("the stream ended before the answer");
    for (const uint64_t tag : stream.unanswered) failed_.emplace_back(tag, status);
    streams_[stream.channel] = nullptr;
    if (--num_streams_ == 0 && closed_) queue_.Shutdown();
  }

  const CallMetadata metadata_;
  std::vector<grpc::GenericStub> stubs_;
  size_t next_channel_ = 0;  // used only by the thread that starts requests
  // Only the thread that takes answers uses the members up to the next blank line.
  std::deque<std::pair<uint64_t, absl::Status>> failed_;
  v1::RerankStreamResponse message_;

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);  // by channel; null if not open
  int num_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::CompletionQueue queue_;
};

}  // namespace

std::unique_ptr<CallQueue> MakeSessionQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                            const ClientOptions& options) {
  return std::make_unique<SessionQueue>(channels, options);
}

}  // namespace maxsim::client
