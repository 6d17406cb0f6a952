// The devices that a server scores on, and which of them are lost.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "kernels/maxsim.h"

namespace maxsim::store {

// What becomes of a server that loses a device.
enum class OnDeviceLoss {
  kExit,     // nothing is answered any more
  kDegrade,  // it goes on with the devices that are left; as kExit once there is none
};

// Thread-safe. A device is named by its index, 0 .. size() - 1, inside the server, and by its number to people.
class DeviceSet {
 public:
  struct Member {
    Backend* backend = nullptr;
    int number = 0;  // as people know the device: its CUDA ordinal; 0 for the CPU
  };

  // `members`: at least one, all of one kind. The backends must outlive the set.
  DeviceSet(std::vector<Member> members, OnDeviceLoss on_loss);
  // One device, of number 0, whose loss is the end.
  explicit DeviceSet(Backend* backend) : DeviceSet({{backend, 0}}, OnDeviceLoss::kExit) {}

  size_t size() const { return members_.size(); }
  Backend& backend(size_t device) const { return *members_[device].backend; }
  int number(size_t device) const { return members_[device].number; }
  OnDeviceLoss on_loss() const { return on_loss_; }
  // Whether the devices have memory of their own.
  bool is_gpu() const { return backend(0).info().name != "cpu"; }

  // Whether a device still answers. Once it does not, it never does again. Cheap.
  bool alive(size_t device) const { return alive_[device].load(std::memory_order_acquire); }
  size_t num_alive() const;
  // OK, or the UNAVAILABLE that told of the device's loss.
  absl::Status StatusOf(size_t device) const;
  // Notes that a device is lost. The first time is logged, and its reason stays.
  void Lose(size_t device, const absl::Status& reason);
  // Asks every device that is alive for its health, and notes those that have none. It costs calls of the driver, which
  // can hold up others: not for the way of a request.
  void Poll();

  // OK while requests can be answered: UNAVAILABLE, with the first reason, once a device is lost under kExit, or the
  // last one under kDegrade. Cheap.
  absl::Status Health() const;

 private:
  const std::vector<Member> members_;
  const OnDeviceLoss on_loss_;
  std::vector<std::atomic<bool>> alive_;
  std::atomic<bool> ended_{false};  // Health is not OK
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<absl::Status> lost_;
  absl::Status first_lost_;
};

}  // namespace maxsim::store
