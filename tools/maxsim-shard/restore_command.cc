#include "tools/maxsim-shard/restore_command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"
#include "backup/restore.h"
#include "backup/store_url.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/slots.h"
#include "maxsim_version.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

constexpr absl::Duration kReportInterval = absl::Seconds(5);

// Prints from time to time how much has been fetched.
class FetchReport {
 public:
  explicit FetchReport(bool quiet) : quiet_(quiet) {}

  absl::Status Show(uint64_t num_bytes, uint64_t total_bytes) {
    const absl::Time now = MonotonicNow();
    if (quiet_ || (now - shown_ < kReportInterval && num_bytes < total_bytes)) return absl::OkStatus();
    shown_ = now;
    std::fprintf(stderr, "fetched  %s of %s\n", FormatBytes(static_cast<int64_t>(num_bytes)).c_str(),
                 FormatBytes(static_cast<int64_t>(total_bytes)).c_str());
    return absl::OkStatus();
  }

 private:
  const bool quiet_;
  absl::Time shown_ = MonotonicNow();
};

absl::StatusOr<backup::RestoredBackup> Restore(const RestoreArguments& arguments) {
  const absl::StatusOr<std::unique_ptr<backup::ObjectStore>> store = backup::OpenStore(
      arguments.url, [](const char* name) -> const char* { return std::getenv(name); }, &InterruptSignal());
  if (!store.ok()) return store.status();
  FetchReport report(arguments.quiet);
  ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
  backup::RestoreOptions options{.output = arguments.output,
                                 .into = arguments.into,
                                 .max_shard_bytes = arguments.max_shard_bytes,
                                 .created_by = Cat("maxsim-shard ", kVersion),
                                 .stop = &InterruptSignal()};
  options.fetch_observer = [&](uint64_t num_bytes, uint64_t total_bytes) {
    return report.Show(num_bytes, total_bytes);
  };
  options.build_observer = [&](const collection::BuildProgress& progress) { return ShowProgress(display, progress); };
  absl::StatusOr<backup::RestoredBackup> restored = backup::Restore(**store, options);
  if (absl::IsCancelled(restored.status())) return absl::CancelledError("interrupted; nothing was restored");
  return restored;
}

}  // namespace

void AddRestore(CLI::App& app, RestoreArguments& arguments) {
  app.add_option("URL", arguments.url, "Backup of 'maxsimctl snapshot': s3://BUCKET/PREFIX or file:///FOLDER")
      ->required();
  app.add_option("OUTPUT", arguments.output, "Folder of the collection; with --into, of its partitions. Must not exist")
      ->required();
  app.add_option("--into", arguments.into, "Partitions to make: partition-0-of-N and so on in OUTPUT")
      ->check(CLI::Range(1, static_cast<int>(collection::kNumSlots)))
      ->type_name("N");
  AddMaxShardBytes(app, arguments.max_shard_bytes);
  app.add_flag("--quiet", arguments.quiet, "No progress and no summary; errors only");
  app.footer(
      "Any number of partitions can be made, whatever the number of groups that the backup is of. All files are\n"
      "checked, and OUTPUT appears when everything is complete. The disk needs room for the backup twice. A server\n"
      "that loads a result takes later writes from the collection's stream.\n\n"
      "For s3:// URLs the environment has AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and may have "
      "AWS_SESSION_TOKEN,\n"
      "AWS_REGION (us-east-1 by default), AWS_ENDPOINT_URL (of a store other than AWS) and AWS_CA_BUNDLE.\n\n"
      "Example: maxsim-shard restore s3://backups/notes/monday /var/lib/maxsim/notes --into 3");
}

int RunRestore(const RestoreArguments& arguments) {
  CatchInterrupts();
  std::signal(SIGPIPE, SIG_IGN);  // a lost connection is an error of one request
  const absl::Time began = MonotonicNow();
  const absl::StatusOr<backup::RestoredBackup> restored = Restore(arguments);
  if (!restored.ok()) return Fail(restored.status());
  if (arguments.quiet) return kExitOk;
  PrintBuilt(restored->folders, restored->manifests, began);
  const uint64_t position = restored->backup.position(), complete_at = restored->backup.complete_at();
  std::printf("position %llu of the stream", static_cast<unsigned long long>(position));
  if (complete_at > position) {
    std::printf("; complete once a server has applied it up to %llu", static_cast<unsigned long long>(complete_at));
  }
  std::printf("\n");
  return kExitOk;
}

}  // namespace maxsim::shard_tool
