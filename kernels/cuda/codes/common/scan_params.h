// Arguments of the kernels that scan codes. All pointers are to device memory.
#pragma once

#include <vector_types.h>

#include <cstdint>
#include <limits>

#include "kernels/codes/codes.h"

namespace maxsim::cuda {

// Query tokens are multiplied in row tiles: mma.sync's operand A has this many rows.
inline constexpr int32_t kScanTileRows = 16;
// The kernels take row tiles in pairs.
inline constexpr int32_t kScanPairRows = 2 * kScanTileRows;

// The score of a candidate that a mask leaves out. kLeftOut is below all other scores, and finite, because the
// selection cannot handle -infinity.
inline constexpr float kLeftOut = std::numeric_limits<float>::lowest();

// Codes of documents (CodesView) in device memory. Planes that a scan does not read may be null.
struct CodeArrays {
  const uint8_t* plane0;
  const uint8_t* plane1;
  const uint8_t* planes23;
  const uint8_t* factors;   // null where tokens have none
  const int64_t* offsets;   // [num_documents + 1]
  const float* scales;      // [num_documents]
  const CodeBound* bounds;  // [num_documents], of the scan's planes; may be null unless a query is by upper bound
  // NominalNorm = scale * root_of_dim * largest_factor.
  double root_of_dim;     // sqrt(dim)
  double largest_factor;  // 1, or kMaxFactor where tokens have factors
};

// A row of the queries' tiles: a query token, or padding of a tile, whose multiplier is 0.
struct ScanRow {
  int32_t offset;      // <Q, L> = kProductScale * (the product of fragments) + offset
  int32_t multiplier;  // QueryCodes::multipliers
};

// One query of a scan.
struct ScanQueryParams {
  double unit;            // as in QueryCodes
  double reach;           // likewise
  double slack;           // likewise
  const uint64_t* mask;   // ScanQuery::mask, or null
  int64_t scores_offset;  // where the scores of its candidates begin
  int32_t by_upper_bound;
};

// A scan of one or more queries over the same candidates. Scores of candidates that a mask leaves out are kLeftOut.
struct ScanParams {
  CodeArrays codes;
  const uint32_t* ordinals;        // [num_candidates]; null means all documents
  const uint4* fragments;          // [num_row_tiles, num_steps, 32 lanes] (kernels/cuda/codes/fragments.h)
  const ScanRow* rows;             // [num_row_tiles * kScanTileRows]
  const ScanQueryParams* queries;  // [num_queries]
  const int32_t* tile_queries;     // [num_row_tiles]: the query that a row tile belongs to
  float* scores;
  int64_t num_candidates;
  int32_t num_queries;
  int32_t num_row_tiles;  // even
  int32_t dim;
};

}  // namespace maxsim::cuda
