// Scores by the service's kernels for Hopper (kernels/cuda/score/hopper_wide and hopper_deep): which calls they take,
// and their launches. Scores have the same bits as those of the kernels of forward.h.
//
// In the service, the host knows all lengths and writes the input of these kernels: stacked query rows, row tiles and
// candidates. Here lengths are in device memory, so a kernel writes this input from the members of the call
// (service_kernels.cu). Every layout and pairing becomes one form that way:
//
//  - Query tokens are copied to query tiles of 32 rows. Those that do not count are rows of zeros with weight 0.
//  - Documents that are all equally long need no more input: document d begins at row d * max_tokens. Otherwise each
//    document has a *place*, its first row and the row after its last, in elements 2 d and 2 d + 1 of an array. The
//    kernels find it under the ordinal 2 d, because they read element `ordinal` and the next one.
//  - The kernels do not support documents without tokens. Such a document gets the place of row 0, and the finishing
//    kernel overwrites the resulting score.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/score/score_params.h"
#include "kernels/library/cuda/cuda_support.h"
#include "kernels/library/cuda/device_problem.h"
#include "kernels/plan/score.h"

namespace maxsim::library {

// The counts of a call's input.
struct ServiceShape {
  int32_t query_tiles = 1;     // of a query
  int32_t num_lists = 1;       // 1 if all queries have the same documents, otherwise one per query
  int32_t tiles_per_list = 1;  // query tiles that are scored with the same documents
  int32_t tiles_per_row_tile = 1;
  int32_t row_tiles_per_list = 1;
  bool has_places = false;    // whether documents have places
  bool has_ordinals = false;  // whether candidates have ordinals; otherwise they are the documents in their order

  constexpr int32_t num_query_tiles() const { return num_lists * tiles_per_list; }
  constexpr int32_t num_row_tiles() const { return num_lists * row_tiles_per_list; }
  // Returns whether a kernel must finish scores: add up the query tiles of each query, or overwrite scores of documents
  // without tokens.
  constexpr bool needs_finish() const { return query_tiles > 1 || has_places; }
};

// A call and its memory. All pointers are to device memory.
struct ServiceForward {
  DeviceProblem problem;
  ServiceShape shape;
  int32_t row_bytes = 0;
  uint8_t* query_rows = nullptr;       // [num_query_tiles * 32, row_bytes]
  float* row_weights = nullptr;        // [num_query_tiles * 32] weights times scales
  cuda::RowTile* row_tiles = nullptr;  // [num_row_tiles]
  uint32_t* claims = nullptr;          // [num_row_tiles + 2] zeros
  int64_t* places = nullptr;           // [2 * documents], or null
  float* place_scales = nullptr;       // [2 * documents] of MAXSIM_I8, at even elements; null without places
  uint32_t* ordinals = nullptr;        // [pairs], or [documents] if all queries have the same; or null
  float* partials = nullptr;           // [queries, query_tiles, list_length], or null if queries have one query tile
  float* scores = nullptr;             // [pairs]
};

// Returns whether the service's kernels can score the call on the current device, provided that no matches are wanted
// and that rows of both matrices begin at multiples of 16 bytes. If so, fills in `plan` and `shape`. Depends only on
// the call's shape, on which of its members are null and on the device.
bool PlanServiceForward(const DeviceProblem& problem, ScorePlan* plan, ServiceShape* shape);

// Sets the pointers of `forward` to arrays of the workspace, except that of scores. problem and shape must be set.
void LayOutServiceForward(Workspace* workspace, ServiceForward* forward);

// Launches the kernels that prepare, score and finish a call. All members of `forward` must be set.
cudaError_t LaunchServiceForward(const ScorePlan& plan, const ServiceForward& forward, cudaStream_t stream);

// The first and the last of these kernels: the first writes the arrays of `forward` that are not null, except scores
// and partials.
cudaError_t LaunchPrepareInput(const ServiceForward& forward, cudaStream_t stream);
cudaError_t LaunchFinishScores(const ServiceForward& forward, cudaStream_t stream);

}  // namespace maxsim::library
