#include "server/grpc/stream_registry.h"

#include <vector>

namespace maxsim::rpc {

bool StreamRegistry::Add(const std::shared_ptr<DrainableStream>& stream) {
  MutexLock lock(&mutex_);
  streams_.insert(stream);
  return draining_;
}

void StreamRegistry::Remove(const std::shared_ptr<DrainableStream>& stream) {
  MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void StreamRegistry::Drain() {
  std::vector<std::shared_ptr<DrainableStream>> streams;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    streams.assign(streams_.begin(), streams_.end());
  }
  for (const std::shared_ptr<DrainableStream>& stream : streams) stream->Drain();
}

}  // namespace maxsim::rpc
