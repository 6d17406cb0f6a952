#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "client/messages.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/input_files.h"
#include "tools/maxsimctl/context/rerank_response.h"
#include "tools/maxsimctl/evaluate/commands.h"
#include "tools/maxsimctl/evaluate/reference_scorer.h"
#include "tools/maxsimctl/evaluate/score_comparison.h"

namespace maxsim::ctl {
namespace {

struct VerifyOptions {
  std::string collection, path, queries, query_lengths;
  int64_t sample = 32;
  int64_t num_candidates = 0;  // 0: the whole collection
  uint64_t seed = 1;
  int32_t top_k = 100;
};

// Returns `wanted` distinct numbers below `count` in random order, or all numbers below `count` if there are fewer.
std::vector<uint64_t> Draw(uint64_t count, uint64_t wanted, std::mt19937_64& random) {
  if (wanted >= count) {
    std::vector<uint64_t> all(count);
    std::iota(all.begin(), all.end(), uint64_t{0});
    std::shuffle(all.begin(), all.end(), random);
    return all;
  }
  // Floyd's algorithm needs memory only for the numbers that it draws.
  std::set<uint64_t> drawn;
  for (uint64_t i = count - wanted; i < count; ++i) {
    const uint64_t candidate = std::uniform_int_distribution<uint64_t>(0, i)(random);
    if (!drawn.insert(candidate).second) drawn.insert(i);
  }
  std::vector<uint64_t> result(drawn.begin(), drawn.end());
  std::shuffle(result.begin(), result.end(), random);
  return result;
}

class Verification {
 public:
  Verification(const VerifyOptions& options, const QuerySet& queries, const ReferenceScorer& scorer,
               const v1::CollectionInfo& collection, client::Client& client)
      : options_(options), queries_(queries), scorer_(scorer), collection_(collection), client_(client) {}

  absl::StatusOr<ScoreComparison> RunVerify(Context& context) {
    std::mt19937_64 random(options_.seed);
    const auto num_queries = static_cast<uint64_t>(queries_.size());
    std::vector<uint64_t> sample =
        Draw(num_queries, options_.sample == 0 ? num_queries : static_cast<uint64_t>(options_.sample), random);
    std::sort(sample.begin(), sample.end());
    for (const uint64_t query : sample) {
      absl::Status status = Check(static_cast<int64_t>(query), random, context);
      if (!status.ok()) return Prefix(Cat("query ", query, ": "), status);
    }
    return comparison_;
  }

 private:
  absl::Status Check(int64_t query, std::mt19937_64& random, Context& context) {
    std::vector<uint64_t> ordinals;
    v1::RerankRequest request;
    request.set_collection(collection_.name());
    request.set_top_k(static_cast<uint32_t>(options_.top_k));
    // Asks the server to score every candidate exactly, as the reference does, and not only those that its codes
    // select.
    request.mutable_refinement()->set_documents(std::numeric_limits<uint32_t>::max());
    *request.add_queries() = client::MakeQuery(QueryTokens(queries_, query));
    const bool whole = options_.num_candidates == 0;
    if (whole) {
      *request.mutable_candidates() = client::WholeCollection();
    } else {
      ordinals = Draw(collection_.num_documents(), static_cast<uint64_t>(options_.num_candidates), random);
      std::vector<std::string> ids;
      ids.reserve(ordinals.size());
      for (const uint64_t ordinal : ordinals) ids.push_back(scorer_.IdText(ordinal));
      absl::StatusOr<v1::Candidates> candidates = MakeCandidates(ids, collection_.id_type());
      if (!candidates.ok()) return candidates.status();
      *request.mutable_candidates() = *std::move(candidates);
    }
    const absl::StatusOr<v1::RerankResponse> response = client_.Rerank(request);
    if (!response.ok()) return context.AddAdvice(response.status());
    absl::Status sound = CheckResponse(request, *response);
    if (!sound.ok()) return sound;
    if (response->generation() != collection_.generation()) {
      return absl::AbortedError(
          Cat("the collection was reloaded during the run: it is now of generation ", response->generation()));
    }
    const std::vector<ReferenceScore> scores = scorer_.Scores(queries_, query, whole ? nullptr : &ordinals);
    if (absl::Status unchanged = scorer_.Check(); !unchanged.ok()) return unchanged;
    return Compare(response->results(0), scores, ordinals);
  }

