// The implementation of HttpEncoder: the queue, the calls and the encoder's identity. Internal to server/encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/encoder/answer.h"
#include "server/encoder/circuit_breaker.h"
#include "server/encoder/http_connection.h"
#include "server/encoder/http_encoder.h"
#include "server/encoder/http_peer.h"
#include "server/encoder/text_queue.h"
#include "server/observability/log_limit.h"

namespace maxsim::encoder {

// The maximum number of log lines per second about calls that the encoder refused. Each request of a client can cause
// one.
inline constexpr int kMaxRefusalLines = 5;

// Everything but Encode, identity, Parse and Stop runs on the loop's thread.
class HttpEncoder::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Request = std::shared_ptr<WaitingRequest>;
  using Result = absl::StatusOr<std::vector<EncodedText>>;

  // Starts the loop's thread.
  Impl(HttpEncoderOptions options, HttpPeer peer, Metrics* metrics);

  // Ends every request and joins the threads. Must be called once, before the destructor.
  void Stop();
  EncoderIdentity identity() const;
  std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done);

 private:
  class Handle;

  // One call to the encoder, with the texts that are sent together.
  struct Call {
    std::vector<TextRange> ranges;
    HttpCall http;
    absl::Time began;
    bool is_second_try = false;

    size_t num_texts() const {
      size_t count = 0;
      for (const TextRange& range : ranges) count += range.count;
      return count;
    }
  };
  using CallPtr = std::shared_ptr<Call>;

  void Run();

  // ---- Requests.

  // Queues a request, or ends it at once with an error.
  void Admit(const Request& waiting);
  absl::Status CheckRoom(const WaitingRequest& waiting) const;

  // Ends a request: calls its `done`, unless `done` was called already. `queued` says whether the request has been
  // added to queue_.
  void End(const Request& waiting, Result result, bool queued = true);
  void EndAll(const absl::Status& status);

  // Ends the requests that are still queued.
  void EndQueued(const absl::Status& status);

  // ---- Calls.

  // Starts every call that can start now.
  void Pump();
  void WakeAt(absl::Time time);

  // Starts a call with these texts.
  void Begin(std::vector<TextRange> ranges);
  std::shared_ptr<HttpConnection> NewConnection();

  // Returns the idle connection that was used last, because it is the least likely to have been closed.
  std::shared_ptr<HttpConnection> KeptConnection();
  void Keep(const std::shared_ptr<HttpConnection>& connection);
  void Drop(const std::shared_ptr<HttpConnection>& connection);
  void Send(const CallPtr& call, absl::Duration timeout);
  void OnOutcome(const CallPtr& call, HttpOutcome outcome);

  // Thread-safe.
  absl::StatusOr<Answer> Parse(const Call& call, const std::string& body) const;

  // Hands the matrices of a call's answer to its requests, or ends them with the error.
  void OnAnswer(const CallPtr& call, absl::StatusOr<Answer> answer);

  // Moves the matrices of a range into its request. `texts` points to the first one.
  void Deliver(const TextRange& range, EncodedText* texts);

  // Handles an answer whose status is not 200.
  void OnRefusal(const CallPtr& call, const HttpOutcome& outcome);

  // Logs the encoder's error message, and returns an error text for clients that does not contain this message. The
  // message may quote the request's headers, other clients' texts or the encoder's internals.
  std::string LogRefusal(const std::string& where, const HttpOutcome& outcome);

  // Ends the requests of a call with an error. The call must already have been counted.
  void EndCall(const CallPtr& call, const absl::Status& status);

  // Counts a call whose answer shows that the encoder works, even if the answer is a refusal.
  void Succeed(const CallPtr& call, std::string_view result);

  // Counts a call whose outcome shows that the encoder does not work, and ends its requests.
  void Fail(const CallPtr& call, std::string_view result, absl::Status why);
  void OnFailure(const absl::Status& why);
  void Count(const Call& call, std::string_view result);
  void ReportState();

  // ---- The encoder's identity.

  // Asks an encoder of the dialect `maxsim` for its identity (GET /info). Until the encoder answers, texts stay queued.
  void AskWho();

  // Reads the encoder's identity from the answer of GET /info and stores it. Returns FAILED_PRECONDITION if this is not
  // the encoder that the configuration names, UNAVAILABLE if the answer cannot be read.
  absl::Status LearnWho(const std::string& body);

  // Returns UNAVAILABLE if an answer comes from another encoder than before, INTERNAL if its vectors have another
  // dimension. If no dimension is known yet, stores that of the answer.
  absl::Status CheckWho(const Answer& answer);

  const HttpEncoderOptions options_;
  const HttpPeer peer_;
  Metrics* const metrics_;
  const std::string where_;  // for messages

  mutable Mutex identity_mutex_;
  EncoderIdentity identity_ ABSL_GUARDED_BY(identity_mutex_);

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = boost::asio::make_work_guard(loop_);
  boost::asio::thread_pool readers_{2};
  boost::asio::steady_timer window_{loop_};
  TextQueue queue_;
  CircuitBreaker breaker_;
  log::LogRateLimiter refusal_lines_{kMaxRefusalLines};
  std::unordered_set<Request> waiting_;
  uint64_t num_bytes_ = 0;  // sum over the texts in waiting_
  std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
  std::vector<std::shared_ptr<HttpConnection>> kept_;  // idle ones
  int num_calls_ = 0;                                  // in progress; a call ends when its answer has been parsed
  bool is_known_;                                      // the identity is known, or need not be asked for
  bool is_asking_ = false;
  std::thread thread_;
};

}  // namespace maxsim::encoder
