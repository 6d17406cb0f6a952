// The collections a server holds, by name.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/maxsim.h"
#include "server/store/collection.h"
#include "server/store/residency.h"

namespace maxsim::store {

struct StoreOptions {
  // Bytes of collections that may be resident in the backend's memory (device memory on a GPU, host memory on the CPU);
  // 0: what is free when a load begins, less the reserve.
  size_t memory_budget_bytes = 0;
  size_t memory_reserve_bytes = size_t{512} << 20;  // left free for workspaces
  bool verify_checksums = true;                     // hash every shard while loading
  int load_threads = 2;                             // shards read at the same time
};

// A collection's state as it is shown to people.
struct CollectionStatus {
  enum class State { kLoading, kReady, kFailed };
  std::string name;
  std::string path;
  State state = State::kLoading;
  std::string error;                             // why it failed, or why the last reload did
  std::shared_ptr<const Collection> collection;  // null unless a generation is being served
};

// Thread-safe. Loads of different names run side by side; two loads of one name follow each other.
class CollectionStore {
 public:
  // `backend` must outlive the store and every collection it gave out.
  CollectionStore(Backend* backend, StoreOptions options);

  // Reads the manifest, plans the memory, loads every shard, and only then makes the collection visible. The plan is
  // logged. NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION (a storage type or residency this backend cannot serve),
  // DATA_LOSS (damaged files), RESOURCE_EXHAUSTED with the numbers. A failed load leaves a kFailed entry in List, which
  // a new Load of that name replaces.
  absl::StatusOr<std::shared_ptr<const Collection>> Load(const std::string& name, const std::string& path,
                                                         Residency residency);

  // Loads the published generation of a loaded (or failed) collection and swaps it in. On an error the old one stays.
  // `changed` (may be null) says whether the generation differs from the one that was served.
  absl::StatusOr<std::shared_ptr<const Collection>> Reload(const std::string& name, bool* changed);

  absl::Status Unload(const std::string& name);

  // NOT_FOUND for an unknown name (the message lists the known ones); UNAVAILABLE while it loads or when it failed.
  absl::StatusOr<std::shared_ptr<const Collection>> Find(std::string_view name) const;

  // In name order.
  std::vector<CollectionStatus> List() const;

  // What loading the collection at `path` would take, as a table for people: a line a shard, totals, what is free.
  absl::StatusOr<std::string> MemoryPlan(const std::string& path, Residency residency) const;

 private:
  struct Entry;
  Backend* const backend_;
  const StoreOptions options_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::store
