#include "tools/maxsim-shard/partition_commands.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/manifest.h"
#include "collection/partition/repartition.h"
#include "collection/slots.h"
#include "maxsim_version.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

template <typename Arguments>
collection::RepartitionOptions OptionsOf(const Arguments& arguments) {
  return {.output = arguments.output,
          .max_shard_bytes = arguments.max_shard_bytes,
          .created_by = Cat("maxsim-shard ", kVersion)};
}

template <typename Arguments>
void AddCommon(CLI::App& app, Arguments& arguments) {
  AddMaxShardBytes(app, arguments.max_shard_bytes);
  app.add_flag("--quiet", arguments.quiet, "No progress and no summary; errors only");
}

}  // namespace

void AddSplit(CLI::App& app, SplitArguments& arguments) {
  app.add_option("DIR", arguments.folder, "Folder of a collection, or of a partition of one")->required();
  app.add_option("--into", arguments.into, "Partitions to cut it into")
      ->check(CLI::Range(2, static_cast<int>(collection::kNumSlots)))
      ->type_name("N")
      ->required();
  app.add_option("--output", arguments.output,
                 "Folder that gets a folder for each: partition-0-of-N and so on\nor, of a partition, slots-FIRST-LAST")
      ->type_name("DIR")
      ->required();
  AddCommon(app, arguments);
  app.footer(
      "A document's partition follows from its id. Name, generation and what documents hold stay as they are, and "
      "each\n"
      "keeps its position in the whole, so that merge brings the collection back. A live collection is compacted "
      "first,\n"
      "while no server has it loaded. Its partitions are live: they keep the versions of ids, and follow the same "
      "stream\n"
      "from the same write on. Their folders must not exist yet.");
}

void AddMerge(CLI::App& app, MergeArguments& arguments) {
  app.add_option("DIR", arguments.folders, "Folders of partitions whose slots adjoin, in any order")->required();
  app.add_option("--output", arguments.output, "Folder of the collection that they become")
      ->type_name("DIR")
      ->required();
  AddCommon(app, arguments);
  app.footer(
      "The partitions must be of one collection: of one name, generation, encoder and form. With all slots they "
      "become\n"
      "the whole collection, and else a larger partition. Live partitions of one stream may be at different writes: a\n"
      "server that loads the result takes the writes after the oldest of these from the stream.");
}

int RunSplit(const SplitArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  const absl::StatusOr<collection::Manifest> source = collection::ReadManifest(arguments.folder);
  if (!source.ok()) return Fail(source.status());
  absl::StatusOr<std::vector<collection::Manifest>> manifests;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    manifests = collection::SplitCollection(
        arguments.folder, arguments.into, OptionsOf(arguments),
        [&](const collection::BuildProgress& progress) { return ShowProgress(display, progress); });
  }
  if (!manifests.ok()) return Fail(manifests.status());
  if (!arguments.quiet) {
    PrintBuilt(collection::PartitionFolders(arguments.output, source->slots(), arguments.into), *manifests, began);
  }
  return kExitOk;
}

int RunMerge(const MergeArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  absl::StatusOr<collection::Manifest> manifest;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    manifest = collection::MergeCollections(
        arguments.folders, OptionsOf(arguments),
        [&](const collection::BuildProgress& progress) { return ShowProgress(display, progress); });
  }
  if (!manifest.ok()) return Fail(manifest.status());
  if (!arguments.quiet) PrintBuilt({{arguments.output, manifest->slots()}}, {*manifest}, began);
  return kExitOk;
}

}  // namespace maxsim::shard_tool
