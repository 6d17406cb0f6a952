// Counts writes for the metrics. `metrics` may be null everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/live/local/write_queue.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

// The size and the times of a group.
struct GroupTimes {
  size_t num_records = 0;  // in the log
  absl::Time begin;        // of writing the log
  absl::Time durable;
  absl::Time visible;
};

// CountRefused counts a call that was not queued. CountFailed counts calls whose writes all failed.
void CountRefused(Metrics* metrics, const std::string& collection, const WriteCall& call);
void CountFailed(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls);

// Counts the calls of a group with their answers.
void ObserveGroup(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls,
                  const std::vector<absl::StatusOr<store::WriteResults>>& answers, const GroupTimes& times);

}  // namespace maxsim::live
