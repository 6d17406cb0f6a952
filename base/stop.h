// A signal that stops reads and other long work.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace maxsim {

// Number of bytes that are read, hashed or checked between two checks of the signal. This takes some milliseconds if
// they are in memory, and some tens of milliseconds from most disks.
inline constexpr size_t kStopBlockBytes = size_t{8} << 20;

// Number of documents that are checked between two checks of the signal.
inline constexpr int64_t kStopBlockDocuments = 1024;

// The class is thread-safe. Once stopped, a signal stays stopped.
class StopSignal {
 public:
  using Clock = std::chrono::steady_clock;

  // Only stops by Request.
  StopSignal() = default;
  // Also stops at `deadline`, with DEADLINE_EXCEEDED.
  explicit StopSignal(Clock::time_point deadline) : deadline_(deadline) {}
  // Also stops when one of two other signals stops. Each may be null; if not, it must outlive this signal.
  StopSignal(const StopSignal* first, const StopSignal* second) : first_(first), second_(second) {}
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  Clock::time_point deadline() const { return deadline_; }

  // Stops the signal. `reason` is CANCELLED, DEADLINE_EXCEEDED or UNAVAILABLE (the server shuts down). Only the first
  // call has an effect.
  void Request(absl::StatusCode reason) {
    absl::StatusCode none = absl::StatusCode::kOk;
    reason_.compare_exchange_strong(none, reason, std::memory_order_relaxed);
  }

  // Returns OK, or the status to return from the stopped work. Takes some tens of nanoseconds.
  absl::Status status() const {
    switch (reason()) {
      case absl::StatusCode::kOk:
        return absl::OkStatus();
      case absl::StatusCode::kDeadlineExceeded:
        return absl::DeadlineExceededError("stopped because the call's deadline has passed");
      case absl::StatusCode::kUnavailable:
        return absl::UnavailableError("stopped because the server is shutting down");
      default:
        return absl::CancelledError("stopped because the client cancelled the call");
    }
  }

  bool stopped() const { return reason() != absl::StatusCode::kOk; }

 private:
  absl::StatusCode reason() const {
    const absl::StatusCode reason = reason_.load(std::memory_order_relaxed);
    if (reason != absl::StatusCode::kOk) return reason;
    for (const StopSignal* other : {first_, second_}) {
      if (other == nullptr) continue;
      if (const absl::StatusCode of_other = other->reason(); of_other != absl::StatusCode::kOk) return of_other;
    }
    if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) return absl::StatusCode::kDeadlineExceeded;
    return absl::StatusCode::kOk;
  }

  std::atomic<absl::StatusCode> reason_{absl::StatusCode::kOk};
  const Clock::time_point deadline_ = Clock::time_point::max();
  const StopSignal* const first_ = nullptr;
  const StopSignal* const second_ = nullptr;
};

// In these two functions, `stop` may be null, which means that the work is never stopped.
inline bool Stopped(const StopSignal* stop) { return stop != nullptr && stop->stopped(); }
inline absl::Status StopStatus(const StopSignal* stop) { return stop == nullptr ? absl::OkStatus() : stop->status(); }

// A function that returns OK while long work should continue, and otherwise the reason to stop.
using StopCheck = std::function<absl::Status()>;

}  // namespace maxsim
