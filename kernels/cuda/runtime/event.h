// A CUDA event, owned: a point in a stream that a thread can wait for, and whose time is known.
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
  // kWait: to be waited for; its end raises an interrupt, which delays what follows in the stream by a microsecond or
  // two. kTime: for its time alone; who waits for it spins.
  enum class Use : uint8_t { kWait, kTime };

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

  absl::Status Record(cudaStream_t stream);

  // Waits for the work recorded before, asleep where that is what the event is for. An event never recorded counts as
  // done.
  absl::Status Wait() const;

  // For cudaStreamWaitEvent.
  cudaEvent_t get() const { return event_; }

  // Seconds from `start` to this event, both done.
  absl::StatusOr<double> SecondsSince(const Event& start) const;

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}

  cudaEvent_t event_ = nullptr;
};

}  // namespace maxsim::cuda
