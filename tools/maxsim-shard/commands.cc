#include "tools/maxsim-shard/commands.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/build/builder.h"
#include "collection/build/import.h"
#include "collection/collection_name.h"
#include "collection/field.h"
#include "collection/formats/npy.h"
#include "collection/manifest.h"
#include "collection/partition/repartition.h"
#include "collection/slots.h"
#include "kernels/scalar_type.h"
#include "maxsim_version.h"
#include "tools/command_line/usage_message.h"
#include "tools/maxsim-shard/command_helpers.h"
#include "tools/maxsim-shard/compact_command.h"
#include "tools/maxsim-shard/encode_command.h"
#include "tools/maxsim-shard/evaluate_command.h"
#include "tools/maxsim-shard/partition_commands.h"
#include "tools/maxsim-shard/progress.h"
#include "tools/maxsim-shard/quantize_command.h"
#include "tools/maxsim-shard/read_commands.h"
#include "tools/maxsim-shard/restore_command.h"
#include "tools/maxsim-shard/upgrade_command.h"

namespace maxsim::shard_tool {
namespace {

struct BuildArguments {
  collection::ImportOptions import;
  std::string id_type;
  std::string output;
  std::string name;
  std::string storage;
  std::string encoder;  // path of its identity
  int64_t seed = 0;
  int threads = 0;
  int codes = -1;                     // as many planes as the previous generation
  std::optional<std::string> fields;  // of the generation before
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  bool allow_other_shape = false;
  bool refuse_lossy = false;
  std::optional<uint64_t> log_sequence;
  int partitions = 0;  // 0: the collection is whole
  bool quiet = false;
};

// Returns the storage type of the build: the type that the user asked for, else that of the previous generation
// (`there` is its manifest or an error), else that of the input.
ScalarType ChooseStorage(const std::string& asked, const absl::StatusOr<collection::Manifest>& there,
                         const collection::Import& import) {
  if (!asked.empty()) return *ScalarTypeFromName(asked);
  if (there.ok()) return there->storage;
  if (import.storage.has_value()) return *import.storage;
  return import.tokens->type() == collection::ElementType::kBF16 ? ScalarType::kBF16 : ScalarType::kF16;
}

absl::Status CheckSeed(const BuildArguments& arguments, ScalarType storage) {
  if (arguments.seed == 0 || storage == ScalarType::kI8 || arguments.codes > 0) return absl::OkStatus();
  return Invalid("--seed ", arguments.seed, ": only i8 and codes are rotated, but the storage is ", Name(storage));
}

// Returns the codes of the build: those that the user asked for, else those of the previous generation (`there` is its
// manifest or an error), else none.
collection::CodesRequest ChooseCodes(const BuildArguments& arguments,
                                     const absl::StatusOr<collection::Manifest>& there) {
  collection::CodesRequest request;
  request.rotation_seed = static_cast<uint64_t>(arguments.seed);
  if (arguments.codes >= 0) {
    request.planes = arguments.codes;
  } else if (there.ok()) {
    request.planes = collection::CodesRequest::Of(*there).planes;
    request.rotation_seed = collection::CodesRequest::Of(*there).rotation_seed;
  }
  return request;
}

// Returns the fields of the build: those of --fields, else those of the previous generation (`there` is its manifest or
// an error), else none.
absl::StatusOr<std::vector<collection::Field>> ChooseFields(const BuildArguments& arguments,
                                                            const absl::StatusOr<collection::Manifest>& there) {
  if (!arguments.fields.has_value()) return there.ok() ? there->fields : std::vector<collection::Field>();
  absl::StatusOr<std::vector<collection::Field>> fields =
      collection::ParseFields(*arguments.fields == "none" ? "" : *arguments.fields);
  if (!fields.ok()) return Prefix("--fields: ", fields.status());
  return fields;
}

// Reports mistakes that can be found without reading any file.
absl::Status CheckUsage(const BuildArguments& arguments) {
  if (absl::Status status = collection::CheckImportOptions(arguments.import); !status.ok()) return status;
  if (!arguments.name.empty()) {
    if (absl::Status status = collection::CheckCollectionName(arguments.name); !status.ok())
      return Prefix("--", status);
  }
  if (absl::Status status = ChooseFields(arguments, absl::NotFoundError("")).status(); !status.ok()) return status;
  if (arguments.storage.empty()) return absl::OkStatus();
  return CheckSeed(arguments, *ScalarTypeFromName(arguments.storage));
}

bool IsNpyFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe could be opened for ever
  std::string begin(collection::kNpyMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == collection::kNpyMagic;
}

// If --tokens names an .npz or .safetensors archive that is not an .npy file, adds to the error that --input takes
// archives.
absl::Status WithArchiveHint(const std::string& tokens, const absl::Status& status) {
  const bool is_archive = absl::EndsWith(tokens, ".npz") || absl::EndsWith(tokens, ".safetensors");
  if (!is_archive || !absl::IsInvalidArgument(status) || IsNpyFile(tokens)) return status;
  return absl::Status(status.code(), Cat(status.message(), "; give an archive as --input"));
}

// Returns the folders that the build writes to.
std::vector<collection::PartitionFolder> TargetsOf(const BuildArguments& arguments) {
  if (arguments.partitions == 0) return {{arguments.output, collection::SlotRange()}};
  return collection::PartitionFolders(arguments.output, collection::SlotRange(), arguments.partitions);
}

// Returns the manifests of TargetsOf.
absl::StatusOr<std::vector<collection::Manifest>> Build(const BuildArguments& arguments, ProgressDisplay& display,
                                                        collection::QuantizationLoss* loss) {
  collection::BuildOptions options;
  options.folder = arguments.output;
  options.name = arguments.name;
  options.created_by = Cat("maxsim-shard ", kVersion);
  options.max_shard_bytes = arguments.max_shard_bytes;
  options.rotation_seed = static_cast<uint64_t>(arguments.seed);
  options.num_threads = arguments.threads;
  options.allow_other_shape = arguments.allow_other_shape;
  options.refuse_lossy = arguments.refuse_lossy;
  options.log_sequence = arguments.log_sequence;
  if (!arguments.encoder.empty()) {
    // The maximum size of an identity, which is only some texts and numbers.
    constexpr int64_t kMaxIdentityBytes = int64_t{64} << 10;
    const absl::StatusOr<std::string> text = ReadSmallFile(arguments.encoder, kMaxIdentityBytes);
    if (!text.ok()) return Prefix("--encoder: ", text.status());
    options.encoder.emplace();
    if (absl::Status status =
            collection::ParseEncoderIdentity(*text, Cat("--encoder: ", arguments.encoder), &*options.encoder);
        !status.ok()) {
      return status;
    }
  }
  collection::ImportOptions import_options = arguments.import;
  if (!arguments.id_type.empty()) {
    import_options.id_type = arguments.id_type == "int64" ? collection::IdType::kInt64 : collection::IdType::kString;
  }
  const std::vector<collection::PartitionFolder> targets = TargetsOf(arguments);
  const absl::StatusOr<collection::Manifest> there = collection::ReadManifest(targets.front().folder);
  options.codes = ChooseCodes(arguments, there);
  absl::StatusOr<std::vector<collection::Field>> fields = ChooseFields(arguments, there);
  if (!fields.ok()) return fields.status();
  options.fields = *std::move(fields);
  import_options.fields = options.fields;
  const collection::BuildObserver observer = [&](const collection::BuildProgress& progress) {
    *loss = progress.loss;
    return ShowProgress(display, progress);
  };
  absl::StatusOr<collection::Import> import = collection::OpenImport(import_options, observer);
  if (!import.ok()) return WithArchiveHint(arguments.import.tokens, import.status());
  options.storage = ChooseStorage(arguments.storage, there, *import);
  if (absl::Status status = CheckSeed(arguments, options.storage); !status.ok()) return status;
  if (!options.encoder.has_value()) {
    if (!import->one_encoder.ok()) return import->one_encoder;
    options.encoder = import->encoder;
  }
  return collection::BuildPartitions(options, targets, *import->catalog, *import->tokens, import->payloads.get(),
                                     observer);
}

int RunBuild(const BuildArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  absl::StatusOr<std::vector<collection::Manifest>> manifests;
  collection::QuantizationLoss loss;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    manifests = Build(arguments, display, &loss);
  }
  if (!manifests.ok()) return Fail(manifests.status());
  WarnOfLoss(arguments.output, loss);
  if (!arguments.quiet) PrintBuilt(TargetsOf(arguments), *manifests, began);
  return kExitOk;
}

// Descriptions are broken by hand: the library does not wrap lines.
void AddBuild(CLI::App& app, BuildArguments& arguments) {
  app.add_option("--tokens", arguments.import.tokens,
                 "Token vectors of all documents, one after the other: NumPy array\n[T, d] of f16, f32, f64, or i8 "
                 "with --scales")
      ->type_name("FILE.npy");
  app.add_option("--lengths", arguments.import.lengths, "Tokens of each document: NumPy array [N] of integers")
      ->type_name("FILE.npy");
  app.add_option(
         "--scales", arguments.import.scales,
         "Of i8 token vectors: what each document's [N], or each token's\n[T], are multiplied by; NumPy array of "
         "f16, f32 or f64")
      ->type_name("FILE.npy");
  app.add_option("--input", arguments.import.inputs,
                 "In place of --tokens and --lengths: an archive that holds\n\"tokens\" (f16, bf16, f32, f64, f8_e4m3, "
                 "i8) and \"lengths\" [N]\nor \"offsets\" [N + 1], and may hold \"scales\" of f8_e4m3 and i8, and\n"
                 "integer \"ids\" [N]; or the folder of a collection. Several are read\nin the order in which they are "
                 "given")
      ->type_name("FILE.npz|FILE.safetensors|DIR");
  app.add_option(
         "--ids", arguments.import.ids,
         "JSON Lines, one document per line in the order of the lengths.\n\"id\" (a string or an integer) is the "
         "id; all other fields are\nkept, and results can show them. Or plain text, one id per\nline. Without it: the "
         "inputs' ids, or 0, 1, ...")
      ->type_name("FILE.jsonl|FILE.txt");
  app.add_option("--output", arguments.output,
                 "Folder of the collection; created, or given its next\ngeneration when it holds one")
      ->type_name("DIR")
      ->required();
  app.add_option(
         "--name", arguments.name,
         "Name of the collection: A-Z a-z 0-9 . _ -\n(default: that of the collection there, or the folder's name)")
      ->type_name("NAME");
  app.add_option(
         "--encoder", arguments.encoder,
         "What made the vectors, {\"model\": ..., \"dim\": ...} and more\n(docs/reference/formats.md): texts are "
         "encoded by no other encoder")
      ->type_name("FILE.json");
  app.add_option("--storage", arguments.storage,
                 "How values are stored: f16, bf16 or f32, rounded to nearest, or\ni8, rotated and with a scale per "
                 "document (default: that of the\ncollection there; else of the collections that are the inputs; "
                 "else\nf16, or bf16 for BF16 input)")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "i8"}))
      ->type_name("TYPE");
  AddCodes(app, arguments.codes,
           "Store codes of so many planes beside the vectors: 1, 2 or 4; 0 for\nnone (default: as the collection "
           "there has them, else none)");
  app.add_option("--fields", arguments.fields,
                 "Values of the payloads that requests can filter by, such as\n"
                 "lang:keyword=meta.lang,year:integer: NAME:KIND=PATH, where PATH is\n"
                 "the keys from the outside in (default: NAME), and KIND is keyword,\n"
                 "keywords (a list), integer, number, boolean or time (RFC 3339);\n"
                 "none: no fields (default: as the collection there has them)")
      ->type_name("FIELDS");
  AddSeed(app, arguments.seed, "With --storage i8 or --codes: seed");
  AddThreads(app, arguments.threads, "Threads that quantise and encode");
  app.add_option("--id-type", arguments.id_type,
                 "Make all ids strings, or all 64-bit integers\n(default: as the first one is; all must agree)")
      ->check(CLI::IsMember({"string", "int64"}))
      ->type_name("TYPE");
  app.add_option("--log-sequence", arguments.log_sequence,
                 "Of a live collection: the last write of its log that this input\nholds; those behind it are applied "
                 "to the new generation")
      ->type_name("N");
  app.add_option("--partitions", arguments.partitions,
                 "Deal the documents out to N partitions by their ids, each a\ncollection in a folder of DIR, "
                 "partition-0-of-N and so on, for\nservers that hold one each")
      ->check(CLI::Range(1, static_cast<int>(collection::kNumSlots)))
      ->type_name("N");
  AddMaxShardBytes(app, arguments.max_shard_bytes);
  AddAllowOtherShape(app, arguments.allow_other_shape);
  AddRefuseLossy(app, arguments.refuse_lossy);
  app.add_flag("--quiet", arguments.quiet, "No progress and no summary; errors only");
  app.callback([&arguments] { RequireUsage(CheckUsage(arguments)); });
}

}  // namespace

