// The metrics of live collections: writes, group commits, compactions, and what the log and the segments hold. They are
// part of Metrics (metrics.h), and documented in docs/reference/metrics.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace maxsim {

enum class WriteKind { kUpsert, kDelete };
inline constexpr size_t kNumWriteKinds = 2;

enum class WriteOutcome {
  kApplied,
  kStale,     // the collection already had the same or a newer version
  kNotFound,  // a delete of an id that the collection does not hold
  kFailed,    // not accepted, or the log could not be written
};
inline constexpr size_t kNumWriteOutcomes = 4;

enum class CompactionResult {
  kOk,
  kStopped,  // the server or the collection was being stopped, or the client that asked for it went away
  kFailed,
};
inline constexpr size_t kNumCompactionResults = 3;

// The outcome of a message of a stream that a live collection follows.
enum class StreamOutcome {
  kApplied,
  kOtherPartition,  // its document belongs to a slot that the collection does not hold
  kStale,
  kNotFound,
  kUnreadable,  // no server can apply it
  kLate,        // the stream took it after its call had failed, so no server applies it
};
inline constexpr size_t kNumStreamOutcomes = 6;

// Return the value of the metrics' label: "upsert", "applied", "ok" and so on.
std::string_view Name(WriteKind kind);
std::string_view Name(WriteOutcome outcome);
std::string_view Name(CompactionResult result);
std::string_view Name(StreamOutcome outcome);

// Writes that are counted together: those of one group commit, or of one request that was not accepted.
struct WriteCounts {
  std::array<std::array<uint64_t, kNumWriteOutcomes>, kNumWriteKinds> counts{};

  uint64_t& of(WriteKind kind, WriteOutcome outcome) {
    return counts[static_cast<size_t>(kind)][static_cast<size_t>(outcome)];
  }
};

// One group commit: everything that was written to the log as one batch with one sync.
struct GroupCommit {
  // The times of one request of writes (one LiveDocuments::Submit), which is acknowledged as a whole.
  struct Request {
    absl::Duration until_durable;  // from its arrival until its writes were on the disk
    absl::Duration until_visible;  // from its arrival until new requests see its writes
  };
  uint64_t num_writes = 0;  // writes in the log's batch, which excludes stale writes and deletes of unknown ids
  absl::Duration log_time;  // for writing the batch, including its sync
  WriteCounts writes;       // of all its requests, by outcome
  std::vector<Request> requests;
};

// The values of the gauges of a live collection.
struct LiveGauges {
  uint64_t sequence = 0;
  uint64_t compacted_sequence = 0;
  uint64_t num_changed_documents = 0;
  uint64_t num_deleted_documents = 0;
  uint64_t num_segments = 0;
  uint64_t segment_bytes = 0;
  uint64_t segment_used_bytes = 0;
  uint64_t log_bytes = 0;
  bool accepts_writes = true;
  bool is_compacting = false;
  struct Stream {
    bool connected = false;
    uint64_t lag = 0;             // messages that are not applied yet
    double retention_margin = 1;  // 0 to 1: StreamState::retention_margin
  };
  std::optional<Stream> stream = {};  // set if the collection follows one
};

// Counts since the server started, summed over all live collections.
struct LiveTotals {
  std::array<uint64_t, kNumWriteOutcomes> writes{};
  // The requests' times until visible by bucket; the last one has no limit.
  std::vector<double> visible_bounds;  // upper limits in seconds
  std::vector<uint64_t> visible_counts;
};

// The class is thread-safe. A collection's series exist from the first call that names it until Remove. They all begin
// at zero, so that rate() sees their first increment. Counting after Remove would create them again, so a collection
// must be stopped first (LiveDocuments::Stop).
class LiveMetrics {
 public:
  // `registry` must outlive it.
  explicit LiveMetrics(prometheus::Registry& registry);
  ~LiveMetrics();

  // Observes a group commit that was acknowledged. The writing thread calls it once per commit.
  void Observe(std::string_view collection, const GroupCommit& commit);

  // Counts writes that no call of Observe counts: those that were not accepted, or whose commit failed.
  void CountWrites(std::string_view collection, const WriteCounts& writes);

  // Counts upserted token vectors that i8 storage represents badly: those that became zero vectors, and those that lost
  // too much of their length to rounding.
  void CountLossyTokens(std::string_view collection, uint64_t num_zeroed, uint64_t num_coarse);

  // Counts a compaction that changed the collection, failed or was stopped. A compaction that found nothing to do is
  // not counted. `bytes_written` is the size of the shards that it wrote, or 0 if it failed before it published them.
  // `duration` is the time from its start until its generation was served, or until it failed or was stopped.
  void CountCompaction(std::string_view collection, CompactionResult result, absl::Duration duration,
                       uint64_t bytes_written);

  // Count the messages of a collection's NATS stream by outcome, and observe how long the stream took to acknowledge a
  // message. The collection's series about its stream exist from the first of these calls on.
  void CountMessages(std::string_view collection, const std::array<uint64_t, kNumStreamOutcomes>& counts);
  void ObservePublish(std::string_view collection, absl::Duration duration);

  // Sets the gauges of a collection.
  void Set(std::string_view collection, const LiveGauges& gauges);

  // Removes the series of a collection, if it has any.
  void Remove(std::string_view collection);

  // Sets the gauge of live.max_segment_bytes, which dashboards and alerts compare segments with.
  void SetSegmentLimit(int64_t bytes);

  // Returns the totals, which include the counts of collections that have been removed.
  LiveTotals Totals() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace maxsim
