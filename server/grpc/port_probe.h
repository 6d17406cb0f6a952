// Checks regularly whether the gRPC port answers, so that readiness reflects what a client would find.
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
  // Failures in a row that make the port one that does not answer. One may be a moment in which the machine was busy.
  static constexpr int kFailures = 2;

  // Calls `probe` on its own thread, each time `interval` after it last returned, until the object is destroyed. When
  // the port stops answering, or answers again, calls `on_change` on that thread with the new status(). Neither
  // function may block for long.
  PortProbe(std::function<absl::Status()> probe, absl::Duration interval,
            std::function<void(const absl::Status&)> on_change);
  ~PortProbe();  // waits for a probe that is under way

  // OK, or why the port has not answered lately.
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
