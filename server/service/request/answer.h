// Turns a job's result into a RerankResponse, and limits its size. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/service/call/limits.h"
#include "server/service/page/grouping.h"
#include "server/service/page/page.h"
#include "server/service/request/candidates.h"
#include "server/service/request/text_facts.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// The parts of a request that its answer needs after the job is submitted.
struct PendingAnswer {
  std::string request_id;
  std::shared_ptr<const store::Collection> collection;
  bool return_payloads = false;
  bool return_alignments = false;
  std::vector<std::string> payload_fields;  // payload members to return; empty for all
  bool normalize = false;
  Page page;
  std::shared_ptr<const Grouping> grouping;  // null without group_by
  TextFacts texts;
  struct Query {
    std::shared_ptr<const ResolvedCandidates> candidates;
    uint32_t num_tokens = 0;
    int job_query =
        -1;  // index in Job::queries and in JobResult::queries; -1 if no candidate is known and nothing is scored
  };
  std::vector<Query> queries;  // as in the request
  // For a query with group_by, the part of the answer that JobResult does not have. The results are ordered group by
  // group.
  struct GroupedQuery {
    std::vector<std::string> values;  // [results]
    std::optional<v1::Refinement> refinement;
  };
  std::vector<GroupedQuery> grouped;  // [queries]; empty without group_by
};

// Returns a candidate's score as the answer shows it: divided by the query's tokens if the request asks for
// normalization.
float ScoreOf(const PendingAnswer& answer, const PendingAnswer::Query& query, float score);

// Returns the host memory of the job and of the data for its answer.
uint64_t HeldBytes(const engine::Job& job, const PendingAnswer& answer);

// Return INVALID_ARGUMENT if the unknown ids, or `num_matches` token matches, alone would take more than
// limits.max_answer_bytes in the answer. Both can be called before anything is scored.
absl::Status CheckMissing(const PendingAnswer& answer, const RequestLimits& limits);
absl::Status CheckAlignments(uint64_t num_matches, const RequestLimits& limits);

// Returns INVALID_ARGUMENT if the answer exceeds limits.max_answer_bytes.
absl::Status CheckAnswerSize(const PendingAnswer& answer, const engine::JobResult& result, const RequestLimits& limits);

// Returns the answer. `result` is the job's, or empty if there was no job. Sets all timings except encode_us and
// total_us, which RerankCall::Finish sets.
v1::RerankResponse BuildResponse(const PendingAnswer& answer, const engine::JobResult& result);

}  // namespace maxsim::service
