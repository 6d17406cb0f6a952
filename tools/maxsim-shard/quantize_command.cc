#include "tools/maxsim-shard/quantize_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/build/quantize.h"
#include "collection/collection_name.h"
#include "collection/evaluation/judgements.h"
#include "collection/evaluation/query_set.h"
#include "collection/evaluation/scored_collection.h"
#include "collection/evaluation/storage_comparison.h"
#include "kernels/maxsim.h"
#include "maxsim_version.h"
#include "nlohmann/json.hpp"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

using evaluation::ScoredCollection;
using evaluation::StorageComparison;
using evaluation::StorageComparisonOptions;

// The input files of the comparison, which are read before anything is written.
struct QualityInputs {
  std::optional<evaluation::QuerySet> queries;
  std::optional<std::vector<evaluation::QueryText>> texts;
  std::optional<evaluation::Judgements> judgements;
};

// Reports mistakes that can be found without reading any file.
absl::Status CheckUsage(const QuantizeArguments& arguments) {
  if (!arguments.name.empty()) {
    if (absl::Status status = collection::CheckCollectionName(arguments.name); !status.ok())
      return Prefix("--", status);
  }
  if (arguments.no_comparison) return absl::OkStatus();
  if (arguments.queries.empty()) {
    if (!arguments.query_lengths.empty() || !arguments.query_texts.empty() || !arguments.judgements.empty()) {
      return Invalid("--query-lengths, --queries-jsonl and --qrels go with --queries");
    }
    if (arguments.sample == 0) return Invalid("--sample 0 means all queries of --queries; give --queries");
  }
  if (arguments.query_texts.empty() != arguments.judgements.empty()) {
    return Invalid("--queries-jsonl and --qrels go together: one has the queries' ids, the other their judgements");
  }
  return absl::OkStatus();
}

absl::StatusOr<QualityInputs> ReadQualityInputs(const QuantizeArguments& arguments) {
  QualityInputs inputs;
  if (arguments.queries.empty()) return inputs;
  absl::StatusOr<evaluation::QuerySet> queries = evaluation::QuerySet::Read(arguments.queries, arguments.query_lengths);
  if (!queries.ok()) return queries.status();
  inputs.queries = *std::move(queries);
  if (arguments.judgements.empty()) return inputs;
  absl::StatusOr<std::string> text = evaluation::ReadWholeFile(arguments.query_texts);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<evaluation::QueryText>> texts = evaluation::ParseQueryTexts(*text, arguments.query_texts);
  if (!texts.ok()) return texts.status();
  inputs.texts = *std::move(texts);
  text = evaluation::ReadWholeFile(arguments.judgements);
  if (!text.ok()) return text.status();
  absl::StatusOr<evaluation::Judgements> judgements = evaluation::ParseJudgements(*text, arguments.judgements);
  if (!judgements.ok()) return judgements.status();
  inputs.judgements = *std::move(judgements);
  return inputs;
}

absl::StatusOr<collection::Manifest> Quantize(const QuantizeArguments& arguments, ProgressDisplay& display,
                                              collection::QuantizationLoss* loss) {
  collection::QuantizeOptions options;
  options.source = arguments.source;
  options.target = arguments.target;
  options.name = arguments.name;
  options.rotation_seed = static_cast<uint64_t>(arguments.seed);
  options.num_threads = arguments.threads;
  options.allow_other_shape = arguments.allow_other_shape;
  options.refuse_lossy = arguments.refuse_lossy;
  options.created_by = Cat("maxsim-shard ", kVersion);
  options.max_shard_bytes = arguments.max_shard_bytes;
  if (arguments.codes >= 0) options.codes = arguments.codes;
  return collection::QuantizeCollection(options, [&](const collection::BuildProgress& progress) {
    *loss = progress.loss;
    return ShowProgress(display, progress);
  });
}

absl::StatusOr<StorageComparison> CompareWithSource(const QuantizeArguments& arguments, const QualityInputs& inputs,
                                                    ProgressDisplay& display) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = arguments.threads, .isa = ""});
  if (!backend.ok()) return backend.status();
  absl::StatusOr<ScoredCollection> before = ScoredCollection::Open(arguments.source, backend->get());
  if (!before.ok()) return before.status();
  absl::StatusOr<ScoredCollection> after = ScoredCollection::Open(arguments.target, backend->get());
  if (!after.ok()) return after.status();
  StorageComparisonOptions options;
  options.queries = inputs.queries.has_value() ? &*inputs.queries : nullptr;
  options.texts = inputs.texts.has_value() ? &*inputs.texts : nullptr;
  options.judgements = inputs.judgements.has_value() ? &*inputs.judgements : nullptr;
  options.sample = arguments.sample;
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.observer = [&](int64_t done, int64_t total) {
    display.ShowComparison(done, total);
    return Interrupted() ? absl::CancelledError("interrupted; the i8 collection is published, but was not compared")
                         : absl::OkStatus();
  };
  return CompareStorage(*before, *after, options);
}

