#include "tools/maxsimctl/backup/backup.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "backup/store_url.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/slots.h"
#include "maxsim_version.h"
#include "tools/backup/write_backup.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/backup/read_parts.h"
#include "tools/maxsimctl/cluster/servers.h"
#include "tools/maxsimctl/cluster/sources.h"

namespace maxsim::ctl {
namespace {

// The interval of gRPC's pings during a snapshot. If the server's machine is gone, the call then fails within a minute.
// Servers allow a ping every 10 s.
constexpr absl::Duration kKeepaliveTime = absl::Seconds(30);

std::string CreationTime() { return absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()); }

SnapshotServer ServerAt(const std::string& address, client::Client& client, const std::string& name) {
  return {.address = address, .read = [&client, name](SnapshotMessageSink sink) {
            v1::ReadSnapshotRequest request;
            request.set_name(name);
            return client.ReadSnapshot(request, sink);
          }};
}

// Returns servers that together hold all slots of the collection. Their clients belong to `servers`.
absl::StatusOr<std::vector<SnapshotServer>> ServersOfCluster(const std::string& name, cluster::Servers& servers) {
  const absl::StatusOr<cluster::ClusterState> state = servers.Read(name);
  if (!state.ok()) return state.status();
  // Reads only from ready servers. Another server may lack writes that it can no longer get from the stream.
  const auto sources = cluster::ChooseSources(*state, "", collection::SlotRange(),
                                              [](const cluster::ReplicaState& replica) { return replica.is_ready; });
  if (!sources.has_value()) {
    std::vector<std::string> states;
    for (const cluster::GroupState& group : state->groups) {
      for (const cluster::ReplicaState& replica : group.replicas) {
        states.push_back(
            Cat(cluster::NameOf(replica, group.name), ": ", replica.answers() ? replica.state : replica.problem));
      }
    }
    return absl::FailedPreconditionError(
        Cat("the servers that are ready do not hold all slots of ", name, ": ", absl::StrJoin(states, "; ")));
  }
  std::vector<SnapshotServer> chosen;
  for (const cluster::ReplicaState* source : *sources) {
    const absl::StatusOr<client::Client*> client = servers.At(source->address);
    if (!client.ok()) return client.status();
    chosen.push_back(ServerAt(source->address, **client, name));
  }
  return chosen;
}

void PrintBackup(const backup::BackupManifest& manifest, const std::string& url, absl::Duration took,
                 const Context& context) {
  if (context.options.json) {
    Json parts = Json::array();
    for (const backup::BackupPart& part : manifest.parts) {
      parts.push_back({{"server", part.server},
                       {"first_slot", part.slots.first},
                       {"end_slot", part.slots.end},
                       {"sequence", part.sequence},
                       {"documents", part.num_documents}});
    }
    context.Print({{"collection", manifest.collection},
                   {"url", url},
                   {"position", manifest.position()},
                   {"complete_at", manifest.complete_at()},
                   {"bytes", manifest.num_bytes()},
                   {"seconds", absl::ToDoubleSeconds(took)},
                   {"parts", std::move(parts)}});
    return;
  }
  const std::string count = manifest.parts.size() == 1 ? "1 server" : Cat(manifest.parts.size(), " servers");
  context.out() << command_line::WithoutControls(Cat("backed up ", manifest.collection, " of ", count, " to ", url,
                                                     ": ", FormatBytes(static_cast<int64_t>(manifest.num_bytes())),
                                                     ", position ", manifest.position(), " of the stream"))
                << '\n';
}

}  // namespace

absl::Status RunBackup(const BackupOptions& options, Context& context) {
  const absl::Time began = MonotonicNow();
  const absl::StatusOr<std::unique_ptr<backup::ObjectStore>> store = backup::OpenStore(options.url, context.getenv());
  if (!store.ok()) return store.status();
  cluster::Servers servers(context, options.group_token_file);
  std::unique_ptr<client::Client> client;  // without --cluster
  std::vector<SnapshotServer> sources;
  if (options.is_cluster) {
    absl::StatusOr<std::vector<SnapshotServer>> chosen = ServersOfCluster(options.name, servers);
    if (!chosen.ok()) return chosen.status();
    sources = *std::move(chosen);
  } else {
    const absl::StatusOr<std::string> token = context.ReadToken();
    if (!token.ok()) return token.status();
    absl::StatusOr<std::unique_ptr<client::Client>> made =
        context.MakeClient(context.options.server, *token, kKeepaliveTime);
    if (!made.ok()) return made.status();
    client = *std::move(made);
    sources.push_back(ServerAt(context.options.server, *client, options.name));
  }
  if (absl::Status status = backup::CheckStoreIsEmpty(**store); !status.ok()) return status;
  backup::BackupManifest manifest{.id = backup::NewBackupId(),
                                  .collection = options.name,
                                  .created_at = CreationTime(),
                                  .created_by = Cat("maxsimctl ", kVersion),
                                  .stream = std::nullopt,
                                  .parts = {}};
  if (absl::Status status = ReadParts(sources, **store, manifest); !status.ok()) return status;
  const absl::StatusOr<collection::SlotRange> slots = backup::CoveredSlots(manifest.parts);
  if (!slots.ok()) return slots.status();
  if (options.is_cluster && !slots->is_whole()) {
    return absl::FailedPreconditionError(Cat("slots moved while the backup was made: it has ",
                                             collection::DescribeSlots(*slots), "; make it again, with a new prefix"));
  }
  if (absl::Status status = backup::PublishBackup(**store, manifest); !status.ok()) return status;
  PrintBackup(manifest, (*store)->url(), MonotonicNow() - began, context);
  return absl::OkStatus();
}

}  // namespace maxsim::ctl
