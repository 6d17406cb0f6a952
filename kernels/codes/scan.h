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
  kEstimate,    // Estimate: which documents are likely the best
  kUpperBound,  // UpperBound: no document that is left out can score more than the last one that was selected
};

// Bounds of one call. A query of kMaxTopK results that is to be proven refines far more documents than these.
inline constexpr int64_t kMaxScanQueries = 64;
inline constexpr int32_t kMaxScanResults = 1 << 20;

// Bounds of the calls that a server makes. Backends may take larger ones; a GPU's workspace for those that keep to the
// bounds is Backend::ScanBytesNeeded.
//
// Results of all queries of a call, in all objects that it scans: 32 MiB, which a GPU keeps until all are scanned.
inline constexpr int64_t kMaxScanCallResults = int64_t{1} << 22;
static_assert(kMaxScanCallResults >= kMaxScanResults);
// Query tokens of a call with more than one query. More gain nothing: on a CPU, their operands leave the caches of a
// core.
inline constexpr int64_t kMaxScanCallTokens = 1024;

// Returns how many documents a search scores exactly after its scan, unless the caller gives another number. maxsimd
// and `maxsim-shard evaluate` both use it, so that the latter measures what the server does.
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

// Checks the queries of a scan and that there are as many results. INVALID_ARGUMENT names the field, the value and the
// limit.
absl::Status ValidateScan(const CodeAvailability& codes, absl::Span<const ScanQuery> queries, size_t num_results);

// Returns a score that no document outside of a selection by upper bounds can exceed: -infinity where the selection has
// room for more, since then it has every document. A document outside can reach this score. So where the k-th best
// score of the selected documents, computed from the originals, is greater, they hold the top k.
float LargestOutside(const ScanQuery& query, absl::Span<const Scored> selected);

}  // namespace maxsim