int RunMaxsimShard(int argc, char** argv) {
  CLI::App app{
      "Builds, shows and checks maxsimd collections: folders of shard files with token embeddings, ids and payloads."};
  app.name("maxsim-shard");
  app.set_version_flag("--version", Cat("maxsim-shard ", kVersion, " (", kCommit, ")"));
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  maxsim-shard build --tokens tokens.npy --lengths lengths.npy --ids docs.jsonl --output wiki --name wiki\n"
      "  maxsim-shard build --input corpus.safetensors --output wiki --storage bf16\n"
      "  maxsim-shard build --input wiki --input news --output both --storage f16\n"
      "  maxsim-shard inspect wiki\n"
      "  maxsim-shard verify wiki\n"
      "  maxsim-shard quantize wiki wiki-i8\n"
      "  maxsim-shard encode wiki --codes 4\n"
      "  maxsim-shard evaluate wiki --queries queries.npy --query-lengths lengths.npy\n"
      "  maxsim-shard compact wiki\n"
      "  maxsim-shard split wiki --into 3 --output parts\n"
      "  maxsim-shard merge parts/partition-* --output wiki-again\n"
      "  maxsim-shard upgrade wiki --check\n"
      "  maxsim-shard restore s3://backups/notes/monday notes\n\n"
      "Results go to standard output, progress and errors to standard error.\n"
      "Exit codes: 0 done; 1 failed, verify found a problem, or upgrade --check something to do; 2 the command line is "
      "wrong; 130 interrupted.");

  BuildArguments build_arguments;
  CLI::App* build = app.add_subcommand("build", "Builds a collection, or the next generation of one");
  AddBuild(*build, build_arguments);
  build->footer(
      "The new generation replaces the old one in one step when everything is on the disk; a build that fails or is\n"
      "interrupted changes nothing. A running server takes it with: maxsimctl reload NAME");

  std::string folder;
  bool json = false;
  CLI::App* inspect = app.add_subcommand("inspect", "Shows what a collection holds");
  inspect->add_option("DIR", folder, "Folder of the collection")->required();
  inspect->add_flag("--json", json, "Print JSON");

  bool quiet = false;
  CLI::App* verify =
      app.add_subcommand("verify", "Reads everything and checks it: checksums, offsets, ids, values, payloads, log");
  verify->add_option("DIR", folder, "Folder of the collection")->required();
  verify->add_flag("--quiet", quiet, "Only the last line and problems");
  verify->footer("Exit code 1 when a problem was found; each is a line on standard error.");

  QuantizeArguments quantize_arguments;
  CLI::App* quantize = app.add_subcommand(
      "quantize", "Makes an i8 collection, of half the size, from one in f16, bf16 or f32, and measures what it costs");
  AddQuantize(*quantize, quantize_arguments);

  EncodeArguments encode_arguments;
  CLI::App* encode = app.add_subcommand("encode", "Stores codes, of a few bits for each value, beside the vectors");
  AddEncode(*encode, encode_arguments);

  EvaluateArguments evaluate_arguments;
  CLI::App* evaluate = app.add_subcommand("evaluate", "Measures what searches by codes find of what exact ones do");
  AddEvaluate(*evaluate, evaluate_arguments);

  CompactArguments compact_arguments;
  CLI::App* compact = app.add_subcommand(
      "compact", "Writes what the log of a live collection holds into its shards, while no server has it loaded");
  AddCompact(*compact, compact_arguments);

  SplitArguments split_arguments;
  CLI::App* split = app.add_subcommand("split", "Cuts a collection, or a partition of one, into partitions");
  AddSplit(*split, split_arguments);

  MergeArguments merge_arguments;
  CLI::App* merge = app.add_subcommand("merge", "Puts partitions together: into a larger one, or the whole collection");
  AddMerge(*merge, merge_arguments);

  UpgradeArguments upgrade_arguments;
  CLI::App* upgrade = app.add_subcommand(
      "upgrade", "Upgrades the files of a collection that an earlier version wrote, while no server has it loaded");
  AddUpgrade(*upgrade, upgrade_arguments);
  RestoreArguments restore_arguments;
  CLI::App* restore = app.add_subcommand("restore", "Makes a live collection, or its partitions, of a backup");
  AddRestore(*restore, restore_arguments);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::vector<CLI::App*> commands = app.get_subcommands();
    const std::vector<std::string> rest = app.remaining();
    if (commands.empty() && !rest.empty() && rest.front().substr(0, 1) != "-") {
      std::fprintf(stderr,
                   "maxsim-shard: no subcommand \"%s\"; there are build, inspect, verify, quantize, encode, "
                   "evaluate, compact, split, merge, upgrade and restore (see --help)\n",
                   rest.front().c_str());
    } else {
      const std::string command = commands.empty() ? "" : commands.front()->get_name() + " ";
      std::fprintf(stderr, "maxsim-shard: %s (see maxsim-shard %s--help)\n",
                   command_line::UsageMessage(app, error).c_str(), command.c_str());
    }
    return kExitUsage;
  }
  try {
    if (build->parsed()) return RunBuild(build_arguments);
    if (inspect->parsed()) return RunInspect(folder, json);
    if (quantize->parsed()) return RunQuantize(quantize_arguments);
    if (encode->parsed()) return RunEncode(encode_arguments);
    if (evaluate->parsed()) return RunEvaluate(evaluate_arguments);
    if (compact->parsed()) return RunCompact(compact_arguments);
    if (split->parsed()) return RunSplit(split_arguments);
    if (merge->parsed()) return RunMerge(merge_arguments);
    if (upgrade->parsed()) return RunUpgrade(upgrade_arguments);
    if (restore->parsed()) return RunRestore(restore_arguments);
    return RunVerify(folder, quiet);
  } catch (const std::bad_alloc&) {
    return Fail(absl::ResourceExhaustedError("out of memory"));
  }
}

}  // namespace maxsim::shard_tool
