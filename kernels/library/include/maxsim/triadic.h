/* Third-order operators: three-way attention and three-way MaxSim. Both contract three vectors,
 *
 *   <a, b, c> = sum over columns x of a_x b_x c_x
 *
 * and stream over all pairs of two sequences, as "From Pairwise to Higher Order Tensor Operations on GPUs" (Rahim and
 * Hanson, 2025) describes: a thread block has one query and walks the other two axes in tiles, with a running maximum,
 * a running denominator and a running sum. No array with an element per pair is written, so that memory is linear in
 * the lengths. The paper does not fix the operation. The attention here is 2-simplicial (Clift et al., 2019).
 *
 * The conventions of maxsim.h apply: thread-safety, the caller's memory and stream, versioned structures, and the same
 * bits in every run. */
#ifndef MAXSIM_TRIADIC_H_
#define MAXSIM_TRIADIC_H_

#include "maxsim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Three-way attention of a batch of problems (such as the heads of all sequences). For query i, over all pairs (j, k)
 * of a first and a second key, with values of the first and of the second:
 *
 *   logit_ijk = scale * <query_i, first_key_j, second_key_k>
 *   lse_i     = log of the sum over (j, k) of exp(logit_ijk)
 *   output_i  = sum over (j, k) of exp(logit_ijk - lse_i) * (first_value_j * second_value_k, column by column)
 *
 * All rows have `dim` columns and one type. The logits of a query are never written. */
typedef struct maxsim_triadic_call {
  size_t struct_size;
  int32_t device;             /* MAXSIM_CPU or MAXSIM_CUDA */
  int32_t type;               /* MAXSIM_F32, MAXSIM_F16 or MAXSIM_BF16 */
  int32_t dim;                /* columns, 1 .. 128 */
  int32_t index_type;         /* MAXSIM_INT64 or MAXSIM_INT32, of lengths */
  int64_t num_problems;       /* 0 or more */
  int64_t num_queries;        /* rows of queries of each problem, 0 .. 65536 */
  int64_t max_first;          /* rows of first keys and values of each problem, 0 .. 65536 */
  int64_t max_second;         /* rows of second keys and values of each problem, 0 .. 65536 */
  const void* queries;        /* [num_problems, num_queries, dim] row-major, aligned to the element, as all rows are */
  const void* first_keys;     /* [num_problems, max_first, dim] */
  const void* second_keys;    /* [num_problems, max_second, dim] */
  const void* first_values;   /* [num_problems, max_first, dim] */
  const void* second_values;  /* [num_problems, max_second, dim] */
  const void* first_lengths;  /* [num_problems], 0 .. max_first: the number of first keys; max_first if null */
  const void* second_lengths; /* [num_problems], 0 .. max_second; max_second if null */
  float scale;                /* finite */
  int32_t num_threads;        /* MAXSIM_CPU: threads at most; 0: one for each core that the process may use */
  void* stream;               /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;            /* scratch memory of the device, aligned to 256 bytes */
  size_t workspace_bytes;     /* at least the result of maxsim_triadic_workspace_bytes */
} maxsim_triadic_call;

/* The inputs and outputs of maxsim_triadic_backward, in addition to those of the call. Gradients have the type of the
 * call; those that are null are not computed. */
typedef struct maxsim_triadic_gradients {
  size_t struct_size;
  const void* output;           /* [num_problems, num_queries, dim], as maxsim_triadic wrote it for the same call */
  const float* lse;             /* [num_problems, num_queries], likewise */
  const void* output_gradients; /* [num_problems, num_queries, dim] in the type of the call */
  void* query_gradients;        /* [num_problems, num_queries, dim] or null */
  void* first_key_gradients;    /* [num_problems, max_first, dim] or null */
  void* second_key_gradients;   /* [num_problems, max_second, dim] or null */
  void* first_value_gradients;  /* [num_problems, max_first, dim] or null */
  void* second_value_gradients; /* [num_problems, max_second, dim] or null */
} maxsim_triadic_gradients;

/* Writes the size in bytes of the workspace that a pass (MAXSIM_FORWARD or MAXSIM_BACKWARD) of `call` needs. It depends
 * only on shapes, and is linear in the queries. */
maxsim_status maxsim_triadic_workspace_bytes(const maxsim_triadic_call* call, int32_t pass, size_t* bytes);

/* Writes output [num_problems, num_queries, dim] in the type of the call and lse [num_problems, num_queries]. A problem
 * without a pair of keys has the output 0 and the lse -infinity. Rows past the lengths may hold anything; others must
 * be finite.
 *
 * Sums are taken in FP32. MAXSIM_F16 and MAXSIM_BF16 are multiplied on tensor cores on MAXSIM_CUDA: products
 * query * first key, and weights, are then rounded to the type (as FlashAttention rounds its weights), and nothing else
 * is. On MAXSIM_CPU lengths are checked; on MAXSIM_CUDA the caller must make sure that they are valid. */
maxsim_status maxsim_triadic(const maxsim_triadic_call* call, void* output, float* lse);

