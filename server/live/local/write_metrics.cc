#include "server/live/local/write_metrics.h"

#include "collection/log/log_record.h"
#include "server/observability/metrics.h"

namespace maxsim::live {
namespace {

using Outcome = store::WriteResult::Outcome;

WriteKind KindOf(const store::Write& write) {
  return write.kind == collection::LogRecord::Kind::kUpsert ? WriteKind::kUpsert : WriteKind::kDelete;
}

WriteOutcome OutcomeOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kApplied:
      return WriteOutcome::kApplied;
    case Outcome::kStale:
      return WriteOutcome::kStale;
    case Outcome::kNotFound:
      return WriteOutcome::kNotFound;
  }
  return WriteOutcome::kFailed;
}

void AddFailed(const WriteCall& call, WriteCounts& counts) {
  for (const store::Write& write : call.writes) ++counts.of(KindOf(write), WriteOutcome::kFailed);
}

}  // namespace

void CountRefused(Metrics* metrics, const std::string& collection, const WriteCall& call) {
  if (metrics == nullptr || call.first_sequence != 0) return;
  WriteCounts counts;
  AddFailed(call, counts);
  metrics->live().CountWrites(collection, counts);
}

void CountFailed(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls) {
  for (const WriteCall& call : calls) CountRefused(metrics, collection, call);
}

void ObserveGroup(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls,
                  const std::vector<absl::StatusOr<store::WriteResults>>& answers, const GroupTimes& times) {
  if (metrics == nullptr) return;
  GroupCommit commit;
  WriteCounts failed;
  bool any_failed = false;
  bool any_acknowledged = false;
  for (size_t call_idx = 0; call_idx < calls.size(); ++call_idx) {
    const WriteCall& call = calls[call_idx];
    const absl::StatusOr<store::WriteResults>& answer = answers[call_idx];
    // A message of a stream that failed is not counted: it is tried again until it is applied, and its client may be
    // on another server.
    const bool of_stream = call.first_sequence != 0;
    if (!answer.ok() && of_stream) continue;
    if (!answer.ok()) {
      AddFailed(call, failed);
      any_failed = true;
      continue;
    }
    for (size_t idx = 0; idx < answer->results.size(); ++idx) {
      if (call.writes[idx].kind == collection::LogRecord::Kind::kSkipped) continue;
      ++commit.writes.of(KindOf(call.writes[idx]), OutcomeOf(answer->results[idx].outcome));
    }
    any_acknowledged = true;
    if (of_stream) continue;
    commit.requests.push_back(
        {.until_durable = times.durable - call.arrived, .until_visible = times.visible - call.arrived});
  }
  if (any_failed) metrics->live().CountWrites(collection, failed);
  if (!any_acknowledged) return;
  commit.num_writes = times.num_records;
  commit.log_time = times.durable - times.begin;
  metrics->live().Observe(collection, commit);
}

}  // namespace maxsim::live
