// The writes to a live collection since its generation (its last state in files) was written. Segments hold the new
// documents, an index finds the ids that were written or deleted, and tombstones mark documents that were replaced or
// deleted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "collection/log/log_record.h"
#include "server/store/collection/append_only_list.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/generation.h"
#include "server/store/collection/part.h"
#include "server/store/collection/segment.h"

namespace maxsim::store {

// One thread makes changes, in the order of their sequences (numbers in the log). Meanwhile any thread may call the
// functions below "For any thread". These functions take no lock, except that Filter, Mask and num_bytes hold one for a
// moment. The record of a write is never removed, so a snapshot of any age still finds its documents.
class Changes : public std::enable_shared_from_this<Changes> {
 public:
  // Starts with the generation's documents, except those that have a tombstone in the generation.
  explicit Changes(std::shared_ptr<const Generation> generation);
  ~Changes();

  const Generation& generation() const { return *generation_; }

  // The functions from here to num_changed are for the thread that makes changes. A function that throws std::bad_alloc
  // has changed nothing.

  // Adds a segment, which may already have documents. From this call on, the segments before it must not grow. A
  // document of the segment is not part of the collection until Upsert names it.
  void AddSegment(std::shared_ptr<Segment> segment);
  size_t num_segments() const { return segments_.size(); }
  const std::shared_ptr<Segment>& segment(size_t idx) const { return segments_[idx].segment; }

  // Returns whether the collection now has a document with the record's id.
  bool Holds(const collection::LogRecord& record) const;
  // Records that the segment's document `ordinal` is now the document with the record's id. If the collection had a
  // document with this id, that document gets a tombstone.
  void Upsert(const collection::LogRecord& record, size_t segment_idx, uint32_t ordinal);
  // Gives the document with the record's id a tombstone, if the collection has a document with this id.
  void Delete(const collection::LogRecord& record);
  // Returns a snapshot of the collection with all changes so far. `sequence` is the sequence of the last change.
  std::shared_ptr<const Collection> Snapshot(uint64_t sequence);
  uint64_t num_documents() const { return num_documents_; }    // that are alive
  uint64_t num_tombstones() const { return num_tombstones_; }  // of shards and segments
  uint64_t num_changed() const { return num_changed_; }        // documents of segments that are alive

  // For any thread:

  // Looks up `ids` as of `sequence`. The caller first fills `ordinals` from the generation's index (IdIndex::FindAll).
  // Resolve then replaces the ordinals of ids that were written since the generation. The ordinal of an id that was
  // deleted becomes IdIndex::kUnknown.
  void Resolve(uint64_t sequence, absl::Span<const std::string* const> ids, absl::Span<uint64_t> ordinals) const;
  void Resolve(uint64_t sequence, absl::Span<const int64_t> ids, absl::Span<uint64_t> ordinals) const;

  size_t NumTombstones(size_t part_idx, uint64_t sequence) const;
  // Returns the part's documents that have a tombstone as of `sequence`, as ordinals in the part, in the order of their
  // tombstones (oldest first). Leaves out the `begin` oldest.
  std::vector<uint32_t> Tombstones(size_t part_idx, uint64_t sequence, size_t begin) const;
  // Returns a filter with which a scan of the part leaves out the documents that have a tombstone. `part` must be the
  // part as of `sequence`. The scan drops the documents in filter.tombstones from its results; the list has at most
  // min(max_extra, ScanFilter::kMaxExtraResults) entries. If the part has more tombstones, the scan scores only the
  // documents in filter.ordinals. These are all documents of the part, except those that have a tombstone and are not
  // in filter.tombstones.
  ScanFilter Filter(size_t part_idx, const Part& part, uint64_t sequence, size_t max_extra) const;
  // Returns how a scan of the part's codes leaves out the documents that have a tombstone.
  ScanMask Mask(size_t part_idx, const Part& part, uint64_t sequence) const;