int64_t NumBytes(const collection::Manifest& manifest) {
  int64_t bytes = 0;
  for (const collection::ShardEntry& entry : manifest.shards) bytes += entry.num_bytes;
  return bytes;
}

nlohmann::ordered_json ToJson(const StorageComparison& comparison) {
  nlohmann::ordered_json json = {
      {"queries", comparison.num_queries},         {"documents", comparison.num_correlated},
      {"spearman", comparison.mean_spearman},      {"least_spearman", comparison.least_spearman},
      {"overlap_depth", comparison.overlap_depth}, {"overlap", comparison.mean_overlap}};
  if (comparison.num_judged == 0) return json;
  json["ndcg"] = {{"depth", evaluation::kNdcgDepth},
                  {"queries", comparison.num_judged},
                  {"before", comparison.ndcg_before},
                  {"after", comparison.ndcg_after},
                  {"change", comparison.ndcg_after - comparison.ndcg_before}};
  return json;
}

void PrintJson(const QuantizeArguments& arguments, const collection::Manifest& source,
               const collection::Manifest& target, const std::optional<StorageComparison>& comparison,
               absl::Duration elapsed) {
  const auto side = [](const std::string& folder, const collection::Manifest& manifest) {
    return nlohmann::ordered_json{{"folder", folder},
                                  {"storage", Name(manifest.storage)},
                                  {"num_bytes", NumBytes(manifest)},
                                  {"num_shards", manifest.shards.size()}};
  };
  nlohmann::ordered_json json = {{"name", target.name},
                                 {"generation", target.generation},
                                 {"num_documents", target.num_documents},
                                 {"num_tokens", target.num_tokens},
                                 {"dim", target.dim},
                                 {"rotation", {{"kind", collection::kRotationKind}, {"seed", target.rotation_seed}}},
                                 {"source", side(arguments.source, source)},
                                 {"target", side(arguments.target, target)},
                                 {"seconds", absl::ToDoubleSeconds(elapsed)}};
  if (comparison.has_value()) json["quality"] = ToJson(*comparison);
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void PrintText(const StorageComparison& comparison, const collection::Manifest& source, bool drawn) {
  std::printf("%s %s over %s documents, %s to i8:\n", FormatCount(comparison.num_queries).c_str(),
              drawn ? "queries made of documents" : "queries", FormatCount(source.num_documents).c_str(),
              std::string(Name(source.storage)).c_str());
  std::printf("  Spearman         %.6f of the scores%s, %.6f for the worst query\n", comparison.mean_spearman,
              comparison.num_correlated < source.num_documents
                  ? Cat(" of ", FormatCount(comparison.num_correlated), " documents").c_str()
                  : "",
              comparison.least_spearman);
  std::printf("  %-15s  %.2f %%\n", Cat("top-", comparison.overlap_depth, " overlap").c_str(),
              100 * comparison.mean_overlap);
  if (comparison.num_judged == 0) return;
  std::printf("  %-15s  %.4f before, %.4f after, change %+.4f (%s judged queries)\n",
              Cat("nDCG@", evaluation::kNdcgDepth).c_str(), comparison.ndcg_before, comparison.ndcg_after,
              comparison.ndcg_after - comparison.ndcg_before, FormatCount(comparison.num_judged).c_str());
}

}  // namespace

