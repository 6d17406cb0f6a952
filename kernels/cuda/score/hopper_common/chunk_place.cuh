// Where the document of a lane's candidate lies: the step that the stream kernels' loading warp and
// the others' dealing warp share.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda::sm90 {

// Starts reading begin and end of the document chunk.ordinal, where the parameters do not say them. kScales: and its
// scale. For lanes that have a candidate of the chunk.
template <bool kScales, class Chunk>
__device__ __forceinline__ void ReadPlace(const ScoreParams& p, Chunk& chunk) {
  using Row = decltype(chunk.begin);
  if constexpr (kScales) chunk.scale = p.scales[chunk.ordinal];
  if (p.places.document_tokens > 0) {
    chunk.begin = static_cast<Row>(chunk.ordinal * p.places.document_tokens);
    chunk.end = static_cast<Row>(chunk.begin + p.places.document_tokens);
  } else {
    chunk.begin = static_cast<Row>(p.offsets[chunk.ordinal]);
    chunk.end = static_cast<Row>(p.offsets[chunk.ordinal + 1]);
  }
}

}  // namespace maxsim::cuda::sm90
