// Compares answers to random requests with filters, bit for bit, with those to requests that list the matching ids.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/service/selection/filter_message.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/requests.h"
#include "tests/unit/server/service/answer_together.h"

namespace maxsim::service {

// A document of a collection, and the test's own record of its values.
struct FilteredDocument {
  std::string string_id = {};  // or int_id, as the collection has them
  int64_t int_id = 0;
  uint64_t position = 0;  // in an answer over the whole collection
  std::shared_ptr<const collection::FilterMeaning> meaning;
};

// A collection and its live documents, in the order of their positions.
struct FilteredCollection {
  std::shared_ptr<const store::Collection> collection;
  std::vector<FilteredDocument> documents;
};

// Adds the id of the document with index `document`. If there is no such document, adds an unknown id.
inline void AddId(const FilteredCollection& collection, uint64_t document, v1::Candidates& candidates) {
  const bool is_known = document < collection.documents.size();
  if (collection.collection->manifest().id_type == collection::IdType::kString) {
    candidates.mutable_string_ids()->add_ids(is_known ? collection.documents[document].string_id
                                                      : "unknown-" + std::to_string(document));
  } else {
    candidates.mutable_int_ids()->add_ids(is_known ? collection.documents[document].int_id
                                                   : -1 - static_cast<int64_t>(document));
  }
}

// A request with a filter, and the same request with a list of the matching ids.
struct FilteredPair {
  collection::Filter filter;
  v1::RerankRequest filtered;
  v1::RerankRequest listed;
  // For each query, maps positions in the answer for listed ids to positions in the answer with the filter. Empty if
  // the listed request leaves the query out, because no document matches and no id is unknown.
  std::vector<std::vector<uint64_t>> positions;
};

class FilteredRequests {
 public:
  FilteredRequests(collection::RandomFilters* random, engine::Engine* engine) : random_(*random), engine_(*engine) {}

  // Answers one random request per element of `collections`, all in one batch. The collections must be of one
  // generation. Compares each answer with that of a request that lists the matching ids.
  void Check(const std::vector<const FilteredCollection*>& collections) {
    std::vector<FilteredPair> pairs;
    std::vector<AskedRequest> together;
    for (const FilteredCollection* one : collections) pairs.push_back(MakePair(*one));
    for (size_t idx = 0; idx < pairs.size(); ++idx) {
      together.push_back({&pairs[idx].filtered, collections[idx]->collection});
    }
    const std::vector<v1::RerankResponse> filtered = AnswerTogether(together, engine_);
    for (size_t idx = 0; idx < pairs.size(); ++idx) {
      const FilteredPair& pair = pairs[idx];
      SCOPED_TRACE(collection::FormatFilter(pair.filter));
      v1::RerankResponse listed;
      if (pair.listed.queries_size() > 0)
        listed = AnswerTogether({{&pair.listed, collections[idx]->collection}}, engine_)[0];
      int next = 0;
      for (int query = 0; query < pair.filtered.queries_size(); ++query) {
        const v1::QueryResult& actual = filtered[idx].results(query);
        num_scanned_ += actual.has_refinement() ? 1 : 0;
        if (pair.positions[static_cast<size_t>(query)].empty()) {
          ++num_empty_;
          EXPECT_EQ(actual.scores_size(), 0);
          EXPECT_EQ(actual.missing_string_ids().ids_size() + actual.missing_int_ids().ids_size(), 0);
          continue;
        }
        ASSERT_NO_FATAL_FAILURE(ExpectSame(listed.results(next++), actual, pair.positions[static_cast<size_t>(query)]));
      }
    }
  }

  int num_scanned() const { return num_scanned_; }  // answers that codes were scanned for
  int num_empty() const { return num_empty_; }      // queries for which nothing matched

 private:
  uint64_t Below(uint64_t end) { return random_.Below(end); }

