// Starts a thread where the system may have none left: std::thread throws then, which ends the process.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/text.h"

namespace maxsim {

// RESOURCE_EXHAUSTED where the system has no thread left. `what` names the thread for the message.
template <typename Work>
absl::Status StartThread(std::string_view what, Work work, std::thread* thread) {
  try {
    *thread = std::thread(std::move(work));
    return absl::OkStatus();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(Cat("cannot start the thread ", what, ": ", error.what(),
                                            "; the limit of threads (ulimit -u, TasksMax, pids.max) is reached"));
  }
}

}  // namespace maxsim
