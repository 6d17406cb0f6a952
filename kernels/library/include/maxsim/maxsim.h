/* The MaxSim kernels as a C library: scores, which document token each query token matched, and gradients.
 *
 *   score(q, d) = sum_i w_i * max_j <q_i, d_j>
 *
 * over a query's tokens i and a document's tokens j, accumulated in FP32. The matrix of similarities is never written.
 *
 * All functions are thread-safe, and the caller owns all memory. A function either returns MAXSIM_OK, or an error whose
 * text maxsim_last_error() has. On MAXSIM_CUDA nothing waits for the device and nothing is allocated: work is put on
 * the caller's stream, and pointers to rows, offsets, results and workspace are of the device that is current. Such a
 * call may be captured into a CUDA graph. On MAXSIM_CPU pointers are of host memory, and a call returns when its
 * results are written.
 *
 * Scores and matches do not depend on the other pairs of a call, and no result depends on the number of threads or on
 * the run: the same inputs give the same bits on one device and instruction set.
 *
 * Every structure begins with its size, which the caller sets to sizeof the structure: later versions add members at
 * the end, and take the smaller structures of programs that were compiled before. Set all members that you do not use
 * to zero. */
#ifndef MAXSIM_MAXSIM_H_
#define MAXSIM_MAXSIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns: MAXSIM_OK, or what kind of error it met. */
enum {
  MAXSIM_OK = 0,
  MAXSIM_INVALID_ARGUMENT = 1, /* an argument is outside of what its comment allows */
  MAXSIM_OUT_OF_MEMORY = 2,    /* the host has no memory for the call */
  MAXSIM_UNSUPPORTED = 3,      /* this build or this machine cannot do it, such as CUDA in a build without it */
  MAXSIM_DEVICE_ERROR = 4,     /* CUDA reports an error */
  MAXSIM_INTERNAL = 5          /* a bug of the library */
};
typedef int32_t maxsim_status;

/* Where the pointers of a call point. */
enum { MAXSIM_CPU = 0, MAXSIM_CUDA = 1 };

/* How the values of token vectors are stored. */
enum {
  MAXSIM_F32 = 1,
  MAXSIM_F16 = 2,  /* IEEE binary16 */
  MAXSIM_BF16 = 3, /* upper half of an IEEE binary32 */
  MAXSIM_I8 = 4    /* integers from -127 to 127, each worth its scale */
};

/* How sequences (queries or documents) lie in a matrix of rows, a token vector a row. */
enum {
  /* Sequence s has the rows from s * max_tokens on: all max_tokens of them, or the first lengths[s]. */
  MAXSIM_PADDED = 0,
  /* Sequence s has the rows from offsets[s] to offsets[s + 1] (cu_seqlens). */
  MAXSIM_PACKED = 1,
  /* Sequence s has lengths[s] rows from offsets[s] on. Sequences may overlap. For documents only. */
  MAXSIM_SCATTERED = 2
};

/* The type of offsets and lengths. */
enum { MAXSIM_INT64 = 0, MAXSIM_INT32 = 1 };

/* What a scale of MAXSIM_I8 belongs to. */
enum { MAXSIM_SCALE_PER_SEQUENCE = 0, MAXSIM_SCALE_PER_TOKEN = 1 };

/* Which queries are scored against which documents. A pair is one query with one document. */
enum {
  /* Every query with every document: pair q * num_documents + d. One query over documents is a case of it. */
  MAXSIM_ALL = 0,
  /* Query p with document p: there are as many documents as queries. */
  MAXSIM_PAIRS = 1,
  /* Query q with list_length documents of its own: pair q * list_length + k is document candidates[pair], or where
   * candidates is null, document number `pair` itself. */
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
  int64_t max_tokens;  /* MAXSIM_PADDED: rows of each sequence; otherwise no sequence has more. 0 .. 65536, and .. 4096
                        * for queries */
  int64_t num_rows;    /* rows of the matrix; MAXSIM_PADDED: num_sequences * max_tokens */
  const void* rows;    /* [num_rows, dim] row-major, aligned to the element */
  const void* offsets; /* MAXSIM_PACKED: [num_sequences + 1], not decreasing; MAXSIM_SCATTERED: [num_sequences] */
  const void* lengths; /* MAXSIM_PADDED: [num_sequences] or null; MAXSIM_SCATTERED: [num_sequences] */
  const uint8_t* mask; /* [num_rows] or null: a token whose byte is 0 does not count */
  const float* scales; /* MAXSIM_I8: finite, 0 or more, [num_sequences] or [num_rows]; other types: null */
  int32_t scale_of;    /* MAXSIM_SCALE_PER_SEQUENCE or MAXSIM_SCALE_PER_TOKEN */
  int32_t reserved;    /* 0 */
} maxsim_tokens;