/* Writes the gradients that are not null. Weights are computed again from the saved lse, with the rounding of the
 * forward pass. The product output * output gradient, which the gradient of every logit subtracts, uses the saved
 * output: with 16-bit types its rounding affects the gradients of queries and keys, as in FlashAttention. On
 * MAXSIM_CUDA the gradients of second keys and values in 16 bits round products query * second key instead, and
 * recompute the softmax with these, so that the weights of each gradient sum to 1. One thread block (or CPU thread)
 * computes each row of a gradient: it sums in FP32, in an order that depends only on shapes, and writes the row once.
 * Rows past the lengths get zeros. */
maxsim_status maxsim_triadic_backward(const maxsim_triadic_call* call, const maxsim_triadic_gradients* gradients);

/* Three-way MaxSim of a batch of problems: for query token i the best pair of a first and a second token,
 *
 *   maximum_i = max over (j, k) of <query_i, first_j, second_k>
 *
 * and the pair that has it. Of equal pairs it is the one with the smallest j, and of these the one with the smallest k.
 * The score of a problem is the sum of its maxima. */
typedef struct maxsim_triadic_max_call {
  size_t struct_size;
  int32_t device;             /* MAXSIM_CPU or MAXSIM_CUDA */
  int32_t type;               /* MAXSIM_F32, MAXSIM_F16 or MAXSIM_BF16; all are widened to FP32 */
  int32_t dim;                /* columns, 1 .. 4096 */
  int32_t index_type;         /* MAXSIM_INT64 or MAXSIM_INT32, of lengths */
  int64_t num_problems;       /* 0 or more */
  int64_t max_queries;        /* rows of queries of each problem, 0 .. 65536 */
  int64_t max_first;          /* 0 .. 65536 */
  int64_t max_second;         /* 0 .. 65536 */
  const void* queries;        /* [num_problems, max_queries, dim] row-major, aligned to the element */
  const void* first;          /* [num_problems, max_first, dim] */
  const void* second;         /* [num_problems, max_second, dim] */
  const void* query_lengths;  /* [num_problems], 0 .. max_queries; max_queries if null */
  const void* first_lengths;  /* [num_problems], 0 .. max_first; max_first if null */
  const void* second_lengths; /* [num_problems], 0 .. max_second; max_second if null */
  int32_t num_threads;        /* MAXSIM_CPU: threads at most; 0: one for each core that the process may use */
  int32_t reserved;           /* 0 */
  void* stream;               /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;            /* scratch memory of the device, aligned to 256 bytes */
  size_t workspace_bytes;     /* at least the result of maxsim_triadic_max_workspace_bytes */
} maxsim_triadic_max_call;

/* The inputs and outputs of maxsim_triadic_max_backward, in addition to those of the call. */
typedef struct maxsim_triadic_max_gradients {
  size_t struct_size;
  const int32_t* argmax;          /* [num_problems, max_queries, 2], as maxsim_triadic_max wrote it for the same call */
  const float* maximum_gradients; /* [num_problems, max_queries] */
  void* query_gradients;          /* [num_problems, max_queries, dim] in the type of the call, or null */
  void* first_gradients;          /* [num_problems, max_first, dim] or null */
  void* second_gradients;         /* [num_problems, max_second, dim] or null */
} maxsim_triadic_max_gradients;

/* Writes the size in bytes of the workspace that a pass (MAXSIM_FORWARD or MAXSIM_BACKWARD) of `call` needs. It depends
 * only on shapes. The backward pass needs none if first_gradients and second_gradients are null. */
maxsim_status maxsim_triadic_max_workspace_bytes(const maxsim_triadic_max_call* call, int32_t pass, size_t* bytes);

/* Writes maxima [num_problems, max_queries] and argmax [num_problems, max_queries, 2], (j, k). A query token past its
 * length gets 0 and (-1, -1); one of a problem without a pair gets -infinity and (-1, -1). Values and their products
 * must be finite. Others give meaningless maxima, but never an argmax outside of the problem. */
maxsim_status maxsim_triadic_max(const maxsim_triadic_max_call* call, float* maxima, int32_t* argmax);

/* Writes the gradients that are not null. Of the forward pass it needs only the argmax. g are the maxima's gradients,
 * and (j, k) is the pair of query token i:
 *
 *   query_gradients[i]  = g_i * (first_j * second_k, column by column)
 *   first_gradients[j]  = sum of g_i * (query_i * second_k) over the i whose pair has j, in ascending order
 *   second_gradients[k] = sum of g_i * (query_i * first_j) over the i whose pair has k, in ascending order
 *
 * Sums are taken in FP32 and every row is written once. A maximum whose gradient is 0 adds nothing. num_problems *
 * max_queries is at most 2^31 - 1 here, and so are the rows of first and second. */
maxsim_status maxsim_triadic_max_backward(const maxsim_triadic_max_call* call,
                                          const maxsim_triadic_max_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_TRIADIC_H_ */
