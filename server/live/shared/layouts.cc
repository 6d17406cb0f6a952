#include "server/live/shared/layouts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "client/error_details.h"
#include "collection/collection_name.h"
#include "server/live/shared/layout_value.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

constexpr std::string_view kPrefix = "layout.";

// Bytes of a foreign key that a log line shows.
constexpr size_t kLongestKey = 200;

// Returns the name of the collection that a key belongs to, or nullopt if no collection has that key.
std::optional<std::string> CollectionOf(std::string_view key) {
  std::string name(key.substr(kPrefix.size()));
  if (name.find('.') != std::string::npos) return std::nullopt;
  std::replace(name.begin(), name.end(), '=', '.');
  return collection::IsCollectionName(name) ? std::optional(std::move(name)) : std::nullopt;
}

}  // namespace

std::string LayoutKeyOf(std::string_view collection) {
  std::string key = Cat(kPrefix, collection);
  std::replace(key.begin() + kPrefix.size(), key.end(), '.', '=');
  return key;
}

void Layouts::Follow() {
  {
    const MutexLock lock(&mutex_);
    if (std::exchange(has_begun_, true)) return;
  }
  keys_->Add({.prefix = std::string(kPrefix),
              .on_change = [this](const KeyValueStore::Change& change) { Take(change); },
              .on_status = [this](const absl::Status& status) { TakeStatus(status); }});
}

std::shared_ptr<const collection::SlotLayout> Layouts::Find(std::string_view collection) const {
  const MutexLock lock(&mutex_);
  const auto found = layouts_.find(collection);
  return found == layouts_.end() ? nullptr : found->second;
}

absl::Status Layouts::CheckReadable(std::string_view collection) const {
  const MutexLock lock(&mutex_);
  const auto found = unread_.find(collection);
  return found == unread_.end() ? absl::OkStatus() : absl::FailedPreconditionError(found->second);
}

absl::StatusOr<collection::SlotLayout> Layouts::Set(std::string_view collection,
                                                    std::vector<collection::SlotOwner> owners,
                                                    uint64_t expected_revision) {
  const absl::StatusOr<KeyValueStore::PutResult> put =
      keys_->Put(LayoutKeyOf(collection), FormatLayoutValue(owners), expected_revision);
  if (!put.ok()) return put.status();
  if (put->is_stored) return collection::SlotLayout{.revision = put->revision, .owners = std::move(owners)};
  const std::string now = put->revision == 0
                              ? Cat("collection ", collection, " has no layout")
                              : Cat("the layout of collection ", collection, " has revision ", put->revision);
  return client::FieldError(
      absl::StatusCode::kAborted, client::kReasonOtherRevision, "expected_revision",
      Cat("is ", expected_revision, ", but ", now, "; look at the layout again, and decide anew"));
}

void Layouts::Take(const KeyValueStore::Change& change) {
  const std::optional<std::string> name = CollectionOf(change.key);
  if (change.revision == 0) {
    ignored_.erase(change.key);
    if (!name.has_value()) return;
    {
      const MutexLock lock(&mutex_);
      unread_.erase(*name);
      if (layouts_.erase(*name) == 0) return;
    }
    log::Write(spdlog::level::info, "layout_removed", {{"name", *name}});
    return;
  }
  bool is_new = false;
  const absl::Status status =
      name.has_value() ? TakeValue(*name, change, &is_new) : Invalid("the key is not that of a collection's layout");
  if (!status.ok()) {
    if (name.has_value()) NoteUnread(*name, change, status);
    // All keys come again from time to time, but a wrong value is logged only once.
    const auto seen = ignored_.find(change.key);
    if (seen == ignored_.end() ? ignored_.size() >= kMaxLayouts : seen->second == change.revision) return;
    ignored_[change.key] = change.revision;
    log::Write(spdlog::level::err, "layout_ignored",
               {{"store", keys_->name()},
                {"key", Printable(change.key, kLongestKey)},
                {"revision", change.revision},
                {"error", std::string(status.message())}});
    return;
  }
  ignored_.erase(change.key);
  if (is_new) log::Write(spdlog::level::info, "layout_changed", {{"name", *name}, {"revision", change.revision}});
}

// Sets `is_new` to whether the collection had another layout before.
absl::Status Layouts::TakeValue(const std::string& collection, const KeyValueStore::Change& change, bool* is_new) {
  absl::StatusOr<std::vector<collection::SlotOwner>> owners = ParseLayoutValue(change.value);
  if (!owners.ok()) return owners.status();
  auto layout = std::make_shared<const collection::SlotLayout>(
      collection::SlotLayout{.revision = change.revision, .owners = *std::move(owners)});
  const MutexLock lock(&mutex_);
  const auto found = layouts_.find(collection);
  if (found == layouts_.end() && layouts_.size() >= kMaxLayouts) {
    return Invalid("there are more than ", kMaxLayouts, " layouts");
  }
  *is_new = found == layouts_.end() || *found->second != *layout;
  layouts_[collection] = std::move(layout);
  unread_.erase(collection);
  return absl::OkStatus();
}

void Layouts::NoteUnread(const std::string& collection, const KeyValueStore::Change& change,
                         const absl::Status& status) {
  const MutexLock lock(&mutex_);
  if (unread_.size() >= kMaxLayouts && !unread_.contains(collection)) return;
  unread_[collection] = Cat("its layout of revision ", change.revision, " is ignored (key ", change.key, " of ",
                            keys_->name(), "): ", std::string(status.message()));
}

void Layouts::TakeStatus(const absl::Status& status) {
  if (std::exchange(is_lost_, !status.ok()) == !status.ok()) return;
  if (status.ok()) {
    log::Write(spdlog::level::info, "layouts_followed", {{"store", keys_->name()}});
  } else {
    log::Write(spdlog::level::warn, "layouts_not_followed", {{"store", keys_->name()}, {"error", status.ToString()}});
  }
}

}  // namespace maxsim::live
