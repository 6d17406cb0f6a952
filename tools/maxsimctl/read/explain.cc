#include <cstdint>

#include "base/text.h"
#include "client/messages.h"
#include "tools/maxsimctl/context/input_files.h"
#include "tools/maxsimctl/context/rerank_response.h"
#include "tools/maxsimctl/read/commands.h"
#include "tools/maxsimctl/read/explain_view.h"
#include "tools/maxsimctl/read/query_options.h"

namespace maxsim::ctl {
namespace {

struct ExplainOptions {
  std::string collection, query, text, query_lengths, query_texts, id, weights, order = "query";
  int64_t query_index = 0;
};

struct ExplainInputs {
  v1::RerankRequest request;
  QueryText text;  // empty if there is none
};

// Reads the query of --query, its words and its weights, into `inputs`.
absl::Status ReadVectors(const ExplainOptions& options, ExplainInputs& inputs) {
  const absl::StatusOr<QuerySet> queries = QuerySet::Read(options.query, options.query_lengths);
  if (!queries.ok()) return queries.status();
  absl::Status index_ok = queries->CheckIndex(options.query_index);
  if (!index_ok.ok()) return index_ok;
  const auto index = static_cast<size_t>(options.query_index);
  const int32_t num_tokens = queries->num_tokens(options.query_index);
  if (!options.query_texts.empty()) {
    absl::StatusOr<std::vector<QueryText>> texts = ReadQueryTexts(options.query_texts);
    if (!texts.ok()) return texts.status();
    if (texts->size() != static_cast<size_t>(queries->size())) {
      return Invalid(options.query_texts, " holds ", texts->size(), " queries, but ", options.query, " holds ",
                     queries->size());
    }
    inputs.text = std::move((*texts)[index]);
  }
  std::vector<float> weights;
  if (!options.weights.empty()) {
    absl::StatusOr<std::vector<float>> read = ReadWeights(options.weights, num_tokens);
    if (!read.ok()) return read.status();
    weights = *std::move(read);
  }
  *inputs.request.add_queries() = client::MakeQuery(QueryTokens(*queries, options.query_index), weights);
  return absl::OkStatus();
}

absl::StatusOr<ExplainInputs> ReadExplainInputs(const ExplainOptions& options, Context& context) {
  ExplainInputs inputs;
  if (options.text.empty()) {
    absl::Status read = ReadVectors(options, inputs);
    if (!read.ok()) return read;
  } else {
    *inputs.request.add_queries() = client::MakeTextQuery(options.text);
    inputs.text.text = options.text;
  }
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  v1::RerankRequest& request = inputs.request;
  request.set_collection(collection->name());
  if (options.id.empty()) {
    *request.mutable_candidates() = client::WholeCollection();
  } else {
    absl::StatusOr<v1::Candidates> candidates = MakeCandidates({options.id}, collection->id_type());
    if (!candidates.ok()) return candidates.status();
    *request.mutable_candidates() = *std::move(candidates);
    request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  }
  request.set_top_k(1);
  request.set_return_payloads(true);
  request.set_return_alignments(true);
  return inputs;
}

Explanation MakeExplanation(const ExplainInputs& inputs, const v1::QueryResult& result, Context& context) {
  const v1::Alignment& alignment = result.alignments(0);
  const std::string payload = result.payloads_size() > 0 ? result.payloads(0) : "";
  Explanation e;
  e.query_label = inputs.text.id;
  if (!inputs.text.text.empty()) e.query_label += (e.query_label.empty() ? "" : "  ") + inputs.text.text;
  std::string title = PayloadText(payload, "title");
  if (title.empty()) title = PayloadText(payload, "text");
  e.document_label = IdText(result, 0) + (title.empty() ? "" : "  " + title);
  e.score = result.scores(0);
  e.matches.assign(alignment.document_tokens().begin(), alignment.document_tokens().end());
  e.similarities.assign(alignment.similarities().begin(), alignment.similarities().end());
  const v1::Query& query = inputs.request.queries(0);
  e.weights.assign(query.weights().begin(), query.weights().end());
  e.query_tokens = inputs.text.tokens;
  if (result.query_tokens_size() > 0) e.query_tokens.assign(result.query_tokens().begin(), result.query_tokens().end());
  if (!e.query_tokens.empty() && e.query_tokens.size() != e.matches.size()) {
    context.err() << Cat("the query text has ", e.query_tokens.size(), " word pieces for ", e.matches.size(),
                         " vectors; showing positions\n");
    e.query_tokens.clear();
  }
  e.document_tokens = PayloadTokens(payload);
  for (const uint32_t match : e.matches) {
    if (e.document_tokens.empty() || match < e.document_tokens.size()) continue;
    context.err() << Cat("the payload has ", e.document_tokens.size(), " word pieces, and document token ", match,
                         " was matched; showing positions\n");
    e.document_tokens.clear();
  }
  return e;
}

absl::Status RunExplain(const ExplainOptions& options, Context& context) {
  const absl::StatusOr<ExplainInputs> inputs = ReadExplainInputs(options, context);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::RerankResponse> response = (*client)->Rerank(inputs->request);
  if (!response.ok()) return context.AddAdvice(response.status());
  absl::Status sound = CheckResponse(inputs->request, *response);
  if (!sound.ok()) return sound;
  if (NumHits(response->results(0)) != 1) return absl::NotFoundError("the server returned no document");
  if (context.options.json) {
    context.Print(ToJson(inputs->request, *response));
    return absl::OkStatus();
  }
  for (const std::string& remark : TruncationRemarks(response->results(0))) context.err() << remark << '\n';
  const Explanation explanation = MakeExplanation(*inputs, response->results(0), context);
  context.out() << RenderExplanation(
      explanation,
      {.color = context.use_color(), .by_contribution = options.order == "contribution", .columns = context.columns()});
  return absl::OkStatus();
}

}  // namespace

void AddExplain(CLI::App& app, Context& context) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Show which document token each query token matched");
  command->add_option("--collection", options->collection, "Collection; may be left out when the server holds only one")
      ->type_name("NAME");
  CLI::Option* tokens = AddQueryOrText(*command, options->query, options->text);
  AddQueryChoice(*command, options->query_lengths, options->query_index);
  command
      ->add_option("--queries-jsonl", options->query_texts,
                   "A line of JSON for each query of --query: \"id\", \"text\", and \"tokens\", its word pieces")
      ->type_name("FILE");
  command->add_option("--id", options->id, "Document; the collection's best for this query when left out")
      ->type_name("ID");
  command->add_option("--weights", options->weights, "A weight for each query token, .npy")->type_name("FILE");
  for (const char* name : {"--query-lengths", "--query-index", "--queries-jsonl", "--weights"}) {
    command->get_option(name)->needs(tokens);
  }
  command->add_option("--order", options->order, "Order of the query tokens: query or contribution")
      ->check(CLI::IsMember({"query", "contribution"}))
      ->capture_default_str()
      ->type_name("ORDER");
  command->footer(
      "The document's word pieces are its payload's \"tokens\", where it has them; otherwise positions are shown.\n"
      "Colours show on a terminal, or with --color always.\n\n"
      "Examples: maxsimctl explain --query queries.npy --query-lengths lengths.npy --query-index 4 \\\n"
      "              --queries-jsonl queries.jsonl --id 184\n"
      "          maxsimctl explain --text \"how do birds fly\"");
  command->callback([options, &context] { context.result = RunExplain(*options, context); });
}

}  // namespace maxsim::ctl
