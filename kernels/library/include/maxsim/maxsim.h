/* The MaxSim kernels as a C library: scores, which document token each query token matched, and gradients.
 *
 *   score(q, d) = sum_i w_i * max_j <q_i, d_j>
 *
 * over a query's tokens i and a document's tokens j, accumulated in FP32. The matrix of similarities is never written.
 *
 * All functions are thread-safe, and the caller owns all memory. A function returns MAXSIM_OK or an error code. After
 * an error, maxsim_last_error() returns its text. On MAXSIM_CUDA a call neither waits for the device nor allocates
 * memory: it enqueues work on the caller's stream. Pointers to rows, offsets, results and workspace must point to
 * memory of the current device. A call on MAXSIM_CUDA may be captured into a CUDA graph. On MAXSIM_CPU pointers must
 * point to host memory, and a call returns when its results are written.
 *
 * Scores and matches do not depend on the other pairs of a call, and no result depends on the number of threads or on
 * the run: the same inputs give the same bits on one device and instruction set.
 *
 * The first member of every structure is its size. Set it to sizeof the structure. Later versions of the library add
 * members at the end, and still accept the smaller structures of programs that were compiled with an older header. Set
 * all members that you do not use to zero. */
#ifndef MAXSIM_MAXSIM_H_
#define MAXSIM_MAXSIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a function: MAXSIM_OK or a kind of error. */
enum {
  MAXSIM_OK = 0,
  MAXSIM_INVALID_ARGUMENT = 1, /* an argument is outside of what its comment allows */
  MAXSIM_OUT_OF_MEMORY = 2,    /* the host has no memory for the call */
  MAXSIM_UNSUPPORTED = 3,      /* this build or this machine cannot do it, such as CUDA in a build without it */
  MAXSIM_DEVICE_ERROR = 4,     /* CUDA reports an error */
  MAXSIM_INTERNAL = 5          /* a bug of the library */
};
typedef int32_t maxsim_status;

/* The device of a call, whose memory its pointers point to. */
enum { MAXSIM_CPU = 0, MAXSIM_CUDA = 1 };

/* How the values of token vectors are stored. */
enum {
  MAXSIM_F32 = 1,
  MAXSIM_F16 = 2,  /* IEEE binary16 */
  MAXSIM_BF16 = 3, /* upper half of an IEEE binary32 */
  MAXSIM_I8 = 4    /* integers from -127 to 127, which are multiplied by their scale */
};

/* How sequences (queries or documents) are laid out in a matrix with one token vector per row. */
enum {
  /* Sequence s has rows s * max_tokens .. (s + 1) * max_tokens - 1. If `lengths` is not null, only the first lengths[s]
   * of them count. */
  MAXSIM_PADDED = 0,
  /* Sequence s has the rows from offsets[s] to offsets[s + 1] (cu_seqlens). */
  MAXSIM_PACKED = 1,
  /* Sequence s has lengths[s] rows from offsets[s] on. Sequences may overlap. For documents only. */
  MAXSIM_SCATTERED = 2
};

/* The type of offsets and lengths. */
enum { MAXSIM_INT64 = 0, MAXSIM_INT32 = 1 };

/* Whether each sequence or each token has a scale. */
enum { MAXSIM_SCALE_PER_SEQUENCE = 0, MAXSIM_SCALE_PER_TOKEN = 1 };

/* Which queries are scored against which documents. A pair is one query with one document. */
enum {
  /* Every query with every document: pair q * num_documents + d. Use it also for a single query. */
  MAXSIM_ALL = 0,
  /* Query p with document p: there are as many documents as queries. */
  MAXSIM_PAIRS = 1,
  /* Query q with its own list of list_length documents. Pair p = q * list_length + k is query q with document
   * candidates[p], or with document p if candidates is null. */
  MAXSIM_LISTS = 2
};

/* The tokens of all queries, or of all documents, of a call. */
typedef struct maxsim_tokens {
  size_t struct_size;
  int32_t layout;        /* MAXSIM_PADDED, ... */
  int32_t type;          /* MAXSIM_F32, ...; the same for queries and documents */
  int32_t dim;           /* columns, 1 .. 4096; the same for queries and documents */
  int32_t index_type;    /* MAXSIM_INT64 or MAXSIM_INT32, of offsets and lengths */
  int64_t num_sequences; /* 0 or more */
  int64_t max_tokens;    /* MAXSIM_PADDED: rows of each sequence; otherwise an upper bound of them. 0 .. 65536, but
                          * 0 .. 4096 for queries */
  int64_t num_rows;      /* rows of the matrix; MAXSIM_PADDED: num_sequences * max_tokens */
  const void* rows;      /* [num_rows, dim] row-major, aligned to the element */
  const void* offsets;   /* MAXSIM_PACKED: [num_sequences + 1], not decreasing; MAXSIM_SCATTERED: [num_sequences] */
  const void* lengths;   /* MAXSIM_PADDED: [num_sequences] or null; MAXSIM_SCATTERED: [num_sequences] */
  const uint8_t* mask;   /* [num_rows] or null: a token whose byte is 0 does not count */
  const float* scales;   /* finite, 0 or more. MAXSIM_I8: [num_sequences] or [num_rows]; other types: null or, for
                          * documents of MAXSIM_F16 and MAXSIM_BF16 with MAXSIM_SCALE_PER_TOKEN, [num_rows] */
  int32_t scale_of;      /* MAXSIM_SCALE_PER_SEQUENCE or MAXSIM_SCALE_PER_TOKEN */
  int32_t reserved;      /* 0 */
} maxsim_tokens;

