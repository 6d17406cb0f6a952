#include "tests/unit/server/live/fake_keys.h"

#include <algorithm>
#include <utility>

#include "client/error_details.h"

namespace maxsim::live {

class FakeKeyServer::Store final : public KeyValueStore {
 public:
  explicit Store(FakeKeyServer* server) : server_(*server) {
    const MutexLock lock(&server_.mutex_);
    server_.stores_.push_back(this);
  }
  ~Store() override {
    const MutexLock lock(&server_.mutex_);
    std::erase(server_.stores_, this);
  }

  std::string name() const override { return "fake keys"; }

  void Add(Watch watch) override {
    const MutexLock lock(&server_.mutex_);
    watches_.push_back(std::move(watch));
    TellAll();
  }

  absl::StatusOr<std::optional<Entry>> Get(const std::string& key) override {
    const MutexLock lock(&server_.mutex_);
    if (!server_.status_.ok()) return server_.status_;
    const auto found = server_.entries_.find(key);
    return found == server_.entries_.end() ? std::nullopt : std::optional(found->second);
  }

  absl::StatusOr<PutResult> Put(const std::string& key, std::string_view value, uint64_t expected_revision) override {
    const MutexLock lock(&server_.mutex_);
    if (!server_.status_.ok()) {
      absl::Status status = server_.status_;
      client::SetReason(client::kReasonNothingWritten, status);
      return status;
    }
    const auto found = server_.entries_.find(key);
    const uint64_t revision = found == server_.entries_.end() ? 0 : found->second.revision;
    if (revision != expected_revision) return PutResult{.is_stored = false, .revision = revision};
    server_.Change(key, value);
    return PutResult{.is_stored = true, .revision = server_.revision_};
  }

  absl::Status Delete(const std::string& key) override {
    const MutexLock lock(&server_.mutex_);
    if (server_.status_.ok()) server_.Change(key, std::nullopt);
    return server_.status_;
  }

  // The server's mutex must be held.
  void Tell(const Change& change) {
    if (change.revision == 0) {
      known_.erase(change.key);
    } else {
      known_.insert(change.key);
    }
    for (const Watch& watch : watches_) {
      if (change.key.starts_with(watch.prefix)) watch.on_change(change);
    }
  }
  void TellAll() {
    server_.mutex_.AssertHeld();
    if (server_.status_.ok()) {
      const std::set<std::string> before = known_;
      for (const std::string& key : before) {
        if (!server_.entries_.contains(key)) Tell({.key = key});
      }
      for (const auto& [key, entry] : server_.entries_) {
        Tell({.key = key, .value = entry.value, .revision = entry.revision});
      }
    }
    for (const Watch& watch : watches_) watch.on_status(server_.status_);
  }

 private:
  FakeKeyServer& server_;
  std::vector<Watch> watches_;
  std::set<std::string> known_;
};

std::unique_ptr<KeyValueStore> FakeKeyServer::Connect() { return std::make_unique<Store>(this); }

void FakeKeyServer::Change(const std::string& key, std::optional<std::string_view> value) {
  ++revision_;
  KeyValueStore::Change change{.key = key};
  if (value.has_value()) {
    entries_[key] = {.value = std::string(*value), .revision = revision_};
    change.value = *value;
    change.revision = revision_;
  } else {
    entries_.erase(key);
  }
  if (!status_.ok()) return;
  for (Store* const store : stores_) store->Tell(change);
}

void FakeKeyServer::SetStatus(const absl::Status& status) {
  {
    const MutexLock lock(&mutex_);
    status_ = status;
  }
  TellAll();
}

void FakeKeyServer::TellAll() {
  const MutexLock lock(&mutex_);
  for (Store* const store : stores_) store->TellAll();
}

uint64_t FakeKeyServer::Write(const std::string& key, std::string_view value) {
  const MutexLock lock(&mutex_);
  Change(key, value);
  return revision_;
}

void FakeKeyServer::Remove(const std::string& key) {
  const MutexLock lock(&mutex_);
  Change(key, std::nullopt);
}

std::optional<KeyValueStore::Entry> FakeKeyServer::Read(const std::string& key) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace maxsim::live
