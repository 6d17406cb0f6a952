// Makes this server's copies of the cluster's live collections (CreateShared).
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/compact/create.h"
#include "collection/manifest.h"
#include "server/observability/log_event.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/bootstrap/catch_up.h"
#include "server/service/call/status.h"
#include "server/service/collection_admin.h"
#include "server/service/creation/create_options.h"

namespace maxsim::service {
namespace {

constexpr std::chrono::milliseconds kFillPoll{20};

// How long a call of Create waits for CreateShared of the same name. For a new, empty collection that takes moments.
constexpr absl::Duration kMaxFillWait = absl::Seconds(10);

store::Replication ReplicationOf(const store::SharedSettings& settings) {
  return settings.replicate ? store::Replication::kOn : store::Replication::kAuto;
}

// Removes a folder in `root`. First renames it to a name that the next start of the server removes. Otherwise, if the
// process died meanwhile, the next one could take the rest of the folder for a collection.
void RemoveUnfinished(const std::string& path, const std::string& root) {
  const std::string removed = JoinPath(root, NewReadingName());
  std::error_code error;
  std::filesystem::rename(path, removed, error);
  RemoveFolder(error ? path : removed);
}

}  // namespace

bool CollectionAdmin::IsAwaited(const std::string& name) const {
  const std::vector<store::CollectionStatus> all = store_->List();
  return std::any_of(all.begin(), all.end(),
                     [&](const store::CollectionStatus& one) { return one.name == name && one.is_awaited; });
}

absl::StatusOr<bool> CollectionAdmin::IsNewFolder(const store::SharedSettings& settings, const std::string& path,
                                                  const collection::SlotRange& slots) const {
  std::error_code error;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) {
    return absl::FailedPreconditionError(Cat(path, " is a symbolic link; remove it"));
  }
  // Only a missing or empty folder counts as new. A folder with files must not, because a new folder is removed if the
  // load fails.
  if (!std::filesystem::exists(path, error) || std::filesystem::is_empty(path, error)) return true;
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(path);
  if (absl::IsNotFound(manifest.status())) {
    return absl::FailedPreconditionError(Cat(path, " exists and holds no collection; move it elsewhere"));
  }
  if (!manifest.ok()) return manifest.status();
  const std::string& name = settings.options.name;
  absl::Status same = registry_->Check(SettingsOf(name, *manifest));
  if (same.ok() && manifest->slots() != slots) {
    same = absl::FailedPreconditionError(Cat("it holds ", collection::DescribeSlots(manifest->slots()),
                                             ", but this server's group has ", collection::DescribeSlots(slots)));
  }
  if (same.ok()) return false;
  return Prefix(Cat(path, " is in the way of collection ", name, ", move it elsewhere: "), same);
}

// Asks the servers of the group what they have.
absl::StatusOr<RankedPeers> CollectionAdmin::AskPeers(const std::string& name, const collection::SlotRange& slots,
                                                      const StopSignal& stop) const {
  std::vector<PeerReport> reports;
  for (const std::string& address : bootstrap_.peers()) {
    if (absl::Status status = stop.status(); !status.ok()) return status;
    reports.push_back({.address = address, .info = bootstrap_.info(address)});
  }
  return RankPeers(reports, name, slots);
}

// Makes the collection from a snapshot of another server, or from a backup.
absl::Status CollectionAdmin::FillFrom(const std::string& source, bool is_backup, const store::SharedSettings& settings,
                                       const collection::SlotRange& slots, const StopSignal& stop) {
  const std::string& name = settings.options.name;
  BootstrapPlan plan{
      .name = name,
      .sources = {source},
      .is_backup = is_backup,
      .slots = slots,
      .residency = settings.residency,
      .replicate = settings.replicate,
      .check = [&](const collection::Manifest& manifest) { return registry_->Check(SettingsOf(name, manifest)); }};
  if (absl::Status status = CheckMayBootstrap(name); !status.ok()) return status;
  if (absl::Status status = FindFolder(plan); !status.ok()) return status;
  return RunBootstrap(plan, {.stop = &stop}).status();
}

