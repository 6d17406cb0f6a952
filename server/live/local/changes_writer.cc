#include "server/live/local/changes_writer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "collection/filters/field_index.h"
#include "server/store/memory/residency.h"

namespace maxsim::live {
namespace {

using collection::LogRecord;

// CatchUp applies records in batches of this size. Larger batches make fewer copies to the device, and each copy has
// a fixed cost, but they take more memory.
constexpr size_t kMaxBatchRecords = 4096;
constexpr size_t kMaxBatchBytes = size_t{32} << 20;

SegmentNeed Sum(const SegmentNeed& a, const SegmentNeed& b) {
  return {.num_documents = a.num_documents + b.num_documents,
          .num_tokens = a.num_tokens + b.num_tokens,
          .text_bytes = a.text_bytes + b.text_bytes,
          .field_bytes = a.field_bytes + b.field_bytes};
}

// Returns the shape of the codes in the generation's segments. Segments have as many planes as the generation's
// shards have in memory.
std::optional<store::Segment::Codes> CodesOf(const store::Generation& generation) {
  if (generation.code_planes() == 0) return std::nullopt;
  return store::Segment::Codes{collection::CodeShapeOf(generation.manifest()), generation.code_planes()};
}

// Holds copies of records whose views are short-lived.
class RecordBatch {
 public:
  void Add(const LogRecord& record) {
    std::string& bytes = bytes_.emplace_back();
    bytes.reserve(record.string_id.size() + record.rows.size() + record.payload.size());
    bytes.append(record.string_id).append(record.rows).append(record.payload);
    const std::string_view all = bytes;
    LogRecord& copy = records_.emplace_back(record);
    copy.string_id = all.substr(0, record.string_id.size());
    copy.rows = all.substr(record.string_id.size(), record.rows.size());
    copy.payload = all.substr(record.string_id.size() + record.rows.size());
    num_bytes_ += all.size();
  }
  void Clear() {
    records_.clear();
    bytes_.clear();
    num_bytes_ = 0;
  }
  bool full() const { return records_.size() >= kMaxBatchRecords || num_bytes_ >= kMaxBatchBytes; }
  const std::vector<LogRecord>& records() const { return records_; }

