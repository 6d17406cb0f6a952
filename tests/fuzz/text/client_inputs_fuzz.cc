// Fuzzes texts that maxsimctl reads. The first byte chooses the parser: ids (i), judgements (j), query texts (q), a run
// (r), a payload (p) or a line of documents (u).
#include <cmath>
#include <string>
#include <vector>

#include "collection/document_line.h"
#include "collection/evaluation/run_file.h"
#include "tests/fuzz/target.h"
#include "tools/maxsimctl/context/input_files.h"
#include "tools/maxsimctl/write/upsert_line.h"

namespace maxsim::fuzz {
namespace {

void FuzzIds(std::string_view text) {
  for (const auto& parse : {ctl::ParseIdLines, ctl::ParseIdList}) {
    const std::vector<std::string> ids = parse(text);
    size_t bytes = 0;
    for (const std::string& id : ids) {
      Require(!id.empty(), "no id is empty");
      bytes += id.size();
    }
    Require(bytes <= text.size(), "ids come from the text");
    const auto strings = ctl::MakeCandidates(ids, v1::ID_TYPE_STRING);
    Require(strings.ok() == !ids.empty(), "ids are candidates unless there is none");
    if (strings.ok()) Require(strings->string_ids().ids_size() == static_cast<int>(ids.size()), "a candidate an id");
    const auto ints = ctl::MakeCandidates(ids, v1::ID_TYPE_INT64);
    if (ints.ok()) Require(ints->int_ids().ids_size() == static_cast<int>(ids.size()), "a candidate an integer");
  }
}

void FuzzJudgements(std::string_view text) {
  const auto judgements = ctl::ParseJudgements(text, "qrels.tsv");
  if (!judgements.ok()) return RequireRefusal(judgements.status());
  for (const auto& [query, documents] : *judgements) {
    Require(!query.empty() && !documents.empty(), "a query is judged for a document");
    for (const auto& [document, grade] : documents) {
      Require(!document.empty() && std::isfinite(grade), "a judgement is a document and a number");
    }
  }
}

void FuzzQueryTexts(std::string_view text) {
  const auto queries = ctl::ParseQueryTexts(text, "queries.jsonl");
  if (!queries.ok()) RequireRefusal(queries.status());
}

void FuzzRun(std::string_view text) {
  const auto run = evaluation::ParseRun(text, "first.run");
  if (!run.ok()) return RequireRefusal(run.status());
  for (const auto& [query, ranking] : *run) {
    Require(!ranking.empty(), "a query of a run has a document");
    for (size_t i = 0; i < ranking.size(); ++i) {
      Require(std::isfinite(ranking[i].score), "a score is finite");
      Require(i == 0 || ranking[i].score <= ranking[i - 1].score, "documents stand in the order of their scores");
    }
    const auto lines = evaluation::FormatRanking(query, ranking, "tag");
    if (!lines.ok()) {
      RequireRefusal(lines.status());
      continue;
    }
    // Writing a run lowers scores to break ties. A score below the lowest float becomes infinite, which the parser
    // refuses.
    const auto again = evaluation::ParseRun(*lines, "again.run");
    if (!again.ok()) {
      RequireRefusal(again.status());
      continue;
    }
    Require(evaluation::RankedIds(again->at(query)) == evaluation::RankedIds(ranking),
            "a run is read as it is written");
  }
}

void FuzzUpsertLine(std::string_view text) {
  for (const v1::IdType type : {v1::ID_TYPE_STRING, v1::ID_TYPE_INT64}) {
    const auto document = ctl::ParseUpsertLine(text, type);
    if (!document.ok()) {
      RequireRefusal(document.status());
      continue;
    }
    Require(document->has_int_id() == (type == v1::ID_TYPE_INT64), "an id is of the collection's type");
    Require(document->text().empty() || !document->has_tokens(), "a document has tokens or a text");
    const v1::TokenMatrix& tokens = document->tokens();
    Require(tokens.data().size() == size_t{4} * tokens.num_tokens() * tokens.dim(), "tokens are as many as they say");
    Require(document->payload().empty() || collection::CheckPayload(document->payload()).ok(),
            "a payload is an object");
  }
}

void FuzzClientInputs(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  switch (input[0]) {
    case 'i':
      return FuzzIds(text);
    case 'j':
      return FuzzJudgements(text);
    case 'q':
      return FuzzQueryTexts(text);
    case 'r':
      return FuzzRun(text);
    case 'u':
      return FuzzUpsertLine(text);
    case 'p':
      Require(ctl::PayloadTokens(std::string(text)).size() <= text.size(), "tokens come from the payload");
      return;
    default:
      return;
  }
}

const Registration kClientInputsTarget("client_inputs", &FuzzClientInputs);

}  // namespace
}  // namespace maxsim::fuzz
