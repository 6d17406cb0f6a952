/* Nearest points: for each point x_i of a set of N, the squared Euclidean distance to the nearest y_j of a set of M.
 *
 *   distance(x_i) = min_j sum_c (x_ic - y_jc)^2          argmin(x_i) = the smallest j that has it
 *
 * Differences are computed in FP32 and then squared, which avoids cancellation. The N x M matrix is never written.
 * The Chamfer distance of two sets takes two such calls, one in each direction.
 *
 * The conventions of maxsim.h apply: thread-safety, the caller's memory and stream, versioned structures, and the same
 * bits in every run, with any number of threads and in any batch. */
#ifndef MAXSIM_NEAREST_H_
#define MAXSIM_NEAREST_H_

#include "maxsim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A batch of pairs of sets: x of set s with y of set s. */
typedef struct maxsim_nearest_call {
  size_t struct_size;
  int32_t device;         /* MAXSIM_CPU or MAXSIM_CUDA */
  int32_t type;           /* MAXSIM_F32, MAXSIM_F16 or MAXSIM_BF16, of x and y; all are widened to FP32 */
  int32_t dim;            /* columns of a point, 1 .. 4096 */
  int32_t index_type;     /* MAXSIM_INT64 or MAXSIM_INT32, of lengths */
  int64_t num_sets;       /* 0 or more */
  int64_t max_x;          /* points of each set of x, padding included; num_sets * max_x is at most 2^31 - 1 */
  int64_t max_y;          /* points of each set of y, padding included; num_sets * max_y is at most 2^31 - 1 */
  const void* x;          /* [num_sets, max_x, dim] row-major, aligned to the element */
  const void* y;          /* [num_sets, max_y, dim] row-major, aligned to the element */
  const void* x_lengths;  /* [num_sets], 0 .. max_x: the number of points in each set; max_x if null */
  const void* y_lengths;  /* [num_sets], 0 .. max_y; max_y if null */
  int32_t num_threads;    /* MAXSIM_CPU: maximum threads; 0: one for each core that the process may use */
  int32_t reserved;       /* 0 */
  void* stream;           /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;        /* scratch memory of the device, aligned to 256 bytes; may be null if 0 bytes are needed */
  size_t workspace_bytes; /* at least the result of maxsim_nearest_workspace_bytes */
} maxsim_nearest_call;

/* The inputs and outputs of maxsim_nearest_backward, in addition to those of the call. */
typedef struct maxsim_nearest_gradients {
  size_t struct_size;
  const int32_t* argmin;           /* [num_sets, max_x], as maxsim_nearest wrote it for the same call */
  const float* distance_gradients; /* [num_sets, max_x] */
  void* x_gradients;               /* [num_sets, max_x, dim] in the type of x, or null */
  void* y_gradients;               /* [num_sets, max_y, dim] in the type of y, or null */
} maxsim_nearest_gradients;

/* Writes the size in bytes of the workspace that a pass (MAXSIM_FORWARD or MAXSIM_BACKWARD) of `call` needs. It depends
 * only on shapes and the device. The function reads no device memory, and the call's workspace need not be set. The
 * backward pass needs none if y_gradients is null. */
maxsim_status maxsim_nearest_workspace_bytes(const maxsim_nearest_call* call, int32_t pass, size_t* bytes);

/* Writes the squared distances [num_sets, max_x], and argmin [num_sets, max_x]: the index within the set of the nearest
 * y. If several points are equally near, argmin is the smallest of their indices. A point past its set's length gets
 * the distance 0 and the argmin -1. If a set has no y, each of its points x gets the distance infinity and the argmin
 * -1.
 *
 * Values must be finite and at most 1e15 in magnitude. With other values distances are meaningless, but argmin still
 * lies within the set. Points past the lengths may hold anything. On MAXSIM_CPU the function checks the lengths; on
 * MAXSIM_CUDA the caller must make sure that they are valid. */
maxsim_status maxsim_nearest(const maxsim_nearest_call* call, float* distances, int32_t* argmin);

/* Writes those gradients whose pointers are not null. From the forward pass it needs only the argmin. g_i is the
 * gradient of the distance of x_i:
 *
 *   x_gradients[i] = 2 g_i (x_i - y_argmin(i))
 *   y_gradients[j] = sum of 2 g_i (y_j - x_i) over the i whose argmin is j, in an order that depends only on the argmin
 *
 * Sums are taken in FP32. Every row is written once; a y that is nearest to no x gets zeros. A point whose gradient
 * is 0 adds nothing. On MAXSIM_CPU an argmin outside of its set is an error. */
maxsim_status maxsim_nearest_backward(const maxsim_nearest_call* call, const maxsim_nearest_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_NEAREST_H_ */
