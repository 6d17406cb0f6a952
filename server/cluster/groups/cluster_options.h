// Which servers a router asks, and how patient it is with them.
#pragma once

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
  // Each "host:port", or "dns:///host:port", whose addresses are replicas each.
  std::vector<std::string> targets;

  friend bool operator==(const GroupOptions&, const GroupOptions&) = default;
};

struct ClusterOptions {
  std::vector<GroupOptions> groups;  // none, and no file: the process is no router
  std::string groups_file;           // a line each, read again when it changes; "": none
  // Share of a group's answers, of those of the last half minute, by whose time a second replica is asked as well; 0:
  // only where the first is lost.
  double hedge_at = 0.95;
  int max_calls_in_flight = 1024;                   // of one group; what comes beyond is refused
  absl::Duration timeout = absl::Seconds(30);       // of calls of clients that set no deadline
  absl::Duration poll_interval = absl::Seconds(1);  // after which a replica is asked what it has
  std::string token_file;                           // the bearer token that replicas want; "": none
  client::TlsOptions tls;
};

inline bool IsRouter(const ClusterOptions& options) { return !options.groups.empty() || !options.groups_file.empty(); }

// Parses "NAME=TARGET TARGET ...". INVALID_ARGUMENT with the text and what is wanted.
absl::StatusOr<GroupOptions> ParseGroup(std::string_view text);
std::string FormatGroup(const GroupOptions& group);

// Parses a file of groups, a line each as ParseGroup has it; blank lines and those that begin with # do not count.
// INVALID_ARGUMENT naming the line; also for a name that appears twice, and for a file without a group.
absl::StatusOr<std::vector<GroupOptions>> ParseGroups(std::string_view text, const std::string& origin);

// Returns the groups of the options, from their file where they name one. Errors name the key.
absl::StatusOr<std::vector<GroupOptions>> ReadGroups(const ClusterOptions& options);

// INVALID_ARGUMENT where two groups have one name or share a target.
absl::Status CheckGroups(const std::vector<GroupOptions>& groups);

}  // namespace maxsim::cluster
