// Explains a score: every similarity of one query's tokens with the tokens of one stored document, of which the score
// takes the best of each row. It is for a person who looks at one answer, and runs on the CPU, beside the queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/limits.h"
#include "server/service/request/text_encoding.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// So many similarities are computed at most: their JSON has about ten megabytes, and they take a second at most.
inline constexpr int64_t kMaxExplainedPairs = int64_t{1} << 20;

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

// The class is thread-safe.
class ExplainService : public ExplainApi {
 public:
  using Done = service::Done<Explanation>;

  // All must outlive the service and every call.
  ExplainService(const store::CollectionStore* store, TextEncoding* texts, Metrics* metrics,
                 const RequestLimits& limits)
      : store_(store), texts_(texts), metrics_(metrics), limits_(limits) {}

  const RequestLimits& limits() const override { return limits_; }

  // Calls `done` before it returns, since it computes on the calling thread, or from a thread of TextEncoding for a
  // text. FAILED_PRECONDITION where the document's vectors are on a device alone and their file was replaced.
  void Explain(v1::RerankRequest request, CallContext context, Done done) override;

 private:
  struct Call;
  absl::StatusOr<std::shared_ptr<const store::Collection>> CollectionOf(const v1::RerankRequest& request) const;
  absl::Status CheckTexts(const v1::RerankRequest& request) const;
  absl::StatusOr<Explanation> Compute(const v1::RerankRequest& request, const CallContext& context);
  void Finish(std::unique_ptr<Call> call, absl::StatusOr<Explanation> explanation);

  const store::CollectionStore* const store_;
  TextEncoding* const texts_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  std::atomic<int> num_running_{0};
};

}  // namespace maxsim::service
