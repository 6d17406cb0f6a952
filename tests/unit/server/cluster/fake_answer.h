// A minimal fake server that answers rerank requests. Scores are small integers, so that equal scores are frequent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/rank_order.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::cluster {

// The number of tokens of fake documents in requests.
inline constexpr uint32_t kFakeDocumentTokens = 100;

struct FakeDocument {
  std::string id;
  uint64_t position = 0;  // in the whole collection
};

// Returns one of a few scores, so that many documents have equal scores. The score depends on the id and on the query's
// number of tokens.
inline float ScoreOf(const v1::Query& query, const std::string& id) {
  return static_cast<float>(std::hash<std::string>()(absl::StrCat(query.tokens().num_tokens(), id)) % 4);
}

struct FakeHit {
  float score = 0;
  uint64_t position = 0;
  std::string id;
};

// Returns a hit's score as an answer shows it: divided by the number of query tokens if the request asks for normalised
// scores.
inline float ShownScore(const v1::RerankRequest& request, const v1::Query& query, const FakeHit& hit) {
  return request.normalize() ? hit.score / static_cast<float>(query.tokens().num_tokens()) : hit.score;
}

// Returns a document's value of the field by which results are grouped (request.group_by), or "" if it has none.
inline std::string GroupOf(const std::string& id) {
  const size_t hash = std::hash<std::string>()("group " + id);
  return hash % 10 == 0 ? std::string() : absl::StrCat("g", hash % 13);
}

// Returns the hits of the groups that the request asks for, group by group.
inline std::vector<FakeHit> GroupHits(const v1::RerankRequest& request, const std::vector<FakeHit>& ranked) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<FakeHit>> groups;
  const auto& asked = request.group_values();
  for (const FakeHit& hit : ranked) {
    const std::string value = GroupOf(hit.id);
    if (value.empty() || (!asked.empty() && std::find(asked.begin(), asked.end(), value) == asked.end())) continue;
    if (groups[value].empty()) order.push_back(value);
    if (groups[value].size() < std::max<size_t>(request.group_size(), 1)) groups[value].push_back(hit);
  }
  std::vector<FakeHit> hits;
  for (size_t i = request.offset(); i < std::min<size_t>(order.size(), request.offset() + request.top_k()); ++i) {
    hits.insert(hits.end(), groups[order[i]].begin(), groups[order[i]].end());
  }
  return hits;
}

// Answers as a server that holds these documents would.
inline v1::RerankResponse Answer(const v1::RerankRequest& request, const std::vector<FakeDocument>& documents,
                                 uint64_t sequence = 0) {
  v1::RerankResponse response;
  response.set_request_id(request.request_id());
  response.set_generation(7);
  response.set_sequence(sequence);
  for (const v1::Query& query : request.queries()) {
    v1::QueryResult& result = *response.add_results();
    const v1::Candidates& candidates = query.has_candidates() ? query.candidates() : request.candidates();
    std::vector<FakeHit> hits;
    if (candidates.has_inline_documents()) {
      for (int i = 0; i < candidates.inline_documents().documents_size(); ++i) {
        hits.push_back({ScoreOf(query, absl::StrCat(i)), static_cast<uint64_t>(i), ""});
      }
    } else if (candidates.has_whole_collection()) {
      for (const FakeDocument& document : documents) {
        hits.push_back({ScoreOf(query, document.id), document.position, document.id});
      }
    } else {
      std::set<std::string> seen;
      for (int i = 0; i < candidates.string_ids().ids_size(); ++i) {
        const std::string& id = candidates.string_ids().ids(i);
        if (!seen.insert(id).second) continue;
        const bool known = std::any_of(documents.begin(), documents.end(),
                                       [&](const FakeDocument& document) { return document.id == id; });
        if (known) {
          hits.push_back({ScoreOf(query, id), static_cast<uint64_t>(i), id});
        } else {
          result.mutable_missing_string_ids()->add_ids(id);
        }
      }
    }
    std::sort(hits.begin(), hits.end(), RanksBefore);
    if (request.has_min_score()) {
      std::erase_if(hits, [&](const FakeHit& hit) { return ShownScore(request, query, hit) < request.min_score(); });
    }
    if (!request.group_by().empty()) {
      hits = GroupHits(request, hits);
      for (const FakeHit& hit : hits) result.add_group_values(GroupOf(hit.id));
    } else {
      hits.resize(std::min<size_t>(hits.size(), request.offset() + request.top_k()));
      hits.erase(hits.begin(), hits.begin() + std::min<std::ptrdiff_t>(std::ssize(hits), request.offset()));
    }
    if (!candidates.has_inline_documents()) result.mutable_string_ids();
    for (const FakeHit& hit : hits) {
      if (!candidates.has_inline_documents()) result.mutable_string_ids()->add_ids(hit.id);
      result.add_scores(ShownScore(request, query, hit));
      result.add_positions(hit.position);
      if (request.return_payloads()) result.add_payloads("{" + hit.id + "}");
      if (request.return_alignments()) {
        // The aligned token depends on the id only, so a document has the same alignment in every list.
        const size_t token = hit.id.empty() ? hit.position : std::hash<std::string>()(hit.id) % 100;
        v1::Alignment& alignment = *result.add_alignments();
        for (uint32_t t = 0; t < query.tokens().num_tokens(); ++t) {
          alignment.add_document_tokens(static_cast<uint32_t>(token));
          alignment.add_similarities(hit.score);
        }
      }
    }
  }
  return response;
}

}  // namespace maxsim::cluster