/* A call: its inputs, and the device that computes it. */
typedef struct maxsim_call {
  size_t struct_size;
  int32_t device;  /* MAXSIM_CPU or MAXSIM_CUDA */
  int32_t pairing; /* MAXSIM_ALL, ... */
  const maxsim_tokens* queries;
  const maxsim_tokens* documents;
  const float* weights;      /* [queries' num_rows], a factor for each query token; all are 1 if null */
  const int64_t* candidates; /* MAXSIM_LISTS: [num_queries, list_length] or null */
  int64_t list_length;       /* MAXSIM_LISTS: documents of each list */
  float empty_score;         /* the score of a document in which no token counts, if at least one query token counts */
  int32_t num_threads;       /* MAXSIM_CPU: maximum threads; 0: one for each core that the process may use */
  void* stream;              /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;           /* scratch memory of the device, aligned to 256 bytes; may be null if 0 bytes are needed */
  size_t workspace_bytes;    /* at least the result of maxsim_workspace_bytes */
} maxsim_call;

/* The inputs and outputs of maxsim_backward, in addition to those of the call. */
typedef struct maxsim_gradients {
  size_t struct_size;
  const int32_t* argmax;        /* [pairs, queries' max_tokens], as maxsim_forward wrote it for the same call */
  const float* score_gradients; /* [pairs] */
  void* query_gradients;        /* [queries' num_rows, dim] in their type, or null */
  void* document_gradients;     /* [documents' num_rows, dim] in their type, or null */
  float* weight_gradients;      /* [queries' num_rows], or null */
} maxsim_gradients;

/* The passes for which maxsim_workspace_bytes returns sizes. */
enum { MAXSIM_FORWARD = 0, MAXSIM_BACKWARD = 1 };

/* Returns the library's version, such as "0.2.0". */
const char* maxsim_version(void);

/* Returns the text of the calling thread's last error, or "" if it has had none. The text is valid until the
 * thread's next call. */
const char* maxsim_last_error(void);

/* Writes 1 to `available` if calls on `device` (MAXSIM_CPU or MAXSIM_CUDA) can work. Writes 0 if this build has no
 * code for the device or if this machine has no such device. For MAXSIM_CUDA it is 1 if this build has code for any
 * of the machine's GPUs, not only for the current one. */
maxsim_status maxsim_device_available(int32_t device, int32_t* available);

/* Writes the size in bytes of the workspace that a pass (MAXSIM_FORWARD or MAXSIM_BACKWARD) of `call` needs. It depends
 * on shapes, types, which members are null and, on MAXSIM_CUDA, the current device. The function reads no device
 * memory, and the call's workspace need not be set. The backward pass needs none if document_gradients is null. */
maxsim_status maxsim_workspace_bytes(const maxsim_call* call, int32_t pass, size_t* bytes);

/* Scores every pair of `call`. Writes scores [pairs] and, unless it is null, argmax [pairs, queries' max_tokens]: for
 * each query token the index, within the document, of the token with the largest similarity. If several tokens have it,
 * argmax is the smallest of their indices. It is -1 for query tokens that do not count, and for all query tokens if no
 * token of the document counts. Indices count all rows of a document, also those of tokens that do not count.
 *
 * A query in which no token counts has the score 0. Rows must hold finite values of at most 1e12 in magnitude, also
 * after multiplication by their scale, and weights must be finite. With other values, scores are meaningless even if
 * they are finite, but argmax still lies within the document. Rows, weights and scales of tokens that do not count may
 * hold anything.
 *
 * On MAXSIM_CPU the function checks offsets, lengths and candidates; on MAXSIM_CUDA the caller must make sure that
 * they are valid. On MAXSIM_CUDA a call has at most 2^31 - 1 pairs. maxsim_backward on MAXSIM_CUDA takes at most
 * 2^31 - 1 query tokens, padding included. It also takes at most 2^31 - 1 entries of the argmax and 2^32 - 2
 * document rows, except for MAXSIM_ALL without MAXSIM_SCATTERED documents. */
maxsim_status maxsim_forward(const maxsim_call* call, float* scores, int32_t* argmax);

/* Writes those gradients whose pointers are not null. From the forward pass it needs only the argmax:
 *
 *   query_gradients[i]    = w_i * sum of g_p * d_argmax[p, i]          over the pairs p of the query
 *   document_gradients[j] = sum of g_p * w_i * q_i                     over all (p, i) that matched row j, in order
 *   weight_gradients[i]   = sum of g_p * <q_i, d_argmax[p, i]>         over the pairs p of the query
 *
 * Here g_p is the score gradient of pair p. Sums are taken in FP32, in an order that depends only on shapes. Every
 * row is written once; rows that no query token matched get zeros. A pair whose score gradient is 0 adds nothing,
 * even if its rows hold infinities or NaN. Types are MAXSIM_F32, MAXSIM_F16 and MAXSIM_BF16. Each query row belongs
 * to one query (not MAXSIM_SCATTERED). */
maxsim_status maxsim_backward(const maxsim_call* call, const maxsim_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_MAXSIM_H_ */