  // `ordinals` is empty for the whole collection.
  absl::Status Compare(const v1::QueryResult& result, const std::vector<ReferenceScore>& scores,
                       const std::vector<uint64_t>& ordinals) {
    if (result.unavailable_documents() > 0) {
      return absl::UnavailableError(
          Cat(result.unavailable_documents(), " candidates could not be scored: the server has lost a device"));
    }
    if (!MissingIds(result).empty()) {
      return absl::DataLossError(
          Cat("the server does not have document '", MissingIds(result)[0], "' of the files at --path"));
    }
    std::vector<ReturnedDocument> answer;
    for (int i = 0; i < NumHits(result); ++i) {
      const uint64_t named = result.positions(i);
      // The index of the answer's candidate in `scores`.
      const uint64_t position = ordinals.empty() ? scorer_.OrdinalAt(named).value_or(scores.size()) : named;
      if (position >= scores.size()) {
        return absl::DataLossError(
            Cat("result ", i, " has position ", named, ", which none of ", scores.size(), " candidates has"));
      }
      const std::string expected = scorer_.IdText(ordinals.empty() ? position : ordinals[position]);
      if (IdText(result, i) != expected) {
        return absl::DataLossError(Cat("result ", i, " at position ", named, " has id '", IdText(result, i),
                                       "'; the document there is '", expected, "'"));
      }
      answer.push_back({result.scores(i), position});
    }
    comparison_.Add(answer, scores, options_.top_k);
    return absl::OkStatus();
  }