 private:
  std::vector<LogRecord> records_;
  std::deque<std::string> bytes_;
  size_t num_bytes_ = 0;
};

}  // namespace

bool IsReplicated(const store::Generation& generation, store::Replication replication) {
  if (replication != store::Replication::kAuto) return replication == store::Replication::kOn;
  return std::all_of(generation.parts().begin(), generation.parts().end(),
                     [](const store::Part& part) { return part.replicas.size() > 1; });
}

ChangesWriter::ChangesWriter(const std::shared_ptr<const store::Generation>& generation, bool replicated,
                             SegmentAllocator* allocator)
    : changes_(std::make_shared<store::Changes>(generation)),
      kind_{.replicated = replicated, .codes = CodesOf(*generation), .fields = generation->manifest().fields},
      allocator_(allocator),
      field_reader_(kind_.fields),
      sequence_(generation->manifest().log_sequence.value_or(0)) {}

uint64_t ChangesWriter::used_bytes() const {
  uint64_t bytes = 0;
  for (const LiveSegment& one : segments_) {
    bytes += allocator_->UsedBytes(one.segment->num_documents(), one.segment->num_tokens());
  }
  return bytes;
}

uint64_t ChangesWriter::text_bytes() const {
  uint64_t bytes = 0;
  for (const LiveSegment& one : segments_) bytes += static_cast<uint64_t>(one.segment->text_bytes());
  return bytes;
}

void ChangesWriter::Begin(SegmentAllocator::Bound bound) {
  bound_ = bound;
  Forget();
  if (growing_) open_.emplace_back().segment = segments_.back();
}

void ChangesWriter::Forget() {
  planned_.clear();
  open_.clear();
  num_appended_ = 0;
  next_open_ = 0;
  next_offset_ = 0;
}

std::vector<LiveSegment> ChangesWriter::Held() const {
  std::vector<LiveSegment> held = segments_;
  for (LiveSegment& one : held) {
    one.used_bytes = allocator_->UsedBytes(one.segment->num_documents(), one.segment->num_tokens());
  }
  return held;
}

std::vector<LiveSegment> ChangesWriter::HeldWhenDone() const {
  std::vector<LiveSegment> present = Held();
  for (const Open& open : open_) {
    if (open.is_new) present.push_back(open.segment);
    // The last of `present` is this segment: either it was just added, or it is the growing segment, which Held
    // returns last.
    const store::Segment& segment = *present.back().segment;
    present.back().used_bytes = allocator_->UsedBytes(segment.num_documents() + open.need.num_documents,
                                                      segment.num_tokens() + open.need.num_tokens);
  }
  return present;
}

absl::StatusOr<SegmentNeed> ChangesWriter::NeedOf(const LogRecord& upsert) {
  SegmentNeed need{.num_documents = 1,
                   .num_tokens = upsert.num_tokens,
                   .text_bytes = static_cast<int64_t>(upsert.string_id.size() + upsert.payload.size())};
  if (kind_.fields.empty()) return need;
  const absl::StatusOr<const std::vector<collection::FieldValue>*> values = field_reader_.Read(upsert.payload);
  if (!values.ok()) {
    const bool has_string_ids = generation().manifest().id_type == collection::IdType::kString;
    return Prefix(Cat("the document with id ", has_string_ids ? Quote(upsert.string_id) : Cat(upsert.int_id), ": "),
                  values.status());
  }
  need.field_bytes = collection::MaxIndexBytes(**values);
  return need;
}

absl::Status ChangesWriter::PlanUpsert(const LogRecord& record) {
  const absl::StatusOr<SegmentNeed> need = NeedOf(record);
  if (!need.ok()) return need.status();
  const auto has_room = [&](const Open& open) {
    const SegmentNeed sum = Sum(open.need, *need);
    return open.segment.segment->HasRoomFor(sum.num_documents, sum.num_tokens, sum.text_bytes, sum.field_bytes);
  };
  if (open_.empty() || !has_room(open_.back())) {
    absl::StatusOr<LiveSegment> made = allocator_->Allocate(HeldWhenDone(), kind_, *need, bound_);
    if (!made.ok()) return made.status();
    Open& open = open_.emplace_back();
    open.segment = *std::move(made);
    open.is_new = true;
  }
  Open& open = open_.back();
  open.need = Sum(open.need, *need);
  open.upserts.push_back(record);
  return absl::OkStatus();
}

absl::Status ChangesWriter::Plan(absl::Span<const LogRecord> records) {
  const size_t num_open = open_.size();
  const size_t num_planned = planned_.size();
  const SegmentNeed need = num_open == 0 ? SegmentNeed() : open_.back().need;
  for (const LogRecord& record : records) {
    planned_.push_back(record);
    if (record.kind != LogRecord::Kind::kUpsert) continue;
    absl::Status status = PlanUpsert(record);
    if (status.ok()) continue;
    planned_.resize(num_planned);
    open_.resize(num_open);
    if (num_open > 0) {
      open_.back().need = need;
      open_.back().upserts.resize(static_cast<size_t>(need.num_documents));
    }
    return status;
  }
  return absl::OkStatus();
}

absl::Status ChangesWriter::AppendTo(Open& open) {
  while (true) {
    open.num_before = open.segment.segment->num_documents();
    uint32_t lost_device = 0;
    absl::Status status = open.segment.segment->Append(open.upserts, &lost_device, open.need.field_bytes);
    if (!absl::IsUnavailable(status)) return status;
    allocator_->devices().MarkLost(lost_device, status);
    // These records are in the log, so they must be served. Allocate a segment for them on the remaining devices.
    absl::StatusOr<LiveSegment> made = allocator_->Allocate(Held(), kind_, open.need, SegmentAllocator::Bound::kMemory);
    if (!made.ok()) return made.status();
    open.segment = *std::move(made);
    open.is_new = true;
  }
}

void ChangesWriter::Add(const LiveSegment& segment) {
  LiveSegment copy = segment;
  segments_.reserve(segments_.size() + 1);
  changes_->AddSegment(copy.segment);
  segments_.push_back(std::move(copy));
}

absl::Status ChangesWriter::Commit() {
  absl::Status status;
  for (; num_appended_ < open_.size(); ++num_appended_) {
    Open& open = open_[num_appended_];
    if (open.upserts.empty()) continue;
    status = AppendTo(open);
    if (!status.ok()) break;
    if (!open.is_new) {
      // Sets the sequences now, because the next generation shares these documents even if this generation's Changes
      // never gets them.
      if (segments_.back().first_sequence == 0) segments_.back().first_sequence = open.upserts.front().sequence;
      segments_.back().last_sequence = open.upserts.back().sequence;
    }
  }
  for (const LogRecord& record : planned_) {
    if (!TakeNote(record)) break;
  }
  Forget();
  return status;
}

// Passes the next planned record to Changes. Returns false if its document was not appended to a segment.
bool ChangesWriter::TakeNote(const LogRecord& record) {
  if (record.kind != LogRecord::Kind::kUpsert) {
    if (record.kind == LogRecord::Kind::kDelete) changes_->Delete(record);
    sequence_ = record.sequence;
    return true;
  }
  for (; next_open_ < open_.size() && next_offset_ == open_[next_open_].upserts.size(); ++next_open_) next_offset_ = 0;
  if (next_open_ >= num_appended_) return false;
  Open& open = open_[next_open_];
  if (open.is_new) {
    Add(open.segment);
    open.is_new = false;
    growing_ = true;
    sealed_ = false;
    last_is_shared_ = false;
  }
  LiveSegment& segment = segments_.back();
  if (segment.first_sequence == 0) segment.first_sequence = record.sequence;
  segment.last_sequence = std::max(segment.last_sequence, record.sequence);
  changes_->Upsert(record, segments_.size() - 1,
                   static_cast<uint32_t>(open.num_before) + static_cast<uint32_t>(next_offset_));
  ++next_offset_;
  sequence_ = record.sequence;
  return true;
}

// Returns whether segments have documents that Changes does not have, because a Commit ran out of memory. If so, their
// records must be read from the log, because the planned records may view freed memory.
bool ChangesWriter::HasUnnoted() const {
  size_t offset = next_offset_;
  for (size_t idx = next_open_; idx < num_appended_; ++idx) {
    if (offset < open_[idx].upserts.size()) return true;
    offset = 0;
  }
  return false;
}

void ChangesWriter::Seal() { sealed_ = std::exchange(growing_, false) || sealed_; }

void ChangesWriter::Unseal() { growing_ = std::exchange(sealed_, false) || growing_; }

void ChangesWriter::TakeSegments(const ChangesWriter& before) {
  if (!last_is_shared_) return;
  growing_ = growing_ || before.growing_;
  sealed_ = sealed_ || before.sealed_;
}

bool ChangesWriter::HasWantedForm(const store::Segment& segment) const {
  if (segment.shape().fields != kind_.fields) return false;
  const std::optional<store::Segment::Codes>& codes = segment.shape().codes;
  return !kind_.codes.has_value() || (codes.has_value() && codes->shape == kind_.codes->shape);
}

void ChangesWriter::ShareSegments(absl::Span<const LiveSegment> segments) {
  const uint64_t log_sequence = generation().manifest().log_sequence.value_or(0);
  for (const LiveSegment& segment : segments) {
    const auto known = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const Shared& one) { return one.segment.segment == segment.segment; });
    if (known != shared_.end()) {
      known->segment.last_sequence = segment.last_sequence;
    } else if (segment.first_sequence > std::max(log_sequence, sequence_) &&
               segment.IsAvailable(allocator_->devices()) && HasWantedForm(*segment.segment)) {
      shared_.emplace_back().segment = segment;
    }
  }
}

