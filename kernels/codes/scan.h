// The queries and limits of scans of codes, for all backends. A scan computes an estimate or an upper bound of each
// document's score from the document's code, and returns the documents with the highest ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/query_codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

// The order by which a scan selects documents.
enum class ScanOrder : uint8_t {
  kEstimate,    // by Estimate: selects the documents that are likely the best
  kUpperBound,  // by UpperBound: no document outside the selection can score more than its smallest upper bound
};

// Limits of one call. kMaxScanResults is far above kMaxTopK, because a search whose results must be proven
// (RefinementOptions.require_proof) scores many more documents than it returns.
inline constexpr int64_t kMaxScanQueries = 64;
inline constexpr int32_t kMaxScanResults = 1 << 20;

// Limits of the calls that a server makes. Backends may accept larger calls. Backend::ScanBytesNeeded returns the size
// of the workspace that a GPU needs for calls within these limits.
//
// Maximum results of a call, summed over its queries and the LoadedCodes objects that it scans. They take 32 MiB of a
// GPU's memory until the call has scanned all objects.
inline constexpr int64_t kMaxScanCallResults = int64_t{1} << 22;
static_assert(kMaxScanCallResults >= kMaxScanResults);
// Maximum query tokens of a call with more than one query. More tokens gain nothing: on a CPU, they no longer fit the
// caches of a core.
inline constexpr int64_t kMaxScanCallTokens = 1024;

// Returns how many documents a search scores exactly after its scan if the client sets no number. maxsimd and
// `maxsim-shard evaluate` both use this default.
constexpr int64_t DefaultRefinedDocuments(int64_t top_k) { return 1000 + 20 * top_k; }

// A query of a scan. All pointers must stay valid during the call.
struct ScanQuery {
  const QueryCodes* codes = nullptr;
  const uint32_t* ordinals = nullptr;  // [num_candidates], each < num_documents, repeats allowed; null means all
  int64_t num_candidates = 0;          // ignored when ordinals is null
  // [ceil(num_documents / 64)] Bit n % 64 of word n / 64 says whether document n may be selected, also if it is in
  // `ordinals`. Null means that every document may be selected.
  const uint64_t* mask = nullptr;
  int32_t num_results = 0;  // 1 .. kMaxScanResults
  ScanOrder order = ScanOrder::kEstimate;
};

// The properties of codes that ValidateScan needs.
struct CodeAvailability {
  CodeShape shape;
  int planes = 1;
  int64_t num_documents = 0;
  bool has_bounds[3] = {};  // for 1, 2 and 4 planes
};

// Checks the queries of a scan. `num_results` is the number of result lists, which must equal the number of queries.
// INVALID_ARGUMENT names the field, the value and the limit.
absl::Status ValidateScan(const CodeAvailability& codes, absl::Span<const ScanQuery> queries, size_t num_results);

// Returns the highest score that a document outside of `selected`, the result of a scan by upper bounds, can have.
// Returns -infinity if `selected` has fewer than query.num_results documents, because then it has all. So if the k-th
// best exact score of the selected documents is greater than the returned score, the best k documents are among the
// selected ones.
float LargestOutside(const ScanQuery& query, absl::Span<const Scored> selected);

}  // namespace maxsim