  // Sets the candidates at random to the whole collection, or to a list of ids, some of them repeated or unknown. Sets
  // `documents` to the indices of the listed documents. The index of an unknown id is beyond the last document. For the
  // whole collection, `documents` is empty.
  void FillCandidates(const FilteredCollection& collection, v1::Candidates& candidates,
                      std::vector<uint64_t>& documents) {
    documents.clear();
    if (Below(2) == 0) {
      candidates.mutable_whole_collection();
      return;
    }
    for (uint64_t count = 1 + Below(Below(2) == 0 ? 5 : 200); count > 0; --count) {
      documents.push_back(Below(collection.documents.size() + 10));
      AddId(collection, documents.back(), candidates);
    }
  }

  FilteredPair MakePair(const FilteredCollection& collection) {
    FilteredPair pair;
    pair.filter = random_.Tree(1 + static_cast<int>(Below(4)));
    v1::RerankRequest& request = pair.filtered;
    request.set_collection(collection.collection->name());
    request.set_top_k(static_cast<uint32_t>(1 + Below(30)));
    request.set_return_payloads(Below(2) == 0);
    request.set_return_alignments(Below(3) == 0);
    request.set_normalize(Below(3) == 0);
    if (Below(4) == 0) request.set_offset(static_cast<uint32_t>(Below(8)));
    if (Below(4) == 0) request.set_min_score(static_cast<float>(Below(4)) - 1.0F);
    if (Below(2) == 0) {
      request.mutable_refinement()->set_documents(request.offset() + request.top_k() +
                                                  static_cast<uint32_t>(Below(40)));
      request.mutable_refinement()->set_require_proof(Below(2) == 0);
    }
    pair.listed = request;
    if (Below(2) == 0) {
      request.set_filter_text(collection::FormatFilter(pair.filter));
    } else {
      *request.mutable_filter() = FilterMessageOf(pair.filter);
    }
    for (uint64_t count = 1 + Below(3); count > 0; --count) {
      test::AddQuery(test::MakeQuery(random_.Below(1 << 20), ScalarType::kF16, collection.collection->dim(),
                                     1 + static_cast<int32_t>(Below(9))),
                     &request);
      v1::Query& query = *request.mutable_queries(request.queries_size() - 1);
      std::vector<uint64_t> documents;
      FillCandidates(collection, *query.mutable_candidates(), documents);
      AddListed(collection, query, std::move(documents), pair);
    }
    return pair;
  }

  static void AddListed(const FilteredCollection& collection, const v1::Query& query, std::vector<uint64_t> documents,
                        FilteredPair& pair) {
    v1::Query listed = query;
    listed.clear_candidates();
    const bool is_whole = query.candidates().has_whole_collection();
    if (is_whole) {
      for (uint64_t document = 0; document < collection.documents.size(); ++document) documents.push_back(document);
    }
    std::vector<uint64_t>& positions = pair.positions.emplace_back();
    for (size_t idx = 0; idx < documents.size(); ++idx) {
      const bool is_known = documents[idx] < collection.documents.size();
      if (is_known && !collection.documents[documents[idx]].meaning->Matches(pair.filter)) continue;
      AddId(collection, documents[idx], *listed.mutable_candidates());
      positions.push_back(is_whole ? collection.documents[documents[idx]].position : idx);
    }
    if (!positions.empty()) *pair.listed.add_queries() = std::move(listed);
  }

  static void ExpectSame(v1::QueryResult expected, const v1::QueryResult& actual,
                         const std::vector<uint64_t>& positions) {
    ASSERT_EQ(actual.scores_size(), expected.scores_size());
    for (int i = 0; i < expected.scores_size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual.scores(i)), std::bit_cast<uint32_t>(expected.scores(i))) << i;
      expected.set_positions(i, positions[expected.positions(i)]);
    }
    // Compares whole messages: ids, scores, positions, payloads, alignments, missing ids and the refinement.
    ASSERT_EQ(actual.SerializeAsString(), expected.SerializeAsString())
        << actual.ShortDebugString().substr(0, 2000) << "\n"
        << expected.ShortDebugString().substr(0, 2000);
  }

  collection::RandomFilters& random_;
  engine::Engine& engine_;
  int num_scanned_ = 0;
  int num_empty_ = 0;
};

}  // namespace maxsim::service
