#include "tools/maxsimctl/evaluate/evaluation_inputs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/units.h"
#include "client/messages.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/rerank_response.h"

namespace maxsim::ctl {
namespace {

// Checks that the query texts fit the other files about the queries.
absl::Status CheckTexts(const EvaluationInputs& inputs, const EvaluationFiles& files) {
  if (inputs.queries.has_value() && inputs.num_queries() != static_cast<size_t>(inputs.queries->size())) {
    return Invalid(files.query_texts, " holds ", inputs.num_queries(), " queries, but ", files.queries, " holds ",
                   inputs.queries->size());
  }
  std::set<std::string> ids;
  for (const QueryText& text : inputs.texts) {
    if (!inputs.queries.has_value() && text.text.empty()) {
      return Invalid(files.query_texts, ": query ", Quote(text.id), " has no \"text\" to send");
    }
    if (!ids.insert(text.id).second) {
      return Invalid(files.query_texts, ": two queries have the id ", Quote(text.id));
    }
  }
  return absl::OkStatus();
}

// Returns the documents that the judgements of these queries name, each once.
std::vector<std::string> JudgedDocuments(const EvaluationInputs& inputs) {
  std::set<std::string> ids;
  for (const QueryText& text : inputs.texts) {
    const auto judged = inputs.judgements.find(text.id);
    if (judged == inputs.judgements.end()) continue;
    for (const auto& [id, grade] : judged->second) ids.insert(id);
  }
  return {ids.begin(), ids.end()};
}

// Returns how many of `ids` the collection lacks. An id that is not of the collection's id type counts as lacking.
absl::StatusOr<int64_t> CountUnknown(const std::vector<std::string>& ids, const EvaluationInputs& inputs,
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
    *request.add_queries() = inputs.MakeQuery(0);
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

}  // namespace

v1::Query EvaluationInputs::MakeQuery(size_t query) const {
  if (queries.has_value()) return client::MakeQuery(QueryTokens(*queries, static_cast<int64_t>(query)));
  return client::MakeTextQuery(texts[query].text);
}

const evaluation::Grades* EvaluationInputs::RelevantGrades(size_t query) const {
  const auto judged = judgements.find(texts[query].id);
  return judged != judgements.end() && evaluation::HasRelevant(judged->second) ? &judged->second : nullptr;
}

const std::vector<RunDocument>* EvaluationInputs::CandidatesOf(size_t query) const {
  const auto found = candidates->find(texts[query].id);
  return found != candidates->end() ? &found->second : nullptr;
}

absl::StatusOr<EvaluationInputs> ReadEvaluationInputs(const EvaluationFiles& files) {
  EvaluationInputs inputs;
  if (!files.queries.empty()) {
    absl::StatusOr<QuerySet> queries = QuerySet::Read(files.queries, files.query_lengths);
    if (!queries.ok()) return queries.status();
    inputs.queries = *std::move(queries);
  }
  absl::StatusOr<std::vector<QueryText>> texts = ReadQueryTexts(files.query_texts);
  if (!texts.ok()) return texts.status();
  inputs.texts = *std::move(texts);
  const absl::StatusOr<std::string> text = ReadText(files.judgements);
  if (!text.ok()) return text.status();
  absl::StatusOr<Judgements> judgements = ParseJudgements(*text, files.judgements);
  if (!judgements.ok()) return judgements.status();
  inputs.judgements = *std::move(judgements);
  if (!files.candidates.empty()) {
    absl::StatusOr<Run> candidates = ReadRun(files.candidates);
    if (!candidates.ok()) return candidates.status();
    inputs.candidates = *std::move(candidates);
  }
  if (absl::Status fits = CheckTexts(inputs, files); !fits.ok()) return fits;
  return inputs;
}

absl::StatusOr<Run> ReadRun(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  return evaluation::ParseRun(*text, path);
}

std::string SomeIds(const std::vector<std::string>& ids) {
  constexpr size_t kShown = 10;
  const std::vector<std::string> shown(ids.begin(),
                                       ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), kShown)));
  return command_line::WithoutControls(Cat(absl::StrJoin(shown, ", "), ids.size() > kShown ? ", ..." : ""));
}

void RemarkUnmatchedQueries(const EvaluationInputs& inputs, const EvaluationFiles& files, const Context& context) {
  std::set<std::string> known;
  std::vector<std::string> unknown, without;
  size_t num_relevant = 0;
  for (size_t query = 0; query < inputs.num_queries(); ++query) {
    known.insert(inputs.texts[query].id);
    if (inputs.RelevantGrades(query) == nullptr) continue;
    ++num_relevant;
    if (inputs.CandidatesOf(query) == nullptr) without.push_back(inputs.texts[query].id);
  }
  for (const auto& [id, ranking] : *inputs.candidates) {
    if (known.count(id) == 0) unknown.push_back(id);
  }
  if (!unknown.empty()) {
    context.err() << Cat("warning: ", unknown.size(), " of ", inputs.candidates->size(), " queries of ",
                         command_line::WithoutControls(files.candidates), " are not in ",
                         command_line::WithoutControls(files.query_texts), ": ", SomeIds(unknown), "\n");
  }
  if (!without.empty()) {
    context.err() << Cat(
        "warning: ", without.size(), " of ", num_relevant, " queries with a relevant document have no candidates in ",
        command_line::WithoutControls(files.candidates), " and are left out: ", SomeIds(without), "\n");
  }
}

void RemarkUnknownJudgements(const EvaluationInputs& inputs, const v1::CollectionInfo& collection, Context& context) {
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

}  // namespace maxsim::ctl
