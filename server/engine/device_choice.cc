#include "server/engine/device_choice.h"

#include <algorithm>

namespace maxsim::engine {

uint64_t WorkOfJobs(absl::Span<Job* const> jobs) {
  uint64_t work = 0;
  for (const Job* job : jobs) work = std::min(work + std::min(job->work, kMaxWork), kMaxWork);
  return work;
}

DeviceChoice::~DeviceChoice() {
  for (const auto& [device, work] : counted_) load_.Remove(device, work);
}

uint32_t DeviceChoice::DeviceFor(const store::Part& part, absl::Span<Job* const> jobs) {
  if (part.replicas.size() == 1) {
    const uint32_t device = part.replicas.front().device;
    return devices_.alive(device) ? device : kUnavailable;
  }
  if (replica_device_ != kUnassigned && part.DocumentsOn(replica_device_) != nullptr) return replica_device_;
  absl::InlinedVector<uint32_t, 16> candidates;
  for (const store::Replica& copy : part.replicas) {
    if (devices_.alive(copy.device)) candidates.push_back(copy.device);
  }
  if (candidates.empty()) return kUnavailable;
  replica_device_ = LeastBusy(candidates, WorkOfJobs(jobs));
  return replica_device_;
}

uint32_t DeviceChoice::LeastBusy(absl::Span<const uint32_t> candidates, uint64_t work) {
  const uint32_t device = load_.AssignToLeastBusy(candidates, work);
  counted_.emplace_back(device, work);
  return device;
}

void DeviceChoice::Add(uint32_t device, uint64_t work) {
  load_.Add(device, work);
  counted_.emplace_back(device, work);
}

}  // namespace maxsim::engine
