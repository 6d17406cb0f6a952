// Writes to a live collection: to its log, to segments, and into the snapshots that searches see.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_record.h"
#include "server/live/local/changes_writer.h"
#include "server/live/local/compactor.h"
#include "server/live/local/write_group.h"
#include "server/live/local/write_queue.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

// Writes groups of calls, in six steps: decide which writes take place (WriteGroup), find room in segments
// (ChangesWriter::Plan), append the group to the log (which makes it durable), append it to segments
// (ChangesWriter::Commit), publish the snapshot, and answer the calls.
//
// If the log may hold records that are not applied (because an append failed, or there was no memory for a segment
// after the append), all writes fail until TryToRecover has applied these records.
//
// For one thread at a time, except state().
class LiveWriter {
 public:
  using Publish = store::LiveDocuments::Publish;

  // The changes that requests are answered from, and the function that makes their snapshots visible.
  struct Served {
    std::unique_ptr<ChangesWriter> changes;
    Publish publish;
  };

  // `name`, the collection's, is for messages and metrics. `compacts` says whether compactions run in the background.
  // `metrics` may be null. `compactor` must outlive this object.
  LiveWriter(std::string name, bool compacts, std::shared_ptr<collection::CollectionLog> log, Compactor* compactor,
             Metrics* metrics)
      : name_(std::move(name)), compacts_(compacts), compactor_(compactor), metrics_(metrics), log_(std::move(log)) {}

  // Publishes `next`, which must have every record of the log, in place of the served changes. Returns the old ones.
  // The caller should free them after the writer's pause.
  Served Serve(Served next);
  // Releases the log. After this call nothing is written or published. Returns the publish function. The caller should
  // free it after the writer's pause.
  Publish Close();

  // Returns the changes that are served; null before the first Serve.
  ChangesWriter* changes() const { return served_.changes.get(); }

  // Writes the calls as one group and answers each.
  void Write(std::vector<WriteCall>& calls);

  // After a failure, reads the log and applies all records that it holds, whether or not their calls were answered with
  // OK.
  void TryToRecover(const StopSignal* stop);
  // Returns the time at which the caller must call TryToRecover; InfiniteFuture if no write has failed.
  absl::Time retry_at() const { return retry_at_; }
  bool has_failed() const { return !failure_.ok(); }

  // Returns the state after the last group. Does not set log_bytes, is_compacting and compaction.
  store::LiveState state() const;

 private:
  using Answer = absl::StatusOr<store::WriteResults>;

  // The plan of a group: the records to write, which view the calls, and each call's answer.
  struct Planned {
    std::vector<collection::LogRecord> records;
    std::vector<Answer> answers;
  };

  absl::StatusOr<std::vector<Answer>> WriteAsOneGroup(const std::vector<WriteCall>& calls);
  absl::StatusOr<Planned> PlanGroup(const std::vector<WriteCall>& calls);
  Answer PlanCall(const WriteCall& call, WriteGroup& group, std::vector<collection::LogRecord>& records);
  Answer PlanMessages(const WriteCall& call, WriteGroup& group, std::vector<collection::LogRecord>& records);
  absl::StatusOr<std::vector<store::WriteResult>> PlanWrites(absl::Span<const store::Write> writes, WriteGroup& group,
                                                             std::vector<collection::LogRecord>& records);
  absl::Status AppendAndPublish(const std::vector<collection::LogRecord>& records, absl::Time* durable);
  absl::Status NoMemory(const absl::Status& status);
  void Fail(const absl::Status& status, bool of_log);
  absl::Status Recover(const StopSignal* stop);
  void PublishSnapshot();
  void UpdateState();

  const std::string name_;
  const bool compacts_;
  Compactor* const compactor_;
  Metrics* const metrics_;
  std::shared_ptr<collection::CollectionLog> log_;  // null after Close
  Served served_;
  absl::Status failure_;  // why the log holds, or may hold, records that are not applied
  bool log_failed_ = false;
  absl::Duration backoff_;
  absl::Time retry_at_ = absl::InfiniteFuture();
  absl::Status full_;  // the last group's error, if a call found no room in segments

  mutable Mutex mutex_;
  store::LiveState state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::live