int RunQuantize(const QuantizeArguments& arguments) {
  CatchInterrupts();
  const absl::Time began = MonotonicNow();
  absl::StatusOr<QualityInputs> inputs = arguments.no_comparison ? QualityInputs() : ReadQualityInputs(arguments);
  if (!inputs.ok()) return Fail(inputs.status());
  const absl::StatusOr<collection::Manifest> source = collection::ReadManifest(arguments.source);
  if (!source.ok()) return Fail(source.status());
  if (inputs->queries.has_value() && inputs->queries->dim() != source->dim) {
    return Fail(Invalid(arguments.queries, ": the dimension is ", inputs->queries->dim(), ", but the collection's is ",
                        source->dim));
  }
  if (inputs->texts.has_value() && static_cast<int64_t>(inputs->texts->size()) != inputs->queries->size()) {
    return Fail(Invalid(arguments.query_texts, " holds ", inputs->texts->size(), " queries, but ", arguments.queries,
                        " holds ", inputs->queries->size()));
  }
  absl::StatusOr<collection::Manifest> target;
  absl::StatusOr<StorageComparison> comparison;
  const bool compares = !arguments.no_comparison && source->num_documents > 0;  // A partition may have none.
  std::string summary;
  collection::QuantizationLoss loss;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    target = Quantize(arguments, display, &loss);
    if (target.ok()) summary = Cat(Describe(arguments.target, *target), ", ", Elapsed(began));
    if (target.ok() && compares) comparison = CompareWithSource(arguments, *inputs, display);
  }
  if (!target.ok()) return Fail(target.status());
  WarnOfLoss(arguments.target, loss);
  if (!arguments.json && !arguments.quiet) {
    std::printf("%s (%s: %s)\n", summary.c_str(), std::string(Name(source->storage)).c_str(),
                FormatBytes(NumBytes(*source)).c_str());
  }
  if (compares && !comparison.ok()) return Fail(Prefix("comparing: ", comparison.status()));
  std::optional<StorageComparison> quality;
  if (compares) quality = *comparison;
  if (!arguments.quiet && quality.has_value() && quality->num_judged == 0 && inputs->judgements.has_value()) {
    std::fprintf(stderr, "maxsim-shard: %s judges no document relevant to a query that was compared: no nDCG\n",
                 arguments.judgements.c_str());
  }
  if (arguments.json) {
    PrintJson(arguments, *source, *target, quality, MonotonicNow() - began);
  } else if (!arguments.quiet && quality.has_value()) {
    PrintText(*quality, *source, arguments.queries.empty());
  }
  return kExitOk;
}

// Descriptions are broken by hand: the library does not wrap lines.
void AddQuantize(CLI::App& app, QuantizeArguments& arguments) {
  app.add_option("SOURCE", arguments.source, "Folder of a collection in f16, bf16 or f32")->required();
  app.add_option("TARGET", arguments.target,
                 "Folder of the i8 collection: created, or given this generation\nwhen it holds an older one")
      ->required();
  app.add_option("--name", arguments.name, "Name of the i8 collection (default: that of the source)")
      ->type_name("NAME");
  AddSeed(app, arguments.seed, "Seed");
  AddThreads(app, arguments.threads, "Threads that quantise and encode");
  AddCodes(app, arguments.codes,
           "Planes of the codes beside the vectors, or 0 for none (default:\nas many as the source has)");
  AddMaxShardBytes(app, arguments.max_shard_bytes);
  AddAllowOtherShape(app, arguments.allow_other_shape);
  AddRefuseLossy(app, arguments.refuse_lossy);
  app.add_option("--queries", arguments.queries,
                 "Compare with these queries: NumPy array [tokens, d], or\n[queries, tokens, d]. Without it the first "
                 "tokens of documents are\nthe queries")
      ->type_name("FILE.npy");
  app.add_option("--query-lengths", arguments.query_lengths, "Tokens of each query: NumPy array of integers")
      ->type_name("FILE.npy");
  app.add_option("--queries-jsonl", arguments.query_texts,
                 "A line of JSON for each query, with its \"id\"; with --qrels")
      ->type_name("FILE.jsonl");
  app.add_option("--qrels", arguments.judgements,
                 "Relevance judgements, \"query document grade\" a line: nDCG@10\nbefore and after")
      ->type_name("FILE");
  app.add_option("--sample", arguments.sample, "Queries to compare with, drawn at random; 0: all of --queries")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--no-comparison", arguments.no_comparison, "Quantise only");
  app.add_flag("--json", arguments.json, "Print JSON");
  app.add_flag("--quiet", arguments.quiet, "No progress and no summary; errors only, and JSON with --json");
  app.callback([&arguments] { RequireUsage(CheckUsage(arguments)); });
  app.footer(
      "Each document gets one scale, after a rotation that spreads large columns. Ids, payloads and the generation "
      "stay.\n"
      "The new collection is published in one step when everything is on the disk, and then compared with the source "
      "on\n"
      "the CPU: every query ranks all documents of both. Spearman is that of all scores (of 10,000 documents drawn at\n"
      "random, in a larger collection), the overlap that of the first 100 documents.");
}

}  // namespace maxsim::shard_tool
