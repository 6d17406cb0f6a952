#include "tools/maxsim-shard/command_helpers.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <limits>

#include "absl/status/statusor.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/build/builder.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::shard_tool {
namespace {

constexpr int kMaxThreads = 1024;

// Escapes control characters, because messages quote files, and a file must not control the terminal.
std::string ForTerminal(absl::string_view message) {
  return maxsim::Printable(std::string_view(message.data(), message.size()), message.size());
}

StopSignal interrupt;  // a handler of signals may only use what is atomic

void OnInterrupt(int signal) {
  interrupt.Request(absl::StatusCode::kCancelled);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool Interrupted() { return interrupt.stopped(); }

const StopSignal& InterruptSignal() { return interrupt; }

absl::Status ShowProgress(ProgressDisplay& display, const collection::BuildProgress& progress) {
  display.Show(progress);
  if (!progress.synchronised.ok()) {
    std::fprintf(stderr,
                 "maxsim-shard: warning: the new generation is published, but a power failure now may bring back the "
                 "one before: %s\n",
                 ForTerminal(progress.synchronised.message()).c_str());
  }
  if (Interrupted() && progress.stage != collection::BuildProgress::Stage::kPublished) {
    return absl::CancelledError("interrupted; nothing was published");
  }
  return absl::OkStatus();
}

void RequireUsage(const absl::Status& status) {
  if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "maxsim-shard: %s\n", ForTerminal(status.message()).c_str());
  return Interrupted() ? kExitInterrupted : kExitFailed;
}

std::string Elapsed(absl::Time began) {
  const absl::Duration elapsed = absl::Trunc(MonotonicNow() - began, absl::Milliseconds(1));
  return elapsed > absl::ZeroDuration() ? absl::FormatDuration(elapsed) : "under 1ms";
}

std::string Describe(const std::string& folder, const collection::Manifest& manifest) {
  int64_t bytes = 0;
  int64_t code_bytes = 0;
  for (const collection::ShardEntry& entry : manifest.shards) {
    bytes += entry.num_bytes;
    code_bytes += collection::CodeFileBytes(entry, kMaxPlanes);
  }
  return Cat(
      folder, ": generation ", FormatCount(manifest.generation), " of \"", manifest.name, "\"",
      manifest.partition.has_value() ? Cat(", ", DescribeSlots(*manifest.partition)) : "", ": ",
      FormatCount(manifest.num_documents), " documents, ", FormatCount(manifest.num_tokens), " tokens x ", manifest.dim,
      " ", Name(manifest.storage), ", ", FormatBytes(bytes), " in ",
      FormatCount(static_cast<int64_t>(manifest.shards.size())), manifest.shards.size() == 1 ? " shard" : " shards",
      manifest.codes.has_value() ? Cat(", codes of ", manifest.codes->planes,
                                       manifest.codes->planes == 1 ? " plane, " : " planes, ", FormatBytes(code_bytes))
                                 : "");
}

void PrintBuilt(const std::vector<collection::PartitionFolder>& folders,
                const std::vector<collection::Manifest>& manifests, absl::Time began) {
  for (size_t idx = 0; idx < folders.size(); ++idx) {
    const std::string elapsed = idx + 1 == folders.size() ? Cat(", ", Elapsed(began)) : "";
    std::printf("%s%s\n", Describe(folders[idx].folder, manifests[idx]).c_str(), elapsed.c_str());
  }
}

void WarnOfLoss(const std::string& what, const collection::QuantizationLoss& loss) {
  if (loss.num_tokens() == 0) return;
  std::fprintf(stderr,
               "maxsim-shard: warning: %s: i8 keeps too little of %s: other tokens of the same documents are far "
               "longer\n",
               ForTerminal(what).c_str(), collection::Describe(loss).c_str());
}

void AddRefuseLossy(CLI::App& app, bool& refuse) {
  app.add_flag("--refuse-lossy", refuse,
               "With i8: fail for a document with a token that becomes zeros, or\nof whose length rounding takes more "
               "than a quarter, as happens\nwhere another token is far longer. Without it they are counted");
}

void AddSeed(CLI::App& app, int64_t& seed, const std::string& what) {
  app.add_option("--seed", seed, what + " of the rotation, 0 to 2^53 - 1")
      ->check(CLI::Range(int64_t{0}, collection::kMaxRotationSeed))
      ->capture_default_str()
      ->type_name("N");
}

void AddThreads(CLI::App& app, int& threads, const std::string& what) {
  app.add_option("--threads", threads, what + "; 0: one per core")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str()
      ->type_name("N");
}

CLI::Option* AddCodes(CLI::App& app, int& planes, const std::string& what) {
  return app.add_option("--codes", planes, what)->check(CLI::IsMember({0, 1, 2, 4}))->type_name("N");
}

void AddMaxShardBytes(CLI::App& app, int64_t& bytes) {
  const auto read = [&bytes](const std::string& text) {
    const absl::StatusOr<uint64_t> value = ParseBytes(text);
    if (!value.ok()) throw CLI::ValidationError("--max-shard-bytes", std::string(value.status().message()));
    // A larger size becomes the largest int64_t. The effect is the same, because no shard is that large.
    bytes = static_cast<int64_t>(std::min<uint64_t>(*value, std::numeric_limits<int64_t>::max()));
    if (bytes < collection::kMinMaxShardBytes) {
      throw CLI::ValidationError("--max-shard-bytes",
                                 Cat(Quote(text), " is too small; must be at least ", collection::kMinMaxShardBytes));
    }
  };
  app.add_option_function<std::string>(
         "--max-shard-bytes", read,
         "Largest shard file, as 4GiB or 500MB; a document that is larger\ngets one of its own")
      ->default_str(WriteBytes(static_cast<uint64_t>(bytes)))
      ->type_name("SIZE");
}

void AddAllowOtherShape(CLI::App& app, bool& allow) {
  app.add_flag("--allow-other-shape", allow,
               "Let the next generation differ from the one there in the\ndimension or the type of ids, or lack its "
               "payloads: requests made\nfor that one will fail");
}

}  // namespace maxsim::shard_tool
