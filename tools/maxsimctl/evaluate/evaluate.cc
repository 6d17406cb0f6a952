#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "client/messages.h"
#include "kernels/limits.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/rerank_response.h"
#include "tools/maxsimctl/evaluate/commands.h"
#include "tools/maxsimctl/evaluate/evaluation_inputs.h"
#include "tools/maxsimctl/evaluate/quality_report.h"
#include "tools/maxsimctl/evaluate/reference_scorer.h"

namespace maxsim::ctl {
namespace {

struct EvaluateOptions {
  std::string collection, path, run_out, tag = "maxsim";
  EvaluationFiles files;
  CutOffs cut_offs;
  int rerank_depth = 0;  // 0: all candidates
  bool text = false, reference = false, per_query = false;
};

// Counts the candidates that the server could not rank, over all queries.
struct Unranked {
  int64_t num_candidates = 0;  // that were to be ranked
  int64_t num_missing = 0;     // of them not in the collection
  int64_t num_queries = 0;     // with a missing candidate
  uint64_t num_unavailable = 0;
};

// Sends the queries to the server one after another, and keeps what the report needs.
class Evaluation {
 public:
  Evaluation(const EvaluateOptions& options, const EvaluationInputs& inputs, const v1::CollectionInfo& collection)
      : options_(options), inputs_(inputs), collection_(collection) {
    report_.cut_offs = options.cut_offs;
    if (inputs.candidates.has_value()) {
      report_.columns = {{"first_stage", "first stage"}, {"reranked", "reranked"}};
      report_.has_difference = true;
    } else {
      report_.columns = {{"server", "server"}};
    }
    if (options.reference) report_.columns.push_back({"reference", "FP64"});
  }

  absl::Status RunEvaluation(Context& context);
  const QualityReport& report() const { return report_; }
  const Unranked& unranked() const { return unranked_; }
  int64_t num_truncated() const { return num_truncated_; }  // queries whose text the encoder cut

 private:
  absl::Status OpenReference();
  absl::Status OpenRun();
  absl::Status Evaluate(size_t query, Context& context);
  // Returns the server's ranking. `first_stage` is null if the whole collection is ranked.
  absl::StatusOr<std::vector<RunDocument>> Rank(size_t query, const std::vector<RunDocument>* first_stage,
                                                Context& context);
  // Adds the candidates to a request, without ids that the collection's id type excludes. Returns the ids that are
  // sent, in their order; empty if none is left.
  std::vector<std::string> AddCandidates(const std::vector<RunDocument>& first_stage, v1::RerankRequest& request);
  std::vector<std::string> ReferenceRanking(size_t query) const;

