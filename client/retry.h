// Decides whether and when a failed call is tried again. Uses neither gRPC nor a clock of its own.
//
// Only two failures are worth another attempt:
//   UNAVAILABLE         the server could not be reached, is draining, or is loading the collection
//   RESOURCE_EXHAUSTED  and only with a hint when to come back (RetryInfo, or the trailer `grpc-retry-pushback-ms`);
//                       without one it means "too large", which a second attempt cannot change
// The delay is the exponential backoff min(initial * multiplier^n, max), changed at random by up to +-jitter, and at
// least the delay in RetryInfo. If the answer has a pushback trailer, its value is the delay; a negative or unreadable
// value forbids another attempt (gRPC proposal A6). If the next attempt could only start at or after the deadline, it
// is not made, and the call returns the last error at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace maxsim::client {

inline constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";

struct RetryOptions {
  int max_attempts = 4;  // the first one included; 1 never retries
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double multiplier = 2.0;  // at least 1
  double jitter = 0.2;      // 0 to 1: a delay of t becomes one between t * (1 - jitter) and t * (1 + jitter)
};

// Returns OK, or INVALID_ARGUMENT that names the option with an invalid value, and the value.
absl::Status ValidateRetryOptions(const RetryOptions& options);

// The result of one attempt.
struct AttemptResult {
  absl::Status status;                     // with the server's RetryInfo as its payload (client/status.h)
  std::optional<std::string> pushback_ms;  // value of the trailer kPushbackTrailer
};

// Returns the trailer's value as a delay; nullopt means "do not retry" (negative, or not a number of milliseconds).
std::optional<absl::Duration> ParsePushback(std::string_view value);

// Counts the attempts of one call. The class is not thread-safe.
class RetryState {
 public:
  RetryState(const RetryOptions& options, absl::Time deadline) : options_(options), deadline_(deadline) {}

  // Call it after each attempt, with the attempt's result. Returns how long to wait from `now` until the next attempt,
  // or nullopt if `result` is final. `uniform` returns random numbers in [0, 1).
  std::optional<absl::Duration> NextDelay(const AttemptResult& result, absl::Time now,
                                          absl::FunctionRef<double()> uniform);

  // Returns the number of attempts so far: the calls of NextDelay.
  int attempts() const { return attempts_; }

 private:
  const RetryOptions options_;
  const absl::Time deadline_;
  int attempts_ = 0;
};

// A clock that tests can replace, so that they need not wait.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  virtual void Sleep(absl::Duration duration) = 0;

  static Clock& Real();
};

// Returns a random number in [0, 1). Thread-safe.
double UniformRandom();

// Runs `attempt` until its result is final, and returns that status. Blocks the calling thread between attempts.
absl::Status RunWithRetries(const RetryOptions& options, absl::Time deadline, Clock& clock,
                            absl::FunctionRef<double()> uniform, absl::FunctionRef<AttemptResult()> attempt);

}  // namespace maxsim::client
