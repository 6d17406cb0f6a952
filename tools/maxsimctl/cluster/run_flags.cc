#include "tools/maxsimctl/cluster/run_flags.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "tools/command_line/checks.h"

namespace maxsim::ctl::cluster {
namespace {

std::string CheckPace(const std::string& text) {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) return std::string(bytes.status().message());
  return *bytes == 0 ? "\"" + text + "\" must be more than 0" : std::string();
}

}  // namespace

RunOptions RunFlags::Options() const {
  return {.plan = {.grace = absl::Seconds(grace_seconds), .allow_gaps = allow_gaps}, .residency = residency};
}

double RunFlags::BytesPerSecond() const { return static_cast<double>(ParseBytes(pace).value_or(1)); }

void AddStateFlags(CLI::App& command, RunFlags& flags) {
  command.add_option("name", flags.name, "Collection")->required()->type_name("NAME");
  command
      .add_option("--group-token-file", flags.group_token_file,
                  "File whose first token is sent to the servers of the groups; that of --token-file by default")
      ->type_name("FILE");
}

void AddRunFlags(CLI::App& command, RunFlags& flags) {
  command.add_flag("--dry-run", flags.dry_run, "Print the steps, and change nothing");
  command.add_flag("--allow-gaps", flags.allow_gaps,
                   "Go on although a group has only one server that answers: the group may not answer while that\n"
                   "server gets other slots");
  command
      .add_option("--residency", flags.residency,
                  "Where servers that get slots hold the tokens: auto, gpu, host or disk; auto by default")
      ->check(CLI::IsMember({"auto", "gpu", "host", "disk"}))
      ->type_name("TIER");
  // A network of 1 Gbit/s carries 118 MB/s.
  command.add_option("--pace", flags.pace, "Bytes a second that a server gets, for the estimate of --dry-run")
      ->check(CLI::Validator(CheckPace, ""))
      ->capture_default_str()
      ->type_name("BYTES");
}

void AddGraceFlag(CLI::App& command, RunFlags& flags) {
  command
      .add_option("--grace", flags.grace_seconds,
                  "Seconds that other routers than --server get to notice a change; at least three times their\n"
                  "cluster.poll_interval")
      ->check(CLI::Range(0.0, 3600.0))
      ->check(command_line::NotNan)
      ->capture_default_str()
      ->type_name("SECONDS");
}

}  // namespace maxsim::ctl::cluster