ChangesWriter::Shared* ChangesWriter::FindShared(uint64_t sequence) {
  for (size_t idx = shared_.size(); idx-- > 0;) {
    Shared& shared = shared_[idx];
    if (shared.segment.first_sequence <= sequence) {
      return sequence <= shared.segment.last_sequence ? &shared : nullptr;
    }
  }
  return nullptr;
}

absl::Status ChangesWriter::NoteShared(Shared& shared, const LogRecord& record) {
  if (!std::exchange(shared.added, true)) {
    Add(shared.segment);
    shared.idx = segments_.size() - 1;
    growing_ = false;
    sealed_ = false;
    last_is_shared_ = true;
  }
  const uint64_t found = shared.segment.segment->sequence(shared.next_ordinal);
  if (found != record.sequence) {
    return absl::InternalError(Cat("document ", shared.next_ordinal, " of a segment is that of write ", found,
                                   " of the log, not of write ", record.sequence));
  }
  changes_->Upsert(record, shared.idx, shared.next_ordinal++);
  segments_[shared.idx].last_sequence = record.sequence;
  sequence_ = record.sequence;
  return absl::OkStatus();
}

absl::Status ChangesWriter::CatchUp(const collection::CollectionLog& log, uint64_t through, const StopSignal* stop) {
  if (through <= sequence_) return absl::OkStatus();
  RecordBatch batch;
  const auto flush = [&]() -> absl::Status {
    if (batch.records().empty()) return absl::OkStatus();
    Begin(SegmentAllocator::Bound::kMemory);
    absl::Status status = Plan(batch.records());
    if (status.ok()) status = Commit();
    batch.Clear();
    return status;
  };
  absl::Status read = log.Read(sequence_, through, [&](const LogRecord& record) -> absl::Status {
    if (HasUnnoted()) {
      TakeNote(record);
      return absl::OkStatus();
    }
    Shared* const shared = record.kind == LogRecord::Kind::kUpsert ? FindShared(record.sequence) : nullptr;
    if (shared != nullptr || batch.full()) {
      if (absl::Status status = flush(); !status.ok()) return status;
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    if (shared != nullptr) return NoteShared(*shared, record);
    batch.Add(record);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return flush();
}

}  // namespace maxsim::live
