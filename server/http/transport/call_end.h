// Ends HTTP calls: tells when the work on a call must stop, and ensures that it gets exactly one answer. Internal to
// server/http.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/guard.h"
#include "server/http/transport/transport.h"
#include "server/service/call/call_record.h"

namespace maxsim::http {

// The reasons to end a call before it is answered. Copies refer to the same call. Thread-safe.
struct CallEnd {
  using Clock = std::chrono::steady_clock;

  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<const std::atomic<bool>> cancelled;  // the client has gone
  const std::atomic<bool>* closing = nullptr;          // the server has no time left

  // Returns OK, or the reason why the work on the call must stop.
  absl::Status Check() const {
    if (*cancelled) return absl::CancelledError("the client closed the connection");
    if (*closing) return absl::UnavailableError("the server is shutting down");
    if (Clock::now() < deadline) return absl::OkStatus();
    return absl::DeadlineExceededError("http.request_timeout: it passed before the answer was ready");
  }
};

// Answers a call once, and records it with the status of that answer. Only the first response is used. If the object is
// destroyed without a response, because an exception ended the work, it answers with 503. Thread-safe.
class ReplyOnce {
 public:
  // Records `call` as it is, unless a service fills the record with more.
  ReplyOnce(service::FinishedCall call, Application::Reply reply) : reply_(std::move(reply)) {
    record_.Fill(std::move(call));
  }
  ReplyOnce(const ReplyOnce&) = delete;
  ReplyOnce& operator=(const ReplyOnce&) = delete;
  // Does not allocate.
  ~ReplyOnce() {
    (*this)({.status = 503, .content_type = "text/plain", .body = "no memory\n", .error = maxsim::NoMemory()});
  }

  // The record to put into the context of the service's call.
  service::CallRecord* record() { return &record_; }

  void operator()(Response response) {
    if (called_.exchange(true)) return;
    record_.Write(response.error);
    reply_(std::move(response));
  }

 private:
  std::atomic<bool> called_{false};
  service::CallRecord record_;
  Application::Reply reply_;
};

}  // namespace maxsim::http
