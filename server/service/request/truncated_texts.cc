#include "server/service/request/truncated_texts.h"

#include <algorithm>
#include <cstdint>

namespace maxsim::service {

void MarkTruncated(const TruncatedTexts& truncated, v1::RerankResponse& response) {
  const int count = std::min(response.results_size(), static_cast<int>(truncated.queries.size()));
  for (int i = 0; i < count; ++i) {
    const TruncatedTexts::Query& query = truncated.queries[static_cast<size_t>(i)];
    v1::QueryResult& result = *response.mutable_results(i);
    if (query.text) result.set_query_truncated(true);
    if (query.documents == nullptr) continue;
    const auto is_cut = [&](uint64_t position) {
      return position < query.documents->size() && (*query.documents)[position];
    };
    if (std::none_of(result.positions().begin(), result.positions().end(), is_cut)) continue;
    for (const uint64_t position : result.positions()) result.add_truncated(is_cut(position));
  }
}

}  // namespace maxsim::service
