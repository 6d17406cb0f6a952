#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "collection/evaluation/paired_test.h"
#include "collection/evaluation/ranking.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/evaluate/commands.h"
#include "tools/maxsimctl/evaluate/evaluation_inputs.h"
#include "tools/maxsimctl/evaluate/quality_report.h"

namespace maxsim::ctl {
namespace {

using command_line::Align;
using command_line::Fixed;
using evaluation::PairedTest;

struct CompareOptions {
  std::string run_a, run_b, judgements;
  CutOffs cut_offs;
  uint64_t seed = 0;
  bool per_query = false;
};

struct RunComparison {
  QualityReport report;
  std::vector<PairedTest> tests;  // one a measure, in the order of Measures
  // Queries with a relevant document that only one of the runs has.
  std::vector<std::string> only_in_a, only_in_b;
  size_t num_unjudged = 0;  // queries of a run without a relevant document
};

// Measures both runs. If only one run has a query, the other run's measures for it are 0.
void MeasureRuns(const Run& run_a, const Run& run_b, const Judgements& judgements, RunComparison& comparison) {
  std::set<std::string> queries;
  for (const Run* run : {&run_a, &run_b}) {
    for (const auto& [query, ranking] : *run) queries.insert(query);
  }
  QualityReport& report = comparison.report;
  report.columns = {{"a", "A"}, {"b", "B"}};
  report.has_difference = true;
  const auto measure = [&](const Run& run, const std::string& query, const evaluation::Grades& grades) {
    const auto found = run.find(query);
    return QualityOf(found == run.end() ? std::vector<std::string>() : evaluation::RankedIds(found->second), grades,
                     report.cut_offs);
  };
  for (const std::string& query : queries) {
    const auto judged = judgements.find(query);
    if (judged == judgements.end() || !evaluation::HasRelevant(judged->second)) {
      ++comparison.num_unjudged;
      continue;
    }
    if (run_b.count(query) == 0) comparison.only_in_a.push_back(query);
    if (run_a.count(query) == 0) comparison.only_in_b.push_back(query);
    report.queries.push_back(query);
    report.columns[0].of_queries.push_back(measure(run_a, query, judged->second));
    report.columns[1].of_queries.push_back(measure(run_b, query, judged->second));
  }
}

std::vector<double> Values(const QualityColumn& column, const Measure& measure) {
  std::vector<double> values;
  values.reserve(column.of_queries.size());
  for (const Quality& quality : column.of_queries) values.push_back(quality.*measure.value);
  return values;
}

absl::StatusOr<RunComparison> CompareRuns(const CompareOptions& options) {
  const absl::StatusOr<Run> run_a = ReadRun(options.run_a);
  if (!run_a.ok()) return run_a.status();
  const absl::StatusOr<Run> run_b = ReadRun(options.run_b);
  if (!run_b.ok()) return run_b.status();
  const absl::StatusOr<std::string> text = ReadText(options.judgements);
  if (!text.ok()) return text.status();
  const absl::StatusOr<Judgements> judgements = ParseJudgements(*text, options.judgements);
  if (!judgements.ok()) return judgements.status();
  RunComparison comparison;
  comparison.report.cut_offs = options.cut_offs;
  MeasureRuns(*run_a, *run_b, *judgements, comparison);
  if (comparison.report.queries.empty()) {
    return Invalid("no query of ", options.run_a, " or ", options.run_b, " has a relevant document in ",
                   options.judgements);
  }
  for (const Measure& measure : Measures(options.cut_offs)) {
    comparison.tests.push_back(evaluation::ComparePaired(Values(comparison.report.columns[0], measure),
                                                         Values(comparison.report.columns[1], measure), options.seed));
  }
  return comparison;
}

std::string ProbabilityText(double p) { return p < 0.0001 ? command_line::Scientific(p) : Fixed(p, 4); }

void PrintComparison(const RunComparison& comparison, const Context& context) {
  const QualityReport& report = comparison.report;
  command_line::Table table({{"measure"},
                             {"A", Align::kRight},
                             {"B", Align::kRight},
                             {"difference", Align::kRight},
                             {"p (randomisation)", Align::kRight},
                             {"p (t-test)", Align::kRight},
                             {"wins", Align::kRight},
                             {"ties", Align::kRight},
                             {"losses", Align::kRight}});
  const Quality a = report.columns[0].Mean(), b = report.columns[1].Mean();
  const std::vector<Measure> measures = Measures(report.cut_offs);
  for (size_t i = 0; i < measures.size(); ++i) {
    const PairedTest& test = comparison.tests[i];
    table.AddRow({measures[i].name, Fixed(a.*measures[i].value, 4), Fixed(b.*measures[i].value, 4),
                  SignedText(test.mean_difference), ProbabilityText(test.p_randomisation),
                  test.p_t.has_value() ? ProbabilityText(*test.p_t) : "-", std::to_string(test.num_wins),
                  std::to_string(test.num_ties), std::to_string(test.num_losses)});
  }
  table.Print(context.out());
}

Json ComparisonJson(const RunComparison& comparison, const CompareOptions& options) {
  const QualityReport& report = comparison.report;
  Json answer = {{"run_a", options.run_a},
                 {"run_b", options.run_b},
                 {"queries", report.queries.size()},
                 {"only_in_a", comparison.only_in_a.size()},
                 {"only_in_b", comparison.only_in_b.size()}};
  answer.update(report.MeansJson());
  Json tests = Json::object();
  const std::vector<Measure> measures = Measures(report.cut_offs);
  for (size_t i = 0; i < measures.size(); ++i) {
    const PairedTest& test = comparison.tests[i];
    tests[measures[i].name] = {{"p_randomisation", test.p_randomisation},
                               {"exact", test.is_exact},
                               {"p_t", test.p_t.has_value() ? Json(*test.p_t) : Json(nullptr)},
                               {"wins", test.num_wins},
                               {"ties", test.num_ties},
                               {"losses", test.num_losses}};
  }
  answer["tests"] = std::move(tests);
  if (options.per_query) answer["per_query"] = report.QueriesJson();
  return answer;
}

void RemarkComparison(const RunComparison& comparison, const CompareOptions& options, const Context& context) {
  const auto remark = [&](const std::string& text) { context.err() << command_line::WithoutControls(text) << '\n'; };
  remark(Cat("A is ", options.run_a, ", B ", options.run_b, ": ", comparison.report.queries.size(),
             " queries with a relevant document; wins are B's"));
  const auto remark_missing = [&](const std::vector<std::string>& queries, const std::string& run) {
    if (queries.empty()) return;
    remark(Cat("warning: ", queries.size(), queries.size() == 1 ? " query is" : " queries are", " not in ", run,
               ", where each counts 0: ", SomeIds(queries)));
  };
  remark_missing(comparison.only_in_a, options.run_b);
  remark_missing(comparison.only_in_b, options.run_a);
  if (comparison.num_unjudged > 0) {
    remark(Cat("left out: ", comparison.num_unjudged, " queries without a relevant document in ", options.judgements));
  }
}

absl::Status RunCompareRuns(const CompareOptions& options, const Context& context) {
  const absl::StatusOr<RunComparison> comparison = CompareRuns(options);
  if (!comparison.ok()) return comparison.status();
  if (context.options.json) {
    context.Print(ComparisonJson(*comparison, options));
  } else {
    if (options.per_query) {
      comparison->report.PrintQueries(context);
      context.out() << '\n';
    }
    PrintComparison(*comparison, context);
  }
  RemarkComparison(*comparison, options, context);
  return absl::OkStatus();
}

}  // namespace

void AddCompareRuns(CLI::App& app, Context& context) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app.add_subcommand("compare-runs", "Test whether two runs differ against relevance judgements; asks no server");
  command->add_option("RUN_A", options->run_a, "A run, such as a first stage's")->required();
  command->add_option("RUN_B", options->run_b, "The run to compare with it, such as the reranked one")->required();
  command->add_option("--qrels", options->judgements, "Relevance judgements, as for evaluate")
      ->required()
      ->type_name("FILE");
  AddCutOffs(*command, options->cut_offs, "Cut-off of MRR and of a second recall");
  command->add_option("--seed", options->seed, "Seed of the randomisation test")->capture_default_str()->type_name("N");
  command->add_flag("--per-query", options->per_query, "Print each query's measures, too");
  command->footer(
      "Differences are B's value less A's, over the queries with a relevant document that A or B has; a query that one "
      "of\n"
      "them lacks counts 0 there. p is the two-sided probability of a difference as large where A and B are equally "
      "good:\n"
      "of the paired randomisation test (signs of the queries' differences; all assignments where up to 20 queries "
      "differ,\n"
      "100,000 drawn ones otherwise) and of Student's paired t-test (- where it has none: fewer than two queries, or "
      "no\n"
      "difference).\n\n"
      "Example: maxsimctl compare-runs bm25.run reranked.run --qrels qrels.tsv");
  command->callback([options, &context] {
    CheckCutOffs(options->cut_offs);
    context.result = RunCompareRuns(*options, context);
  });
}

}  // namespace maxsim::ctl
