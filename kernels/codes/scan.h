// The queries and results of scans of codes, on every backend. A scan computes an estimate or an upper bound of each
// document's score from its code, and returns the documents with the best ones.
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
  kUpperBound,  // by UpperBound: no other document can score more than the smallest upper bound in the selection
};

// Bounds of one call. kMaxScanResults is far above kMaxTopK, because a search of kMaxTopK results that must be proven
// (RefinementOptions.require_proof) must score many times kMaxTopK documents.
inline constexpr int64_t kMaxScanQueries = 64;
inline constexpr int32_t kMaxScanResults = 1 << 20;

// Bounds of the calls that a server makes. Backends may accept larger calls. For calls within the bounds,
// Backend::ScanBytesNeeded returns the size of a GPU's workspace.
//
// Maximum results of a call, summed over its queries and the objects that it scans. They take 32 MiB of a GPU's memory
// until the call has scanned all objects.
inline constexpr int64_t kMaxScanCallResults = int64_t{1} << 22;
static_assert(kMaxScanCallResults >= kMaxScanResults);
// Maximum query tokens of a call with more than one query. More tokens gain nothing: on a CPU, their operands no longer
// fit the caches of a core.
inline constexpr int64_t kMaxScanCallTokens = 1024;

// Returns how many documents a search scores exactly after its scan, if the client sets no number. Both maxsimd and
// `maxsim-shard evaluate` use this function, so that the evaluation measures what the server does.
constexpr int64_t DefaultRefinedDocuments(int64_t top_k) { return 1000 + 20 * top_k; }

// A query of a scan. All pointers are borrowed for the length of the call.
struct ScanQuery {
  const QueryCodes* codes = nullptr;
  const uint32_t* ordinals = nullptr;  // [num_candidates], each < num_documents, repeats allowed; null means all
  int64_t num_candidates = 0;          // ignored when ordinals is null
  // A bit for each document, [ceil(num_documents / 64)]: bit n % 64 of word n / 64 says whether document n may be
  // selected. It also applies to the documents in `ordinals`. Null means that every document may be selected.
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

// Checks the queries of a scan, and that `num_results` equals their number. INVALID_ARGUMENT names the field, the value
// and the limit.
absl::Status ValidateScan(const CodeAvailability& codes, absl::Span<const ScanQuery> queries, size_t num_results);

// Returns a score that no document outside of a selection by upper bounds can exceed. Returns -infinity if the
// selection has fewer documents than the query's num_results, because it then has every document. A document outside
// can reach the returned score, but not exceed it. So the selected documents hold the top k if their k-th best score,
// computed from the originals, is greater than the returned score.
float LargestOutside(const ScanQuery& query, absl::Span<const Scored> selected);

}  // namespace maxsim
