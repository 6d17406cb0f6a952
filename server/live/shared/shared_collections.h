// The settings of created live collections, which all servers with the same NATS prefix share: one key of a key-value
// store per collection. A server keeps the settings that it has read while the store is away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/live/shared/key_value_store.h"
#include "server/store/shared_settings.h"

namespace maxsim::live {

// The maximum number of collections whose settings a server keeps. It ignores further ones. A server can also have at
// most this number of live collections.
inline constexpr size_t kMaxSharedCollections = 4096;

// Returns the key of a collection's settings: "collections." and the name, where = replaces each dot, as in
// LayoutKeyOf.
std::string SettingsKeyOf(std::string_view collection);

// The class is thread-safe.
class SharedCollections final : public store::SettingsRegistry {
 public:
  struct Options {
    absl::Duration timeout = absl::Seconds(5);  // for Claim and Remove, to wait until the store was read once
    std::string group = {};                     // this server's cluster.group, which Claim stores
  };

  // The caller owns `keys`, and must destroy it before this object: until then, the thread of `keys` calls functions of
  // this object. After that, only functions that are const may be called.
  SharedCollections(KeyValueStore* keys, Options options) : keys_(keys), options_(std::move(options)) {}
  SharedCollections(const SharedCollections&) = delete;
  SharedCollections& operator=(const SharedCollections&) = delete;

  // Starts to follow the store, on its thread. Calls after the first do nothing. Claim and Remove call it. If the store
  // cannot be followed, that is logged once, and the settings stay as they are.
  void Follow();

  // A collection that this server may create.
  struct Shared {
    store::SharedSettings settings;
    uint64_t revision = 0;  // of the settings
  };
  // Returns the collections of the store, in name order, without those that a client has unloaded from this server
  // (NoteUnloaded). Returns none before all of them have been read for the first time.
  std::vector<Shared> All() const;

  absl::Status Check(const store::SharedSettings& settings) const override;
  absl::StatusOr<bool> Claim(const store::SharedSettings& settings) override;
  absl::Status Remove(const std::string& name) override;
  bool MayCreate(const std::string& name) const override;
  bool IsUnused(const std::string& name) const override;
  void NoteUnloaded(const std::string& name) override;

 private:
  void Take(const KeyValueStore::Change& change);
  absl::Status TakeValue(const std::string& collection, const KeyValueStore::Change& change, bool* is_new);
  void TakeStatus(const absl::Status& status);
  void WaitUntilRead();
  bool IsUnloaded(const std::string& name, const Shared& shared) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  KeyValueStore* const keys_;
  const Options options_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, Shared, std::less<>> shared_ ABSL_GUARDED_BY(mutex_);
  // The collections that a client has unloaded from this server, by name: the revision of the settings at the unload,
  // or kUnknownRevision if they had not been read yet. The first read then sets it.
  std::map<std::string, uint64_t> unloaded_ ABSL_GUARDED_BY(mutex_);
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_read_ ABSL_GUARDED_BY(mutex_) = false;     // all keys, at least once
  bool has_ignored_ ABSL_GUARDED_BY(mutex_) = false;  // a value, so `shared_` may lack names that are in use
  bool is_refused_ ABSL_GUARDED_BY(mutex_) = false;   // NATS refuses to show the keys

  // Only the store's thread uses these.
  std::map<std::string, uint64_t> ignored_;  // by key: the revision of a value that was wrong
  bool is_lost_ = false;                     // the store cannot be followed, and that was logged
};

}  // namespace maxsim::live
