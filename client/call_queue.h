// A queue for clients that make tens of thousands of calls per second. One thread starts calls, and one takes the
// answers (it may be the same thread). Queues share nothing, so threads that use different queues do not slow each
// other down.
//
//   std::vector<std::shared_ptr<grpc::Channel>> channels = *MakeChannels(options);
//   std::unique_ptr<CallQueue> queue = MakeCallQueue(channels, options);
//   queue->Start(EncodedRequest(request), tag);
//   CallQueue::Answer answer;
//   while (queue->Next(MonotonicNow() + absl::Seconds(1), answer) == CallQueue::Event::kAnswer) ...
//
// Client::RerankAsync is more convenient, and retries. But all its calls in a process share one gRPC completion queue
// and one set of running calls, and gRPC's threads deliver the answers. A CallQueue has its own completion queue, sends
// an encoded request any number of times, and parses all answers into one message. It never retries: the caller gets
// the status of the only attempt.
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

// A request in its encoded form. Copies share the bytes.
class EncodedRequest {
 public:
  EncodedRequest() = default;
  explicit EncodedRequest(const v1::RerankRequest& request);

  size_t size_bytes() const { return slice_.size(); }
  // Returns the message, without copying it.
  grpc::ByteBuffer Buffer() const;
  // Returns the message with this request_id, without copying the rest. The request that was encoded must not have a
  // request_id.
  grpc::ByteBuffer BufferWithId(std::string_view request_id) const;

 private:
  grpc::Slice slice_;
};

// At most one thread at a time may call Start, and at most one may call Next. The two may be different threads.
class CallQueue {
 public:
  enum class Event {
    kAnswer,   // `answer` is the answer to a request
    kTimeout,  // no answer came until the deadline
    kClosed,   // Close was called, and Next has returned the answers to all requests
  };

  struct Answer {
    uint64_t tag = 0;  // the tag that Start got
    absl::Status status;
    v1::RerankResponse response;  // valid only if status is OK; the next call of Next overwrites it
  };

  // Closes the queue and waits until all calls have ended.
  virtual ~CallQueue() = default;
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Sends the request. Uses the channels in turn. Next later returns the request's answer or its error, exactly once.
  // The caller chooses the tag, which must differ from the tags of all requests that are not answered yet.
  virtual void Start(const EncodedRequest& request, uint64_t tag) = 0;

  // Waits for an answer until `deadline`, a time of MonotonicNow().
  virtual Event Next(absl::Time deadline, Answer& answer) = 0;

  // Ends the queue. After Close, Start must not be called. Calls that are running continue until their answer or their
  // timeout. Sessions end at once, and their unanswered requests get CANCELLED. Call Close only on a thread that may
  // call Start.
  virtual void Close() = 0;

 protected:
  CallQueue() = default;
};

// Returns a queue that makes one Rerank call per request, each bounded by options.timeout. Several queues may share
// `channels`, which must not be empty. The queue uses only timeout, bearer_token, client_id and client_key of
// `options`.
std::unique_ptr<CallQueue> MakeCallQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                         const ClientOptions& options);

// Returns a queue with one RerankStream per channel. The queue opens a stream when a request needs it, and opens it
// again if it has ended. Requests have no timeout of their own. When a stream ends, its unanswered requests get the
// stream's status, or UNAVAILABLE if the stream ended with OK. The server reads at most `grpc.stream_in_flight`
// requests of a stream before it has answered them; further requests wait in the queue.
std::unique_ptr<CallQueue> MakeSessionQueue(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                            const ClientOptions& options);

}  // namespace maxsim::client
