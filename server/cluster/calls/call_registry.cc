#include "server/cluster/calls/call_registry.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/monotonic_clock.h"

namespace maxsim::cluster {

bool CallRegistry::Add(const std::shared_ptr<EndableCall>& call) {
  const MutexLock lock(&mutex_);
  if (is_closed_) return false;
  calls_.emplace(call.get(), call);
  return true;
}

void CallRegistry::Remove(const EndableCall* call) {
  const MutexLock lock(&mutex_);
  calls_.erase(call);
  if (calls_.empty()) changed_.NotifyAll();
}

size_t CallRegistry::size() const {
  const MutexLock lock(&mutex_);
  return calls_.size();
}

void CallRegistry::WaitForNone(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!calls_.empty()) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(lock, absl::ToChronoMilliseconds(std::min(left, absl::Hours(1)) + absl::Milliseconds(1)));
  }
}

size_t CallRegistry::Close() {
  std::vector<std::shared_ptr<EndableCall>> calls;
  {
    const MutexLock lock(&mutex_);
    is_closed_ = true;
    for (const auto& [key, call] : calls_) {
      if (std::shared_ptr<EndableCall> one = call.lock()) calls.push_back(std::move(one));
    }
  }
  for (const std::shared_ptr<EndableCall>& call : calls) call->End();
  MutexLock lock(&mutex_);
  while (!calls_.empty()) changed_.Wait(lock);
  return calls.size();
}

}  // namespace maxsim::cluster
