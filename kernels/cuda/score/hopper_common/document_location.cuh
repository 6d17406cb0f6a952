// Reads where the document of a lane's candidate lies. The stream kernels' loading warp and the other kernels'
// scheduler warp share this code.
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm90 {

// Starts to read the begin and the end of document unit.ordinal. If all documents have the same length, computes them
// without reading. With kScales, also starts to read the document's scale. Only lanes that have a candidate of the unit
// may call it.
template <bool kScales, class WorkUnit>
__device__ __forceinline__ void ReadLocation(const HopperParams& p, WorkUnit& unit) {
  using Row = decltype(unit.begin);
  if constexpr (kScales) unit.scale = p.scales[unit.ordinal];
  if (p.pattern.document_tokens > 0) {
    unit.begin = static_cast<Row>(unit.ordinal * p.pattern.document_tokens);
    unit.end = static_cast<Row>(unit.begin + p.pattern.document_tokens);
  } else {
    unit.begin = static_cast<Row>(p.offsets[unit.ordinal]);
    unit.end = static_cast<Row>(p.offsets[unit.ordinal + 1]);
  }
}

}  // namespace maxsim::cuda::sm90
