#include "server/config/cluster_keys.h"

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "collection/group_name.h"
#include "collection/slots.h"
#include "server/config/key_kinds.h"

namespace maxsim::config {

using namespace key_kinds;

namespace {

// The value is always printed as FIRST-LAST, in whichever form it was written.
Key PartitionKey() {
  return {
      .name = "cluster.partition",
      .type = "I/N|FIRST-LAST",
      .range = Cat("slots 0 to ", collection::kNumSlots - 1),
      .help =
          "The partition that each configured or loaded collection of this server must be, and that a created one is: "
          "partition I of N, counted from 0, or the slots FIRST to LAST; empty: any. Bootstrapped collections may have "
          "other slots.",
      .set =
          [](std::string_view text, Config& config) {
            if (text.empty()) {
              config.store.partition.reset();
              return absl::OkStatus();
            }
            const absl::StatusOr<collection::SlotRange> slots = collection::ParseSlotRange(text);
            if (slots.ok()) config.store.partition = *slots;
            return slots.status();
          },
      .get =
          [](const Config& config) {
            return config.store.partition.has_value() ? collection::FormatSlotRange(*config.store.partition)
                                                      : std::string();
          }};
}

Key ZoneKey() {
  Key key = Text(
      "cluster.zone", "name", +[](Config& c) -> std::string& { return c.cluster.zone; },
      "Zone in which this process runs, such as an availability zone; 1 to 64 of A-Z a-z 0-9 . _ -. Servers report it. "
      "A "
      "router with a zone prefers replicas of its zone, and asks one of another zone if it asks a second one. Empty: "
      "none.");
  key.set = [](std::string_view text, Config& config) {
    if (!text.empty() && !cluster::IsZoneName(text)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quote(text), " is not the name of a zone: 1 to 64 of A-Z a-z 0-9 . _ -"));
    }
    config.cluster.zone = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

Key GroupKey() {
  Key key = Text(
      "cluster.group", "name", +[](Config& c) -> std::string& { return c.live.group; },
      "Group of this server, as the routers name it; 1 to 64 of A-Z a-z 0-9 . _ -. With live.create_from_cluster it "
      "says "
      "which slots of a layout are this server's. Empty: unknown.");
  key.set = [](std::string_view text, Config& config) {
    if (!text.empty() && !collection::IsGroupName(text)) {
      return absl::InvalidArgumentError(Cat(Quote(text), " is not the name of a group: 1 to 64 of A-Z a-z 0-9 . _ -"));
    }
    config.live.group = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

Key PeersKey() {
  return {.name = "cluster.peers",
          .type = "list of servers",
          .range = "",
          .help =
              "Servers of this server's group, each HOST:PORT, or dns:///HOST:PORT for all addresses of a name; the "
              "server itself may be one of them. With live.create_from_cluster the server fetches the collections that "
              "it lacks from them. Empty: none.",
          .is_list = true,
          .set =
              [](std::string_view text, Config& config) {
                std::vector<std::string> peers;
                for (const std::string& one :
                     std::vector<std::string>(absl::StrSplit(std::string(text), ',', absl::SkipWhitespace()))) {
                  absl::StatusOr<std::vector<std::string>> targets = cluster::ParseTargets(one);
                  if (!targets.ok()) return targets.status();
                  peers.insert(peers.end(), targets->begin(), targets->end());
                }
                if (peers.size() > cluster::kMaxPeers) {
                  return absl::InvalidArgumentError(
                      Cat("has ", peers.size(), " servers; must have at most ", cluster::kMaxPeers));
                }
                config.cluster.peers = std::move(peers);
                return absl::OkStatus();
              },
          .get = [](const Config& config) { return absl::StrJoin(config.cluster.peers, ","); }};
}

Key BackupsKey() {
  Key key = Text(
      "cluster.backups", "url", +[](Config& c) -> std::string& { return c.cluster.backups; },
      "Where the backups of the cluster are, s3://BUCKET/PREFIX or file:///FOLDER: those of collection docs under "
      "URL/docs/NAME. With live.create_from_cluster the server fetches the backup whose NAME is the last one if no "
      "server of cluster.peers has a collection. The credentials of S3 are in the variables AWS_*. Empty: none.");
  key.set = [](std::string_view text, Config& config) {
    std::string_view url = text;
    while (url.ends_with('/')) url.remove_suffix(1);
    if (!url.empty() && !url.starts_with("s3://") && !url.starts_with("file:///")) {
      return absl::InvalidArgumentError(Cat(Quote(text), " is not s3://BUCKET/PREFIX or file:///FOLDER"));
    }
    config.cluster.backups = std::string(url);
    return absl::OkStatus();
  };
  return key;
}

Key GroupsKey() {
  return {.name = "cluster.groups",
          .type = "list of groups",
          .range = "",
          .help =
              "Groups of servers that this process routes to, each NAME=HOST:PORT HOST:PORT ... with the replicas of "
              "one group; dns:///HOST:PORT stands for all addresses of the name. A process with groups is a router: it "
              "has no device and no collections of its own.",
          .is_list = true,
          .set =
              [](std::string_view text, Config& config) {
                std::vector<cluster::GroupOptions> groups;
                for (const std::string& one :
                     std::vector<std::string>(absl::StrSplit(std::string(text), ',', absl::SkipWhitespace()))) {
                  absl::StatusOr<cluster::GroupOptions> group = cluster::ParseGroup(one);
                  if (!group.ok()) return group.status();
                  groups.push_back(*std::move(group));
                }
                if (absl::Status status = cluster::CheckGroups(groups); !status.ok()) return status;
                config.cluster.groups = std::move(groups);
                return absl::OkStatus();
              },
          .get =
              [](const Config& config) {
                return absl::StrJoin(config.cluster.groups, ",",
                                     [](std::string* out, const cluster::GroupOptions& group) {
                                       out->append(cluster::FormatGroup(group));
                                     });
              }};
}

// Adds the keys of a router.
void AddRouterKeys(std::vector<Key>& keys) {
  keys.push_back(GroupsKey());
  keys.push_back(Text(
      "cluster.groups_file", "path", +[](Config& c) -> std::string& { return c.cluster.groups_file; },
      "File with the groups instead, one a line as in cluster.groups; it is read again when it changes."));
  keys.push_back(Share(
      "cluster.hedge_at", +[](Config& c) -> double& { return c.cluster.hedge_at; }, 0, 0.999,
      "Share of a group's answers by whose time a second replica is asked as well, at most for a tenth of the calls; 0 "
      "asks one only where the first is lost."));
  keys.push_back(Count(
      "cluster.max_calls_in_flight", +[](Config& c) -> int& { return c.cluster.max_calls_in_flight; }, 1, 1 << 20,
      "Calls to one group at a time; a request beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Duration(
      "cluster.timeout", +[](Config& c) -> absl::Duration& { return c.cluster.timeout; }, absl::Hours(1),
      "Time of calls whose clients set no deadline."));
  keys.push_back(Duration(
      "cluster.poll_interval", +[](Config& c) -> absl::Duration& { return c.cluster.poll_interval; }, absl::Minutes(1),
      "Interval at which each replica is asked what it has."));
  keys.push_back(Count(
      "cluster.max_lag_writes", +[](Config& c) -> uint64_t& { return c.cluster.max_lag_writes; }, 0, kHuge,
      "Writes that a replica of a live collection may be behind the others. Beyond it the replica gets no requests for "
      "the collection, as long as its group has a replica within the limit; 0 means no limit. Only with live.log "
      "nats."));
  keys.push_back(Count(
      "cluster.max_lag_seconds", +[](Config& c) -> int& { return c.cluster.max_lag_seconds; }, 0, 3600,
      "Seconds for which a replica of a live collection may lack a write that another replica has. Beyond it the "
      "replica gets no requests for the collection, as long as its group has a replica within the limit; 0 means no "
      "limit. Only with live.log nats."));
  keys.push_back(Text(
      "cluster.token_file", "path", +[](Config& c) -> std::string& { return c.cluster.token_file; },
      "File with the bearer token that the replicas need. Servers use it, like cluster.tls and the keys below it, when "
      "they fetch a collection from other servers."));
  keys.push_back(Bool(
      "cluster.tls", +[](Config& c) -> bool& { return c.cluster.tls.enabled; }, "Reach the replicas by TLS."));
  keys.push_back(Text(
      "cluster.ca_file", "path", +[](Config& c) -> std::string& { return c.cluster.tls.ca_file; },
      "Certificates that may sign the replicas'; empty: the system's."));
  keys.push_back(Text(
      "cluster.cert_file", "path", +[](Config& c) -> std::string& { return c.cluster.tls.cert_file; },
      "This process's certificate, for replicas that need one."));
  keys.push_back(Text(
      "cluster.key_file", "path", +[](Config& c) -> std::string& { return c.cluster.tls.key_file; },
      "The key of cluster.cert_file."));
  keys.push_back(Text(
      "cluster.server_name", "name", +[](Config& c) -> std::string& { return c.cluster.tls.server_name; },
      "Name in the replicas' certificates; empty: the host to which the connection is made."));
}

}  // namespace

void AddClusterKeys(std::vector<Key>& keys) {
  keys.push_back(PartitionKey());
  keys.push_back(ZoneKey());
  keys.push_back(GroupKey());
  keys.push_back(PeersKey());
  keys.push_back(BackupsKey());
  AddRouterKeys(keys);
}

}  // namespace maxsim::config
