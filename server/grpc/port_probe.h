// Checks regularly whether the gRPC port answers, so that the server reports itself ready only if clients can be
// served.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim {

// The class is thread-safe.
class PortProbe {
 public:
  // After this number of failed probes in a row, the port counts as not answering. A single failure may only mean that
  // the machine was busy for a moment.
  static constexpr int kFailures = 2;

  // Starts a thread that calls `probe` until the object is destroyed, and waits `interval` after each call. When the
  // port stops answering, or answers again, the thread calls `on_change` with the new status(). Neither function may
  // block for long.
  PortProbe(std::function<absl::Status()> probe, absl::Duration interval,
            std::function<void(const absl::Status&)> on_change);
  ~PortProbe();  // waits for a probe that is under way

  // Returns OK, or the reason why the port does not answer.
  absl::Status status() const;

 private:
  void Run();

  const std::function<absl::Status()> probe_;
  const absl::Duration interval_;
  const std::function<void(const absl::Status&)> on_change_;
  mutable Mutex mutex_;
  ConditionVariable wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace maxsim
