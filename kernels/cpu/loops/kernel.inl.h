// The loops of the CPU backend, written once and compiled for each instruction set.
//
// `V` describes the instruction set and the type in which it multiplies columns (FP32, BF16 or INT8):
//   Element                   float, or int32_t
//   Sum, Step, Total          vector of sums of a column block; vector of steps; vector of similarities, which Finish
//                             makes of sums (Sum itself wherever a column block's sums are similarities)
//   kFeed                     the form in which rows and panels come
//   kLanes                    elements of a Sum
//   kPanelVectors             vectors of the widest panel
//   kBlockSteps               steps added up before they join the sum of the earlier blocks
//   Rows(vectors)             height of the register tile for a panel of that many vectors
//   Broadcast(const char*)    one step of a document row (any alignment) in every lane
//   LoadStep(const uint32_t*) one step of kLanes query tokens
//   MulAdd(Step, Step, Sum)   the sum plus the products of a query's and a document's step
//   Zero(), Finish(Sum), Add(Total, Total), Max(Total, Total), Load(const Element*), Store(Element*, Total)
// If one instruction multiplies several steps of a token, `V` has its own MultiplyTile<vectors, rows>, which replaces
// the one below, and needs no Broadcast, LoadStep, MulAdd and Zero. `V` must be in an unnamed namespace, and these
// files must not use functions or templates of other headers: the linker keeps one copy of such a function, and could
// pick the copy that was compiled with instructions that this machine does not have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

inline constexpr size_t kStepBytes = 4;

// Prefetches the memory of the next row block into the second-level cache, a few cache lines at a time while the
// current block is multiplied. Without it, a core spends a third of its time waiting for memory (1000 documents of 512
// tokens in FP32).
template <class V>
struct Prefetcher {
  // Steps between two calls of Fetch. Prefetches are spread evenly, because a burst of them would make loads wait.
  static constexpr size_t kFetchSteps = 16;
  static constexpr size_t kLineBytes = 64;

  [[gnu::always_inline]] Prefetcher(const RowBlock& block, size_t tile_rows)
      : at(block.next), end(block.next + block.next_bytes) {
    const size_t num_tiles = (block.num_rows + tile_rows - 1) / tile_rows;
    const size_t num_fetches = num_tiles * ((block.num_steps + kFetchSteps - 1) / kFetchSteps);
    const size_t num_lines = (block.next_bytes + kLineBytes - 1) / kLineBytes;
    fetch_bytes = (num_lines + num_fetches - 1) / num_fetches * kLineBytes;
  }

  [[gnu::always_inline]] void Fetch() {
    const char* const stop = static_cast<size_t>(end - at) < fetch_bytes ? end : at + fetch_bytes;
    for (; at < stop; at += kLineBytes) __builtin_prefetch(at, 0, 2);
    at = stop;
  }

  const char* at;
  const char* end;
  size_t fetch_bytes;
};

// Multiplies one tile, whose sums are in registers: kRows document tokens by kVectors vectors of query tokens.
template <class V, int kVectors, int kRows>
[[gnu::always_inline]] inline void MultiplyTile(const char* rows, size_t row_bytes, const uint32_t* panel,
                                                size_t num_steps, Prefetcher<V>& prefetcher,
                                                typename V::Sum (&sums)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (int vector = 0; vector < kVectors; ++vector) sums[row][vector] = V::Zero();
  }
  for (size_t step = 0; step < num_steps;) {
    const size_t left = num_steps - step;
    const size_t stop = left < Prefetcher<V>::kFetchSteps ? num_steps : step + Prefetcher<V>::kFetchSteps;
    prefetcher.Fetch();
    for (; step < stop; ++step) {
      if constexpr (kVectors > kRows) {
        // With fewer rows than vectors, keeps the rows' steps in registers and loads each query step once.
        typename V::Step row_steps[kRows];
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) row_steps[row] = V::Broadcast(rows + row * row_bytes + step * kStepBytes);
#pragma GCC unroll 16
        for (int vector = 0; vector < kVectors; ++vector) {
          const typename V::Step query_step = V::LoadStep(panel + vector * V::kLanes);
#pragma GCC unroll 16
          for (int row = 0; row < kRows; ++row) {
            sums[row][vector] = V::MulAdd(query_step, row_steps[row], sums[row][vector]);
          }
        }
      } else {
        typename V::Step query_steps[kVectors];
#pragma GCC unroll 16
        for (int vector = 0; vector < kVectors; ++vector) query_steps[vector] = V::LoadStep(panel + vector * V::kLanes);
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          const typename V::Step row_step = V::Broadcast(rows + row * row_bytes + step * kStepBytes);
#pragma GCC unroll 16
          for (int vector = 0; vector < kVectors; ++vector) {
            sums[row][vector] = V::MulAdd(query_steps[vector], row_step, sums[row][vector]);
          }
        }
      }
      panel += kVectors * V::kLanes;
    }
  }
}

template <class V>
concept HasOwnTile = requires {
  &V::template MultiplyTile<1, V::Rows(1)>;
};

