// The layouts of live collections (collection/slot_layout.h), which all servers with the same NATS prefix share: one
// key of a key-value store per collection. A server keeps the layouts that it has read while the store is away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "collection/slot_layout.h"
#include "server/live/shared/key_value_store.h"

namespace maxsim::live {

// The maximum number of layouts that a server keeps. It ignores further ones. A server can also have at most this
// number of live collections.
inline constexpr size_t kMaxLayouts = 4096;

// Returns the key of a collection's layout: "layout." and the name, where each dot is replaced by =, because a key must
// not begin or end with a dot, or have two in a row. (Names of streams have + there, which a key must not have.)
std::string LayoutKeyOf(std::string_view collection);

// The class is thread-safe.
class Layouts {
 public:
  explicit Layouts(std::unique_ptr<KeyValueStore> keys) : keys_(std::move(keys)) {}
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;

  // Returns the store, so that others can add watches. This object owns the store.
  KeyValueStore* keys() { return keys_.get(); }

  // Starts to follow the store, on its thread. Before the first call there are no layouts, no connection and no thread.
  // Further calls do nothing. If the store cannot be followed, that is logged once, and the layouts stay as they are.
  void Follow();

  // Returns the layout of a collection, or null if it has none, or if it is not known yet.
  std::shared_ptr<const collection::SlotLayout> Find(std::string_view collection) const;

  // Returns OK, or FAILED_PRECONDITION if the collection's key has a value that this server ignores, because it is
  // wrong or a later version has written it. Find then returns the layout before it, or null.
  absl::Status CheckReadable(std::string_view collection) const;

  // Sets the layout of a collection, if its revision is `expected_revision` (0: if it has no layout). `owners` must be
  // valid (CheckSlotOwners). Every server, also this one, finds the new layout moments later. Blocks for at most a few
  // times the time limit of a call. Returns ABORTED about the field "expected_revision" if the layout has another
  // revision, and otherwise the errors of KeyValueStore::Put. Follow must have been called.
  absl::StatusOr<collection::SlotLayout> Set(std::string_view collection, std::vector<collection::SlotOwner> owners,
                                             uint64_t expected_revision);

 private:
  void Take(const KeyValueStore::Change& change);
  absl::Status TakeValue(const std::string& collection, const KeyValueStore::Change& change, bool* is_new);
  void NoteUnread(const std::string& collection, const KeyValueStore::Change& change, const absl::Status& status);
  void TakeStatus(const absl::Status& status);

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const collection::SlotLayout>, std::less<>> layouts_ ABSL_GUARDED_BY(mutex_);
  // Why the present values of keys are ignored, by collection. At most kMaxLayouts.
  std::map<std::string, std::string, std::less<>> unread_ ABSL_GUARDED_BY(mutex_);
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;

  // Only the store's thread uses these.
  std::map<std::string, uint64_t> ignored_;  // by key: the revision of a value that was wrong
  bool is_lost_ = false;                     // the store cannot be followed, and that was logged

  // Declared last, so that its thread has ended before the other members are destroyed.
  const std::unique_ptr<KeyValueStore> keys_;
};

}  // namespace maxsim::live
