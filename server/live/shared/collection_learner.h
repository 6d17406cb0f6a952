// Creates on this server the live collections that other servers of the cluster have created
// (live.create_from_cluster).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "collection/slot_layout.h"
#include "collection/slots.h"
#include "server/live/shared/layouts.h"
#include "server/live/shared/shared_collections.h"

namespace maxsim::live {

// The slots that the configuration gives this server.
struct OwnSlots {
  std::string group = {};                               // cluster.group; "": unknown
  std::optional<collection::SlotRange> partition = {};  // cluster.partition
};

// Returns the slots that this server should hold of a shared collection.
//
// If the collection has a layout (`layout` is not null), these are the slots of the server's group. A server that does
// not know its group takes cluster.partition, or all slots if that is not set; one group of the layout must have
// exactly these slots.
//
// Without a layout, these are the slots of cluster.partition. If that is not set, they are all slots; a server of the
// same group must then have created the collection as a whole.
//
// Returns NOT_FOUND if the server's group has no slots, and FAILED_PRECONDITION, naming the key to set, if the slots
// are not known.
absl::StatusOr<collection::SlotRange> SlotsOfServer(const store::SharedSettings& settings,
                                                    const collection::SlotLayout* layout, const OwnSlots& own);

// A thread that looks at the shared collections twice a second, and creates those that the server lacks.
class CollectionLearner {
 public:
  struct Options {
    OwnSlots own;
    absl::Duration poll_interval = absl::Milliseconds(500);
    // The wait before the next attempt to create a collection that could not be created, after the first failure. It
    // doubles with each further failure, up to `max_retry_wait`: causes such as a full disk last a while. The wait is
    // never shorter than the attempt that failed.
    absl::Duration retry_wait = absl::Seconds(1);
    absl::Duration max_retry_wait = absl::Seconds(30);
    // Called on the thread with the name of a collection that could not be created, once its settings are no longer
    // shared. May be null.
    std::function<void(const std::string& name)> on_removed = nullptr;
  };
  // Creates the collection with these slots, unless the server has it. Called on the thread, and may block.
  using Create = std::function<absl::Status(const store::SharedSettings& settings, const collection::SlotRange& slots)>;

  // `shared` and `layouts` must outlive the object.
  CollectionLearner(SharedCollections* shared, Layouts* layouts, Options options, Create create);
  // Ends the thread, after a running `create` has returned.
  ~CollectionLearner();
  CollectionLearner(const CollectionLearner&) = delete;
  CollectionLearner& operator=(const CollectionLearner&) = delete;

  // Starts to follow the key-value store, and starts the thread. Call it at most once. Returns RESOURCE_EXHAUSTED if
  // the system cannot start a thread.
  absl::Status Start();
  // Makes the thread end, once a running `create` has returned. Does not wait for that.
  void RequestStop();

 private:
  void Run();
  void LearnAll();
  void Learn(const SharedCollections::Shared& shared);
  bool stopping() const;

  SharedCollections* const shared_;
  Layouts* const layouts_;
  const Options options_;
  const Create create_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Only the thread uses these.
  struct Failure {
    std::string error;
    absl::Time retry_at;
    absl::Duration wait;  // the wait that doubles
  };
  std::map<std::string, Failure> failures_;  // of collections that could not be created, by name
  std::thread thread_;
};

}  // namespace maxsim::live
