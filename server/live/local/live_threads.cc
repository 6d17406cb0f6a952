#include "server/live/local/live_threads.h"

#include "base/text.h"

namespace maxsim::live {

absl::StatusOr<std::unique_ptr<LiveThreads::Place>> LiveThreads::Enter(std::string_view name) {
  for (SharedThreads* threads : {&writers_, &compactors_}) {
    if (absl::Status status = threads->Start(); !status.ok()) return status;
  }
  const MutexLock lock(&mutex_);
  if (num_collections_ >= max_collections_) {
    return absl::ResourceExhaustedError(Cat("collection ", name, ": ", num_collections_,
                                            " live collections are open, and live.max_collections is ",
                                            max_collections_, "; unload one, or raise the limit"));
  }
  auto place = std::make_unique<Place>(this);
  ++num_collections_;
  return place;
}

LiveThreads::Place::~Place() {
  const MutexLock lock(&threads_->mutex_);
  --threads_->num_collections_;
}

}  // namespace maxsim::live
