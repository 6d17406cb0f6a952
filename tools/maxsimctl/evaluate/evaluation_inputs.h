// The inputs of maxsimctl evaluate: queries, relevance judgements, and the candidates of a first stage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/evaluation/ranking.h"
#include "collection/evaluation/run_file.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/context/input_files.h"

namespace maxsim::ctl {

using evaluation::Run;
using evaluation::RunDocument;

struct EvaluationFiles {
  std::string queries, query_lengths;  // empty: queries are sent as texts
  std::string query_texts, judgements;
  std::string candidates;  // "": there is no first stage
};

struct EvaluationInputs {
  std::optional<QuerySet> queries;  // nullopt: the texts are sent
  std::vector<QueryText> texts;     // one per query, ids distinct
  Judgements judgements;
  std::optional<Run> candidates;

  size_t num_queries() const { return texts.size(); }
  // Returns a query as it is sent.
  v1::Query MakeQuery(size_t query) const;
  // Returns the grades of a query that has a relevant document, or null.
  const evaluation::Grades* RelevantGrades(size_t query) const;
  // Returns the first stage's ranking of a query, or null if the first stage does not have the query. `candidates` must
  // be set.
  const std::vector<RunDocument>* CandidatesOf(size_t query) const;
};

// Reads the files. Returns INVALID_ARGUMENT if they do not fit together: different numbers of queries, a query without
// the text that must be sent, or two queries with one id.
absl::StatusOr<EvaluationInputs> ReadEvaluationInputs(const EvaluationFiles& files);

// Reads a run from a file; "-" reads standard input.
absl::StatusOr<Run> ReadRun(const std::string& path);

// Returns up to ten ids, printable and separated by commas, and ", ..." if there are more.
std::string SomeIds(const std::vector<std::string>& ids);

// Writes a line about queries of the first stage that the query file does not have, and one about queries with a
// relevant document that have no candidates.
void RemarkUnmatchedQueries(const EvaluationInputs& inputs, const EvaluationFiles& files, const Context& context);

// Writes a line if judged documents are not in the collection. Without it, only bad figures would hint at the mistake.
void RemarkUnknownJudgements(const EvaluationInputs& inputs, const v1::CollectionInfo& collection, Context& context);

}  // namespace maxsim::ctl
