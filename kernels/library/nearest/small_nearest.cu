// Nearest points of few columns. A thread has kPoints points x in registers, and the thread block loads tiles of y into
// shared memory, which all threads read point by point. A pair takes two instructions per column and one minimum. A
// thread keeps only the group of kGroup points y that had the smallest distance, and finds the index in this group at
// the end.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/nearest/nearest_device.cuh"
#include "kernels/library/nearest/nearest_kernels.h"

namespace maxsim::library {
namespace {

constexpr int kSmallThreads = 128;
constexpr int kPoints = 8;  // points x per thread: one read of shared memory serves eight pairs
constexpr int kSmallTileX = kSmallThreads * kPoints;
constexpr int kGroup = 8;         // points y whose minimum is compared with the best one
constexpr int kSmallTileY = 512;  // 8 KiB of three columns

// A point in shared memory, aligned so that one load reads it.
template <int kDim>
struct alignas(kDim == 1   ? 4
               : kDim == 2 ? 8
                           : 16) SharedPoint {
  float values[kDim == 3 ? 4 : kDim];
};

// Returns the squared distance of x and y. The order of its operations is fixed, so that computing it again gives the
// same bits.
template <int kDim>
__device__ __forceinline__ float SmallDistance(const float (&x)[kDim], const SharedPoint<kDim>& y) {
  float distance = 0;
#pragma unroll
  for (int column = 0; column < kDim; ++column) {
    const float difference = __fsub_rn(x[column], y.values[column]);
    distance = column == 0 ? __fmul_rn(difference, difference) : __fmaf_rn(difference, difference, distance);
  }
  return distance;
}

template <class T, int kDim>
__device__ __forceinline__ SharedPoint<kDim> ReadPoint(const void* points, int64_t row) {
  SharedPoint<kDim> point = {};
#pragma unroll
  for (int column = 0; column < kDim; ++column) {
    point.values[column] = Widen(static_cast<const T*>(points)[row * kDim + column]);
  }
  return point;
}

// Returns the first y of the group that has the distance.
template <class T, int kDim>
__device__ __forceinline__ int32_t FindInGroup(const NearestParams& params, const NearestPart& part,
                                               const float (&x)[kDim], int32_t group, float distance) {
  for (int32_t y = group; y < group + kGroup && y < part.y_end; ++y) {
    const SharedPoint<kDim> point = ReadPoint<T, kDim>(params.call.y, part.set * params.call.max_y + y);
    if (SmallDistance<kDim>(x, point) == distance) return y;
  }
  return group;
}

template <class T, int kDim>
__global__ void __launch_bounds__(kSmallThreads) SmallNearestKernel(const __grid_constant__ NearestParams params) {
  __shared__ SharedPoint<kDim> tile[kSmallTileY];
  const NearestPart part = NearestPart::Of<kSmallTileX, kGroup>(params);
  float x[kPoints][kDim];
  float best[kPoints];
  int32_t best_group[kPoints];
#pragma unroll
  for (int i = 0; i < kPoints; ++i) {
    const int64_t point = part.x_begin + i * kSmallThreads + threadIdx.x;
    best[i] = kNearestInfinity;
    best_group[i] = part.y_begin;
#pragma unroll
    for (int column = 0; column < kDim; ++column) {
      const int64_t element = (part.set * params.call.max_x + point) * kDim + column;
      x[i][column] = point < part.num_x ? Widen(static_cast<const T*>(params.call.x)[element]) : 0.0f;
    }
  }
  // A tile past the last x of the set compares nothing.
  const int32_t y_end = part.x_begin < part.num_x ? part.y_end : part.y_begin;
  for (int32_t begin = part.y_begin; begin < y_end; begin += kSmallTileY) {
    __syncthreads();
    for (int i = threadIdx.x; i < kSmallTileY; i += kSmallThreads) {
      SharedPoint<kDim> point;
#pragma unroll
      for (float& value : point.values) value = kNearestInfinity;  // past the last y: infinitely far
      if (i < y_end - begin) point = ReadPoint<T, kDim>(params.call.y, part.set * params.call.max_y + begin + i);
      tile[i] = point;
    }
    __syncthreads();
    const int32_t num_groups = (min(y_end - begin, kSmallTileY) + kGroup - 1) / kGroup;
    for (int32_t group = 0; group < num_groups; ++group) {
      float smallest[kPoints];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        const SharedPoint<kDim> y = tile[group * kGroup + k];
#pragma unroll
        for (int i = 0; i < kPoints; ++i) {
          const float distance = SmallDistance<kDim>(x[i], y);
          smallest[i] = k == 0 ? distance : fminf(smallest[i], distance);
        }
      }
#pragma unroll
      for (int i = 0; i < kPoints; ++i) {
        if (smallest[i] < best[i]) {
          best[i] = smallest[i];
          best_group[i] = begin + group * kGroup;
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPoints; ++i) {
    const int64_t point = part.x_begin + i * kSmallThreads + threadIdx.x;
    if (point >= params.call.max_x) continue;
    int32_t argmin = best_group[i];
    if (best[i] < kNearestInfinity) argmin = FindInGroup<T, kDim>(params, part, x[i], argmin, best[i]);
    WritePart(params, part, point, best[i], argmin);
  }
}

template <class T>
cudaError_t LaunchSmallOf(const NearestParams& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.call.num_sets * params.num_x_tiles * params.num_splits));
  switch (params.call.dim) {
    case 1:
      return cuda::LaunchKernel(SmallNearestKernel<T, 1>, grid, dim3(kSmallThreads), 0, stream, params);
    case 2:
      return cuda::LaunchKernel(SmallNearestKernel<T, 2>, grid, dim3(kSmallThreads), 0, stream, params);
    case 3:
      return cuda::LaunchKernel(SmallNearestKernel<T, 3>, grid, dim3(kSmallThreads), 0, stream, params);
    default:
      return cuda::LaunchKernel(SmallNearestKernel<T, 4>, grid, dim3(kSmallThreads), 0, stream, params);
  }
}

constexpr int kJoinThreads = 256;

// Takes the smallest distance of all parts of y. Parts are in ascending order, and the comparison is strict, so the
// smallest index of equals stays.
__global__ void __launch_bounds__(kJoinThreads) JoinSplitsKernel(const __grid_constant__ NearestParams params) {
  const int64_t num_x = params.call.num_sets * params.call.max_x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
  if (row >= num_x) return;
  const int64_t set = row / params.call.max_x;
  float best = kNearestInfinity;
  int32_t argmin = 0;
#pragma unroll 4
  for (uint32_t split = 0; split < params.num_splits; ++split) {
    const float distance = params.split_distances[split * num_x + row];
    if (distance < best) {
      best = distance;
      argmin = params.split_argmin[split * num_x + row];
    }
  }
  WriteNearest(params, set, row % params.call.max_x,
               LengthOf(params.call, params.call.x_lengths, params.call.max_x, set),
               LengthOf(params.call, params.call.y_lengths, params.call.max_y, set), best, argmin);
}

}  // namespace

cudaError_t LaunchSmallNearest(const NearestParams& params, cudaStream_t stream) {
  return WithFloatType(params.call.type, [&](auto zero) { return LaunchSmallOf<decltype(zero)>(params, stream); });
}

cudaError_t LaunchJoinSplits(const NearestParams& params, cudaStream_t stream) {
  const int64_t num_x = params.call.num_sets * params.call.max_x;
  const auto num_blocks = static_cast<unsigned>((num_x + kJoinThreads - 1) / kJoinThreads);
  return cuda::LaunchKernel(JoinSplitsKernel, dim3(num_blocks), dim3(kJoinThreads), 0, stream, params);
}

void PlanNearest(NearestParams* params) {
  const maxsim_nearest_call& call = params->call;
  const bool small = call.dim <= kSmallNearestDim;
  const int64_t tile_x = small ? kSmallTileX : 128;
  // The smallest part of y that is worth a thread block of its own.
  constexpr int64_t kSmallestPart = 128;
  // About 30 (small points) or 8 thread blocks per multiprocessor of a large GPU, so that few multiprocessors are idle
  // while the last thread blocks run.
  const int64_t wanted_blocks = small ? 4096 : 1024;
  params->num_x_tiles = static_cast<uint32_t>((call.max_x + tile_x - 1) / tile_x);
  const int64_t num_tiles = call.num_sets * params->num_x_tiles;
  params->num_splits = 1;
  if (num_tiles == 0 || num_tiles >= wanted_blocks) return;
  const int64_t splits = (wanted_blocks + num_tiles - 1) / num_tiles;
  const int64_t most = (call.max_y + kSmallestPart - 1) / kSmallestPart;
  params->num_splits = static_cast<uint32_t>(splits < most ? splits : most < 1 ? 1 : most);
}

}  // namespace maxsim::library
