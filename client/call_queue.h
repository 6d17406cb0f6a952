// Makes tens of thousands of calls per second. One thread starts them and one takes the answers (it may be the same).
// These threads share nothing with the threads of another queue.
//
//   std::vector<std::shared_ptr<grpc::Channel>> channels = *MakeChannels(options);
//   std::unique_ptr<CallQueue> queue = MakeCallQueue(channels, options);
//   queue->Start(EncodedRequest(request), tag);
//   CallQueue::Answer answer;
//   while (queue->Next(MonotonicNow() + absl::Seconds(1), answer) == CallQueue::Event::kAnswer) ...
//
// Client::RerankAsync serves all calls of a process from one completion queue of gRPC's, whose threads pass answers on,
// and keeps the running calls in one set. It is more convenient, and retries. A CallQueue has its own completion queue,
// encodes a request once and sends it any number of times, and parses answers into a message that is reused. It does
// not retry: a status is what the server said.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::client {

// Holds a request as it travels. Copies share its bytes.
class EncodedRequest {
 public:
  EncodedRequest() = default;
  explicit EncodedRequest(const v1::RerankRequest& request);

  size_t size_bytes() const { return slice_.size(); }
  // Returns the message, without copying it.
  grpc::ByteBuffer Buffer() const;
  // Returns the message with this request_id, without copying the rest. The request must not have set one itself.
  grpc::ByteBuffer BufferWithId(std::string_view request_id) const;

 private:
  grpc::Slice slice_;
};

// Start may be called by one thread at a time, and Next by one thread at a time. These may be two threads.
class CallQueue {
 public:
  enum class Event {
    kAnswer,   // `answer` is one that was started
    kTimeout,  // nothing came until the deadline
    kClosed,   // after Close, and everything that was started has been answered
  };

  struct Answer {
    uint64_t tag = 0;  // that of Start
    absl::Status status;
    v1::RerankResponse response;  // whole only where status is OK; reused by the next Next
  };

  // Ends what is open, and waits for it.
  virtual ~CallQueue() = default;
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Sends the request on one of the channels, in turn. Its answer, or the error, comes out of Next once. Tags are the
  // caller's, and those under way differ.
  virtual void Start(const EncodedRequest& request, uint64_t tag) = 0;

  // Waits for an answer until `deadline`, a time of MonotonicNow().
  virtual Event Next(absl::Time deadline, Answer& answer) = 0;

  // Ends the queue: Start must not be called afterwards. Calls end by their timeout, and sessions at once, with
  // CANCELLED for unanswered requests. Call it from a thread that may call Start.
  virtual void Close() = 0;

 protected:
  CallQueue() = default;
};

// Returns a queue that makes one Rerank call a request, each bounded by options.timeout. `channels` may be shared by
// several queues and must not be empty. Of `options`, timeout, bearer_token, client_id and client_key count.
std::unique_ptr<CallQueue> MakeCallQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                         const ClientOptions& options);

// Returns a queue with one RerankStream per channel, which is opened when the first request needs it, and again after
// it has ended. Requests have no timeout of their own. When a stream ends, its unanswered requests get its status
// (UNAVAILABLE if that is OK). The server reads at most `grpc.stream_in_flight` requests of a stream ahead of its
// answers; further requests wait here.
std::unique_ptr<CallQueue> MakeSessionQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                            const ClientOptions& options);

}  // namespace maxsim::client