/* What is scored, and by what. */
typedef struct maxsim_call {
  size_t struct_size;
  int32_t device;  /* MAXSIM_CPU or MAXSIM_CUDA */
  int32_t pairing; /* MAXSIM_ALL, ... */
  const maxsim_tokens* queries;
  const maxsim_tokens* documents;
  const float* weights;      /* [queries' num_rows], a factor for each query token; null: all are 1 */
  const int64_t* candidates; /* MAXSIM_LISTS: [num_queries, list_length] or null */
  int64_t list_length;       /* MAXSIM_LISTS: documents of each list */
  float empty_score;         /* the score of a document in which no token counts, with a query in which one does */
  int32_t num_threads;       /* MAXSIM_CPU: threads at most; 0: one for each core that the process may use */
  void* stream;              /* MAXSIM_CUDA: the cudaStream_t */
  void* workspace;        /* memory of the device, aligned to 256 bytes, of which nothing is kept; null for 0 bytes */
  size_t workspace_bytes; /* at least what maxsim_workspace_bytes says */
} maxsim_call;

/* What maxsim_backward takes and writes. */
typedef struct maxsim_gradients {
  size_t struct_size;
  const int32_t* argmax;        /* [pairs, queries' max_tokens], as maxsim_forward wrote it for the same call */
  const float* score_gradients; /* [pairs] */
  void* query_gradients;        /* [queries' num_rows, dim] in their type, or null */
  void* document_gradients;     /* [documents' num_rows, dim] in their type, or null */
  float* weight_gradients;      /* [queries' num_rows], or null */
} maxsim_gradients;

/* The passes that maxsim_workspace_bytes knows. */
enum { MAXSIM_FORWARD = 0, MAXSIM_BACKWARD = 1 };

/* Returns the library's version, such as "0.2.0". */
const char* maxsim_version(void);

/* Returns the text of the last error of the calling thread, "" before the first. It is valid until the thread's next
 * call. */
const char* maxsim_last_error(void);

/* Writes 1 to `available` where calls on `device` (MAXSIM_CPU, ...) can work, and 0 where this build has no code for
 * it or this machine has no such device. For MAXSIM_CUDA any device counts that this build has code for, whichever is
 * current. */
maxsim_status maxsim_device_available(int32_t device, int32_t* available);

/* Writes how much workspace a pass (MAXSIM_FORWARD or MAXSIM_BACKWARD) of `call` needs. It depends on shapes, types,
 * the members that are null, and on MAXSIM_CUDA on the device that is current. It reads no memory of the device. The
 * workspace of `call` itself may be unset. The backward pass needs none where document_gradients is null. */
maxsim_status maxsim_workspace_bytes(const maxsim_call* call, int32_t pass, size_t* bytes);

/* Scores every pair of `call`. Writes scores [pairs], and unless it is null, argmax [pairs, queries' max_tokens]: the
 * index, inside the document, of the token with the largest similarity, the smallest index of equals. -1 stands where
 * there is none: for tokens of the query that do not count, and for documents without a token that counts. Indices are
 * those of rows, so that tokens that do not count keep theirs.
 *
 * A query in which no token counts has the score 0. Rows hold finite values of at most 1e12 in magnitude, and weights
 * are finite; other values give scores that mean nothing, which may be finite all the same, and never an argmax outside
 * of the document. Rows, weights and scales of tokens that do not count may hold anything.
 *
 * On MAXSIM_CPU offsets, lengths and candidates are checked. On MAXSIM_CUDA they are the caller's promise, and a call
 * has at most 2^31 - 1 pairs; maxsim_backward then takes at most as many query tokens, padding included, and, but for
 * MAXSIM_ALL over documents that are not MAXSIM_SCATTERED, at most as many entries of the argmax. */
maxsim_status maxsim_forward(const maxsim_call* call, float* scores, int32_t* argmax);

/* Writes the gradients that are asked for, out of the argmax alone:
 *
 *   query_gradients[i]    = w_i * sum of g_p * d_argmax[p, i]          over the pairs p of the query
 *   document_gradients[j] = sum of g_p * w_i * q_i                     over all (p, i) that matched row j, in order
 *   weight_gradients[i]   = sum of g_p * <q_i, d_argmax[p, i]>         over the pairs p of the query
 *
 * Sums are taken in FP32, in an order that the shapes fix, and every row is written once: zeros where nothing matched.
 * A pair whose score gradient is 0 adds nothing, whatever its rows hold.
 * Types are MAXSIM_F32, MAXSIM_F16 and MAXSIM_BF16. Queries' rows belong to one query each (not MAXSIM_SCATTERED). */
maxsim_status maxsim_backward(const maxsim_call* call, const maxsim_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_MAXSIM_H_ */
