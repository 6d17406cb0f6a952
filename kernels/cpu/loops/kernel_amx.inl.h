// The loops of the CPU backend for AMX. One instruction multiplies sixteen steps of sixteen document tokens by those of
// sixteen query tokens. Four tiles hold the sums of two groups of document tokens with two vectors of query tokens. A
// panel (kernels/cpu/loops/pack.h) has the steps of query tokens in the layout of a tile.
//
// `T` describes the tiles:
//   Vector                    a `V` of kernels/cpu/loops/kernel.inl.h: Element, Total, Max, Load, Store, sixteen lanes
//   kFeed                     the form in which rows and panels come
//   Configure(), Release()    set up and give back all eight tiles, of 16 rows of 64 bytes
//   Zero<tile>(), Load<tile>(const void*, stride), Store<tile>(void*, stride), strides in bytes
//   Multiply<sums, rows, queries>()
// `T` must be in an unnamed namespace, for the reason given in kernels/cpu/loops/kernel.inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kTileSteps = 16;
inline constexpr size_t kTileLanes = 16;

// Multiplies kGroups groups of sixteen rows, which begin at rows[group], with kVectors vectors of query tokens. Writes
// the similarities of a group to sums[group], with `sums_bytes` from row to row. Tile 2 * r + v has the sums of group r
// and vector v, tile 4 + r the rows of group r, and tile 6 + v the query tokens of vector v.
template <class T, int kGroups, int kVectors>
[[gnu::always_inline]] inline void MultiplyGroups(const char* const (&rows)[2], size_t row_bytes, const uint32_t* panel,
                                                  size_t panel_bytes, size_t num_steps,
                                                  typename T::Vector::Element* const (&sums)[2], size_t sums_bytes) {
  T::template Zero<0>();
  if constexpr (kVectors > 1) T::template Zero<1>();
  if constexpr (kGroups > 1) T::template Zero<2>();
  if constexpr (kGroups > 1 && kVectors > 1) T::template Zero<3>();
  const char* queries = reinterpret_cast<const char*>(panel);
  for (size_t step = 0; step < num_steps; step += kTileSteps) {
    T::template Load<4>(rows[0] + step * kStepBytes, row_bytes);
    T::template Load<6>(queries, panel_bytes);
    T::template Multiply<0, 4, 6>();
    if constexpr (kVectors > 1) {
      T::template Load<7>(queries + kTileLanes * kStepBytes, panel_bytes);
      T::template Multiply<1, 4, 7>();
    }
    if constexpr (kGroups > 1) {
      T::template Load<5>(rows[1] + step * kStepBytes, row_bytes);
      T::template Multiply<2, 5, 6>();
      if constexpr (kVectors > 1) T::template Multiply<3, 5, 7>();
    }
    queries += kTileSteps * panel_bytes;
  }
  T::template Store<0>(sums[0], sums_bytes);
  if constexpr (kVectors > 1) T::template Store<1>(sums[0] + kTileLanes, sums_bytes);
  if constexpr (kGroups > 1) T::template Store<2>(sums[1], sums_bytes);
  if constexpr (kGroups > 1 && kVectors > 1) T::template Store<3>(sums[1] + kTileLanes, sums_bytes);
}

