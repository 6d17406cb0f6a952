#include "tools/maxsim-shard/encode_command.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/build/encode.h"
#include "collection/manifest.h"
#include "maxsim_version.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {

void AddEncode(CLI::App& app, EncodeArguments& arguments) {
  app.add_option("DIR", arguments.folder, "Folder of the collection")->required();
  AddCodes(app, arguments.codes, "Planes of the codes: 1, 2 or 4; 0 takes the codes away")->required();
  AddSeed(app, arguments.seed, "Seed");
  AddThreads(app, arguments.threads, "Threads that encode");
  app.add_flag("--quiet", arguments.quiet, "No progress and no summary; errors only");
  app.footer(
      "Codes are 1, 2 or 4 bits for each value of a vector, in files beside the shards, with a bound of their error. "
      "Every\n"
      "shard is read once, and stays as it is. The new generation replaces the old one in one step when everything is "
      "on\n"
      "the disk; one that fails or is interrupted changes nothing. Codes of i8 vectors have the rotation of these, and "
      "no\n"
      "seed of their own. A live collection is encoded while no server has it loaded. Programs of version 0.2 and "
      "earlier\n"
      "refuse a collection with codes.");
}

int RunEncode(const EncodeArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  absl::StatusOr<collection::EncodeResult> result;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    collection::EncodeOptions options;
    options.folder = arguments.folder;
    options.codes = {.planes = arguments.codes, .rotation_seed = static_cast<uint64_t>(arguments.seed)};
    options.num_threads = arguments.threads;
    options.created_by = Cat("maxsim-shard ", kVersion);
    result = collection::EncodeCollection(
        options, [&](const collection::BuildProgress& progress) { return ShowProgress(display, progress); });
  }
  if (!result.ok()) return Fail(result.status());
  if (!arguments.quiet) {
    std::printf("%s (%s of codes written%s), %s\n", Describe(arguments.folder, result->manifest).c_str(),
                FormatBytes(result->bytes_made).c_str(), result->changed ? "" : ": nothing had changed",
                Elapsed(began).c_str());
  }
  return kExitOk;
}

}  // namespace maxsim::shard_tool