  const VerifyOptions& options_;
  const QuerySet& queries_;
  const ReferenceScorer& scorer_;
  const v1::CollectionInfo& collection_;
  client::Client& client_;
  ScoreComparison comparison_;
};

absl::Status Verdict(const ScoreComparison& c) {
  if (!(c.error_by_magnitude <= kErrorLimit)) {
    return absl::DataLossError(Cat("the largest error, ", command_line::Scientific(c.error_by_magnitude),
                                   " of the magnitude, exceeds ", command_line::Scientific(kErrorLimit)));
  }
  if (c.num_shared < c.num_expected) {
    const int64_t lost = c.num_expected - c.num_shared;
    return absl::DataLossError(Cat(lost, " of ", c.num_expected,
                                   " documents of the reference's top k were not returned (",
                                   std::min(c.num_near_ties, lost), " of them within rounding of the last rank)"));
  }
  if (c.num_results != c.num_expected) {
    return absl::DataLossError(Cat(c.num_results, " documents came back, but ", c.num_expected, " were expected"));
  }
  if (c.num_disordered > 0) {
    return absl::DataLossError(Cat(c.num_disordered, " documents came back after documents with a lower score"));
  }
  return absl::OkStatus();
}

// `name` is the collection's on the server.
void Report(const std::string& name, const ScoreComparison& c, const VerifyOptions& options, const QuerySet& queries,
            const ReferenceScorer& scorer, const Context& context) {
  const collection::Manifest& manifest = scorer.manifest();
  const int64_t num_candidates = std::min(options.num_candidates, manifest.num_documents);
  if (context.options.json) {
    context.Print({{"collection", name},
                   {"generation", manifest.generation},
                   {"queries", c.num_queries},
                   {"candidates", num_candidates},
                   {"top_k", options.top_k},
                   {"results", c.num_results},
                   {"error_by_magnitude", c.error_by_magnitude},
                   {"error_by_score", c.error_by_score},
                   {"error_limit", kErrorLimit},
                   {"overlap", c.overlap()},
                   {"in_place", c.num_in_place},
                   {"out_of_place", c.num_results - c.num_in_place},
                   {"disordered", c.num_disordered},
                   {"near_ties", c.num_near_ties},
                   {"passed", Verdict(c).ok()}});
    return;
  }
  const std::string candidates =
      num_candidates == 0 ? "the whole collection" : FormatCount(num_candidates) + " random documents each";
  const std::string in_files =
      manifest.name == name ? "" : Cat(" (", command_line::WithoutControls(manifest.name), " in its files)");
  context.out() << "collection    " << command_line::WithoutControls(name) << in_files << ", generation "
                << manifest.generation << ": " << FormatCount(manifest.num_documents) << " documents, "
                << FormatCount(manifest.num_tokens) << " tokens of dimension " << manifest.dim << " in "
                << std::string(Name(manifest.storage)) << '\n'
                << "checked       " << FormatCount(c.num_queries) << " of " << FormatCount(queries.size())
                << " queries over " << candidates << ": " << FormatCount(c.num_results) << " scores against FP64\n"
                << "error         at most " << command_line::Scientific(c.error_by_magnitude)
                << " of the magnitude (limit " << command_line::Scientific(kErrorLimit) << "), "
                << command_line::Scientific(c.error_by_score) << " of the score\n"
                << Cat("top-", options.top_k, " overlap  ") << command_line::Fixed(100 * c.overlap(), 3) << " % ("
                << FormatCount(c.num_shared) << " of " << FormatCount(c.num_expected) << ")\n"
                << "order         " << FormatCount(c.num_results - c.num_in_place)
                << " documents at another rank than the reference's"
                << (c.num_results == c.num_in_place || !Verdict(c).ok() ? "" : ", by scores within the limit of error")
                << '\n';
}

absl::Status RunVerify(const VerifyOptions& options, Context& context) {
  const absl::StatusOr<QuerySet> queries = QuerySet::Read(options.queries, options.query_lengths);
  if (!queries.ok()) return queries.status();
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  const std::string path = options.path.empty() ? collection->path() : options.path;
  const absl::StatusOr<ReferenceScorer> scorer = ReferenceScorer::Open(path, *collection);
  if (!scorer.ok()) return scorer.status();
  if (queries->dim() != scorer->manifest().dim) {
    return Invalid(options.queries, ": the dimension is ", queries->dim(), ", but the collection's is ",
                   scorer->manifest().dim);
  }
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<ScoreComparison> comparison =
      Verification(options, *queries, *scorer, *collection, **client).RunVerify(context);
  if (!comparison.ok()) return comparison.status();
  Report(collection->name(), *comparison, options, *queries, *scorer, context);
  return Verdict(*comparison);
}

}  // namespace

void AddVerify(CLI::App& app, Context& context) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare a sample of the server's answers with FP64 scores of the collection's files");
  command->add_option("--collection", options->collection, "Collection; may be left out when the server holds only one")
      ->type_name("NAME");
  command->add_option("--queries", options->queries, "Query tokens, .npy, as for rerank")
      ->required()
      ->type_name("FILE");
  command->add_option("--query-lengths", options->query_lengths, "Tokens of each query, .npy of integers")
      ->type_name("FILE");
  command
      ->add_option("--path", options->path,
                   "The collection's folder on this machine; by default where the server has it")
      ->type_name("DIR");
  command->add_option("--sample", options->sample, "Queries to check, drawn at random; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--candidates", options->num_candidates,
                   "Random documents to rerank for each query; 0: the whole collection")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--top-k", options->top_k, "Documents to ask for")
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
  command->add_option("--seed", options->seed, "Seed of the random choices")->capture_default_str()->type_name("N");
  command->footer(
      "Queries are rounded to the collection's storage type first, as the server rounds them; those for i8 are rotated "
      "and\n"
      "quantised as the server's are, and their documents taken as they are stored. Fails (exit code 1) when a score "
      "is\n"
      "off by more than 1e-5 of its magnitude, sum_i |w_i| max_j sum_k |q_ik d_jk|, when the server's top k are not "
      "the\n"
      "reference's, or when they are not in the order of their scores. Documents whose scores are as close as that may "
      "stand\n"
      "at other ranks than the reference's; the line \"order\" counts them.\n\n"
      "Example: maxsimctl verify --queries queries.npy --query-lengths lengths.npy --sample 0 --top-k 100");
  command->callback([options, &context] { context.result = RunVerify(*options, context); });
}

}  // namespace maxsim::ctl
