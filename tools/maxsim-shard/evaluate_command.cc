#include "tools/maxsim-shard/evaluate_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/process/cores.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/evaluation/codes_comparison.h"
#include "collection/evaluation/query_set.h"
#include "collection/evaluation/scored_collection.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

using evaluation::CodesComparison;
using evaluation::PlanesAgreement;

absl::StatusOr<CodesComparison> Evaluate(const EvaluateArguments& arguments, ProgressDisplay& display) {
  const absl::StatusOr<evaluation::QuerySet> queries =
      evaluation::QuerySet::Read(arguments.queries, arguments.query_lengths);
  if (!queries.ok()) return queries.status();
  const absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateCpuBackend({.num_threads = arguments.threads, .isa = ""});
  if (!backend.ok()) return backend.status();
  absl::StatusOr<evaluation::ScoredCollection> exact =
      evaluation::ScoredCollection::Open(arguments.folder, backend->get());
  if (!exact.ok()) return exact.status();
  evaluation::CodesComparisonOptions options;
  options.queries = &*queries;
  options.sample = arguments.sample;
  options.top_k = arguments.top_k;
  options.num_refined = arguments.refine;
  options.num_threads = ThreadsOrOnePerCore(arguments.threads);
  options.observer = [&](int64_t done, int64_t total) {
    display.ShowComparison(done, total);
    return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
  };
  return evaluation::CompareCodes(arguments.folder, *exact, options);
}

void PrintJson(const CodesComparison& comparison) {
  nlohmann::ordered_json json = {{"queries", comparison.num_queries},
                                 {"top_k", comparison.top_k},
                                 {"refined", comparison.num_refined},
                                 {"planes", nlohmann::ordered_json::array()}};
  for (const PlanesAgreement& one : comparison.planes) {
    json["planes"].push_back({{"planes", one.planes},
                              {"mean_recall", one.mean_recall},
                              {"least_recall", one.least_recall},
                              {"same", one.num_same},
                              {"proven", one.num_proven}});
  }
  std::printf("%s\n", json.dump(2).c_str());
}

void PrintText(const CodesComparison& comparison) {
  std::printf("%s queries, top %s of an exact search and of a scan of codes that refines %s documents:\n\n",
              FormatCount(comparison.num_queries).c_str(), FormatCount(comparison.top_k).c_str(),
              FormatCount(comparison.num_refined).c_str());
  std::printf("%-10s %12s %12s %14s %12s\n", "scan of", "mean recall", "least", "same ranking", "proven");
  for (const PlanesAgreement& one : comparison.planes) {
    std::printf("%-10s %12.5f %12.5f %14s %12s\n", Cat(one.planes, one.planes == 1 ? " plane" : " planes").c_str(),
                one.mean_recall, one.least_recall, FormatCount(one.num_same).c_str(),
                FormatCount(one.num_proven).c_str());
  }
}

}  // namespace

void AddEvaluate(CLI::App& app, EvaluateArguments& arguments) {
  app.add_option("DIR", arguments.folder, "Folder of a collection with codes")->required();
  app.add_option("--queries", arguments.queries,
                 "Queries to search for: NumPy array [tokens, d], or\n[queries, tokens, d]")
      ->type_name("FILE.npy")
      ->required();
  app.add_option("--query-lengths", arguments.query_lengths, "Tokens of each query: NumPy array of integers")
      ->type_name("FILE.npy");
  app.add_option("--sample", arguments.sample, "Queries, the first N; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--top-k", arguments.top_k, "Documents of an answer")
      ->check(CLI::Range(1, static_cast<int>(kMaxTopK)))
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--refine", arguments.refine,
                 "Documents that a scan selects, to be scored exactly;\n0: 1,000 + 20 K, at most 10,000")
      ->check(CLI::Range(0, static_cast<int>(kMaxTopK)))
      ->capture_default_str()
      ->type_name("R");
  AddThreads(app, arguments.threads, "Threads that scan and score");
  app.add_flag("--json", arguments.json, "Print JSON");
  app.add_flag("--quiet", arguments.quiet, "No progress");
  app.footer(
      "Searches on the CPU, without a server: exactly, and by a scan of the codes whose best R documents are scored "
      "exactly.\n"
      "Recall is the share of the exact top K that the scan's answer has. \"Same ranking\" counts queries whose "
      "answers "
      "are\n"
      "equal. \"Proven\" counts those for which a scan by upper bounds proves its answer to be the exact one.");
}

int RunEvaluate(const EvaluateArguments& arguments) {
  CatchInterrupts();
  absl::StatusOr<CodesComparison> comparison;
  {
    ProgressDisplay display(stderr, ProgressDisplay::ChooseStyle(stderr, arguments.quiet));
    comparison = Evaluate(arguments, display);
  }
  if (!comparison.ok()) return Fail(comparison.status());
  if (arguments.json) {
    PrintJson(*comparison);
  } else {
    PrintText(*comparison);
  }
  return kExitOk;
}

}  // namespace maxsim::shard_tool
