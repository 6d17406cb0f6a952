// Applies the log's records to a generation: appends their documents to segments, and adds the changes to
// store::Changes, which makes snapshots.
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

// Applies the log's records after the generation's log_sequence (the last write that its shards hold), in order. All
// records up to and including sequence() have been applied.
//
// Two writers may share segments: the writer of the served generation, and the writer of the next generation, which is
// catching up with the log. Only the served generation's writer appends to shared segments, until the other one
// replaces it (TakeSegments).
//
// For one thread at a time.
class ChangesWriter {
 public:
  ChangesWriter(const std::shared_ptr<const store::Generation>& generation, bool replicated,
                SegmentAllocator* allocator);

  const store::Generation& generation() const { return changes_->generation(); }
  uint64_t sequence() const { return sequence_; }  // of the last record that was applied
  const std::vector<LiveSegment>& segments() const { return segments_; }
  store::Changes& changes() { return *changes_; }
  uint64_t used_bytes() const;  // of segments (SegmentAllocator::UsedBytes)
  uint64_t text_bytes() const;  // of ids and payloads in segments

  // Writing takes three steps. Begin discards the previous plan. Plan adds the records of one call to the plan, and
  // makes new segments if there is no room for them. If it fails, it adds none of these records. It returns
  // RESOURCE_EXHAUSTED, or INVALID_ARGUMENT with id, field and value for a payload that does not fit the fields
  // (callers have checked payloads). Commit applies all planned records. Records and the memory that they view must
  // stay valid until Commit returns. If a device is lost, Commit goes on without it. If Commit fails or memory runs out
  // in it (std::bad_alloc), it may have applied the first few records; sequence() tells how many. Call CatchUp after
  // such a failure.
  void Begin(SegmentAllocator::Bound bound = SegmentAllocator::Bound::kConfigured);
  absl::Status Plan(absl::Span<const collection::LogRecord> records);
  absl::Status Commit();
  // Discards the plan. Call it if no Commit follows.
  void Forget();

  // Reads the log up to sequence `through` and applies its records. A document that is already in a shared segment
  // stays there; the others are appended to this writer's segments. On an error or std::bad_alloc, some records may
  // have been applied. Returns the errors of the log, RESOURCE_EXHAUSTED, and the status of `stop`.
  absl::Status CatchUp(const collection::CollectionLog& log, uint64_t through, const StopSignal* stop);

  // Shares segments of the served generation, which the caller passes in order. A segment is shared if all of its
  // documents were written after this generation's log_sequence, if a device that still answers has it, if its fields
  // are those of this generation, and if its codes have this generation's format (or this generation has no codes).
  void ShareSegments(absl::Span<const LiveSegment> segments);
  // Replaces the writer `before`: from now on this writer may append to the segments that both share, and `before` must
  // not.
  void TakeSegments(const ChangesWriter& before);

  // Makes later documents go to a new segment.
  void Seal();
  // Undoes the last Seal: later documents go to the sealed segment again, unless a newer segment already exists.
  void Unseal();

  // Returns a snapshot of the current state, which can be searched.
  std::shared_ptr<const store::Collection> Snapshot() { return changes_->Snapshot(sequence_); }

 private:
  // A segment that planned documents go to.
  struct Open {
    LiveSegment segment;
    bool is_new = false;                   // Changes does not have it yet
    SegmentNeed need{.num_documents = 0};  // of `upserts`
    int64_t num_before = 0;                // documents in the segment before these
    std::vector<collection::LogRecord> upserts;
  };
  struct Shared {
    LiveSegment segment;
    uint32_t next_ordinal = 0;  // of the first document whose record was not applied yet
    bool added = false;
    size_t idx = 0;  // in Changes
  };

  // Return the segments and their used bytes: Held at present, HeldWhenDone after Commit, including new segments.
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
  bool sealed_ = false;                // Seal closed the last one to later documents, although it may have room
  bool last_is_shared_ = false;        // the last one is shared, and `before` may append to it until TakeSegments

  SegmentAllocator::Bound bound_ = SegmentAllocator::Bound::kConfigured;
  std::vector<Open> open_;  // the growing segment, if there is one, then new ones
  std::vector<collection::LogRecord> planned_;
  size_t num_appended_ = 0;  // of open_, by Commit
  // The first appended document that Changes does not have yet: its segment in open_, and its index in the segment's
  // upserts.
  size_t next_open_ = 0;
  size_t next_offset_ = 0;
  std::vector<Shared> shared_;  // by sequence
};

// Returns whether the generation's segments, like its shards, are replicated on every device.
bool IsReplicated(const store::Generation& generation, store::Replication replication);

}  // namespace maxsim::live
