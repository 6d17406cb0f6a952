// The devices that a server scores on, which of them are lost, and how much of their memory the lanes (scoring threads)
// use for scans of codes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "kernels/maxsim.h"

namespace maxsim::store {

// How a server behaves when it loses a device.
enum class OnDeviceLoss {
  kExit,     // The server answers no more requests.
  kDegrade,  // The server goes on with the remaining devices. Once all are lost, it answers no more requests.
};

// The class is thread-safe. Inside the server, a device is identified by its index, 0 .. size() - 1. Logs and messages
// use its number.
class DeviceSet {
 public:
  struct Member {
    Backend* backend = nullptr;
    int number = 0;  // for people: the CUDA ordinal; 0 for the CPU
  };

  // There must be at least one member, and all must be of one kind. The backends must outlive the set. `num_lanes` is
  // the number of lanes (scoring threads) that scan codes, each on every device.
  DeviceSet(std::vector<Member> members, OnDeviceLoss on_loss, int num_lanes = 1);
  // Makes a set of one device, number 0. If it is lost, the server answers no more requests (kExit).
  explicit DeviceSet(Backend* backend) : DeviceSet({{backend, 0}}, OnDeviceLoss::kExit) {}

  size_t size() const { return members_.size(); }
  Backend& backend(size_t device) const { return *members_[device].backend; }
  int number(size_t device) const { return members_[device].number; }
  OnDeviceLoss on_loss() const { return on_loss_; }
  // Returns whether the devices have memory of their own.
  bool is_gpu() const { return backend(0).info().name != "cpu"; }

  int num_lanes() const { return num_lanes_; }
  // Returns the most memory, on each device, that all lanes (scoring threads) together allocate to scan the codes of a
  // shard or segment with at most `num_documents` documents. The lanes keep this memory for later scans of any
  // collection.
  uint64_t ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const;
  // scan_bytes returns how much memory the lanes have allocated for scans on a device. ChangeScanBytes adds `change` to
  // this number.
  uint64_t scan_bytes(size_t device) const { return scan_bytes_[device].load(std::memory_order_relaxed); }
  void ChangeScanBytes(size_t device, int64_t change) {
    scan_bytes_[device].fetch_add(static_cast<uint64_t>(change), std::memory_order_relaxed);
  }

  // Returns whether a device still answers. A device that was lost never answers again. Cheap.
  bool alive(size_t device) const { return alive_[device].load(std::memory_order_acquire); }
  size_t num_alive() const;
  // Returns OK, or the UNAVAILABLE status that says why the device was lost.
  absl::Status StatusOf(size_t device) const;
  // Marks a device as lost. The first call for a device logs and stores its reason; further calls have no effect.
  void MarkLost(size_t device, const absl::Status& reason);
  // Checks the health of every device that is alive, and marks those that fail as lost. The driver may block other
  // threads during the check, so do not call this while a request waits.
  void Poll();

  // Returns OK while requests can be answered. Returns UNAVAILABLE, with the reason of the first loss, once a device is
  // lost (kExit) or all devices are lost (kDegrade). Cheap.
  absl::Status Health() const;

 private:
  const std::vector<Member> members_;
  const OnDeviceLoss on_loss_;
  const int num_lanes_;
  std::vector<std::atomic<uint64_t>> scan_bytes_;  // [devices]
  std::vector<std::atomic<bool>> alive_;
  std::atomic<bool> ended_{false};  // Health is not OK
  mutable Mutex mutex_;
  std::vector<absl::Status> lost_ ABSL_GUARDED_BY(mutex_);  // [devices]
  absl::Status first_lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::store
