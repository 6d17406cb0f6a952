#include <algorithm>
#include <set>

#include "base/text.h"
#include "client/messages.h"
#include "collection/evaluation/ranking.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/commands.h"
#include "tools/maxsimctl/input_files.h"
#include "tools/maxsimctl/reference_scorer.h"
#include "tools/maxsimctl/rerank_response.h"

namespace maxsim::ctl {
namespace {

using evaluation::HasRelevant;
using evaluation::Quality;

struct EvaluateOptions {
  std::string collection, path, queries, query_lengths, query_texts, judgements;
  int k = 10;
  int depth = 100;
  bool reference = false;
};

struct Inputs {
  QuerySet queries;
  std::vector<QueryText> texts;
  Judgements judgements;
};

absl::StatusOr<Inputs> ReadInputs(const EvaluateOptions& options) {
  absl::StatusOr<QuerySet> queries = QuerySet::Read(options.queries, options.query_lengths);
  if (!queries.ok()) return queries.status();
  absl::StatusOr<std::vector<QueryText>> texts = ReadQueryTexts(options.query_texts);
  if (!texts.ok()) return texts.status();
  if (texts->size() != static_cast<size_t>(queries->size())) {
    return Invalid(options.query_texts, " holds ", texts->size(), " queries, and ", options.queries, " ",
                   queries->size());
  }
  const absl::StatusOr<std::string> text = ReadText(options.judgements);
  if (!text.ok()) return text.status();
  absl::StatusOr<Judgements> judgements = ParseJudgements(*text, options.judgements);
  if (!judgements.ok()) return judgements.status();
  return Inputs{*std::move(queries), *std::move(texts), *std::move(judgements)};
}

// Returns the server's ranking of the whole collection, as ids.
absl::StatusOr<std::vector<std::string>> ServerRanking(const Inputs& inputs, int64_t query, int depth,
                                                       const std::string& collection, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::RerankRequest request;
  request.set_collection(collection);
  *request.add_queries() = client::MakeQuery(QueryTokens(inputs.queries, query));
  *request.mutable_candidates() = client::WholeCollection();
  request.set_top_k(static_cast<uint32_t>(depth));
  const absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(request);
  if (!response.ok()) return context.AddAdvice(response.status());
  absl::Status sound = CheckResponse(request, *response);
  if (!sound.ok()) return sound;
  std::vector<std::string> ranking;
  ranking.reserve(static_cast<size_t>(NumHits(response->results(0))));
  for (int i = 0; i < NumHits(response->results(0)); ++i) ranking.push_back(IdText(response->results(0), i));
  return ranking;
}

// The judgements that count, as documents: of these queries, each document once.
std::vector<std::string> JudgedDocuments(const Inputs& inputs) {
  std::set<std::string> ids;
  for (const QueryText& text : inputs.texts) {
    const auto judged = inputs.judgements.find(text.id);
    if (judged == inputs.judgements.end()) continue;
    for (const auto& [id, grade] : judged->second) ids.insert(id);
  }
  return {ids.begin(), ids.end()};
}

// How many of `ids` the collection lacks, as an id of the wrong type is lacking too.
absl::StatusOr<int64_t> CountUnknown(const std::vector<std::string>& ids, const Inputs& inputs,
                                     const v1::CollectionInfo& collection, Context& context) {
  constexpr size_t kIdsPerCall = 1000;
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  int64_t num_unknown = 0;
  for (size_t begin = 0; begin < ids.size(); begin += kIdsPerCall) {
    std::vector<std::string> usable;
    for (size_t i = begin; i < std::min(begin + kIdsPerCall, ids.size()); ++i) {
      const bool fits = MakeCandidates({ids[i]}, collection.id_type()).ok();
      if (fits) usable.push_back(ids[i]);
      num_unknown += fits ? 0 : 1;
    }
    if (usable.empty()) continue;
    v1::RerankRequest request;
    request.set_collection(collection.name());
    *request.add_queries() = client::MakeQuery(QueryTokens(inputs.queries, 0));
    absl::StatusOr<v1::Candidates> candidates = MakeCandidates(usable, collection.id_type());
    if (!candidates.ok()) return candidates.status();
    *request.mutable_candidates() = *std::move(candidates);
    request.set_missing_policy(v1::MISSING_POLICY_REPORT);
    request.set_top_k(1);
    const absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(request);
    if (!response.ok()) return response.status();
    absl::Status sound = CheckResponse(request, *response);
    if (!sound.ok()) return sound;
    num_unknown += static_cast<int64_t>(MissingIds(response->results(0)).size());
  }
  return num_unknown;
}

// Judgements of another corpus, or with other ids, would show as bad figures only.
void RemarkUnknown(const Inputs& inputs, const v1::CollectionInfo& collection, Context& context) {
  const std::vector<std::string> ids = JudgedDocuments(inputs);
  const absl::StatusOr<int64_t> num_unknown = CountUnknown(ids, inputs, collection, context);
  if (!num_unknown.ok()) {
    context.err() << command_line::WithoutControls(
                         Cat("cannot tell whether the judged documents are in the collection: ",
                             num_unknown.status().message()))
                  << '\n';
  } else if (*num_unknown > 0) {
    context.err() << command_line::WithoutControls(Cat("warning: ", *num_unknown, " of ", ids.size(),
                                                       " judged documents are not in the collection ",
                                                       collection.name()))
                  << '\n';
  }
}

std::vector<std::string> ReferenceRanking(const ReferenceScorer& scorer, const Inputs& inputs, int64_t query,
                                          int depth) {
  std::vector<std::string> ranking;
  for (const ReferenceHit& hit : ReferenceTopK(scorer.Scores(inputs.queries, query, nullptr), depth)) {
    ranking.push_back(scorer.IdText(hit.position));
  }
  return ranking;
}

struct Measure {
  std::string name;
  double Quality::*value;
};

std::vector<Measure> Measures(const EvaluateOptions& options) {
  std::vector<Measure> measures = {{Cat("nDCG@", options.k), &Quality::ndcg},
                                   {Cat("MRR@", options.depth), &Quality::reciprocal_rank},
                                   {Cat("recall@", options.k), &Quality::recall}};
  if (options.depth != options.k) measures.push_back({Cat("recall@", options.depth), &Quality::recall_deep});
  return measures;
}

Json QualityJson(const Quality& quality, const EvaluateOptions& options) {
  Json json = Json::object();
  for (const Measure& measure : Measures(options)) json[measure.name] = quality.*measure.value;
  return json;
}

void Report(const Quality& server, const std::optional<Quality>& reference, const EvaluateOptions& options,
            const Context& context) {
  if (context.options.json) {
    Json json = {{"queries", server.num_queries}, {"server", QualityJson(server, options)}};
    if (reference.has_value()) json["reference"] = QualityJson(*reference, options);
    context.Print(json);
    return;
  }
  std::vector<command_line::Table::Column> columns = {{"measure"}, {"server", command_line::Align::kRight}};
  if (reference.has_value()) columns.push_back({"FP64", command_line::Align::kRight});
  command_line::Table table(columns);
  for (const Measure& measure : Measures(options)) {
    std::vector<std::string> row = {measure.name, command_line::Fixed(server.*measure.value, 4)};
    if (reference.has_value()) row.push_back(command_line::Fixed((*reference).*measure.value, 4));
    table.AddRow(std::move(row));
  }
  table.Print(context.out());
}

// The printed figures are what must be equal.
absl::Status CheckEqual(const Quality& server, const Quality& reference, const EvaluateOptions& options) {
  for (const Measure& measure : Measures(options)) {
    const std::string there = command_line::Fixed(server.*measure.value, 4),
                      here = command_line::Fixed(reference.*measure.value, 4);
    if (there != here) {
      return absl::DataLossError(Cat(measure.name, " is ", there, " through the server and ", here, " in FP64"));
    }
  }
  return absl::OkStatus();
}

absl::Status RunEvaluate(const EvaluateOptions& options, Context& context) {
  const absl::StatusOr<Inputs> inputs = ReadInputs(options);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  std::optional<ReferenceScorer> scorer;
  if (options.reference) {
    absl::StatusOr<ReferenceScorer> opened =
        ReferenceScorer::Open(options.path.empty() ? collection->path() : options.path, *collection);
    if (!opened.ok()) return opened.status();
    scorer = *std::move(opened);
    if (inputs->queries.dim() != scorer->manifest().dim) {
      return Invalid(options.queries, ": the dimension is ", inputs->queries.dim(), ", and the collection's ",
                     scorer->manifest().dim);
    }
  }
  Quality server, reference;
  for (int64_t query = 0; query < inputs->queries.size(); ++query) {
    const auto judged = inputs->judgements.find(inputs->texts[static_cast<size_t>(query)].id);
    if (judged == inputs->judgements.end() || !HasRelevant(judged->second)) continue;
    const absl::StatusOr<std::vector<std::string>> ranking =
        ServerRanking(*inputs, query, options.depth, collection->name(), context);
    if (!ranking.ok()) return Prefix(Cat("query ", query, ": "), ranking.status());
    server.Add(*ranking, judged->second, options.k, options.depth);
    if (!scorer.has_value()) continue;
    reference.Add(ReferenceRanking(*scorer, *inputs, query, options.depth), judged->second, options.k, options.depth);
  }
  if (server.num_queries == 0) {
    return Invalid("no query of ", options.query_texts, " has a relevant document in ", options.judgements);
  }
  if (scorer.has_value()) {
    if (absl::Status unchanged = scorer->Check(); !unchanged.ok()) return unchanged;
  }
  const Quality reference_mean = reference.Mean();
  Report(server.Mean(), scorer.has_value() ? std::optional(reference_mean) : std::nullopt, options, context);
  context.err() << Cat("means over ", server.num_queries, " of ", inputs->queries.size(),
                       " queries, those with a relevant document\n");
  RemarkUnknown(*inputs, *collection, context);
  return scorer.has_value() ? CheckEqual(server.Mean(), reference_mean, options) : absl::OkStatus();
}

}  // namespace

void AddEvaluate(CLI::App& app, Context& context) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure the server's ranking against relevance judgements");
  command->add_option("--collection", options->collection, "Collection; may be left out when the server holds only one")
      ->type_name("NAME");
  command->add_option("--queries", options->queries, "Query tokens, .npy, as for rerank")
      ->required()
      ->type_name("FILE");
  command->add_option("--query-lengths", options->query_lengths, "Tokens of each query, .npy of integers")
      ->type_name("FILE");
  command->add_option("--queries-jsonl", options->query_texts, "A line of JSON for each query, with its \"id\"")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--qrels", options->judgements,
          "Relevance judgements, one per line: query id, document id, grade; BEIR's and TREC's files as they are")
      ->required()
      ->type_name("FILE");
  command->add_option("--k", options->k, "Cut-off of nDCG and recall")
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
  command->add_option("--depth", options->depth, "Documents to ask for: the cut-off of MRR and of a second recall")
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
  command->add_flag("--reference", options->reference,
                    "Compute the same from FP64 scores of the collection's files; fail when four decimals differ");
  command
      ->add_option("--path", options->path,
                   "The collection's folder on this machine; by default where the server has it")
      ->type_name("DIR");
  command->footer(
      "Gain is linear in the grade; queries without a relevant document are left out.\n\n"
      "Example: maxsimctl evaluate --queries queries.npy --query-lengths lengths.npy --queries-jsonl queries.jsonl \\\n"
      "             --qrels qrels.tsv --reference");
  command->callback([options, &context] {
    if (options->k > options->depth) {
      throw CLI::ValidationError("--k", Cat(options->k, " is more than --depth, ", options->depth));
    }
    context.result = RunEvaluate(*options, context);
  });
}

}  // namespace maxsim::ctl