// Multiplies all rows of a row block with one panel. Keeps sums between column blocks in `partial`, with `stride`
// elements from row to row. With kKeep, writes the similarities to `partial`; otherwise updates `maxima`. With
// `fetches`, also prefetches the next row block; set it for one panel per row block.
template <class V, int kVectors, bool kKeep>
void RunPanel(const RowBlock& block, bool fetches, const uint32_t* panel, typename V::Element* partial, size_t stride,
              typename V::Element* maxima) {
  constexpr int kRows = V::Rows(kVectors);
  const size_t row_bytes = block.num_steps * kStepBytes;
  Prefetcher<V> prefetcher(block, kRows);
  if (!fetches) prefetcher.at = prefetcher.end;
  for (size_t first = 0; first < block.num_steps; first += V::kBlockSteps) {
    const size_t left = block.num_steps - first;
    const bool last = left <= V::kBlockSteps;
    const size_t num_steps = last ? left : V::kBlockSteps;
    for (size_t row_idx = 0; row_idx < block.num_rows; row_idx += kRows) {
      typename V::Sum sums[kRows][kVectors];
      const char* const rows = static_cast<const char*>(block.rows) + row_idx * row_bytes + first * kStepBytes;
      const uint32_t* const steps = panel + first * kVectors * V::kLanes;
      if constexpr (HasOwnTile<V>) {
        V::template MultiplyTile<kVectors, kRows>(rows, row_bytes, steps, num_steps, prefetcher, sums);
      } else {
        MultiplyTile<V, kVectors, kRows>(rows, row_bytes, steps, num_steps, prefetcher, sums);
      }
      typename V::Element* const tile = partial + row_idx * stride;
      typename V::Total totals[kRows][kVectors];
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
        for (int vector = 0; vector < kVectors; ++vector) totals[row][vector] = V::Finish(sums[row][vector]);
      }
      if (first != 0) {
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
          for (int vector = 0; vector < kVectors; ++vector) {
            totals[row][vector] = V::Add(V::Load(tile + row * stride + vector * V::kLanes), totals[row][vector]);
          }
        }
      }
      if (kKeep || !last) {
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
          for (int vector = 0; vector < kVectors; ++vector) {
            V::Store(tile + row * stride + vector * V::kLanes, totals[row][vector]);
          }
        }
      } else {
#pragma GCC unroll 16
        for (int vector = 0; vector < kVectors; ++vector) {
          typename V::Total best = V::Load(maxima + vector * V::kLanes);
#pragma GCC unroll 16
          for (int row = 0; row < kRows; ++row) best = V::Max(best, totals[row][vector]);
          V::Store(maxima + vector * V::kLanes, best);
        }
      }
    }
  }
}

template <class V, bool kKeep>
void RunPanelOfWidth(size_t num_vectors, const RowBlock& block, bool fetches, const uint32_t* panel,
                     typename V::Element* partial, size_t stride, typename V::Element* maxima) {
  static_assert(V::kPanelVectors <= 4);
  switch (num_vectors) {
    case 1:
      return RunPanel<V, 1, kKeep>(block, fetches, panel, partial, stride, maxima);
    case 2:
      return RunPanel<V, 2, kKeep>(block, fetches, panel, partial, stride, maxima);
    case 3:
      if constexpr (V::kPanelVectors >= 3) return RunPanel<V, 3, kKeep>(block, fetches, panel, partial, stride, maxima);
      break;
    case 4:
      if constexpr (V::kPanelVectors >= 4) return RunPanel<V, 4, kKeep>(block, fetches, panel, partial, stride, maxima);
      break;
  }
}

template <class V>
void UpdateMaxima(const RowBlock& block, const QueryPanels& queries, typename V::Element* partial,
                  typename V::Element* maxima) {
  for (size_t vector = 0; vector < queries.num_vectors; vector += V::kPanelVectors) {
    const size_t left = queries.num_vectors - vector;
    const size_t width = left < V::kPanelVectors ? left : V::kPanelVectors;
    RunPanelOfWidth<V, false>(width, block, vector == 0, queries.panels + vector * V::kLanes * block.num_steps, partial,
                              width * V::kLanes, maxima + vector * V::kLanes);
  }
}

template <class V>
void Similarities(const RowBlock& block, const QueryPanels& queries, typename V::Element* similarities) {
  const size_t stride = queries.num_vectors * V::kLanes;
  for (size_t vector = 0; vector < queries.num_vectors; vector += V::kPanelVectors) {
    const size_t left = queries.num_vectors - vector;
    const size_t width = left < V::kPanelVectors ? left : V::kPanelVectors;
    RunPanelOfWidth<V, true>(width, block, vector == 0, queries.panels + vector * V::kLanes * block.num_steps,
                             similarities + vector * V::kLanes, stride, nullptr);
  }
}

template <class V>
constexpr Kernels<typename V::Element> MakeKernels() {
  return {.feed = V::kFeed, .update_maxima = &UpdateMaxima<V>, .similarities = &Similarities<V>};
}

}  // namespace maxsim::cpu
