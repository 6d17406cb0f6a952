#include "kernels/cuda/runtime/event.h"

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<Event> Event::Create(Use use) {
  cudaEvent_t event = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaEventCreateWithFlags(&event, use == Use::kWait ? cudaEventBlockingSync : cudaEventDefault));
  return Event(event);
}

absl::Status Event::Record(cudaStream_t stream) { return MAXSIM_CUDA_STATUS(cudaEventRecord(event_, stream)); }

absl::Status Event::Wait() const { return MAXSIM_CUDA_STATUS(cudaEventSynchronize(event_)); }

bool Event::IsDone() const {
  if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
  cudaGetLastError();  // A later launch that works would be blamed for it otherwise.
  return false;
}

absl::StatusOr<double> Event::SecondsSince(const Event& start) const {
  float milliseconds = 0;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start.event_, event_));
  return milliseconds * 1e-3;
}

}  // namespace maxsim::cuda