// Multiplies all rows of a block with kVectors vectors of one panel, whose steps are `panel_bytes` apart. With kKeep,
// writes the similarities to `similarities`, with `stride` elements from row to row; otherwise updates `maxima`.
template <class T, int kVectors, bool kKeep>
void RunVectors(const RowBlock& block, bool fetches, const uint32_t* panel, size_t panel_bytes,
                typename T::Vector::Element* similarities, size_t stride, typename T::Vector::Element* maxima) {
  using V = typename T::Vector;
  using Element = typename V::Element;
  alignas(64) Element products[2][kTileRows * kVectors * kTileLanes];
  const char* const rows = static_cast<const char*>(block.rows);
  const size_t row_bytes = block.num_steps * kStepBytes;
  // The last group ends with the block's last row and overlaps the group before it, so that rows need not be copied;
  // computing a similarity twice gives the same value. A block with fewer rows than a group is padded (RowBlock).
  const size_t last_group = block.num_rows < kTileRows ? 0 : block.num_rows - kTileRows;
  const size_t num_groups = (block.num_rows + kTileRows - 1) / kTileRows;
  const size_t ahead_bytes = (block.next_bytes + num_groups - 1) / num_groups;
  typename V::Total best[kVectors];
  if constexpr (!kKeep) {
#pragma GCC unroll 2
    for (int vector = 0; vector < kVectors; ++vector) best[vector] = V::Load(maxima + vector * kTileLanes);
  }
  for (size_t group = 0; group < num_groups; group += 2) {
    const bool two = group + 1 < num_groups;
    const size_t first = group * kTileRows < last_group ? group * kTileRows : last_group;
    const size_t second = first + kTileRows < last_group ? first + kTileRows : last_group;
    const char* const group_rows[2] = {rows + first * row_bytes, rows + second * row_bytes};
    if (fetches) {
      const size_t begin = group * ahead_bytes;
      const size_t end = begin + (two ? 2 : 1) * ahead_bytes;
      for (size_t byte = begin; byte < end && byte < block.next_bytes; byte += Prefetcher<V>::kLineBytes) {
        __builtin_prefetch(block.next + byte, 0, 2);
      }
    }
    Element* sums[2] = {products[0], products[1]};
    size_t sums_stride = kVectors * kTileLanes;
    if constexpr (kKeep) {
      sums[0] = similarities + first * stride;
      sums[1] = similarities + second * stride;
      sums_stride = stride;
    }
    Element* const targets[2] = {sums[0], sums[1]};
    if (two) {
      MultiplyGroups<T, 2, kVectors>(group_rows, row_bytes, panel, panel_bytes, block.num_steps, targets,
                                     sums_stride * sizeof(Element));
    } else {
      MultiplyGroups<T, 1, kVectors>(group_rows, row_bytes, panel, panel_bytes, block.num_steps, targets,
                                     sums_stride * sizeof(Element));
    }
    if constexpr (!kKeep) {
      for (int idx = 0; idx < (two ? 2 : 1); ++idx) {
#pragma GCC unroll 16
        for (size_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 2
          for (int vector = 0; vector < kVectors; ++vector) {
            best[vector] =
                V::Max(best[vector], V::Load(products[idx] + row * kVectors * kTileLanes + vector * kTileLanes));
          }
        }
      }
    }
  }
  if constexpr (!kKeep) {
#pragma GCC unroll 2
    for (int vector = 0; vector < kVectors; ++vector) V::Store(maxima + vector * kTileLanes, best[vector]);
  }
}

// Multiplies all rows of a block with all panels, two vectors at a time.
template <class T, bool kKeep>
void RunPanels(const RowBlock& block, const QueryPanels& queries, typename T::Vector::Element* similarities,
               typename T::Vector::Element* maxima) {
  using V = typename T::Vector;
  const size_t stride = queries.num_vectors * kTileLanes;
  for (size_t first = 0; first < queries.num_vectors; first += V::kPanelVectors) {
    const size_t left = queries.num_vectors - first;
    const size_t width = left < V::kPanelVectors ? left : V::kPanelVectors;
    const uint32_t* const panel = queries.panels + first * kTileLanes * block.num_steps;
    const size_t panel_bytes = width * kTileLanes * kStepBytes;
    for (size_t vector = 0; vector < width; vector += 2) {
      const bool fetches = first + vector == 0;
      const size_t lane = (first + vector) * kTileLanes;
      if (vector + 1 < width) {
        RunVectors<T, 2, kKeep>(block, fetches, panel + vector * kTileLanes, panel_bytes,
                                kKeep ? similarities + lane : nullptr, stride, kKeep ? nullptr : maxima + lane);
      } else {
        RunVectors<T, 1, kKeep>(block, fetches, panel + vector * kTileLanes, panel_bytes,
                                kKeep ? similarities + lane : nullptr, stride, kKeep ? nullptr : maxima + lane);
      }
    }
  }
}

template <class T>
void UpdateMaximaInTiles(const RowBlock& block, const QueryPanels& queries, typename T::Vector::Element*,
                         typename T::Vector::Element* maxima) {
  RunPanels<T, false>(block, queries, nullptr, maxima);
}

template <class T>
void SimilaritiesInTiles(const RowBlock& block, const QueryPanels& queries, typename T::Vector::Element* similarities) {
  RunPanels<T, true>(block, queries, similarities, nullptr);
}

template <class T>
constexpr Kernels<typename T::Vector::Element> MakeTileKernels() {
  return {.feed = T::kFeed,
          .update_maxima = &UpdateMaximaInTiles<T>,
          .similarities = &SimilaritiesInTiles<T>,
          .enter = &T::Configure,
          .leave = &T::Release};
}

}  // namespace maxsim::cpu
