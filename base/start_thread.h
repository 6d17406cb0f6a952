// Starts a thread, or returns an error if the system cannot start one. (std::thread would throw, which ends the
// process.)
#pragma once

#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/guard.h"
#include "base/text.h"

namespace maxsim {

// Returns RESOURCE_EXHAUSTED if the system cannot start another thread, or has no memory for it. `what` names the
// thread in the message.
template <typename Work>
absl::Status StartThread(std::string_view what, Work work, std::thread* thread) {
  try {
    *thread = std::thread(std::move(work));
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(Cat("cannot start the thread ", what, ": ", error.what(),
                                            "; the limit of threads (ulimit -u, TasksMax, pids.max) is reached"));
  }
}

}  // namespace maxsim
