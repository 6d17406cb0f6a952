#include "server/grpc/port_probe.h"

#include <chrono>
#include <utility>

#include "base/guard.h"
#include "base/thread_name.h"

namespace maxsim {

PortProbe::PortProbe(std::function<absl::Status()> probe, absl::Duration interval,
                     std::function<void(const absl::Status&)> on_change)
    : probe_(std::move(probe)), interval_(interval), on_change_(std::move(on_change)), thread_([this] { Run(); }) {}

PortProbe::~PortProbe() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

absl::Status PortProbe::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void PortProbe::Run() {
  NameThisThread("port-probe");
  int num_failures = 0;
  MutexLock lock(&mutex_);
  while (true) {
    const auto next_probe = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(interval_);
    while (!stopping_ && wake_.WaitUntil(lock, next_probe)) {
    }
    if (stopping_) return;
    lock.Unlock();
    const absl::Status answer = Guarded([this] { return probe_(); });
    lock.Lock();
    num_failures = answer.ok() ? 0 : num_failures + 1;
    const bool answers = num_failures < kFailures;
    if (answers == status_.ok()) continue;
    status_ = answers ? absl::OkStatus() : answer;
    lock.Unlock();
    Guarded([&] {
      on_change_(answers ? absl::OkStatus() : answer);
      return absl::OkStatus();
    }).IgnoreError();
    lock.Lock();
  }
}

}  // namespace maxsim
