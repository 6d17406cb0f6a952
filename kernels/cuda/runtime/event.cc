#include "kernels/cuda/runtime/event.h"

#include <chrono>

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {
namespace {

// How long PollThenWait polls before it sleeps. A thread that sleeps until an event is done wakes up some 25 us late
// (kernels/cuda/call/planning/call_wait.cc), which is longer than the copy of a small document takes.
constexpr auto kPollTime = std::chrono::microseconds(50);

}  // namespace

absl::StatusOr<Event> Event::Create(Use use) {
  cudaEvent_t event = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaEventCreateWithFlags(&event, use == Use::kWait ? cudaEventBlockingSync : cudaEventDefault));
  return Event(event);
}

absl::Status Event::Record(cudaStream_t stream) { return MAXSIM_CUDA_STATUS(cudaEventRecord(event_, stream)); }

absl::Status Event::Wait() const { return MAXSIM_CUDA_STATUS(cudaEventSynchronize(event_)); }

absl::Status Event::PollThenWait() const {
  const auto end = std::chrono::steady_clock::now() + kPollTime;
  while (!IsDone() && std::chrono::steady_clock::now() < end) {
  }
  return Wait();
}

bool Event::IsDone() const {
  if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
  cudaGetLastError();  // Otherwise a later launch would report this error, although it works.
  return false;
}

absl::StatusOr<double> Event::SecondsSince(const Event& start) const {
  float milliseconds = 0;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start.event_, event_));
  return milliseconds * 1e-3;
}

}  // namespace maxsim::cuda
