/* MaxSim over documents that are stored as residual codes, as ColBERTv2 (Santhanam et al., 2022) and the indexes of
 * PLAID have them. A document token is the number of a centroid and a bucket for each column:
 *
 *   v[c] = centroids[number][c] + bucket_weights[bucket c]          d = v / max(|v|, 1e-12), or v itself
 *   score(q, D) = sum_i w_i * max_j <q_i, d_j>
 *
 * Vectors are decoded where they are multiplied. The decoded matrix never exists in memory.
 *
 * Centroids have the type of the queries; bucket weights are rounded to it, and so is each v[c]. Products are summed up
 * in FP32, and the norm of the rounded v is one of FP32. With MAXSIM_F32 nothing but FP32 sums is rounded.
 *
 * What maxsim.h says of calls, structures, threads, streams, errors and bits that do not change holds here too. */
#ifndef MAXSIM_RESIDUAL_CODES_H_
#define MAXSIM_RESIDUAL_CODES_H_

#include "maxsim/maxsim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the buckets of 8 / nbits columns share a byte. */
enum {
  /* As ColBERT, PLAID and fast-plaid write them: the first column has the highest bits of the byte, and the bits of one
   * bucket stand in reverse, its lowest bit highest. */
  MAXSIM_COLBERT_BITS = 0,
  /* The first column has the lowest bits of the byte, and a bucket's lowest bit is lowest. */
  MAXSIM_LOW_BITS_FIRST = 1
};

/* The tokens of all documents of a call: `documents` of the call says how they lie in num_rows rows. */
typedef struct maxsim_residual_codes {
  size_t struct_size;
  int32_t nbits;                /* bits of a bucket: 1, 2, 4 or 8; dim * nbits is a multiple of 8 */
  int32_t bit_order;            /* MAXSIM_COLBERT_BITS or MAXSIM_LOW_BITS_FIRST */
  int32_t number_type;          /* MAXSIM_INT64 or MAXSIM_INT32, of centroid_numbers */
  int32_t normalize;            /* 1: vectors are divided by their norm; 0: they are not */
  int64_t num_centroids;        /* 1 .. 2^31 - 1, or 0 where there are no rows */
  const void* centroid_numbers; /* [num_rows], each below num_centroids */
  const uint8_t* residuals;     /* [num_rows, dim * nbits / 8] row-major */
  const void* centroids;        /* [num_centroids, dim] row-major in the type of the queries, aligned to the element */
  const float* bucket_weights;  /* [2^nbits], finite */
} maxsim_residual_codes;

/* Writes how much workspace maxsim_residual_codes_forward needs for the call, as maxsim_workspace_bytes does.
 * maxsim_residual_codes_backward needs none. */
maxsim_status maxsim_residual_codes_workspace_bytes(const maxsim_call* call, const maxsim_residual_codes* codes,
                                                    size_t* bytes);

/* Scores every pair of `call`, as maxsim_forward does, over documents that are `codes`. call.documents has rows and
 * scales null, and the type of the queries, which is MAXSIM_F32, MAXSIM_F16 or MAXSIM_BF16. `argmax` may be null.
 *
 * Codes of tokens that do not count may hold anything. On MAXSIM_CPU a centroid number outside of the centroids is an
 * error; on MAXSIM_CUDA the score then means nothing, and nothing outside of the centroids is read. Vectors of both
 * devices differ in the rounding of FP32 sums alone. */
maxsim_status maxsim_residual_codes_forward(const maxsim_call* call, const maxsim_residual_codes* codes, float* scores,
                                            int32_t* argmax);

/* Writes the gradients of queries and weights that are asked for, as maxsim_backward does, out of the argmax that
 * maxsim_residual_codes_forward wrote for the same call: the documents are frozen, and gradients.document_gradients is
 * null. */
maxsim_status maxsim_residual_codes_backward(const maxsim_call* call, const maxsim_residual_codes* codes,
                                             const maxsim_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_RESIDUAL_CODES_H_ */
