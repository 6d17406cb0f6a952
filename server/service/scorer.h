// Answers the calls of RerankFront: from this server's collections (LocalScorer), or by asking the groups of servers of
// a cluster (cluster::RouterScorer).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/call/call.h"
#include "server/service/call/call_record.h"
#include "server/service/request/answer.h"
#include "server/service/request/text_encoding.h"
#include "server/service/request/text_facts.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// A call of RerankFront. When a scorer gets it, its request has passed CheckEnvelope, and its texts have been encoded.
template <typename Response>
struct Question : Call<Response> {
  using Call<Response>::Call;

  v1::RerankRequest request;
  std::vector<bool> is_blank;  // [document texts], while they are encoded
  TextFacts texts;             // of the texts that the request had
  absl::Duration encode_time;  // from the call's arrival until its texts were encoded
};

struct RerankCall : Question<v1::RerankResponse> {
  using Question::Question;
  ~RerankCall() {
    if (done != nullptr) Refuse(Rejection::kMemory, NoMemory());
  }

  // Completes the timings of `response`, records the call and answers it. Does nothing if the call was answered before.
  void Finish(absl::StatusOr<v1::RerankResponse> response);

  // Answers a call that was not scored, and counts why.
  [[gnu::cold]] void Refuse(Rejection reason, absl::Status status);

  // Charges the call's tenant for `num_pairs` more token pairs. If the tenant has none left, returns the quota's error
  // and charges nothing. With `is_certain` always charges and returns OK, because the work is done already or belongs
  // to a call that has begun.
  absl::Status Charge(uint64_t num_pairs, bool is_certain);
  // Gives back the charge of a call that the queue refused. Do not call it for calls that were cancelled or too late,
  // because the server may have scored them.
  void ReturnCharge();

  RequestLog* log = nullptr;
  bool return_token_pairs = false;  // as in the request
  uint64_t token_pairs = 0;         // charged so far
  std::string request_id;           // for the log; it and `collection` are cut if they are too long
  std::string collection;
  // Used by LocalScorer only.
  PendingAnswer answer;
  absl::Time queued = absl::InfinitePast();  // when its job was submitted; set only if the call is traced
};

struct ExplainCall : Question<v1::ExplainResponse> {
  using Question::Question;

  // Adds the facts about the query's text, records the call and answers it.
  void Finish(absl::StatusOr<v1::ExplainResponse> explanation);

  // Rejections of explain calls are not counted.
  void Refuse(Rejection, absl::Status status) { Finish(std::move(status)); }
};

// Thread-safe.
class Scorer {
 public:
  virtual ~Scorer() = default;

  // Returns what decides whether the encoder suits the requested collection. If the collection cannot answer the
  // request, returns the same error as Answer.
  virtual absl::StatusOr<TextTarget> TargetOf(const v1::RerankRequest& request) const = 0;

  // Finish the call before returning, or later on a thread of their own.
  virtual void Answer(std::unique_ptr<RerankCall> call) = 0;
  virtual void Answer(std::unique_ptr<ExplainCall> call) = 0;

  // Returns the reason that the metrics count for a rerank call which the scorer or TargetOf refused with `status`.
  virtual Rejection RejectionOf(const absl::Status& status) const;

  virtual bool IsServed(const std::string& collection) const = 0;
  virtual std::vector<std::string> Names() const = 0;  // of the collections
};

}  // namespace maxsim::service