  const EvaluateOptions& options_;
  const EvaluationInputs& inputs_;
  const v1::CollectionInfo& collection_;
  std::optional<ReferenceScorer> scorer_;
  std::unique_ptr<OutputFile> run_;
  QualityReport report_;
  Unranked unranked_;
  int64_t num_truncated_ = 0;
};

absl::Status Evaluation::OpenReference() {
  absl::StatusOr<ReferenceScorer> opened =
      ReferenceScorer::Open(options_.path.empty() ? collection_.path() : options_.path, collection_);
  if (!opened.ok()) return opened.status();
  scorer_ = *std::move(opened);
  if (inputs_.queries->dim() == scorer_->manifest().dim) return absl::OkStatus();
  return Invalid(options_.files.queries, ": the dimension is ", inputs_.queries->dim(), ", but the collection's is ",
                 scorer_->manifest().dim);
}

absl::Status Evaluation::OpenRun() {
  if (const std::string_view kind = OtherKind(options_.run_out); !kind.empty()) {
    return Invalid("--run-out: ", options_.run_out, " is ", kind);
  }
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(options_.run_out);
  if (!file.ok()) return Prefix("--run-out: ", file.status());
  run_ = *std::move(file);
  return absl::OkStatus();
}

absl::Status Evaluation::RunEvaluation(Context& context) {
  if (options_.reference) {
    if (absl::Status opened = OpenReference(); !opened.ok()) return opened;
  }
  if (!options_.run_out.empty()) {
    if (absl::Status opened = OpenRun(); !opened.ok()) return opened;
  }
  for (size_t query = 0; query < inputs_.num_queries(); ++query) {
    absl::Status status = Evaluate(query, context);
    if (!status.ok()) return Prefix(Cat("query ", Quote(inputs_.texts[query].id), ": "), status);
  }
  if (scorer_.has_value()) {
    if (absl::Status unchanged = scorer_->Check(); !unchanged.ok()) return unchanged;
  }
  if (report_.queries.empty()) {
    return Invalid("no query of ", options_.files.query_texts, " has a relevant document in ",
                   options_.files.judgements,
                   inputs_.candidates.has_value() ? " and candidates in " + options_.files.candidates : "");
  }
  return run_ == nullptr ? absl::OkStatus() : Prefix("--run-out: ", run_->Commit());
}

absl::Status Evaluation::Evaluate(size_t query, Context& context) {
  const evaluation::Grades* grades = inputs_.RelevantGrades(query);
  if (grades == nullptr && run_ == nullptr) return absl::OkStatus();
  const std::vector<RunDocument>* first_stage = nullptr;
  if (inputs_.candidates.has_value()) {
    first_stage = inputs_.CandidatesOf(query);
    if (first_stage == nullptr) return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<RunDocument>> ranking = Rank(query, first_stage, context);
  if (!ranking.ok()) return ranking.status();
  if (run_ != nullptr) {
    const absl::StatusOr<std::string> lines =
        evaluation::FormatRanking(inputs_.texts[query].id, *ranking, options_.tag);
    if (!lines.ok()) return Prefix("--run-out: ", lines.status());
    if (absl::Status written = run_->Write(*lines); !written.ok()) return Prefix("--run-out: ", written);
  }
  if (grades == nullptr) return absl::OkStatus();
  report_.queries.push_back(inputs_.texts[query].id);
  std::vector<QualityColumn>& columns = report_.columns;
  const auto add = [&](QualityColumn& column, const std::vector<std::string>& ids) {
    column.of_queries.push_back(QualityOf(ids, *grades, options_.cut_offs));
  };
  if (first_stage != nullptr) add(columns[0], evaluation::RankedIds(*first_stage));
  add(columns[first_stage != nullptr ? 1 : 0], evaluation::RankedIds(*ranking));
  if (scorer_.has_value()) add(columns.back(), ReferenceRanking(query));
  return absl::OkStatus();
}

std::vector<std::string> Evaluation::AddCandidates(const std::vector<RunDocument>& first_stage,
                                                   v1::RerankRequest& request) {
  const size_t depth = options_.rerank_depth > 0 ? static_cast<size_t>(options_.rerank_depth) : first_stage.size();
  std::vector<std::string> ids;
  for (size_t i = 0; i < std::min(depth, first_stage.size()); ++i) {
    ++unranked_.num_candidates;
    const std::string& id = first_stage[i].id;
    if (MakeCandidates({id}, collection_.id_type()).ok()) ids.push_back(id);
  }
  // Each id has been checked to fit the collection, so the list of them is valid.
  if (!ids.empty()) *request.mutable_candidates() = *MakeCandidates(ids, collection_.id_type());
  const auto num_wrong = static_cast<int64_t>(std::min(depth, first_stage.size()) - ids.size());
  unranked_.num_missing += num_wrong;
  unranked_.num_queries += num_wrong > 0 ? 1 : 0;
  return ids;
}

absl::StatusOr<std::vector<RunDocument>> Evaluation::Rank(size_t query, const std::vector<RunDocument>* first_stage,
                                                          Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::RerankRequest request;
  request.set_collection(collection_.name());
  *request.add_queries() = inputs_.MakeQuery(query);
  request.set_missing_policy(v1::MISSING_POLICY_REPORT);
  request.set_top_k(static_cast<uint32_t>(options_.cut_offs.depth));
  std::vector<std::string> sent;
  const int64_t num_missing_before = unranked_.num_missing;
  if (first_stage == nullptr) {
    *request.mutable_candidates() = client::WholeCollection();
  } else {
    sent = AddCandidates(*first_stage, request);
    if (sent.empty()) return std::vector<RunDocument>();
    // A run of reranked candidates must have all candidates.
    if (run_ != nullptr) request.set_top_k(static_cast<uint32_t>(std::min<size_t>(sent.size(), kMaxTopK)));
  }
  const absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(request);
  if (!response.ok()) return context.AddAdvice(response.status());
  if (absl::Status sound = CheckResponse(request, *response); !sound.ok()) return sound;
  const v1::QueryResult& result = response->results(0);
  std::vector<RunDocument> ranking;
  for (int i = 0; i < NumHits(result); ++i) {
    const uint64_t position = result.positions(i);
    if (first_stage != nullptr && position >= sent.size()) {
      return absl::InternalError(
          Cat("the server's answer is wrong: position ", position, " of ", sent.size(), " candidates"));
    }
    // Keeps the first stage's spelling of an integer id ("007"), because the judgements are looked up by it.
    ranking.push_back({first_stage != nullptr ? sent[position] : IdText(result, i), result.scores(i)});
  }
  const auto num_missing = static_cast<int64_t>(MissingIds(result).size());
  // Counts the query unless AddCandidates has counted it already, because an id had the wrong type.
  unranked_.num_queries += num_missing > 0 && unranked_.num_missing == num_missing_before ? 1 : 0;
  unranked_.num_missing += num_missing;
  unranked_.num_unavailable += result.unavailable_documents();
  num_truncated_ += result.query_truncated() ? 1 : 0;
  return ranking;
}

std::vector<std::string> Evaluation::ReferenceRanking(size_t query) const {
  std::vector<std::string> ranking;
  const std::vector<ReferenceScore> scores =
      scorer_->Scores(*inputs_.queries, static_cast<int64_t>(query), /*ordinals=*/nullptr);
  for (const ReferenceHit& hit : ReferenceTopK(scores, options_.cut_offs.depth)) {
    ranking.push_back(scorer_->IdText(hit.position));
  }
  return ranking;
}

void Print(const Evaluation& evaluation, const EvaluateOptions& options, const Context& context) {
  const QualityReport& report = evaluation.report();
  if (!context.options.json) {
    if (options.per_query) {
      report.PrintQueries(context);
      context.out() << '\n';
    }
    report.PrintMeans(context);
    return;
  }
  Json answer = {{"queries", report.queries.size()}};
  answer.update(report.MeansJson());
  if (!options.files.candidates.empty()) {
    answer["candidates"] = evaluation.unranked().num_candidates;
    answer["missing"] = evaluation.unranked().num_missing;
  }
  answer["unavailable_documents"] = evaluation.unranked().num_unavailable;
  if (options.per_query) answer["per_query"] = report.QueriesJson();
  context.Print(answer);
}

void Remark(const Evaluation& evaluation, const EvaluateOptions& options, const EvaluationInputs& inputs,
            const v1::CollectionInfo& collection, Context& context) {
  const bool has_candidates = inputs.candidates.has_value();
  context.err() << Cat("means over ", evaluation.report().queries.size(), " of ", inputs.num_queries(),
                       " queries, those with a relevant document", has_candidates ? " and candidates" : "", "\n");
  const Unranked& unranked = evaluation.unranked();
  if (has_candidates) RemarkUnmatchedQueries(inputs, options.files, context);
  if (unranked.num_missing > 0) {
    context.err() << command_line::WithoutControls(
                         Cat("warning: ", unranked.num_missing, " of ", unranked.num_candidates,
                             " candidates are not in the collection ", collection.name(), ", of ", unranked.num_queries,
                             unranked.num_queries == 1 ? " query" : " queries"))
                  << '\n';
  }
  if (unranked.num_unavailable > 0) {
    context.err() << Cat("warning: ", FormatCount(static_cast<int64_t>(unranked.num_unavailable)),
                         " candidates could not be scored: the server has lost a device\n");
  }
  if (const int64_t count = evaluation.num_truncated(); count > 0) {
    context.err() << Cat("warning: the encoder cut the end of ", FormatCount(count), count == 1 ? " query" : " queries",
                         ", longer than its model reads\n");
  }
  RemarkUnknownJudgements(inputs, collection, context);
}

// Compares the figures as they are printed.
absl::Status CheckEqual(const QualityReport& report) {
  const Quality server = report.columns.front().Mean(), reference = report.columns.back().Mean();
  for (const Measure& measure : Measures(report.cut_offs)) {
    const std::string there = command_line::Fixed(server.*measure.value, 4),
                      here = command_line::Fixed(reference.*measure.value, 4);
    if (there != here) {
      return absl::DataLossError(Cat(measure.name, " is ", there, " through the server and ", here, " in FP64"));
    }
  }
  return absl::OkStatus();
}

absl::Status RunEvaluate(const EvaluateOptions& options, Context& context) {
  const absl::StatusOr<EvaluationInputs> inputs = ReadEvaluationInputs(options.files);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  Evaluation evaluation(options, *inputs, *collection);
  if (absl::Status status = evaluation.RunEvaluation(context); !status.ok()) return status;
  Print(evaluation, options, context);
  Remark(evaluation, options, *inputs, *collection, context);
  return options.reference ? CheckEqual(evaluation.report()) : absl::OkStatus();
}

void AddFiles(CLI::App& command, EvaluateOptions& options) {
  CLI::Option_group* queries = command.add_option_group("Queries", "Exactly one of");
  CLI::Option* tokens =
      queries->add_option("--queries", options.files.queries, "Query tokens, .npy, as for rerank")->type_name("FILE");
  queries->add_flag("--text", options.text,
                    "Send the \"text\" of each line of --queries-jsonl, which the server's encoder turns into vectors");
  queries->require_option(1);
  command.add_option("--query-lengths", options.files.query_lengths, "Tokens of each query, .npy of integers")
      ->needs(tokens)
      ->type_name("FILE");
  command.add_option("--queries-jsonl", options.files.query_texts, "A line of JSON for each query, with its \"id\"")
      ->required()
      ->type_name("FILE");
  command
      .add_option(
          "--qrels", options.files.judgements,
          "Relevance judgements, one per line: query id, document id, grade; BEIR's and TREC's files as they are")
      ->required()
      ->type_name("FILE");
}

}  // namespace

void AddEvaluate(CLI::App& app, Context& context) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure the server's ranking against relevance judgements");
  command->add_option("--collection", options->collection, "Collection; may be left out when the server holds only one")
      ->type_name("NAME");
  AddFiles(*command, *options);
  AddCutOffs(*command, options->cut_offs, "Documents to ask for: the cut-off of MRR and of a second recall");
  CLI::Option* candidates =
      command
          ->add_option("--candidates", options->files.candidates,
                       "A first stage's run: each query ranks its documents there, in place of the collection")
          ->type_name("RUN");
  command
      ->add_option("--rerank-depth", options->rerank_depth,
                   "Documents of each query in --candidates to rerank, its best; by default all")
      ->needs(candidates)
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  CLI::Option* run_out =
      command->add_option("--run-out", options->run_out, "Write the ranking of every query as a run")->type_name("RUN");
  command->add_option("--tag", options->tag, "Last field of each line of --run-out")
      ->needs(run_out)
      ->capture_default_str()
      ->type_name("TAG");
  command->add_flag("--per-query", options->per_query, "Print each query's measures, too");
  command
      ->add_flag("--reference", options->reference,
                 "Compute the same from FP64 scores of the collection's files; fail when four decimals differ")
      ->excludes(candidates);
  command
      ->add_option("--path", options->path,
                   "The collection's folder on this machine; by default where the server has it")
      ->type_name("DIR");
  command->footer(
      "Gain is linear in the grade; queries without a relevant document are left out, and ones without candidates.\n"
      "A run has lines \"query Q0 document rank score tag\". Its order is trec_eval's: score descending as 32-bit "
      "floats, then\n"
      "document id descending; the rank is not looked at. The first stage's measures are those of all its documents.\n"
      "Equal scores keep the first stage's order, and --run-out writes them one float apart, so that every reader "
      "does.\n\n"
      "Example: maxsimctl evaluate --queries queries.npy --query-lengths lengths.npy --queries-jsonl queries.jsonl \\\n"
      "             --qrels qrels.tsv --candidates bm25.run --run-out reranked.run");
  command->callback([options, &context] {
    CheckCutOffs(options->cut_offs);
    if (options->text && options->reference) throw CLI::ValidationError("--reference", "it needs --queries");
    if (absl::Status tag = evaluation::CheckRunField("it", options->tag); !tag.ok()) {
      throw CLI::ValidationError("--tag", std::string(tag.message()));
    }
    context.result = RunEvaluate(*options, context);
  });
}

}  // namespace maxsim::ctl
