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

// The size and the times of a group: the calls that are written to the log together.
struct GroupTimes {
  size_t num_records = 0;  // in the log
  absl::Time begin;        // of writing the log
  absl::Time durable;
  absl::Time visible;
};

// Count every write of a call, or of several calls, as failed. Use them for calls that are answered with an error:
// calls that were refused, waited too long, or failed later. Calls that hold messages of a stream (first_sequence is
// not 0) are not counted.
void CountRefused(Metrics* metrics, const std::string& collection, const WriteCall& call);
void CountFailed(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls);

// Counts the writes of a group by their outcomes, and observes the group's size and times. answers[i] is the answer to
// calls[i]. Messages of a stream that failed are not counted, because they are tried again.
void ObserveGroup(Metrics* metrics, const std::string& collection, const std::vector<WriteCall>& calls,
                  const std::vector<absl::StatusOr<store::WriteResults>>& answers, const GroupTimes& times);

}  // namespace maxsim::live
