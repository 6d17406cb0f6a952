// An application for tests of the HTTP transport.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/http/transport/transport.h"
#include "tests/support/values/eventually.h"

namespace maxsim::http {

// Returns the options with each default time limit raised to an hour, so that a busy machine does not reach it. Keeps
// the time limits that the test has changed.
inline TransportOptions Patient(TransportOptions options) {
  const TransportOptions defaults;
  for (const auto limit :
       {&TransportOptions::idle_timeout, &TransportOptions::handshake_timeout, &TransportOptions::header_timeout,
        &TransportOptions::body_timeout, &TransportOptions::write_timeout}) {
    if (options.*limit == defaults.*limit) options.*limit = absl::Hours(1);
  }
  return options;
}

// Answers a GET with the path, or with a description of the connection if the path is /how. Refuses /closed-to-you
// before it reads the body. Answers a POST with its body: at once, or when the test releases it if the path is /held.
class EchoApplication final : public Application {
 public:
  std::optional<Response> Begin(const Request& request) override {
    const MutexLock lock(&mutex_);
    begun_.push_back(request.method + " " + request.path);
    if (request.path == "/closed-to-you") return Response{.status = 401, .content_type = "text/plain", .body = "no"};
    if (request.path == "/how") return Response{.content_type = "text/plain", .body = HowItCame(request)};
    if (request.method != "POST") return Response{.content_type = "text/plain", .body = request.path};
    return std::nullopt;
  }

  void Handle(Request request, Reply reply) override {
    if (request.path == "/held") {
      const MutexLock lock(&mutex_);
      held_.push_back({std::move(request), std::move(reply)});
      changed_.NotifyAll();
      return;
    }
    reply({.content_type = "text/plain", .body = request.body});
  }

  Response Refuse(const Request& request, int status, const absl::Status& why) override {
    return {.status = status, .content_type = "text/plain", .body = std::string(why.message()), .retry_after_s = 7};
  }

  static std::string HowItCame(const Request& request) {
    if (!request.encrypted) return "plain";
    return request.has_client_certificate ? "encrypted, certified" : "encrypted";
  }

  // Returns the requests that have reached the application.
  std::vector<std::string> begun() const {
    const MutexLock lock(&mutex_);
    return begun_;
  }

  bool WaitForHeld(size_t count) {
    MutexLock lock(&mutex_);
    const auto end = std::chrono::steady_clock::now() + test::kTestLimit;
    while (held_.size() != count && changed_.WaitUntil(lock, end)) {
    }
    return held_.size() == count;
  }

  // Returns the cancellation flag of the oldest held request.
  std::shared_ptr<std::atomic<bool>> cancelled() {
    const MutexLock lock(&mutex_);
    return held_.front().request.cancelled;
  }

  void AnswerHeld() {
    std::vector<Held> held;
    {
      const MutexLock lock(&mutex_);
      held = std::move(held_);
      held_.clear();
    }
    for (Held& one : held) {
      one.request.body.resize(std::max(one.request.body.size(), answer_bytes_));
      one.reply({.content_type = "text/plain", .body = one.request.body});
    }
  }

  // Adds bytes to the bodies of held answers until they have at least `bytes`.
  void set_answer_bytes(size_t bytes) { answer_bytes_ = bytes; }

 private:
  struct Held {
    Request request;
    Reply reply;
  };
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> begun_;
  std::vector<Held> held_;
  size_t answer_bytes_ = 0;
};

}  // namespace maxsim::http
