#include "tools/maxsim-shard/upgrade_command.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/upgrade/upgrade.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

// Returns a line such as "log       version 1 -> 3", or "shards    version 1, 2 files".
std::string LineOf(const collection::FormatInUse& format) {
  std::string line(format.kind);
  line.resize(std::max<size_t>(line.size(), 10), ' ');
  line += Cat("version ", format.version);
  if (format.needs_upgrade && format.version == format.current) line += ", an upgrade was interrupted";
  if (format.version != format.current) line += Cat(" -> ", format.current);
  if (format.num_files != 1) line += Cat(", ", FormatCount(format.num_files), " files");
  return line;
}

}  // namespace

void AddUpgrade(CLI::App& app, UpgradeArguments& arguments) {
  app.add_option("DIR", arguments.folder, "Folder of the collection")->required();
  app.add_flag("--check", arguments.check, "Change nothing; exit code 1 when there is something to upgrade");
  app.add_flag("--quiet", arguments.quiet, "No list of the versions; errors only");
  app.footer(
      "Prints the format version of the manifest, the shards and the files beside them, and the log. An upgrade that "
      "is\n"
      "interrupted is completed by the next one, or when a server loads the collection. Programs of the earlier "
      "version\n"
      "refuse the upgraded files, so make a snapshot before if you may go back.");
}

int RunUpgrade(const UpgradeArguments& arguments) {
  const absl::StatusOr<std::vector<collection::FormatInUse>> formats =
      arguments.check ? collection::ReadFormats(arguments.folder) : collection::UpgradeCollection(arguments.folder);
  if (!formats.ok()) return Fail(formats.status());
  const bool was_needed =
      std::any_of(formats->begin(), formats->end(), [](const auto& format) { return format.needs_upgrade; });
  if (!arguments.quiet) {
    for (const collection::FormatInUse& format : *formats) std::printf("%s\n", LineOf(format).c_str());
    std::printf("%s: %s\n", arguments.folder.c_str(),
                !was_needed       ? "nothing to upgrade"
                : arguments.check ? "needs an upgrade; run maxsim-shard upgrade without --check"
                                  : "upgraded");
  }
  return was_needed && arguments.check ? kExitFailed : kExitOk;
}

}  // namespace maxsim::shard_tool
