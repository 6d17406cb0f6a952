// Sends snapshots of live collections to other servers (ReadSnapshot), and makes collections of the snapshots that
// other servers send (Bootstrap).
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/partition/assemble.h"
#include "maxsim_version.h"
#include "server/observability/log_event.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/bootstrap/catch_up.h"
#include "server/service/bootstrap/fetch_snapshots.h"
#include "server/service/bootstrap/snapshot_files.h"
#include "server/service/bootstrap/snapshot_messages.h"
#include "server/service/call/status.h"
#include "server/service/collection_admin.h"
#include "server/service/creation/collection_request.h"
#include "server/service/request/info.h"
#include "server/service/request/slots_of_request.h"

namespace maxsim::service {

namespace {

using collection::SlotRange;

// The maximum number of sources in a request.
constexpr int kMaxSources = 64;
constexpr size_t kMaxAddressBytes = 256;

// Checks that an address is host:port. gRPC also knows names such as unix:/path, with which a client could make this
// server call programs on its own machine.
absl::Status CheckAddress(std::string_view address, const std::string& field) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  const bool is_plain = std::all_of(address.begin(), address.end(), [](char c) { return c > ' ' && c < 0x7f; });
  // A second colon, as in unix:name:1, is allowed only in an IPv6 address in brackets. Commas are not allowed, because
  // gRPC takes them for a list of addresses.
  const bool has_scheme = address.substr(0, colon).find(':') != address.npos && address.front() != '[';
  if (!is_plain || has_scheme || address.size() > kMaxAddressBytes || address.find_first_of("/,") != address.npos ||
      colon == 0 || colon == address.npos || !absl::SimpleAtoi(ForStrCat(address.substr(colon + 1)), &port) ||
      port == 0 || port > 65535) {
    return InvalidField(field, Cat("is ", Quote(address), "; must be host:port"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseSources(const v1::BootstrapCollectionRequest& request) {
  if (request.sources_size() < 1 || request.sources_size() > kMaxSources) {
    return InvalidField("sources", Cat("has ", request.sources_size(), " addresses; must have 1 to ", kMaxSources),
                        {kMaxSources, request.sources_size()});
  }
  std::vector<std::string> sources;
  for (int i = 0; i < request.sources_size(); ++i) {
    const std::string field = Cat("sources[", i, "]");
    if (absl::Status status = CheckAddress(request.sources(i), field); !status.ok()) return status;
    if (std::find(sources.begin(), sources.end(), request.sources(i)) != sources.end()) {
      return InvalidField(field, Cat("is ", request.sources(i), ", which comes before"));
    }
    sources.push_back(request.sources(i));
  }
  return sources;
}

bool AreOnOneFileSystem(const std::string& a, const std::string& b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev;
}

absl::Status NoStream(const std::string& name) {
  return absl::FailedPreconditionError(
      Cat("no stream orders the writes of collection \"", name, "\"; this call needs live.log nats"));
}

}  // namespace

// Returns the folder for the files of a snapshot. It is not in the collection's folder if that can be avoided, because
// a bootstrap may remove that while the snapshot is still being sent.
std::string CollectionAdmin::NewReadingFolder(const std::string& path) const {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  const std::optional<std::string> root = error ? std::nullopt : RootOf(resolved);
  return JoinPath(root.has_value() && AreOnOneFileSystem(*root, path) ? *root : path, NewReadingName());
}

// Makes a snapshot in the folder, and returns its description without the number of bytes. When it returns, it holds no
// reference to the collection, because sending the snapshot may take hours.
absl::StatusOr<v1::SnapshotBegin> CollectionAdmin::MakeSnapshot(const std::string& name,
                                                                std::optional<RemovedAtEnd>& folder,
                                                                const StopSignal& stop) const {
  std::vector<store::CollectionStatus> all = store_->List();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  if (found == all.end() || found->live == nullptr || found->collection == nullptr) {
    absl::Status why = store_->FindLive(name).status();
    return why.ok() ? absl::UnavailableError(Cat("collection \"", name, "\" was loaded just now")) : why;
  }
  const store::CollectionStatus status = std::move(*found);
  all.clear();
  if (!status.live->state().stream.has_value()) return NoStream(name);
  folder.emplace(NewReadingFolder(status.path));
  const absl::StatusOr<uint64_t> sequence = status.live->SnapshotTo(folder->path(), &stop);
  if (!sequence.ok()) return sequence.status();
  v1::SnapshotBegin described;
  described.set_format_version(kSnapshotFormatVersion);
  described.set_sequence(*sequence);
  *described.mutable_collection() = ToProto(status, *devices_);
  described.mutable_collection()->clear_path();
  // Read the stream's identity only now. Making the snapshot may take minutes, in which the collection may connect to
  // its stream for the first time.
  const std::optional<store::StreamState> stream = status.live->state().stream;
  if (stream.has_value() && stream->identity.has_value()) {
    described.mutable_stream()->set_name(stream->identity->name);
    described.mutable_stream()->set_created_unix_ns(stream->identity->created_ns);
  }
  return described;
}

absl::Status CollectionAdmin::ReadSnapshot(const std::string& name, SnapshotSink sink, const ChangeContext& context) {
  const absl::StatusOr<std::shared_ptr<const void>> place = snapshot_reads_.Take();
  if (!place.ok()) return place.status();
  const absl::Time begin = MonotonicNow();
  const StopSignal stop(&stop_, context.stop);
  std::optional<RemovedAtEnd> folder;
  absl::StatusOr<v1::SnapshotBegin> described = MakeSnapshot(name, folder, stop);
  if (!described.ok()) return described.status();
  const uint64_t sequence = described->sequence();
  const absl::StatusOr<std::vector<SnapshotFile>> files = ListSnapshotFiles(folder->path());
  if (!files.ok()) return files.status();
  uint64_t num_bytes = 0;
  for (const SnapshotFile& file : *files) num_bytes += file.num_bytes;
  described->set_total_bytes(num_bytes);
  v1::ReadSnapshotResponse beginning;
  *beginning.mutable_begin() = *std::move(described);
  absl::Status status = sink(beginning);
  if (status.ok()) status = SendSnapshotFiles(folder->path(), *files, sink, &stop);
  if (absl::Status stopped = stop.status(); !stopped.ok()) status = stopped;
  if (status.ok()) {
    log::Write(spdlog::level::info, "snapshot_sent",
               {{"name", name},
                {"sequence", sequence},
                {"bytes", num_bytes},
                {"seconds", absl::ToDoubleSeconds(MonotonicNow() - begin)}});
  } else {
    log::Write(spdlog::level::warn, "snapshot_not_sent",
               {{"name", name}, {"sequence", sequence}, {"error", status.ToString()}});
  }
  return status;
}

absl::Status CollectionAdmin::CheckMayBootstrap(const std::string& name) const {
  if (bootstrap_.open == nullptr) return NoStream(name);
  if (allowed_roots_.empty()) {
    return absl::PermissionDeniedError("store.allowed_roots names no folder for bootstrapped collections");
  }
  {
    const MutexLock lock(&bootstrap_mutex_);
    if (configured_.count(name) > 0) {
      return absl::FailedPreconditionError(
          Cat("collection \"", name,
              "\" is in this server's configuration, so its folder cannot change; remove it "
              "there and restart the server"));
    }
  }
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.name == name && status.collection != nullptr && status.live == nullptr) {
      return absl::FailedPreconditionError(Cat("collection \"", name, "\" is served and is not live; unload it"));
    }
  }
  return absl::OkStatus();
}

// Chooses the allowed root of the new folder, and finds the created collection of the same name that the new one
// replaces.
absl::Status CollectionAdmin::FindFolder(BootstrapPlan& plan) const {
  const std::vector<std::string> roots = Roots();
  if (roots.empty()) {
    return absl::FailedPreconditionError(
        Cat("none of the folders of store.allowed_roots exists: ", absl::StrJoin(allowed_roots_, ", ")));
  }
  plan.root = roots.front();
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.name == plan.name) plan.root = RootOf(status.path).value_or(plan.root);
  }
  for (const std::string& root : roots) {
    const absl::StatusOr<std::vector<CreatedCollection>> list = created_.List(root);
    if (!list.ok()) return list.status();
    for (const CreatedCollection& created : *list) {
      plan.listed.insert(created.path);
      if (created.name != plan.name || plan.earlier.has_value()) continue;
      plan.root = root;
      plan.replicate = plan.replicate || created.replicate;
      plan.earlier = created;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BootstrapPlan> CollectionAdmin::PlanBootstrap(const v1::BootstrapCollectionRequest& request) const {
  if (absl::Status status = CheckName(request.name()); !status.ok()) return status;
  BootstrapPlan plan{.name = request.name()};
  absl::StatusOr<std::vector<std::string>> sources = ParseSources(request);
  if (!sources.ok()) return sources.status();
  plan.sources = *std::move(sources);
  const absl::StatusOr<SlotRange> slots = SlotsOfRequest(request);
  if (!slots.ok()) return slots.status();
  plan.slots = *slots;
  const absl::StatusOr<store::Residency> residency = ParseResidency(request.residency());
  if (!residency.ok()) return residency.status();
  plan.residency = *residency;
  if (absl::Status status = CheckMayBootstrap(plan.name); !status.ok()) return status;
  if (absl::Status status = FindFolder(plan); !status.ok()) return status;
  return plan;
}

bool CollectionAdmin::IsBootstrapping(const std::string& name) const {
  const MutexLock lock(&bootstrap_mutex_);
  return running_.contains(name);
}

// Plans a bootstrap, and adds it to the running ones. Holds the name meanwhile. So no other call creates or unloads the
// collection at the same time, and a later one sees this bootstrap.
absl::StatusOr<BootstrapPlan> CollectionAdmin::BeginBootstrap(const v1::BootstrapCollectionRequest& request,
                                                              const StopSignal& stop) {
  const HeldName held(&changing_, request.name(), &stop);
  if (!held.status().ok()) return held.status();
  absl::StatusOr<BootstrapPlan> plan = PlanBootstrap(request);
  if (!plan.ok()) return plan;
  const MutexLock lock(&bootstrap_mutex_);
  if (!running_.insert(plan->name).second) {
    return absl::FailedPreconditionError(Cat("collection \"", plan->name, "\" is being bootstrapped already"));
  }
  return plan;
}

// Puts the new folder into the list of created collections, so that a restart serves it. After an error,
// `may_be_listed` says whether the list may have the folder all the same.
absl::Status CollectionAdmin::Remember(const BootstrapPlan& plan, const std::string& path, bool* may_be_listed) {
  absl::Status status = created_.Add(plan.root, {.name = plan.name,
                                                 .path = path,
                                                 .residency = std::string(store::Name(plan.residency)),
                                                 .replicate = plan.replicate});
  *may_be_listed = true;
  if (status.ok()) return status;
  const absl::StatusOr<std::vector<CreatedCollection>> list = created_.List(plan.root);
  *may_be_listed = !list.ok() || std::any_of(list->begin(), list->end(),
                                             [&](const CreatedCollection& one) { return one.path == path; });
  if (!*may_be_listed) return status;
  // The list was replaced, but may not be on disk. So undo that.
  const absl::Status undone =
      plan.earlier.has_value() ? created_.Add(plan.root, *plan.earlier) : created_.Remove(plan.root, plan.name);
  *may_be_listed = !undone.ok();
  return status;
}

absl::StatusOr<v1::BootstrapCollectionResponse> CollectionAdmin::CarryOut(const BootstrapPlan& plan,
                                                                          const ChangeContext& context) {
  const StopSignal& stop = *context.stop;
  absl::StatusOr<BootstrapFolders> made = BootstrapFolders::Make(plan.root, plan.name, plan.listed);
  if (!made.ok()) return made.status();
  BootstrapFolders folders = *std::move(made);
  if (plan.earlier.has_value()) {
    if (absl::Status status = folders.NoteReplaced(plan.earlier->path); !status.ok()) return status;
  }
  // While both copies are open, the collection takes two places of live_room_. Take the second one now, and not after
  // hours of copying.
  const absl::StatusOr<std::unique_ptr<LiveRoom::Place>> place = live_room_.Take(folders.target());
  if (!place.ok()) return place.status();
  const FetchRequest request{
      .collection = plan.name, .sources = plan.sources, .slots = plan.slots, .folder = folders.work()};
  const absl::StatusOr<FetchedSnapshots> fetched = plan.is_backup
                                                       ? bootstrap_.fetch_backup(plan.sources.front(), request, &stop)
                                                       : FetchSnapshots(request, bootstrap_.open, context.span, &stop);
  if (!fetched.ok()) return fetched.status();
  const collection::AssembleOptions options{
      .output = folders.unfinished(), .slots = plan.slots, .created_by = Cat("maxsimd ", kVersion), .stop = &stop};
  const absl::StatusOr<collection::Manifest> assembled = bootstrap_.assemble != nullptr
                                                             ? bootstrap_.assemble(fetched->folders, options)
                                                             : collection::AssembleLive(fetched->folders, options);
  if (absl::Status stopped = stop.status(); !stopped.ok()) return stopped;
  if (!assembled.ok()) return assembled.status();
  if (plan.check != nullptr) {
    if (absl::Status status = plan.check(*assembled); !status.ok()) return status;
  }
  for (const std::string& folder : fetched->folders) RemoveFolder(folder);
  if (absl::Status status = folders.MoveToTarget(); !status.ok()) return status;
  const absl::Time begin = MonotonicNow();
  const auto loaded = store_->Replace(
      {.name = plan.name,
       .path = folders.target(),
       .residency = plan.residency,
       .replication = plan.replicate ? store::Replication::kOn : store::Replication::kAuto,
       .root = plan.root,
       .any_slots = true},
      [&](const store::LiveDocuments& live) {
        absl::Status status = WaitUntilCaughtUp(live, fetched->last_sequence, bootstrap_.max_stall, stop);
        if (!status.ok()) return status;
        bool may_be_listed = false;
        status = Remember(plan, folders.target(), &may_be_listed);
        // From now on the new collection is served, also if this process dies.
        if (may_be_listed) folders.Keep();
        return status;
      },
      &stop);
  CountLoad(plan.name, loaded.ok(), MonotonicNow() - begin);
  if (!loaded.ok()) return loaded.status();
  folders.Finish();
  const absl::StatusOr<v1::CollectionInfo> info = Info(plan.name);
  if (!info.ok()) return info.status();
  v1::BootstrapCollectionResponse response;
  *response.mutable_collection() = *info;
  response.set_fetched_bytes(fetched->num_bytes);
  return response;
}

absl::StatusOr<v1::BootstrapCollectionResponse> CollectionAdmin::Bootstrap(
    const v1::BootstrapCollectionRequest& request, const ChangeContext& context) {
  const StopSignal stop(&stop_, context.stop);
  const absl::StatusOr<BootstrapPlan> plan = BeginBootstrap(request, stop);
  if (!plan.ok()) return plan.status();
  const absl::Cleanup end = [&] {
    const MutexLock lock(&bootstrap_mutex_);
    running_.erase(plan->name);
  };
  return RunBootstrap(*plan, {.stop = &stop, .span = context.span});
}

// Carries out a plan, whose name is in running_. Logs the outcome.
absl::StatusOr<v1::BootstrapCollectionResponse> CollectionAdmin::RunBootstrap(const BootstrapPlan& plan,
                                                                              const ChangeContext& context) {
  const absl::Time begin = MonotonicNow();
  const std::string sources = absl::StrJoin(plan.sources, ",");
  log::Write(spdlog::level::info, "bootstrap_began",
             {{"name", plan.name}, {"sources", sources}, {"slots", collection::FormatSlotRange(plan.slots)}});
  absl::StatusOr<v1::BootstrapCollectionResponse> response = Guarded([&] { return CarryOut(plan, context); });
  const double seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  if (response.ok()) {
    log::Write(spdlog::level::info, "bootstrapped",
               {{"name", plan.name},
                {"sources", sources},
                {"path", response->collection().path()},
                {"documents", response->collection().num_documents()},
                {"sequence", response->collection().live().sequence()},
                {"bytes", response->fetched_bytes()},
                {"seconds", seconds}});
  } else {
    log::Write(
        context.stop->stopped() ? spdlog::level::info : spdlog::level::err, "bootstrap_failed",
        {{"name", plan.name}, {"sources", sources}, {"seconds", seconds}, {"error", response.status().ToString()}});
  }
  return response;
}

}  // namespace maxsim::service
