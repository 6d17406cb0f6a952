// Computes how many queries of a call fit an executor's workspace at once. Such queries are a slice. This code makes no
// CUDA calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Every part of a call's input begins at a multiple of this, in bytes.
inline constexpr size_t kPartAlignment = 256;

// Returns `bytes` rounded up to a multiple of kPartAlignment.
constexpr size_t AlignPart(size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

// The capacities of an executor's workspace. Calls that exceed one of them are cut into slices of whole queries; every
// query within kernels/limits.h fits a slice by itself.
struct SliceCapacity {
  int64_t queries = 0;
  int64_t rows = 0;  // query rows, padded to whole query tiles
  // The bytes of those query rows in the input, in QueryType.
  int64_t query_bytes = 0;
  int64_t candidates = 0;
  int64_t scores = 0;   // the candidates' scores; the scores of each query begin at a multiple of kSelectAlignment
  int64_t results = 0;  // sum of min(k, candidates)
  int64_t partial_query_tiles = 0;  // query tiles of queries that have several query tiles

  // Returns the capacity for the calls that `options` allow.
  static SliceCapacity For(const ExecutorOptions& options);

  // InputBytes returns the bytes of the largest input, DeviceBytes those of the input with the unions of joined lists
  // and the quantised queries, which kernels write.
  size_t InputBytes() const;
  size_t DeviceBytes() const;
};

// Returns the number of candidates of a query among `num_documents` documents.
inline int64_t NumCandidates(const Query& query, int64_t num_documents) {
  return query.ordinals == nullptr ? num_documents : query.num_candidates;
}

// Returns how many of `queries`, from the first on, fit one slice: at least 1.
size_t QueriesOfSlice(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                      const SliceCapacity& capacity);

}  // namespace maxsim::cuda
