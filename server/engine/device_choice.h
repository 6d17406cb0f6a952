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

// Values in place of a device's index.
inline constexpr uint32_t kUnassigned = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kUnavailable = std::numeric_limits<uint32_t>::max() - 1;  // No device that answers has it.

// When the loads of devices are compared, the work of one batch counts as at most this number of token pairs, so that
// sums do not overflow.
inline constexpr uint64_t kMaxWork = uint64_t{1} << 52;

// Returns the work of all jobs, at most kMaxWork.
uint64_t WorkOfJobs(absl::Span<Job* const> jobs);

// Chooses the devices for one batch. The chosen work counts in the devices' load until this object is destroyed. Not
// thread-safe.
class DeviceChoice {
 public:
  // Both must outlive this object.
  DeviceChoice(const store::DeviceSet& devices, DeviceLoad* load) : devices_(devices), load_(*load) {}
  ~DeviceChoice();
  DeviceChoice(const DeviceChoice&) = delete;
  DeviceChoice& operator=(const DeviceChoice&) = delete;

  // Forgets the device for parts with replicas. Call it before each assignment.
  void BeginRound() { replica_device_ = kUnassigned; }
  // Returns the device for a part of the jobs' collection, or kUnavailable. All parts with replicas get the same
  // device, the least busy one: a replicated collection has all of its parts on every device, and this leaves the other
  // devices to other batches.
  uint32_t DeviceFor(const store::Part& part, absl::Span<Job* const> jobs);
  // Returns the least busy one of `candidates`, which is not empty.
  uint32_t LeastBusy(absl::Span<const uint32_t> candidates, uint64_t work);
  // Counts work of this batch on a device that this object did not choose.
  void Add(uint32_t device, uint64_t work);

 private:
  const store::DeviceSet& devices_;
  DeviceLoad& load_;
  uint32_t replica_device_ = kUnassigned;
  std::vector<std::pair<uint32_t, uint64_t>> counted_;  // device and work
};

}  // namespace maxsim::engine