  // Returns an estimate of the host memory that this object takes, without the segments.
  uint64_t num_bytes() const;

 private:
  struct Entry;
  struct Table;
  struct Tombstone {
    uint64_t sequence = 0;  // sequence of the write that made it; 0 if the generation already had it
    uint32_t ordinal = 0;   // in the part
  };
  // The ordinals of a part's first `num_documents` documents, except the documents that the part's first
  // `num_tombstones` tombstones mark.
  struct FilteredList {
    std::vector<uint32_t> ordinals;
    uint64_t num_tokens = 0;
    size_t num_tombstones = 0;
    int64_t num_documents = 0;
  };
  // One bit per document that the part had when the mask was made. The bit is 0 if one of the part's first
  // `num_tombstones` tombstones belongs to the document, else 1.
  struct PartMask {
    std::vector<uint64_t> words;
    uint64_t masked_tokens = 0;  // of the documents whose bits are 0
    size_t num_tombstones = 0;
  };
  // The tombstones of a part, in the order of their sequences.
  struct PartTombstones {
    AppendOnlyList<Tombstone> list;
    mutable Mutex mutex;
    // The list with the most tombstones and documents so far. It is made without holding the mutex.
    mutable std::shared_ptr<const FilteredList> filtered ABSL_GUARDED_BY(mutex);
    // The mask with the most tombstones so far. It is made without holding the mutex.
    mutable std::shared_ptr<const PartMask> mask ABSL_GUARDED_BY(mutex);
  };
  struct SegmentEntry {
    std::shared_ptr<Segment> segment;
    uint64_t first_ordinal = 0;
    std::unique_ptr<PartTombstones> tombstones;
    Part part;  // as of the last snapshot
  };

  static std::shared_ptr<const FilteredList> MakeList(const PartTombstones& tombstones, const Part& part, size_t count);
  static std::shared_ptr<const FilteredList> ExtendList(const FilteredList& list, const Part& part);
  static std::shared_ptr<const FilteredList> ListFor(const PartTombstones& tombstones, const Part& part, size_t count,
                                                     size_t max_extra);

  static std::shared_ptr<const PartMask> MakeMask(const PartMask* known, const PartTombstones& tombstones,
                                                  const Part& part, size_t count);

  static uint64_t NumBytes(const PartTombstones& tombstones);

  const PartTombstones& TombstonesOf(size_t part_idx) const;
  PartTombstones& TombstonesOf(size_t part_idx);
  template <typename Id>
  std::optional<uint64_t> FindNow(Id id) const;
  void ReserveTombstone(uint64_t ordinal);
  template <typename Id>
  void Add(Id id, uint64_t sequence, uint64_t ordinal);
  template <typename Id>
  const Entry* NewestOf(Id id) const;
  template <typename Id, typename Get>
  void ResolveAll(uint64_t sequence, size_t count, Get get, absl::Span<uint64_t> ordinals) const;
  void Bury(uint64_t sequence, uint64_t ordinal);
  void Grow();

  const std::shared_ptr<const Generation> generation_;
  std::vector<std::unique_ptr<PartTombstones>> shard_tombstones_;  // [shards]
  // One bit per document of the shards. The bit is set once the document's id was written or deleted.
  std::unique_ptr<std::atomic<uint64_t>[]> touched_;
  AppendOnlyList<SegmentEntry> segments_;
  AppendOnlyList<Entry> entries_;
  AppendOnlyList<std::string> ids_;             // each once
  std::atomic<uint64_t> id_bytes_{0};           // of ids_
  std::vector<std::unique_ptr<Table>> tables_;  // the last one is current; readers may still use earlier ones
  std::atomic<const Table*> table_{nullptr};
  size_t num_ids_ = 0;  // in the table

  uint64_t num_documents_ = 0;
  uint64_t num_tokens_ = 0;
  uint64_t num_tombstones_ = 0;
  uint64_t num_changed_ = 0;
};

}  // namespace maxsim::store
