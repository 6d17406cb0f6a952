// The insides of HttpEncoder: the queue, the calls and what the encoder has said of itself. Internal to server/encoder.
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

// Limits the log lines about refusals per second, because clients can cause one with every request.
inline constexpr int kMaxRefusalLines = 5;

// Everything but Encode, identity, Parse and Stop runs on the loop's thread.
class HttpEncoder::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Request = std::shared_ptr<WaitingRequest>;
  using Result = absl::StatusOr<std::vector<EncodedText>>;

  // Starts the loop's thread.
  Impl(HttpEncoderOptions options, HttpPeer peer, Metrics* metrics);

  // Ends every request and joins the threads. To be called once, before the destructor.
  void Stop();
  EncoderIdentity identity() const;
  std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done);

 private:
  class Handle;

  // Texts that are sent together.
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

  // Queues a request, or ends it at once.
  void Admit(const Request& waiting);
  absl::Status CheckRoom(const WaitingRequest& waiting) const;

  // Calls `done` unless it has been called. `queued`: the request has been added to queue_.
  void End(const Request& waiting, Result result, bool queued = true);
  void EndAll(const absl::Status& status);

  // Ends what no call has been made for.
  void EndQueued(const absl::Status& status);

  // ---- Calls.

  // Begins the calls that may begin now.
  void Pump();
  void WakeAt(absl::Time time);

  // Makes a call of these texts.
  void Begin(std::vector<TextRange> ranges);
  std::shared_ptr<HttpConnection> NewConnection();

  // Returns the connection that was used last, which is the least likely one to be closed.
  std::shared_ptr<HttpConnection> KeptConnection();
  void Keep(const std::shared_ptr<HttpConnection>& connection);
  void Drop(const std::shared_ptr<HttpConnection>& connection);
  void Send(const CallPtr& call, absl::Duration timeout);
  void OnOutcome(const CallPtr& call, HttpOutcome outcome);

  // Thread-safe.
  absl::StatusOr<Answer> Parse(const Call& call, const std::string& body) const;

  // Hands the matrices of a call to its requests.
  void OnAnswer(const CallPtr& call, absl::StatusOr<Answer> answer);

  // `texts` are those of the range, and are moved from.
  void Deliver(const TextRange& range, EncodedText* texts);

  // The encoder has answered, and not with 200.
  void OnRefusal(const CallPtr& call, const HttpOutcome& outcome);

  // Logs the encoder's error message, and returns the error for clients without it: the message may quote the request's
  // headers, other clients' texts or the encoder's internals.
  std::string LogRefusal(const std::string& where, const HttpOutcome& outcome);

  // Ends the requests of a call that has been counted.
  void EndCall(const CallPtr& call, const absl::Status& status);

  // Counts a call that the encoder has answered, whatever it said.
  void Succeed(const CallPtr& call, std::string_view result);

  // Counts a call that says that the encoder does not work, and ends its requests.
  void Fail(const CallPtr& call, std::string_view result, absl::Status why);
  void OnFailure(const absl::Status& why);
  void Count(const Call& call, std::string_view result);
  void ReportState();

  // ---- Who the encoder is.

  // Asks an encoder of the dialect `maxsim`. Texts wait for the answer.
  void AskWho();

  // Takes what GET /info answers. FAILED_PRECONDITION where it is not the encoder that the configuration names.
  absl::Status LearnWho(const std::string& body);

  // Refuses an answer of another encoder than the one that answered before, and remembers what was not known.
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
  uint64_t num_bytes_ = 0;  // of the texts in waiting_
  std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
  std::vector<std::shared_ptr<HttpConnection>> kept_;  // those without a call
  int num_calls_ = 0;                                  // in progress: one has its connection until its answer is read
  bool is_known_;                                      // whether the encoder has said who it is, or need not
  bool is_asking_ = false;
  std::thread thread_;
};

}  // namespace maxsim::encoder
