// Replaces a NATS key-value bucket by keys in memory. A test can make it unavailable, and change keys like another
// client.
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

// The keys that all stores of a test share. Thread-safe. A change notifies watches on its own thread before it returns.
// Must outlive its stores.
class FakeKeyServer {
 public:
  std::unique_ptr<KeyValueStore> Connect();

  // Sets the status, OK at first, that all calls return and watches get. With OK, watches also get all keys.
  void SetStatus(const absl::Status& status);
  // Sends all watches the status and, if it is OK, all keys, as a real store does from time to time.
  void TellAll();

  // Write and Remove change a key like another client, also while the status is not OK. Write returns the new revision.
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
