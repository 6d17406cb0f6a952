// Wraps one RerankStream: requests are sent as they come, and answers return in order of completion.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::client {

// Several threads may call Send at the same time, also during Receive. Only one thread at a time may call Receive.
// Match answers to requests by request_id. To end a session, call CloseSends, then Receive until it returns false, then
// Finish.
class RerankSession {
 public:
  // Cancels the stream if Finish has not been called.
  ~RerankSession();
  RerankSession(const RerankSession&) = delete;
  RerankSession& operator=(const RerankSession&) = delete;

  // Sends a request. Blocks while the connection's flow control does not let it send. UNAVAILABLE if the stream has
  // ended (Finish has the reason), FAILED_PRECONDITION after CloseSends.
  absl::Status Send(const v1::RerankRequest& request);

  // Tells the server that no more requests follow. The server answers the requests that it has, then ends the stream.
  void CloseSends();

  // Waits for the next answer. Returns false if the stream has ended; Finish then returns its status.
  bool Receive(v1::RerankStreamResponse& response);

  // Returns the status of the stream: OK if the server ended it normally. Call it once, after Receive has returned
  // false.
  absl::Status Finish();

  // Ends the stream at once, from any thread.
  void Cancel();

 private:
  friend class Client;
  using Stream = grpc::ClientReaderWriter<v1::RerankRequest, v1::RerankStreamResponse>;
  RerankSession() = default;

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  absl::Mutex send_mutex_;
  bool sends_closed_ ABSL_GUARDED_BY(send_mutex_) = false;
  bool finished_ = false;
};

// Returns the error in an answer of a session, with its retry hint as RetryInfo, or OK if the answer is not an error.
absl::Status StatusOf(const v1::RerankStreamResponse& response);

}  // namespace maxsim::client
