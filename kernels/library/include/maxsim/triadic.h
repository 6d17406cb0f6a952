/* Third-order operators: three-way attention and three-way MaxSim. Both contract three vectors,
 *
 *   <a, b, c> = sum over columns x of a_x b_x c_x
 *
 * and stream over all pairs of two sequences, as "From Pairwise to Higher Order Tensor Operations on GPUs" (Rahim and
 * Hanson, 2025) describes: a thread block has one query and walks the other two axes in tiles, with a running maximum,
 * a running denominator and a running sum. No array with an element per pair is written, so the memory is linear in the
 * lengths. The paper does not say which operation is computed; the attention here is 2-simplicial (Clift et al., 2019).
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
 * of a first key j and a second key k, each with its value:
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
  int32_t num_threads;        /* MAXSIM_CPU: maximum threads; 0: one for each core that the process may use */
  void* stream;               /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;            /* scratch memory of the device, aligned to 256 bytes */
  size_t workspace_bytes;     /* at least the result of maxsim_triadic_workspace_bytes */
} maxsim_triadic_call;

/* The inputs and outputs of maxsim_triadic_backward, in addition to those of the call. Gradients have the type of
 * the call. A gradient whose pointer is null is not computed. */
typedef struct maxsim_triadic_gradients {
  size_t struct_size;
  const void* output;           /* [num_problems, num_queries, dim], as maxsim_triadic wrote it for the same call */
  const float* lse;             /* [num_problems, num_queries], as maxsim_triadic wrote it for the same call */
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

/* Writes output [num_problems, num_queries, dim] in the type of the call and lse [num_problems, num_queries]. In a
 * problem without a pair of keys, each query has the output 0 and the lse -infinity. Rows past the lengths may hold
 * anything; all other rows must be finite.
 *
 * Sums are taken in FP32. On MAXSIM_CUDA, tensor cores multiply MAXSIM_F16 and MAXSIM_BF16. For them, the products
 * query * first key and the weights are rounded to the type (as FlashAttention rounds its weights); no other
 * intermediate value is. On MAXSIM_CPU the function checks the lengths; on MAXSIM_CUDA the caller must make sure
 * that they are valid. */
maxsim_status maxsim_triadic(const maxsim_triadic_call* call, void* output, float* lse);

/* Writes those gradients whose pointers are not null. Computes the weights again from the saved lse, with the
 * rounding of the forward pass. The gradient of every logit subtracts the product output * output gradient. This
 * product uses the saved output: with 16-bit types, the rounding of the output affects the gradients of queries and
 * keys, as in FlashAttention. On MAXSIM_CUDA with 16-bit types, the gradients of second keys and values round the
 * products query * second key instead, and compute the softmax again from these, so that the weights of each
 * gradient sum to 1. One thread block (or CPU thread) computes each row of a gradient: it sums in FP32, in an order
 * that depends only on shapes, and writes the row once. Rows past the lengths get zeros. */
maxsim_status maxsim_triadic_backward(const maxsim_triadic_call* call, const maxsim_triadic_gradients* gradients);

/* Three-way MaxSim of a batch of problems: for query token i the best pair of a first and a second token,
 *
 *   maximum_i = max over (j, k) of <query_i, first_j, second_k>
 *
 * and the pair (j, k) that has this maximum. If several pairs have it, the one with the smallest j is taken, and of
 * these the one with the smallest k. The score of a problem is the sum of its maxima. */
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
  int32_t num_threads;        /* MAXSIM_CPU: maximum threads; 0: one for each core that the process may use */
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

/* Writes maxima [num_problems, max_queries] and argmax [num_problems, max_queries, 2], (j, k). A query token past
 * the length of its problem gets the maximum 0 and the argmax (-1, -1). In a problem without a pair, query tokens
 * get the maximum -infinity and the argmax (-1, -1). Values and their products must be finite. With other values
 * maxima are meaningless, but argmax still lies within the problem. */
maxsim_status maxsim_triadic_max(const maxsim_triadic_max_call* call, float* maxima, int32_t* argmax);

/* Writes those gradients whose pointers are not null. From the forward pass it needs only the argmax. g_i is the
 * gradient of maximum_i, and (j, k) is the pair of query token i:
 *
 *   query_gradients[i]  = g_i * (first_j * second_k, column by column)
 *   first_gradients[j]  = sum of g_i * (query_i * second_k) over the i whose pair has j, in ascending order
 *   second_gradients[k] = sum of g_i * (query_i * first_j) over the i whose pair has k, in ascending order
 *
 * Sums are taken in FP32 and every row is written once. A maximum whose gradient is 0 adds nothing. This function
 * takes at most 2^31 - 1 query tokens (num_problems * max_queries), and at most as many rows of `first` and of
 * `second`. */
maxsim_status maxsim_triadic_max_backward(const maxsim_triadic_max_call* call,
                                          const maxsim_triadic_max_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_TRIADIC_H_ */
