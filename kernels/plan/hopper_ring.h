// Plans the ring of a Hopper kernel: its stages, its shared memory and its threads. This header does not
// use absl, because libmaxsim does not link it.
#pragma once

#include <cstdint>

#include "kernels/plan/ceil_div.h"
#include "kernels/plan/device_limits.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// Fills in the fields of a plan that describe the ring of its Hopper kernel. plan.tile and plan.row_bytes must be set.
// The ring takes all the shared memory, so a multiprocessor runs one thread block.
inline void PlanHopperRing(const DeviceLimits& limits, ScorePlan& plan) {
  plan.num_steps = static_cast<int32_t>(CeilDiv(plan.row_bytes, kStepBytes));
  plan.query_resident = true;
  plan.blocks_per_sm = 1;
  if (IsWide(plan.tile)) {
    plan.num_chunks = static_cast<int32_t>(CeilDiv(plan.row_bytes, kWideHalfBytes));
    plan.tile_tokens = kWideTokens;
    plan.threads = kWideThreads;
    plan.stages = WideStages(plan.num_chunks);
    plan.shared_bytes = WideSharedBytes(plan.num_chunks);
  } else if (IsDeep(plan.tile)) {
    const DeepShape shape = DeepShapeOf(plan.tile, plan.row_bytes, limits.shared_bytes_per_block);
    plan.num_chunks = DeepChunks(plan.row_bytes);
    plan.tile_tokens = kDeepTokens;
    plan.threads = kDeepThreads;
    plan.query_resident = shape.query_resident;
    plan.stages = shape.stages;
    plan.shared_bytes = DeepLayoutOf(plan.tile, shape, plan.num_chunks).total;
  } else {
    const StreamShape shape = StreamShapeOf(plan.row_bytes);
    plan.num_chunks = 1;
    plan.tile_tokens = shape.tile_tokens;
    plan.threads = shape.threads();
    plan.stages = shape.stages;
    plan.shared_bytes = shape.Layout().total;
  }
}

}  // namespace maxsim
