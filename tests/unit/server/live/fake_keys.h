// Replaces a bucket of NATS by keys in memory. A test can make it unavailable, and change keys as another client.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/live/shared/key_value_store.h"

namespace maxsim::live {

// The keys that all stores of a test share. Thread-safe. Watches are told on the thread that makes the change, before
// that returns. Must outlive its stores.
class FakeKeyServer {
 public:
  std::unique_ptr<KeyValueStore> Connect();

  // Sets what all calls return, and what watches are told; OK at the beginning. When it becomes OK again, watches get
  // all keys.
  void SetStatus(const absl::Status& status);
  // Tells all watches of the status and, if it is OK, of all keys, as a store does from time to time.
  void TellAll();

  // Change keys as another client, also while the status is not OK. Write returns the new revision.
  uint64_t Write(const std::string& key, std::string_view value);
  void Remove(const std::string& key);
  std::optional<KeyValueStore::Entry> Read(const std::string& key) const;

 private:
  class Store;
  void Change(const std::string& key, std::optional<std::string_view> value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, KeyValueStore::Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<Store*> stores_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::live
