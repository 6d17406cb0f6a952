/* MaxSim over documents that are stored as residual codes, as in ColBERTv2 (Santhanam et al., 2022) and PLAID's
 * indexes. A document token consists of the number of a centroid and of one bucket per column:
 *
 *   v[c] = centroids[number][c] + bucket_weights[bucket c]          d = v / max(|v|, 1e-12), or v itself
 *   score(q, D) = sum_i w_i * max_j <q_i, d_j>
 *
 * Vectors are decoded as they are multiplied. The decoded matrix is never written to memory.
 *
 * Centroids have the type of the queries. Bucket weights and each v[c] are rounded to that type. Products are summed up
 * in FP32, and the norm of the rounded v is computed in FP32. With MAXSIM_F32, only FP32 sums are rounded.
 *
 * The conventions of maxsim.h apply: calls, structures, threads, streams, errors, and the same bits in every run. */
#ifndef MAXSIM_RESIDUAL_CODES_H_
#define MAXSIM_RESIDUAL_CODES_H_

#include "maxsim/maxsim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the buckets of 8 / nbits columns share a byte. */
enum {
  /* As ColBERT, PLAID and fast-plaid write them: the first column has the highest bits of the byte, and the bits of
   * each bucket are in reverse order, with the lowest bit of the bucket in the highest place. */
  MAXSIM_COLBERT_BITS = 0,
  /* The first column has the lowest bits of the byte, and the bits of each bucket are in their usual order. */
  MAXSIM_LOW_BITS_FIRST = 1
};

/* The tokens of all documents of a call. The call's `documents` describe how they are laid out in num_rows rows. */
typedef struct maxsim_residual_codes {
  size_t struct_size;
  int32_t nbits;                /* bits of a bucket: 1, 2, 4 or 8; dim * nbits is a multiple of 8 */
  int32_t bit_order;            /* MAXSIM_COLBERT_BITS or MAXSIM_LOW_BITS_FIRST */
  int32_t number_type;          /* MAXSIM_INT64 or MAXSIM_INT32, of centroid_numbers */
  int32_t normalize;            /* 1: vectors are divided by their norm; 0: they are not */
  int64_t num_centroids;        /* 1 .. 2^31 - 1, or 0 if there are no rows */
  const void* centroid_numbers; /* [num_rows], each below num_centroids */
  const uint8_t* residuals;     /* [num_rows, dim * nbits / 8] row-major */
  const void* centroids;        /* [num_centroids, dim] row-major in the type of the queries, aligned to the element */
  const float* bucket_weights;  /* [2^nbits], finite */
} maxsim_residual_codes;

/* Writes the size of the workspace that maxsim_residual_codes_forward needs, as maxsim_workspace_bytes does.
 * maxsim_residual_codes_backward needs none. */
maxsim_status maxsim_residual_codes_workspace_bytes(const maxsim_call* call, const maxsim_residual_codes* codes,
                                                    size_t* bytes);

/* Scores every pair of `call`, as maxsim_forward does, with the documents in `codes`. The call's `documents` must have
 * null rows and scales, and the type of the queries: MAXSIM_F32, MAXSIM_F16 or MAXSIM_BF16. `argmax` may be null.
 *
 * Codes of tokens that do not count may hold anything. A centroid number that is not in 0 .. num_centroids - 1 is an
 * error on MAXSIM_CPU. On MAXSIM_CUDA it gives a meaningless score, but the kernels never read outside of the
 * centroids. The decoded vectors of the two devices differ only in the rounding of FP32 sums. */
maxsim_status maxsim_residual_codes_forward(const maxsim_call* call, const maxsim_residual_codes* codes, float* scores,
                                            int32_t* argmax);

/* Writes the gradients of queries and weights, if their pointers are not null, as maxsim_backward does. The argmax
 * must come from maxsim_residual_codes_forward for the same call. Documents have no gradients: document_gradients
 * must be null. */
maxsim_status maxsim_residual_codes_backward(const maxsim_call* call, const maxsim_residual_codes* codes,
                                             const maxsim_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_RESIDUAL_CODES_H_ */
