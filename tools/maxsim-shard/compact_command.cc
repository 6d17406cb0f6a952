#include "tools/maxsim-shard/compact_command.h"

#include <cstdio>
#include <memory>

#include "absl/status/statusor.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/compact/compact.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "maxsim_version.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

absl::StatusOr<collection::CompactResult> CompactAll(const CompactArguments& arguments) {
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(arguments.folder);
  if (!manifest.ok()) return manifest.status();
  absl::StatusOr<std::unique_ptr<collection::CollectionLog>> log = collection::CollectionLog::Open(
      arguments.folder, collection::LogFormat::Of(*manifest), collection::CollectionLog::Mode::kMustExist);
  if (absl::IsNotFound(log.status())) {
    return absl::FailedPreconditionError(Cat(arguments.folder, ": has no log, so there is nothing to compact"));
  }
  if (absl::IsFailedPrecondition(log.status())) {
    return Prefix("a collection is compacted while no server has it loaded: ", log.status());
  }
  if (!log.ok()) return log.status();
  collection::CompactOptions options;
  options.max_tombstone_share = 0;
  options.max_shard_bytes = arguments.max_shard_bytes;
  options.created_by = Cat("maxsim-shard ", kVersion);
  // Compact calls this at each step. A signal handler can only set a flag, so each step asks for the flag.
  options.observer = [](collection::CompactStep) {
    return Interrupted() ? absl::CancelledError("interrupted; nothing was published") : absl::OkStatus();
  };
  absl::StatusOr<collection::CompactResult> result =
      collection::Compact(arguments.folder, **log, (*log)->last_sequence(), options);
  if (!result.ok()) return result.status();
  absl::Status truncated = (*log)->Truncate((*log)->last_sequence(), result->manifest.generation);
  if (truncated.ok()) truncated = (*log)->ReclaimSpace();
  if (!truncated.ok()) return Prefix("the new generation is published, but: ", truncated);
  return result;
}

}  // namespace

void AddCompact(CLI::App& app, CompactArguments& arguments) {
  app.add_option("DIR", arguments.folder, "Folder of the collection")->required();
  AddMaxShardBytes(app, arguments.max_shard_bytes);
  app.add_flag("--quiet", arguments.quiet, "No summary; errors only");
  app.footer(
      "Shards without a replaced or deleted document stay as they are; small neighbours are joined. The new "
      "generation\n"
      "replaces the old one in one step when everything is on the disk, and the log is emptied then. A server "
      "compacts\n"
      "its live collections by itself.");
}

int RunCompact(const CompactArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  const absl::StatusOr<collection::CompactResult> result = CompactAll(arguments);
  if (!result.ok()) return Fail(result.status());
  WarnOfLoss(arguments.folder, result->loss);
  if (!arguments.quiet) {
    std::printf("%s (%s kept, %s written%s), %s\n", Describe(arguments.folder, result->manifest).c_str(),
                FormatCount(result->shards_kept).c_str(), FormatCount(result->shards_written).c_str(),
                result->changed ? "" : ": nothing had changed", Elapsed(began).c_str());
  }
  return kExitOk;
}

}  // namespace maxsim::shard_tool
