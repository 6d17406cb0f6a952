#include "server/cluster/groups/cluster_options.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "collection/group_name.h"

namespace maxsim::cluster {
namespace {

// The maximum size of a file of groups. A larger file is probably a different kind of file.
constexpr int64_t kMaxGroupsFileBytes = int64_t{1} << 20;

absl::Status CheckTarget(const std::string& target) {
  absl::string_view address = target;
  absl::ConsumePrefix(&address, "dns:///");
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("target ", Quote(target), " is not HOST:PORT or dns:///HOST:PORT with a port of 1 to 65535"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsZoneName(std::string_view name) { return collection::IsGroupName(name); }

absl::StatusOr<GroupOptions> ParseGroup(std::string_view text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(std::string(text), absl::MaxSplits('=', 1));
  GroupOptions group;
  group.name = std::string(absl::StripAsciiWhitespace(parts.first));
  if (!collection::IsGroupName(group.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", Quote(text),
                     " is not NAME=HOST:PORT HOST:PORT ..., with a name of 1 to 64 characters of A-Z a-z 0-9 . _ -"));
  }
  absl::StatusOr<std::vector<std::string>> targets = ParseTargets(parts.second);
  if (!targets.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", group.name, ": ", targets.status().message()));
  }
  if (targets->empty()) return absl::InvalidArgumentError(absl::StrCat("group ", group.name, " has no target"));
  group.targets = *std::move(targets);
  return group;
}

absl::StatusOr<std::vector<std::string>> ParseTargets(std::string_view text) {
  std::vector<std::string> targets = absl::StrSplit(std::string(text), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  for (const std::string& target : targets) {
    if (absl::Status status = CheckTarget(target); !status.ok()) return status;
  }
  return targets;
}

std::string FormatGroup(const GroupOptions& group) {
  return absl::StrCat(group.name, "=", absl::StrJoin(group.targets, " "));
}

absl::Status CheckGroups(const std::vector<GroupOptions>& groups) {
  std::map<std::string, std::string> owners;  // by target
  for (const GroupOptions& group : groups) {
    const auto same = std::count_if(groups.begin(), groups.end(),
                                    [&](const GroupOptions& other) { return other.name == group.name; });
    if (same > 1) return absl::InvalidArgumentError(absl::StrCat("group ", group.name, " appears twice"));
    for (const std::string& target : group.targets) {
      if (const auto [owner, is_new] = owners.emplace(target, group.name); !is_new) {
        return absl::InvalidArgumentError(
            absl::StrCat("target ", Quote(target), " appears in group ", owner->second, " and in group ", group.name));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GroupOptions>> ParseGroups(std::string_view text, const std::string& origin) {
  std::vector<GroupOptions> groups;
  int number = 0;
  for (const std::string& whole : std::vector<std::string>(absl::StrSplit(std::string(text), '\n'))) {
    ++number;
    const std::string line(absl::StripAsciiWhitespace(whole));
    if (line.empty() || line.front() == '#') continue;
    absl::StatusOr<GroupOptions> group = ParseGroup(line);
    if (!group.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ":", number, ": ", group.status().message()));
    }
    groups.push_back(*std::move(group));
  }
  if (groups.empty()) return absl::InvalidArgumentError(absl::StrCat(origin, ": has no group"));
  if (absl::Status status = CheckGroups(groups); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": ", status.message()));
  }
  return groups;
}

absl::StatusOr<std::vector<GroupOptions>> ReadGroups(const ClusterOptions& options) {
  if (options.groups_file.empty()) return options.groups;
  const absl::StatusOr<std::string> text = ReadSmallFile(options.groups_file, kMaxGroupsFileBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("cluster.groups_file: ", text.status().message()));
  }
  absl::StatusOr<std::vector<GroupOptions>> groups = ParseGroups(*text, options.groups_file);
  if (!groups.ok()) return absl::InvalidArgumentError(absl::StrCat("cluster.groups_file: ", groups.status().message()));
  return groups;
}

}  // namespace maxsim::cluster
