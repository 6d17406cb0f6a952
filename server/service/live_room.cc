#include "server/service/live_room.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/open_descriptors.h"
#include "collection/log/collection_log.h"

namespace maxsim::service {

LiveRoom::Place::~Place() {
  if (!entry_.has_value()) return;
  const MutexLock lock(&room_->mutex_);
  room_->opening_.erase(*entry_);
}

absl::StatusOr<std::unique_ptr<LiveRoom::Place>> LiveRoom::Take(const std::string& name) {
  const uint64_t limit = DescriptorLimit();
  const uint64_t max_collections = limit / 2 / collection::kMaxLogDescriptors;
  // Make the place before taking the lock. If this returns an error, the lock is released first and then the place is
  // destroyed, whose destructor takes the lock.
  auto place = std::make_unique<Place>(this);
  const MutexLock lock(&mutex_);
  std::set<std::string> open(opening_.begin(), opening_.end());
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.live != nullptr) open.insert(status.name);
  }
  if (open.count(name) == 0 && open.size() >= max_collections) {
    return absl::ResourceExhaustedError(absl::StrCat(
        open.size(), " live collections are open or being opened. Each may take ", collection::kMaxLogDescriptors,
        " of the ", limit, " file descriptors that the process may have, and ",
        "half of them stay free for connections: unload a collection, or raise the limit (`ulimit -n`, or ",
        "LimitNOFILE= of the systemd unit)"));
  }
  place->entry_ = opening_.insert(name);
  return place;
}

}  // namespace maxsim::service
