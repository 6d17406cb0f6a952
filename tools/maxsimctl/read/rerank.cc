#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/units.h"
#include "client/messages.h"
#include "kernels/limits.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/input_files.h"
#include "tools/maxsimctl/context/rerank_response.h"
#include "tools/maxsimctl/read/commands.h"
#include "tools/maxsimctl/read/query_options.h"

namespace maxsim::ctl {
namespace {

struct RerankOptions {
  std::string collection, query, text, query_lengths, ids, ids_file, filter, group_by, weights;
  int64_t query_index = 0;
  bool all = false, payload = false, alignments = false, fail_missing = false;
  uint32_t top_k = 10, offset = 0, group_size = 0;
  std::optional<float> min_score;
  uint32_t refine = 0, budget = 0;
  bool prove = false;
};

absl::StatusOr<v1::Candidates> ReadCandidates(const RerankOptions& options, v1::IdType type) {
  if (options.all) return client::WholeCollection();
  if (options.ids_file.empty()) return MakeCandidates(ParseIdList(options.ids), type);
  const absl::StatusOr<std::string> text = ReadText(options.ids_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<v1::Candidates> candidates = MakeCandidates(ParseIdLines(*text), type);
  return candidates.ok() ? candidates : Prefix(options.ids_file + ": ", candidates.status());
}

absl::StatusOr<v1::Query> MakeQuery(const RerankOptions& options) {
  if (!options.text.empty()) return client::MakeTextQuery(options.text);
  const absl::StatusOr<QuerySet> queries = QuerySet::Read(options.query, options.query_lengths);
  if (!queries.ok()) return queries.status();
  absl::Status index_ok = queries->CheckIndex(options.query_index);
  if (!index_ok.ok()) return index_ok;
  std::vector<float> weights;
  if (!options.weights.empty()) {
    absl::StatusOr<std::vector<float>> read = ReadWeights(options.weights, queries->num_tokens(options.query_index));
    if (!read.ok()) return read.status();
    weights = *std::move(read);
  }
  return client::MakeQuery(QueryTokens(*queries, options.query_index), weights);
}

absl::StatusOr<v1::RerankRequest> MakeRequest(const RerankOptions& options, Context& context) {
  absl::StatusOr<v1::Query> query = MakeQuery(options);
  if (!query.ok()) return query.status();
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  absl::StatusOr<v1::Candidates> candidates = ReadCandidates(options, collection->id_type());
  if (!candidates.ok()) return candidates.status();

  v1::RerankRequest request;
  request.set_collection(collection->name());
  *request.add_queries() = *std::move(query);
  *request.mutable_candidates() = *std::move(candidates);
  if (!options.filter.empty()) request.set_filter_text(options.filter);
  request.set_top_k(options.top_k);
  request.set_offset(options.offset);
  request.set_group_by(options.group_by);
  request.set_group_size(options.group_size);
  if (options.min_score.has_value()) request.set_min_score(*options.min_score);
  request.set_return_payloads(options.payload);
  request.set_return_alignments(options.alignments);
  request.set_missing_policy(options.fail_missing ? v1::MISSING_POLICY_FAIL : v1::MISSING_POLICY_REPORT);
  if (options.refine > 0) request.mutable_refinement()->set_documents(options.refine);
  if (options.budget > 0) request.mutable_refinement()->set_budget(options.budget);
  if (options.prove) request.mutable_refinement()->set_require_proof(true);
  return request;
}

// Returns pairs of query token and document token, such as "0:12 1:12 2:40".
std::string AlignmentText(const v1::Alignment& alignment) {
  std::string text;
  for (int i = 0; i < alignment.document_tokens_size(); ++i) {
    if (i > 0) text += ' ';
    text += std::to_string(i) + ':' + std::to_string(alignment.document_tokens(i));
  }
  return text;
}

void PrintTable(const v1::QueryResult& result, const RerankOptions& options, const Context& context) {
  std::vector<command_line::Table::Column> columns = {{"rank", command_line::Align::kRight},
                                                      {"id"},
                                                      {"score", command_line::Align::kRight},
                                                      {"position", command_line::Align::kRight}};
  if (!options.group_by.empty()) columns.push_back({"group"});
  if (options.alignments) columns.push_back({"matches (query token:document token)"});
  if (options.payload) columns.push_back({"title"});
  command_line::Table table(columns);
  const std::vector<int64_t> ranks = RanksOf(options.offset, result);
  for (int i = 0; i < NumHits(result); ++i) {
    std::vector<std::string> row = {std::to_string(ranks[static_cast<size_t>(i)]),
                                    command_line::WithoutControls(IdText(result, i)),
                                    command_line::Fixed(result.scores(i), 6), std::to_string(result.positions(i))};
    if (!options.group_by.empty()) row.push_back(command_line::WithoutControls(result.group_values(i)));
    if (options.alignments) row.push_back(AlignmentText(result.alignments(i)));
    if (options.payload) {
      const std::string payload = result.payloads_size() > 0 ? result.payloads(i) : "";
      std::string title = PayloadText(payload, "title");
      if (title.empty()) title = PayloadText(payload, "text");
      row.push_back(command_line::WithoutControls(title));
    }
    table.AddRow(std::move(row));
  }
  table.Print(context.out(), context.out_is_terminal() ? context.columns() : 0);
}

void PrintRemarks(const v1::RerankResponse& response, const std::string& collection, const Context& context) {
  std::vector<std::string> missing = MissingIds(response.results(0));
  if (!missing.empty()) {
    const size_t count = missing.size();
    constexpr size_t kShown = 10;
    missing.resize(std::min(count, kShown));
    context.err() << command_line::WithoutControls(Cat(count, count == 1 ? " id is" : " ids are",
                                                       " not in the collection: ", absl::StrJoin(missing, ", "),
                                                       count > kShown ? ", ..." : ""))
                  << '\n';
  }
  if (const uint64_t count = response.results(0).unavailable_documents(); count > 0) {
    context.err() << Cat(FormatCount(static_cast<int64_t>(count)), count == 1 ? " candidate" : " candidates",
                         " could not be scored: ", WhyUnavailable(response), "\n");
  }
  for (const std::string& remark : TruncationRemarks(response.results(0))) context.err() << remark << '\n';
  if (response.results(0).has_refinement()) context.err() << RefinementText(response.results(0).refinement()) << '\n';
  const v1::Timings& timings = response.timings();
  const std::string encoding =
      timings.encode_us() > 0 ? Cat("encoding ", command_line::Fixed(timings.encode_us() / 1e3, 2), ", ") : "";
  context.err() << command_line::WithoutControls(Cat("collection ", collection, ", generation ", response.generation(),
                                                     "; ", command_line::Fixed(timings.total_us() / 1e3, 2),
                                                     " ms on the server (", encoding, "queue ",
                                                     command_line::Fixed(timings.queue_us() / 1e3, 2), ", scoring ",
                                                     command_line::Fixed(timings.kernel_us() / 1e3, 2), ")"))
                << '\n';
}

absl::Status RunRerank(const RerankOptions& options, Context& context) {
  const absl::StatusOr<v1::RerankRequest> request = MakeRequest(options, context);
  if (!request.ok()) return request.status();
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(*request);
  if (!response.ok()) return context.AddAdvice(response.status());
  absl::Status sound = CheckResponse(*request, *response);
  if (!sound.ok()) return sound;
  if (context.options.json) {
    context.Print(ToJson(*request, *response));
    return absl::OkStatus();
  }
  PrintTable(response->results(0), options, context);
  PrintRemarks(*response, request->collection(), context);
  return absl::OkStatus();
}

}  // namespace

void AddRerank(CLI::App& app, Context& context) {
  auto options = std::make_shared<RerankOptions>();
  CLI::App* command = app.add_subcommand("rerank", "Score documents against a query and print the best");
  command->add_option("--collection", options->collection, "Collection; may be left out when the server holds only one")
      ->type_name("NAME");
  CLI::Option* tokens = AddQueryOrText(*command, options->query, options->text);
  AddQueryChoice(*command, options->query_lengths, options->query_index);
  for (const char* name : {"--query-lengths", "--query-index"}) command->get_option(name)->needs(tokens);
  CLI::Option_group* candidates = command->add_option_group("Candidates", "Exactly one of");
  candidates->add_option("--ids", options->ids, "Document ids between commas")->type_name("A,B,C");
  candidates->add_option("--ids-file", options->ids_file, "Document ids, one per line; - reads standard input")
      ->type_name("FILE");
  candidates->add_flag("--all", options->all, "Every document of the collection");
  candidates->require_option(1);
  command
      ->add_option("--filter", options->filter,
                   "Score only the candidates that match, such as: lang = \"en\" and year >= 2020")
      ->type_name("TEXT");
  CLI::Option* group_by = command
                              ->add_option("--group-by", options->group_by,
                                           "Print the best documents of each value of this keyword field; --top-k and "
                                           "--offset count groups")
                              ->type_name("FIELD");
  command->add_option("--group-size", options->group_size, "With --group-by, documents of each group; 1 if left out")
      ->needs(group_by)
      ->check(CLI::Range(1, kMaxTopK))
      ->type_name("N");
  command->add_option("--top-k", options->top_k, "Documents to print")
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
  command->add_option("--offset", options->offset, "Ranks to leave out before the first document")
      ->check(CLI::Range(0, kMaxTopK))
      ->type_name("N");
  command->add_option("--min-score", options->min_score, "Leave out documents with lower scores")->type_name("SCORE");
  command->add_option("--refine", options->refine, "Documents that a scan of codes chooses to be scored")
      ->type_name("N");
  CLI::Option* prove =
      command->add_flag("--prove", options->prove, "Score more of them until no other document can be among the best");
  command->add_option("--budget", options->budget, "With --prove, documents to score at most")
      ->needs(prove)
      ->type_name("N");
  command->add_option("--weights", options->weights, "A weight for each query token, .npy")
      ->needs(tokens)
      ->type_name("FILE");
  command->add_flag("--payload", options->payload, "Print each document's title (with --json: its payload)");
  command->add_flag("--alignments", options->alignments, "Print the document token that each query token matched");
  command->add_flag("--fail-missing", options->fail_missing, "Fail when an id is not in the collection");
  command->footer(
      "--query holds one query [tokens, dim]; with --query-lengths many, packed [all tokens, dim]; or many of one "
      "length\n"
      "[queries, tokens, dim]. Elements are float16, float32 or float64.\n\n"
      "Examples: maxsimctl rerank --query q.npy --ids-file candidates.txt --top-k 5 --payload\n"
      "          maxsimctl rerank --text \"how do birds fly\" --all --payload\n"
      "          maxsimctl rerank --text \"how do birds fly\" --all --filter 'lang = \"en\"'");
  command->callback([options, &context] { context.result = RunRerank(*options, context); });
}

}  // namespace maxsim::ctl
