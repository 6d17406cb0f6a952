// The configured limits on one request. GetInfo shows them, and requests are checked against them before they are
// queued.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/limits.h"
#include "kernels/maxsim.h"

namespace maxsim::service {

struct RequestLimits {
  int64_t max_queries_per_request = 64;
  int64_t max_query_tokens = maxsim::kMaxQueryTokens;  // of one query
  int64_t max_document_tokens = 65536;                 // of one inline document; at most kMaxDocumentTokens
  int64_t max_candidates_per_query = 1 << 20;          // of listed ids, as sent; a whole collection may be larger
  int64_t max_inline_documents = 1024;                 // of one query
  int64_t max_top_k = maxsim::kMaxTopK;
  int64_t default_top_k = 10;
  uint64_t max_request_work = uint64_t{1} << 40;    // token pairs, summed over the request's queries
  int64_t max_alignments = 1 << 22;                 // results x query tokens, summed, if alignments are asked for
  uint64_t max_request_bytes = uint64_t{64} << 20;  // of one message on the wire

  // The maximum size of one answer: payloads, ids, unknown ids and alignments together. No message can exceed 2 GiB.
  uint64_t max_answer_bytes = uint64_t{64} << 20;

  // Whether to refuse documents with a token that INT8 would distort too much (collection::QuantizationLoss) in i8
  // collections.
  bool refuse_lossy_tokens = false;

  // These limits have no keys of their own: they follow from the engine's executor.
  int64_t max_staged_bytes = ExecutorOptions{}.max_staged_bytes;  // of one inline document, as StagedBytes counts it
  int32_t max_dim = ExecutorOptions{}.max_dim;                    // of inline documents without a collection
};

// The maximum length of a request_id. It needs no key in the configuration, because the id is only sent back, never
// stored.
inline constexpr int64_t kMaxRequestIdBytes = 256;

// The default budget of require_proof is this times `refinement.documents`.
inline constexpr int64_t kBudgetFactor = 16;

// The maximum number of payload_fields in a request, and the maximum length of each name. No name may be empty.
inline constexpr int kMaxPayloadFields = 64;
inline constexpr size_t kMaxPayloadFieldBytes = 256;

}  // namespace maxsim::service
