// Chooses the devices that work for a batch.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "server/engine/device_load.h"
#include "server/engine/job.h"
#include "server/store/collection/part.h"
#include "server/store/memory/device_set.h"

namespace maxsim::engine {

// In place of a device.
inline constexpr uint32_t kUnassigned = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kUnavailable = std::numeric_limits<uint32_t>::max() - 1;  // No device that answers has it.

// Work of one batch is counted as at most this much where the load of devices is compared, so that sums do not
// overflow.
inline constexpr uint64_t kMaxWork = uint64_t{1} << 52;

// Returns the work of all jobs, at most kMaxWork.
uint64_t WorkOfJobs(absl::Span<Job* const> jobs);

// The choices of one batch. Their work counts in the devices' load until this object is destroyed. For one thread.
class DeviceChoice {
 public:
  // Both must outlive this object.
  DeviceChoice(const store::DeviceSet& devices, DeviceLoad* load) : devices_(devices), load_(*load) {}
  ~DeviceChoice();
  DeviceChoice(const DeviceChoice&) = delete;
  DeviceChoice& operator=(const DeviceChoice&) = delete;

  // Forgets the device that was chosen for parts with replicas. Called each time before the parts are assigned.
  void BeginRound() { replica_device_ = kUnassigned; }
  // Returns the device for a part of the jobs' collection, or kUnavailable. All parts with replicas get the same
  // device, the least busy one: a replicated collection has all of its parts on every device, and no other device is
  // disturbed.
  uint32_t DeviceFor(const store::Part& part, absl::Span<Job* const> jobs);
  // Returns the least busy one of `candidates`, which is not empty.
  uint32_t LeastBusy(absl::Span<const uint32_t> candidates, uint64_t work);
  // Counts work of this batch on a device that was not chosen here.
  void Add(uint32_t device, uint64_t work);

 private:
  const store::DeviceSet& devices_;
  DeviceLoad& load_;
  uint32_t replica_device_ = kUnassigned;
  std::vector<std::pair<uint32_t, uint64_t>> counted_;  // device and work
};

}  // namespace maxsim::engine
