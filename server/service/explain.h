// Explains a score: every similarity of one query's tokens with the tokens of one stored document, of which the score
// takes the best of each row. It is for a person who looks at one answer, and runs on the CPU, beside the queue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// So many similarities are computed at most: their JSON has about ten megabytes, and they take a second at most.
inline constexpr int64_t kMaxExplainedPairs = int64_t{1} << 20;

// More explanations at a time would take the threads that read and write the bodies of Rerank's calls.
inline constexpr int kMaxExplanations = 2;

struct Explanation {
  uint64_t generation = 0;
  // In FP64, as kernels/reference.h computes it: that of Rerank differs by 1e-5 of its magnitude at most. So do the
  // similarities, which are of the query as the collection's storage has it: rounded, and for I8 rotated and quantised.
  double score = 0;
  int64_t num_query_tokens = 0;
  int64_t num_document_tokens = 0;
  std::vector<double> similarities;          // [num_query_tokens, num_document_tokens], before the weights
  std::vector<std::string> query_tokens;     // texts of a text's tokens, where the encoder names them, else empty
  bool query_truncated = false;              // the encoder cut the end of the query's text
  std::vector<std::string> document_tokens;  // the payload's list `tokens` where it has one text a token, else empty
};

v1::ExplainResponse ToProto(const Explanation& explanation);
Explanation FromProto(const v1::ExplainResponse& response);

// Returns INVALID_ARGUMENT unless the request has one query, whose only candidate is a listed id.
absl::Status CheckExplained(const v1::RerankRequest& request);

// Explains the score of the request's query, whose text has been encoded. `places` bounds the
// explanations that are being computed: RESOURCE_EXHAUSTED with RetryInfo if there are too many. Other errors as in
// ExplainApi.
absl::StatusOr<Explanation> ComputeExplanation(const v1::RerankRequest& request,
                                               const std::shared_ptr<const store::Collection>& collection,
                                               const RequestLimits& limits, absl::Time deadline,
                                               ConcurrencyLimit* places);

}  // namespace maxsim::service