// Returns true if the collection was fetched from another server. Returns false if no server of the group has it, and
// sets `others` to the reasons. Returns an error if servers have the collection, but none could send it.
absl::StatusOr<bool> CollectionAdmin::FillFromPeers(const store::SharedSettings& settings,
                                                    const collection::SlotRange& slots, const StopSignal& stop,
                                                    std::string& others) {
  if (bootstrap_.peers == nullptr) return false;
  const std::string& name = settings.options.name;
  store_->Await(name, "asks the servers of cluster.peers");
  const absl::StatusOr<RankedPeers> peers = AskPeers(name, slots, stop);
  if (!peers.ok()) return peers.status();
  absl::Status status;
  for (const std::string& address : peers->addresses) {
    store_->Await(name, Cat("fetches a snapshot from ", address));
    status = FillFrom(address, /*is_backup=*/false, settings, slots, stop);
    if (status.ok()) return true;
    if (stop.stopped()) break;
  }
  if (!status.ok()) return status;
  others = Cat("no server of cluster.peers has it: ", peers->others.empty() ? "they have no addresses" : peers->others);
  return false;
}

// Returns true if the collection was made from a backup. Returns false if no backup can be used, and adds the reason to
// `others`.
absl::StatusOr<bool> CollectionAdmin::FillFromBackup(const store::SharedSettings& settings,
                                                     const collection::SlotRange& slots, const StopSignal& stop,
                                                     std::string& others) {
  if (bootstrap_.find_backup == nullptr) return false;
  const std::string& name = settings.options.name;
  const auto add_reason = [&](const std::string& reason) { others += Cat(others.empty() ? "" : "; ", reason); };
  store_->Await(name, "looks for a backup in cluster.backups");
  const absl::StatusOr<std::string> url = bootstrap_.find_backup(name, &stop);
  if (absl::Status stopped = stop.status(); !stopped.ok()) return stopped;
  if (!url.ok()) {
    add_reason(Cat(absl::IsNotFound(url.status()) ? "cluster.backups has no backup of it: "
                                                  : "cluster.backups cannot be searched for a backup of it: ",
                   std::string(url.status().message())));
    return false;
  }
  // To fetch it again at each attempt could cost a lot of time and money.
  if (const auto found = useless_backups_.find(name); found != useless_backups_.end() && found->second == *url) {
    add_reason(Cat("the newest backup, ", *url, ", was fetched and cannot be used"));
    return false;
  }
  store_->Await(name, Cat("fetches the backup ", *url));
  absl::Status status = FillFrom(*url, /*is_backup=*/true, settings, slots, stop);
  if (status.ok()) return true;
  if (absl::IsFailedPrecondition(status) || absl::IsDataLoss(status)) {
    useless_backups_[name] = *url;
    add_reason(Cat("the newest backup, ", *url, ", cannot be used: ", std::string(status.message())));
    return false;
  }
  return status;
}

// Loads the collection in the folder, and serves it when it has applied all messages of its stream. If `is_new`, first
// creates it there, without documents; otherwise an earlier attempt began it. Adds it to the list of created
// collections only when it is complete, so that a server that restarts meanwhile does not serve a part of it.
absl::Status CollectionAdmin::FillFromStream(const store::SharedSettings& settings, const Allowed& folder, bool is_new,
                                             const StopSignal& stop) {
  const std::string& name = settings.options.name;
  const absl::StatusOr<std::unique_ptr<LiveRoom::Place>> place = live_room_.Take(name);
  if (!place.ok()) return place.status();
  if (is_new) {
    const absl::StatusOr<collection::Manifest> made = collection::CreateLiveCollection(folder.path, settings.options);
    if (!made.ok()) return made.status();
  }
  const absl::Time begin = MonotonicNow();
  bool is_worth_keeping = false;
  const auto loaded = store_->Replace(
      {.name = name,
       .path = folder.path,
       .residency = settings.residency,
       .replication = ReplicationOf(settings),
       .root = folder.root,
       .live = true,
       .any_slots = true},
      [&](const store::LiveDocuments& live) {
        absl::Status status = WaitUntilCaughtUp(live, 0, bootstrap_.max_stall, stop);
        // The stream is away. What was applied may have taken hours.
        is_worth_keeping = absl::IsUnavailable(status) && live.state().sequence > 0;
        if (!status.ok()) return status;
        status = created_.Add(folder.root, {.name = name,
                                            .path = folder.path,
                                            .residency = std::string(store::Name(settings.residency)),
                                            .replicate = settings.replicate});
        if (!status.ok()) created_.RemoveOf(folder.root, name, folder.path).IgnoreError();
        return status;
      },
      &stop);
  CountLoad(name, loaded.ok(), MonotonicNow() - begin);
  if (loaded.ok()) return absl::OkStatus();
  // If the folder stays, the next attempt goes on with its log.
  is_worth_keeping = is_worth_keeping || stop_.stopped();
  if (is_new && !is_worth_keeping) RemoveUnfinished(folder.path, folder.root);
  return loaded.status();
}

