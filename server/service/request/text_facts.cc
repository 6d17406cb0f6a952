#include "server/service/request/text_facts.h"

#include <algorithm>

namespace maxsim::service {
namespace {

// Marks results whose texts were truncated. Adds no marks if none was.
void MarkTruncated(const std::vector<bool>& documents, v1::QueryResult& result) {
  const auto is_cut = [&](uint64_t position) { return position < documents.size() && documents[position]; };
  if (std::none_of(result.positions().begin(), result.positions().end(), is_cut)) return;
  for (const uint64_t position : result.positions()) result.add_truncated(is_cut(position));
}

}  // namespace

void AddTextFacts(const TextFacts& facts, bool return_alignments, v1::RerankResponse& response) {
  response.set_encoded_tokens(facts.num_tokens);
  const int count = std::min(response.results_size(), static_cast<int>(facts.queries.size()));
  for (int i = 0; i < count; ++i) {
    const TextFacts::Query& query = facts.queries[static_cast<size_t>(i)];
    v1::QueryResult& result = *response.mutable_results(i);
    if (query.is_truncated) result.set_query_truncated(true);
    if (query.truncated_documents != nullptr) MarkTruncated(*query.truncated_documents, result);
    if (!return_alignments) continue;
    for (const std::string& piece : query.pieces) result.add_query_tokens(piece);
  }
}

}  // namespace maxsim::service
