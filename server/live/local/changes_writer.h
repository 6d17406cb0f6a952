// Brings the changes of a generation up to date with the log: appends documents to segments, and notes them in Changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/fields/field_reader.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_record.h"
#include "server/live/local/segment_allocator.h"
#include "server/store/collection/changes.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/generation.h"

namespace maxsim::live {

// Holds the log's records after the generation's log_sequence, up to and including sequence(), in their order.
//
// Two writers may share segments: that of the served generation, and that of the next one, which is catching up. Only
// the first appends to shared segments, until the next one takes its place (TakeSegments).
//
// For one thread at a time.
class ChangesWriter {
 public:
  ChangesWriter(const std::shared_ptr<const store::Generation>& generation, bool replicated,
                SegmentAllocator* allocator);

  const store::Generation& generation() const { return changes_->generation(); }
  uint64_t sequence() const { return sequence_; }  // of the last record
  const std::vector<LiveSegment>& segments() const { return segments_; }
  store::Changes& changes() { return *changes_; }
  uint64_t used_bytes() const;  // of segments (SegmentAllocator::UsedBytes)
  uint64_t text_bytes() const;  // of ids and payloads in segments

  // Writing takes three steps. Begin discards the previous plan. Plan finds room for the records of one call, which
  // follow those planned before, and makes new segments if needed; on an error it plans none of them. The error is
  // RESOURCE_EXHAUSTED, or INVALID_ARGUMENT with id, field and value for a payload that does not fit the fields
  // (callers have checked that). The records, and what they view, must stay until Commit, which appends all of them. If
  // a device is lost, Commit goes on without it. If Commit fails or memory runs out in it (std::bad_alloc), the first
  // few records may have been taken over, as sequence() says; then call CatchUp.
  void Begin(SegmentAllocator::Bound bound = SegmentAllocator::Bound::kConfigured);
  absl::Status Plan(absl::Span<const collection::LogRecord> records);
  absl::Status Commit();
  // Discards the plan. Call it if no Commit follows.
  void Forget();

  // Reads the log up to `through` and takes over its records. A document that is in a shared segment stays there; the
  // others are appended to segments of this writer. On an error, or std::bad_alloc, some records may have been taken
  // over. Errors are the log's, RESOURCE_EXHAUSTED, and the status of `stop`.
  absl::Status CatchUp(const collection::CollectionLog& log, uint64_t through, const StopSignal* stop);

  // Passes the current segments of the served generation, in order. A segment is shared if all of its documents come
  // after this generation's log_sequence, a device that answers has it, its fields are this generation's, and either
  // this generation has no codes or the segment's codes have the same format.
  void ShareSegments(absl::Span<const LiveSegment> segments);
  // Takes over from `before`, which must append no more: this writer now appends to the segments that both share.
  void TakeSegments(const ChangesWriter& before);

  // Makes later documents go to a new segment.
  void Seal();
  // Takes the last Seal back: later documents go to the sealed segment, unless a newer segment exists by now.
  void Unseal();

  // Returns a snapshot of the collection as it is now, which requests may be scored on.
  std::shared_ptr<const store::Collection> Snapshot() { return changes_->Snapshot(sequence_); }

 private:
  // A segment that planned documents go to.
  struct Open {
    LiveSegment segment;
    bool is_new = false;                   // Changes does not have it
    SegmentNeed need{.num_documents = 0};  // of `upserts`
    int64_t num_before = 0;                // documents that it had before these
    std::vector<collection::LogRecord> upserts;
  };
  struct Shared {
    LiveSegment segment;
    uint32_t next_ordinal = 0;  // of the document that no record was taken over for yet
    bool added = false;
    size_t idx = 0;  // in Changes
  };

  // Return the segments with their used bytes: as they are now, and as they will be after Commit, with the new ones.
  std::vector<LiveSegment> Held() const;
  std::vector<LiveSegment> HeldWhenDone() const;
  absl::StatusOr<SegmentNeed> NeedOf(const collection::LogRecord& upsert);
  absl::Status PlanUpsert(const collection::LogRecord& record);
  absl::Status AppendTo(Open& open);
  void Add(const LiveSegment& segment);
  bool TakeNote(const collection::LogRecord& record);
  bool HasUnnoted() const;
  bool HasWantedForm(const store::Segment& segment) const;
  // Returns the shared segment that has the sequence, or null.
  Shared* FindShared(uint64_t sequence);
  absl::Status NoteShared(Shared& shared, const collection::LogRecord& record);

  const std::shared_ptr<store::Changes> changes_;
  const SegmentKind kind_;  // of the segments that it makes
  SegmentAllocator* const allocator_;
  collection::FieldReader field_reader_;  // of the generation's fields
  uint64_t sequence_;
  std::vector<LiveSegment> segments_;  // [Changes::num_segments()]
  bool growing_ = false;               // the last of them may be appended to
  bool sealed_ = false;                // the last one was sealed; otherwise it could be appended to
  bool last_is_shared_ = false;        // the last one is shared, and `before` may append to it until TakeSegments

  SegmentAllocator::Bound bound_ = SegmentAllocator::Bound::kConfigured;
  std::vector<Open> open_;  // the growing segment, if there is one, then new ones
  std::vector<collection::LogRecord> planned_;
  size_t num_appended_ = 0;  // of open_, by Commit
  // The first appended document that Changes does not have yet.
  size_t next_open_ = 0;
  size_t next_offset_ = 0;      // in the upserts
  std::vector<Shared> shared_;  // by sequence
};

// Returns whether segments of the generation go to every device, as its shards do.
bool IsReplicated(const store::Generation& generation, store::Replication replication);

}  // namespace maxsim::live