absl::Status CollectionAdmin::Fill(const store::SharedSettings& settings, const collection::SlotRange& slots,
                                   const StopSignal& stop) {
  const std::string& name = settings.options.name;
  const std::vector<std::string> roots = Roots();
  if (roots.empty()) {
    return absl::FailedPreconditionError(
        Cat("none of the folders of store.allowed_roots exists: ", absl::StrJoin(allowed_roots_, ", ")));
  }
  const Allowed folder{.path = JoinPath(roots.front(), name), .root = roots.front()};
  const absl::StatusOr<bool> is_new = IsNewFolder(settings, folder.path, slots);
  if (!is_new.ok()) return is_new.status();
  store::SharedSettings own = settings;
  own.options.created_by = CreatedByThisServer();
  if (!slots.is_whole()) own.options.partition = slots;
  const auto fill_from_stream = [&] {
    store_->Await(name, "applies the messages of its stream");
    return FillFromStream(own, folder, *is_new, stop);
  };
  absl::Status status;
  if (!*is_new) {
    status = fill_from_stream();
    // With these two codes, the folder can never follow the stream again, for example because the stream has dropped
    // messages meanwhile. The folder stays, because an operator may need it. A copy from another server gets a folder
    // of its own.
    if (!absl::IsFailedPrecondition(status) && !absl::IsDataLoss(status)) return status;
    if (stop.stopped()) return status;
  }
  std::string others;  // why no other source has brought the documents
  for (const auto fill : {&CollectionAdmin::FillFromPeers, &CollectionAdmin::FillFromBackup}) {
    const absl::StatusOr<bool> is_filled = (this->*fill)(settings, slots, stop, others);
    if (!is_filled.ok()) return is_filled.status();
    if (*is_filled) return absl::OkStatus();
  }
  if (*is_new) status = fill_from_stream();
  if (status.ok() || stop.stopped() || others.empty()) return status;
  return WithMessage(status, Cat(std::string(status.message()), "; ", others));
}

absl::Status CollectionAdmin::CreateShared(const store::SharedSettings& settings, const collection::SlotRange& slots) {
  const std::string& name = settings.options.name;
  StopSignal unloaded;
  const StopSignal stop(&stop_, &unloaded);
  {
    const HeldName held(&changing_, name, &stop_);
    if (!held.status().ok()) return held.status();
    if (IsBootstrapping(name) || (IsKnown(name) && !IsAwaited(name))) return absl::OkStatus();
    // A client may have unloaded the collection since the caller read its settings.
    if (!registry_->MayCreate(name)) return absl::OkStatus();
    const MutexLock lock(&bootstrap_mutex_);
    running_.insert(name);
    filling_ = name;
    stop_filling_ = &unloaded;
  }
  const absl::Cleanup end = [&] {
    const MutexLock lock(&bootstrap_mutex_);
    running_.erase(name);
    filling_.clear();
    stop_filling_ = nullptr;
  };
  absl::Status status = Guarded([&] { return Fill(settings, slots, stop); });
  if (unloaded.stopped()) return absl::OkStatus();
  if (!status.ok()) {
    store_->Await(name, Cat("waits for the next attempt, because: ", std::string(status.message())));
    return status;
  }
  for (const store::CollectionStatus& one : store_->List()) {
    if (one.name != name) continue;
    log::Write(spdlog::level::info, "shared_collection_created",
               {{"name", name}, {"path", one.path}, {"slots", collection::FormatSlotRange(slots)}});
  }
  return absl::OkStatus();
}

// Waits for a running call of CreateShared for this name, for at most kMaxFillWait. The caller holds the name, so no
// other call can begin.
absl::Status CollectionAdmin::WaitForFill(const std::string& name, const StopSignal* stop) const {
  const absl::Time until = MonotonicNow() + kMaxFillWait;
  while (MonotonicNow() < until) {
    {
      const MutexLock lock(&bootstrap_mutex_);
      if (filling_ != name) return absl::OkStatus();
    }
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    std::this_thread::sleep_for(kFillPoll);
  }
  return absl::OkStatus();
}

// Stops CreateShared for this name, and waits. The caller holds the name.
absl::Status CollectionAdmin::EndFill(const std::string& name, const StopSignal* stop) {
  while (true) {
    {
      const MutexLock lock(&bootstrap_mutex_);
      if (filling_ != name) return absl::OkStatus();
      stop_filling_->Request(absl::StatusCode::kCancelled);
    }
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    std::this_thread::sleep_for(kFillPoll);
  }
}

}  // namespace maxsim::service
