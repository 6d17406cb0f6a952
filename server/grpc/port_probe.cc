#include "server/grpc/port_probe.h"

#include <utility>

#include "base/thread_name.h"

namespace maxsim {

PortProbe::PortProbe(std::function<absl::Status()> probe, absl::Duration interval,
                     std::function<void(const absl::Status&)> on_change)
    : probe_(std::move(probe)), interval_(interval), on_change_(std::move(on_change)), thread_([this] { Run(); }) {}

PortProbe::~PortProbe() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

absl::Status PortProbe::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

void PortProbe::Run() {
  NameThisThread("port-probe");
  int num_failures = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, absl::ToChronoNanoseconds(interval_), [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    const absl::Status answer = probe_();
    lock.lock();
    num_failures = answer.ok() ? 0 : num_failures + 1;
    const bool answers = num_failures < kFailures;
    if (answers == status_.ok()) continue;
    status_ = answers ? absl::OkStatus() : answer;
    lock.unlock();
    on_change_(answers ? absl::OkStatus() : answer);
    lock.lock();
  }
}

}  // namespace maxsim
