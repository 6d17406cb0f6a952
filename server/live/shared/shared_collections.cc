#include "server/live/shared/shared_collections.h"

#include <algorithm>
#include <optional>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/error_details.h"
#include "collection/collection_name.h"
#include "server/live/shared/settings_value.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

constexpr std::string_view kSettingsPrefix = "collections.";

// The maximum number of bytes of an invalid key that a log line shows.
constexpr size_t kLongestSettingsKey = 200;

// The revision of settings that this server has not read yet. No key has it.
constexpr uint64_t kUnknownRevision = 0;

// The maximum number of times that Claim tries, if other servers change the key between its calls of the store.
constexpr int kMaxLooks = 4;

// Returns the name of the collection that a key belongs to, or nullopt if no collection has that key.
std::optional<std::string> CollectionOfSettings(std::string_view key) {
  std::string name(key.substr(kSettingsPrefix.size()));
  if (name.find('.') != std::string::npos) return std::nullopt;
  std::replace(name.begin(), name.end(), '=', '.');
  return collection::IsCollectionName(name) ? std::optional(std::move(name)) : std::nullopt;
}

}  // namespace

std::string SettingsKeyOf(std::string_view collection) {
  std::string key = Cat(kSettingsPrefix, collection);
  std::replace(key.begin() + kSettingsPrefix.size(), key.end(), '.', '=');
  return key;
}

void SharedCollections::Follow() {
  {
    const MutexLock lock(&mutex_);
    if (std::exchange(has_begun_, true)) return;
  }
  keys_->Add({.prefix = std::string(kSettingsPrefix),
              .on_change = [this](const KeyValueStore::Change& change) { Take(change); },
              .on_status = [this](const absl::Status& status) { TakeStatus(status); }});
}

std::vector<SharedCollections::Shared> SharedCollections::All() const {
  const MutexLock lock(&mutex_);
  std::vector<Shared> all;
  if (!has_read_) return all;
  for (const auto& [name, shared] : shared_) {
    if (!IsUnloaded(name, shared)) all.push_back(shared);
  }
  return all;
}

bool SharedCollections::IsUnloaded(const std::string& name, const Shared& shared) const {
  const auto unloaded = unloaded_.find(name);
  return unloaded != unloaded_.end() && unloaded->second == shared.revision;
}

bool SharedCollections::MayCreate(const std::string& name) const {
  const MutexLock lock(&mutex_);
  const auto found = shared_.find(name);
  return has_read_ && found != shared_.end() && !IsUnloaded(name, found->second);
}

absl::Status SharedCollections::Check(const store::SharedSettings& settings) const {
  const MutexLock lock(&mutex_);
  const auto found = shared_.find(settings.options.name);
  return found == shared_.end() ? absl::OkStatus() : CheckSameSettings(settings, found->second.settings);
}

bool SharedCollections::IsUnused(const std::string& name) const {
  const MutexLock lock(&mutex_);
  return has_read_ && !has_ignored_ && !shared_.contains(name);
}

// The store connects in the background. So the first call waits until the store has been read, at most for
// options_.timeout.
void SharedCollections::WaitUntilRead() {
  Follow();
  const absl::Time until = MonotonicNow() + options_.timeout;
  MutexLock lock(&mutex_);
  while (!has_read_ && !is_refused_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
  }
}

absl::StatusOr<bool> SharedCollections::Claim(const store::SharedSettings& settings) {
  WaitUntilRead();
  const std::string& name = settings.options.name;
  store::SharedSettings claimed = settings;
  claimed.group = options_.group;
  const std::string key = SettingsKeyOf(name);
  for (int i = 0; i < kMaxLooks; ++i) {
    const absl::StatusOr<KeyValueStore::PutResult> put = keys_->Put(key, FormatSettingsValue(claimed), 0);
    if (!put.ok()) return put.status();
    if (put->is_stored) return true;
    const absl::StatusOr<std::optional<KeyValueStore::Entry>> entry = keys_->Get(key);
    if (!entry.ok()) return entry.status();
    if (!entry->has_value()) continue;  // removed in the meantime
    const absl::StatusOr<store::SharedSettings> theirs = ParseSettingsValue(name, (*entry)->value);
    if (!theirs.ok()) {
      return absl::FailedPreconditionError(Cat("key ", key, " of ", keys_->name(), ": ",
                                               std::string(theirs.status().message()),
                                               "; correct the key, or remove it"));
    }
    if (absl::Status status = CheckSameSettings(settings, *theirs); !status.ok()) return status;
    return false;
  }
  absl::Status status = absl::UnavailableError(Cat("key ", key, " of ", keys_->name(), " changes all the time"));
  client::SetReason(client::kReasonNothingWritten, status);
  return status;
}

