// The options of a router: which servers it calls, and how long it waits for them. Servers use some of them for their
// calls to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/options.h"

namespace maxsim::cluster {

// A group of servers that hold the same partitions.
struct GroupOptions {
  std::string name;  // 1 to 64 of A-Z a-z 0-9 . _ -
  // Each target is "host:port", which is one replica, or "dns:///host:port", where every address of the name is a
  // replica.
  std::vector<std::string> targets;

  friend bool operator==(const GroupOptions&, const GroupOptions&) = default;
};

// The maximum number of targets in ClusterOptions::peers. A server asks its peers one after the other.
inline constexpr size_t kMaxPeers = 64;

struct ClusterOptions {
  std::string zone;                  // of this process, a server or a router (IsZoneName); "": it names none
  std::vector<GroupOptions> groups;  // if this and groups_file are empty, the process is not a router
  std::string groups_file;           // one group per line, reread regularly; "": none
  // The servers of this server's group, from which it fetches collections that it lacks; targets as in GroupOptions.
  // Not for routers.
  std::vector<std::string> peers;
  // The URL of all backups: those of a collection are in URL/COLLECTION. The server fetches a collection from its
  // newest backup if it lacks the collection, and no peer has it. "": none. Not for routers.
  std::string backups;
  // A call asks a second replica once it has taken longer than this share of the group's answers in the last half
  // minute. 0: it asks a second replica only if the first one fails.
  double hedge_at = 0.95;
  int max_calls_in_flight = 1024;                   // per group; further calls are refused
  absl::Duration timeout = absl::Seconds(30);       // for calls of clients that set no deadline
  absl::Duration poll_interval = absl::Seconds(1);  // between polls of a replica
  // If a replica's lag behind the stream of a live collection exceeds one of these limits, the replica gets no requests
  // for that collection, as long as another replica of its group is within both limits. 0: no limit.
  uint64_t max_lag_writes = 0;
  int max_lag_seconds = 10;
  std::string token_file;  // with the bearer token that replicas require; "": none
  client::TlsOptions tls;
};

inline bool IsRouter(const ClusterOptions& options) { return !options.groups.empty() || !options.groups_file.empty(); }

// Returns whether a text can be the name of a zone: 1 to 64 of A-Z a-z 0-9 . _ -
bool IsZoneName(std::string_view name);

// Parses "NAME=TARGET TARGET ...". Returns INVALID_ARGUMENT with the text and the expected form.
absl::StatusOr<GroupOptions> ParseGroup(std::string_view text);
// Parses "TARGET TARGET ...". Returns INVALID_ARGUMENT with the target and the expected form.
absl::StatusOr<std::vector<std::string>> ParseTargets(std::string_view text);
std::string FormatGroup(const GroupOptions& group);

// Parses a file of groups with one group per line, as in ParseGroup. Blank lines and lines that begin with # are
// ignored. Returns INVALID_ARGUMENT naming the line; also for a repeated name, and for a file without a group.
absl::StatusOr<std::vector<GroupOptions>> ParseGroups(std::string_view text, const std::string& origin);

// Returns the groups of the options, read from the file if the options name one. Errors name the configuration key.
absl::StatusOr<std::vector<GroupOptions>> ReadGroups(const ClusterOptions& options);

// Returns INVALID_ARGUMENT if two groups have the same name or share a target.
absl::Status CheckGroups(const std::vector<GroupOptions>& groups);

}  // namespace maxsim::cluster
