#include "kernels/codes/scan.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"

namespace maxsim {
namespace {

absl::Status CheckScanQuery(const CodeAvailability& codes, const ScanQuery& query, size_t query_idx) {
  const auto fail = [&](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("queries[", query_idx, "].", text...));
  };
  if (query.codes == nullptr) return fail("codes is null");
  if (query.codes->shape != codes.shape) return fail("codes were made for documents of another shape");
  if (query.codes->planes > codes.planes) {
    return fail("codes are for ", query.codes->planes, " planes; the documents have ", codes.planes);
  }
  if (query.order == ScanOrder::kUpperBound && codes.num_documents > 0 &&
      !codes.has_bounds[BoundIndex(query.codes->planes)]) {
    return fail("order is by upper bound; the documents have no bounds of ", query.codes->planes, " planes");
  }
  if (query.num_results < 1 || query.num_results > kMaxScanResults) {
    return fail("num_results is ", query.num_results, "; must be 1 to ", kMaxScanResults);
  }
  if (query.ordinals == nullptr) return absl::OkStatus();
  if (query.num_candidates < 0 || query.num_candidates > kMaxShardDocuments) {
    return fail("num_candidates is ", query.num_candidates, "; must be 0 to ", kMaxShardDocuments);
  }
  for (int64_t idx = 0; idx < query.num_candidates; ++idx) {
    if (query.ordinals[idx] >= codes.num_documents) {
      return fail("ordinals[", idx, "] is ", query.ordinals[idx], "; must be below ", codes.num_documents,
                  " documents");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateScan(const CodeAvailability& codes, absl::Span<const ScanQuery> queries, size_t num_results) {
  if (queries.size() > static_cast<size_t>(kMaxScanQueries)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries has ", queries.size(), " elements; must be at most ", kMaxScanQueries));
  }
  if (num_results != queries.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("results has ", num_results, " elements; must have one for each of ", queries.size(), " queries"));
  }
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    if (absl::Status s = CheckScanQuery(codes, queries[idx], idx); !s.ok()) return s;
  }
  return absl::OkStatus();
}

float LargestOutside(const ScanQuery& query, absl::Span<const Scored> selected) {
  if (selected.size() < static_cast<size_t>(query.num_results)) return -std::numeric_limits<float>::infinity();
  return selected.back().score;
}

}  // namespace maxsim
