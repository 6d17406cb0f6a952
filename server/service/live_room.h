// Decides whether a client may open one more live collection. The logs of all live collections may take half of the
// process' file descriptors; the other half is for connections and shards.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// A place is the permission to open one more live collection. Two calls can never both get the last place. Thread-safe.
// The object must outlive its places.
class LiveRoom {
 public:
  // Counts as an open live collection until it is destroyed. Keep it until the collection is in the store or could not
  // be opened.
  class Place {
   public:
    explicit Place(LiveRoom* room) : room_(room) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class LiveRoom;

    LiveRoom* const room_;
    std::optional<std::multiset<std::string>::iterator> entry_;  // in opening_
  };

  // `store` must outlive the object.
  explicit LiveRoom(const store::CollectionStore* store) : store_(store) {}

  // Takes a place for the collection `name`, unless it is open already and needs none. Returns RESOURCE_EXHAUSTED, with
  // the numbers, if no place is left.
  absl::StatusOr<std::unique_ptr<Place>> Take(const std::string& name);

 private:
  const store::CollectionStore* const store_;
  Mutex mutex_;
  std::multiset<std::string> opening_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
