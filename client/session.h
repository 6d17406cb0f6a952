// Wraps one RerankStream: requests are sent as they come, and answers return in order of completion.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::client {

// Send may be called from several threads, and at the same time as Receive; Receive from one thread at a time. Match
// answers to requests by request_id. The usual end: CloseSends, Receive until it returns false, Finish.
class RerankSession {
 public:
  // Cancels the stream if Finish has not been called.
  ~RerankSession();
  RerankSession(const RerankSession&) = delete;
  RerankSession& operator=(const RerankSession&) = delete;

  // Sends a request; blocks while the connection's flow control holds it back. UNAVAILABLE if the stream has ended
  // (Finish has the reason), FAILED_PRECONDITION after CloseSends.
  absl::Status Send(const v1::RerankRequest& request);

  // Says that no request follows. The server answers those it has, then ends the stream.
  void CloseSends();

  // Blocks for the next answer. False: the stream has ended, and Finish tells how.
  bool Receive(v1::RerankStreamResponse& response);

  // Returns the stream's own status, to be called once, after Receive has returned false. OK if the server ended it
  // normally.
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

// Returns the error that an answer of a session carries (with its retry hint as RetryInfo), or OK.
absl::Status StatusOf(const v1::RerankStreamResponse& response);

}  // namespace maxsim::client
