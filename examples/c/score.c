/* Scores a query of two tokens against three documents with libmaxsim, says which token each query token matched, and
 * takes a gradient. */
#include <maxsim/maxsim.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kDim = 4, kQueryTokens = 2, kDocuments = 3, kDocumentTokens = 5 };

/* Ends the program where a function of the library failed. */
static void check(maxsim_status status) {
  if (status == MAXSIM_OK) return;
  fprintf(stderr, "maxsim: %s\n", maxsim_last_error());
  exit(1);
}

int main(void) {
  /* Documents follow one another in one matrix: rows 0 and 1, row 2, rows 3 and 4. */
  const float query_rows[kQueryTokens][kDim] = {{1, 0, 0, 0}, {0, 1, 0, 0}};
  const float document_rows[kDocumentTokens][kDim] = {
      {0.5f, 0.25f, 0, 0}, {0.75f, 0, 1, 0}, {0.25f, 1, 0, 0}, {0, 0, 0, 1}, {1, 0.5f, 0, 0}};
  const int32_t offsets[kDocuments + 1] = {0, 2, 3, 5};

  /* Members that are not named are zero: padded, int64, no mask, no weights, every core. */
  const maxsim_tokens queries = {.struct_size = sizeof(queries),
                                 .type = MAXSIM_F32,
                                 .dim = kDim,
                                 .num_sequences = 1,
                                 .max_tokens = kQueryTokens,
                                 .num_rows = kQueryTokens,
                                 .rows = query_rows};
  const maxsim_tokens documents = {.struct_size = sizeof(documents),
                                   .layout = MAXSIM_PACKED,
                                   .type = MAXSIM_F32,
                                   .dim = kDim,
                                   .index_type = MAXSIM_INT32,
                                   .num_sequences = kDocuments,
                                   .max_tokens = kDocumentTokens,
                                   .num_rows = kDocumentTokens,
                                   .rows = document_rows,
                                   .offsets = offsets};
  const maxsim_call call = {.struct_size = sizeof(call),
                            .device = MAXSIM_CPU,
                            .pairing = MAXSIM_ALL,
                            .queries = &queries,
                            .documents = &documents};

  float scores[kDocuments];
  int32_t argmax[kDocuments][kQueryTokens];
  check(maxsim_forward(&call, scores, argmax[0]));
  for (int document = 0; document < kDocuments; ++document) {
    printf("document %d: score %.2f, tokens %d and %d\n", document, (double)scores[document], (int)argmax[document][0],
           (int)argmax[document][1]);
  }

  /* The gradient of the first document's score less the second's. */
  const float score_gradients[kDocuments] = {1, -1, 0};
  float query_gradients[kQueryTokens][kDim];
  const maxsim_gradients gradients = {.struct_size = sizeof(gradients),
                                      .argmax = argmax[0],
                                      .score_gradients = score_gradients,
                                      .query_gradients = query_gradients};
  check(maxsim_backward(&call, &gradients));
  for (int token = 0; token < kQueryTokens; ++token) {
    printf("gradient of query token %d:", token);
    for (int column = 0; column < kDim; ++column) printf(" %.2f", (double)query_gradients[token][column]);
    printf("\n");
  }
  return 0;
}
