// Owns a CUDA event: a point in a CUDA stream that a thread can wait for, and that has a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::cuda {

// Move-only. Created on the current device.
class Event {
 public:
  // Waiting for a kWait event sleeps. The event raises an interrupt, which delays the CUDA stream's next work by a
  // microsecond or two. A kTime event only records a time, and waiting for it spins.
  enum class Use : uint8_t { kWait, kTime };

  // Creates an event that was never recorded.
  static absl::StatusOr<Event> Create(Use use = Use::kWait);

  Event() = default;
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  // Places the event after everything that was started on `stream` before.
  absl::Status Record(cudaStream_t stream);

  // Waits until the CUDA stream has reached the event; sleeps meanwhile if it is a kWait event. An event that was never
  // recorded counts as done. Returns the error of the work before it.
  absl::Status Wait() const;

  // Waits as Wait does, but polls for a short time before it sleeps. For copies of a few KiB.
  absl::Status PollThenWait() const;

  // Returns whether Wait would return at once, with or without an error.
  bool IsDone() const;

  // Returns CUDA's handle, for cudaStreamWaitEvent.
  cudaEvent_t get() const { return event_; }

  // Returns the seconds from `start` to this event. Both must be done.
  absl::StatusOr<double> SecondsSince(const Event& start) const;

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}

  cudaEvent_t event_ = nullptr;
};

}  // namespace maxsim::cuda