absl::Status SharedCollections::Remove(const std::string& name) {
  WaitUntilRead();
  const std::string key = SettingsKeyOf(name);
  const absl::StatusOr<std::optional<KeyValueStore::Entry>> entry = keys_->Get(key);
  if (!entry.ok()) return entry.status();
  return entry->has_value() ? keys_->Delete(key) : absl::OkStatus();
}

void SharedCollections::NoteUnloaded(const std::string& name) {
  const MutexLock lock(&mutex_);
  const auto found = shared_.find(name);
  if (found != shared_.end()) {
    unloaded_[name] = found->second.revision;
  } else if (!has_read_ && unloaded_.size() < kMaxSharedCollections) {
    unloaded_[name] = kUnknownRevision;
  }
}

void SharedCollections::Take(const KeyValueStore::Change& change) {
  const std::optional<std::string> name = CollectionOfSettings(change.key);
  if (change.revision == 0) {
    ignored_.erase(change.key);
    if (!name.has_value()) return;
    {
      const MutexLock lock(&mutex_);
      unloaded_.erase(*name);
      if (shared_.erase(*name) == 0) return;
    }
    log::Write(spdlog::level::info, "shared_collection_removed", {{"name", *name}});
    return;
  }
  bool is_new = false;
  const absl::Status status =
      name.has_value() ? TakeValue(*name, change, &is_new) : Invalid("the key is not that of a collection's settings");
  if (!status.ok()) {
    {
      const MutexLock lock(&mutex_);
      has_ignored_ = true;
    }
    // The store passes all keys again from time to time, but a wrong value is logged only once.
    const auto seen = ignored_.find(change.key);
    if (seen == ignored_.end() ? ignored_.size() >= kMaxSharedCollections : seen->second == change.revision) return;
    ignored_[change.key] = change.revision;
    log::Write(spdlog::level::err, "shared_collection_ignored",
               {{"store", keys_->name()},
                {"key", Printable(change.key, kLongestSettingsKey)},
                {"revision", change.revision},
                {"error", std::string(status.message())}});
    return;
  }
  ignored_.erase(change.key);
  if (is_new) log::Write(spdlog::level::info, "shared_collection", {{"name", *name}, {"revision", change.revision}});
}

// Sets `is_new` to whether the settings are new to this server.
absl::Status SharedCollections::TakeValue(const std::string& collection, const KeyValueStore::Change& change,
                                          bool* is_new) {
  absl::StatusOr<store::SharedSettings> settings = ParseSettingsValue(collection, change.value);
  if (!settings.ok()) return settings.status();
  const MutexLock lock(&mutex_);
  const auto found = shared_.find(collection);
  if (found == shared_.end() && shared_.size() >= kMaxSharedCollections) {
    return Invalid("there are more than ", kMaxSharedCollections, " collections");
  }
  *is_new = found == shared_.end() || found->second.revision != change.revision;
  shared_[collection] = {.settings = *std::move(settings), .revision = change.revision};
  const auto unloaded = unloaded_.find(collection);
  if (unloaded != unloaded_.end() && unloaded->second == kUnknownRevision) unloaded->second = change.revision;
  return absl::OkStatus();
}

void SharedCollections::TakeStatus(const absl::Status& status) {
  {
    const MutexLock lock(&mutex_);
    if (status.ok() && !has_read_) {
      has_read_ = true;
      // Nothing was shared under these names. What will be is new.
      std::erase_if(unloaded_, [](const auto& unloaded) { return unloaded.second == kUnknownRevision; });
    }
    is_refused_ = !status.ok() && !absl::IsUnavailable(status);
  }
  changed_.NotifyAll();
  if (std::exchange(is_lost_, !status.ok()) == !status.ok()) return;
  if (status.ok()) {
    log::Write(spdlog::level::info, "shared_collections_followed", {{"store", keys_->name()}});
  } else {
    log::Write(spdlog::level::warn, "shared_collections_not_followed",
               {{"store", keys_->name()}, {"error", status.ToString()}});
  }
}

}  // namespace maxsim::live
