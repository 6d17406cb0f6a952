// Computes the expected answer to an accepted request directly from the message: the candidates and their FP64 scores.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/reference.h"
#include "maxsim/v1/rerank.pb.h"
#include "tests/fuzz/messages/request_server.h"

namespace maxsim::fuzz {

struct ExpectedQuery {
  test::RandomDocuments inline_documents;  // the request's own documents; empty if the request names stored ones
  const test::RandomDocuments* documents = nullptr;
  std::vector<uint32_t> ordinals;   // candidates as numbers of `documents`, each once
  std::vector<uint64_t> positions;  // for each of `ordinals`, its position in the request's list
  std::vector<std::string> missing_strings;
  std::vector<int64_t> missing_ints;
  test::RandomQuery query;
  std::vector<ReferenceScore> scores;  // the reference's score for each of `ordinals`
};

inline test::TokenMatrix FromProto(const v1::TokenMatrix& matrix, ScalarType type) {
  const auto rows = static_cast<int64_t>(matrix.num_tokens());
  test::TokenMatrix tokens(type, kRequestDim, rows);
  ConvertElements(static_cast<ScalarType>(matrix.dtype()), matrix.data().data(), type, tokens.data(),
                  static_cast<size_t>(rows) * kRequestDim);
  return tokens;
}

inline test::RandomDocuments FromProto(const v1::InlineDocuments& list, const KnownCollection& known) {
  const ScalarType storage = known.collection->storage();
  test::RandomDocuments documents;
  documents.rotation_seed = known.documents.rotation_seed;
  documents.offsets.push_back(0);
  for (const v1::TokenMatrix& matrix : list.documents()) {
    documents.offsets.push_back(documents.offsets.back() + static_cast<int64_t>(matrix.num_tokens()));
  }
  documents.tokens = test::TokenMatrix(QueryType(storage), kRequestDim, documents.offsets.back());
  int64_t row = 0;
  for (const v1::TokenMatrix& matrix : list.documents()) {
    const test::TokenMatrix rows = FromProto(matrix, QueryType(storage));
    for (int64_t idx = 0; idx < rows.num_tokens(); ++idx) documents.tokens.CopyRow(rows, idx, row++);
  }
  return test::StoredAs(documents, storage);
}

// Adds an id of the request's list. `ordinal` is its document. If there is no document, adds the id to `missing`, once.
template <typename Id>
void AddListed(const Id& id, uint64_t position, std::optional<uint32_t> ordinal, std::set<Id>& seen,
               std::vector<Id>& missing, ExpectedQuery& expected) {
  if (!seen.insert(id).second) return;
  if (!ordinal.has_value()) return missing.push_back(id);
  expected.ordinals.push_back(*ordinal);
  expected.positions.push_back(position);
}

inline void Expect(const v1::Candidates& candidates, const KnownCollection& known, ExpectedQuery& expected) {
  expected.documents = &known.documents;
  const int64_t num_documents = known.documents.num_documents();
  std::set<std::string> strings;
  for (int idx = 0; idx < candidates.string_ids().ids_size(); ++idx) {
    const std::string& id = candidates.string_ids().ids(idx);
    std::optional<uint32_t> ordinal;
    for (int64_t document = 0; document < num_documents; ++document) {
      if (test::CorpusId(known.options, document) == id) ordinal = static_cast<uint32_t>(document);
    }
    AddListed(id, static_cast<uint64_t>(idx), ordinal, strings, expected.missing_strings, expected);
  }
  std::set<int64_t> ints;
  for (int idx = 0; idx < candidates.int_ids().ids_size(); ++idx) {
    const int64_t id = candidates.int_ids().ids(idx);
    const bool is_known = id >= test::CorpusIntId(0) && id < test::CorpusIntId(num_documents);
    const auto ordinal = is_known ? std::optional<uint32_t>(id - test::CorpusIntId(0)) : std::nullopt;
    AddListed(id, static_cast<uint64_t>(idx), ordinal, ints, expected.missing_ints, expected);
  }
  if (candidates.has_inline_documents()) {
    expected.inline_documents = FromProto(candidates.inline_documents(), known);
    expected.documents = &expected.inline_documents;
  }
  if (!candidates.has_inline_documents() && !candidates.has_whole_collection()) return;
  for (int64_t document = 0; document < expected.documents->num_documents(); ++document) {
    expected.ordinals.push_back(static_cast<uint32_t>(document));
    expected.positions.push_back(static_cast<uint64_t>(document));
  }
}

// Fills `expected`. The caller must not move or copy it later, because it has pointers to its own members.
inline void Expect(const v1::RerankRequest& request, const v1::Query& query, const KnownCollection& known,
                   ExpectedQuery& expected) {
  Expect(query.has_candidates() ? query.candidates() : request.candidates(), known, expected);
  expected.query.tokens = FromProto(query.tokens(), QueryType(known.collection->storage()));
  expected.query.weights.assign(query.weights().begin(), query.weights().end());
  expected.scores = ReferenceScores(expected.documents->view(), expected.query.view(/*top_k=*/1, &expected.ordinals));
}

}  // namespace maxsim::fuzz
