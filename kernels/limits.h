// Limits of the scoring problem. The limits are part of the contract: importers, request validation and kernels all use
// these constants, and every error message about a limit prints the value and the limit.
#pragma once

#include <cstdint>

namespace maxsim {

// Bounds on the columns of a token vector.
inline constexpr int32_t kMinDim = 8;
inline constexpr int32_t kMaxDim = 4096;

// Upper bounds on the number of token vectors of one document and of one query. The lower bound is 1: a document or
// query without tokens is refused, because it has no maximum.
inline constexpr int64_t kMaxDocumentTokens = 65536;
inline constexpr int32_t kMaxQueryTokens = 4096;

// Bound on the results of one query.
inline constexpr int32_t kMaxTopK = 10000;

// Upper bound on the number of documents of one shard: ordinals in a shard are 32 bits wide. Tokens are counted in 64
// bits.
inline constexpr int64_t kMaxShardDocuments = (int64_t{1} << 32) - 1;

// Upper bounds on the magnitudes of token values and of query weights. These bounds keep an FP32 score from
// overflowing: 4096 query tokens x 4096 columns x kMaxAbsValue^2 x kMaxAbsWeight = 1.7e37, under FLT_MAX = 3.4e38. Real
// embeddings are near 1.
inline constexpr float kMaxAbsValue = 1e12f;
inline constexpr float kMaxAbsWeight = 1e6f;

// Maximum size in bytes of a string document id.
inline constexpr int64_t kMaxIdBytes = 512;

}  // namespace maxsim
