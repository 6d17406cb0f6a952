// The requests of a run, all prepared before its clock starts, and the checks of their answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call_queue.h"
#include "loadtest/random/ids.h"
#include "loadtest/run/options.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::loadtest {

// One request that is sent any number of times, and what is known of its answer. Thread-safe.
class PreparedRequest {
 public:
  // `candidates` has numbers of ids in `ids`: one list for each query, or one for all, or no list if the candidates are
  // not ids. `num_candidates` is the number of candidates of each query; 0 if it is unknown, as with the token of a
  // tenant, which sees only a part of the collection. With `positions_are_open`, positions in answers may exceed
  // `num_candidates`, as in scans of a live collection or a partition. `ids` must outlive this.
  PreparedRequest(const v1::RerankRequest& request, std::vector<std::vector<uint64_t>> candidates,
                  uint64_t num_candidates, const IdSet* ids, AnswerCheck check = AnswerCheck::kExact,
                  bool positions_are_open = false);

  const client::EncodedRequest& encoded() const { return encoded_; }
  int num_queries() const { return num_queries_; }

  // Returns OK if the answer is right, else INTERNAL saying what is wrong. A right answer has a result for each query,
  // min(top_k, candidates) hits in rank order, positions that exist and are distinct, and the ids at those positions.
  // With AnswerCheck::kExact, it must also have the same bits as the first right answer of the same generation. Scores
  // are not compared with FP64 references; `maxsimctl verify` does that.
  absl::Status Check(const v1::RerankResponse& response) const;

 private:
  absl::Status CheckWhole(const v1::RerankResponse& response) const;

  const client::EncodedRequest encoded_;
  const int num_queries_;
  const uint64_t num_candidates_;
  const int max_hits_;
  const bool is_filtered_;  // if true, a query may have fewer hits
  const std::vector<std::vector<uint64_t>> candidates_;
  const IdSet* const ids_;
  const AnswerCheck check_;
  const bool positions_are_open_;
  // 16 bits of a generation and 48 bits of a hash of its answer; 0 before the first right answer.
  mutable std::atomic<uint64_t> known_{0};
};

class Workload {
 public:
  // Called before each request is made, with the number of requests so far. Preparing stops if it returns false.
  using ShouldContinue = std::function<bool(size_t num_prepared)>;

  // Reads the files, checks the options against what the server says of itself and of the collection, and prepares the
  // requests. Errors name the flag, the value and the limit. Returns CANCELLED if `should_continue` (which may be
  // null) returns false.
  static absl::StatusOr<std::unique_ptr<Workload>> Prepare(const WorkloadOptions& options,
                                                           const v1::GetInfoResponse& info,
                                                           const ShouldContinue& should_continue = nullptr);

  size_t size() const { return requests_.size(); }
  const PreparedRequest& operator[](size_t idx) const { return *requests_[idx]; }
  uint64_t total_bytes() const { return total_bytes_; }        // bytes of all requests
  uint64_t num_candidates() const { return num_candidates_; }  // candidates of a query

  // Returns the workload in words for people, such as "1,000 of 100,000 int64 ids a query".
  const std::string& description() const { return description_; }

 private:
  friend class WorkloadBuilder;
  Workload() = default;

  std::optional<IdSet> ids_;
  std::vector<std::unique_ptr<PreparedRequest>> requests_;
  uint64_t total_bytes_ = 0;
  uint64_t num_candidates_ = 0;
  std::string description_;
};

}  // namespace maxsim::loadtest
