// Makes segments: decides how large they are and which devices hold them, and takes their memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/log/collection_log.h"
#include "server/live/local/live_options.h"
#include "server/store/collection/segment.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/memory_ledger.h"

namespace maxsim::live {

// A segment, and what whoever appends to it has to know of it.
struct LiveSegment {
  std::shared_ptr<store::Segment> segment;
  std::vector<uint32_t> devices;  // that hold it
  uint64_t capacity_bytes = 0;    // of token vectors, on each device
  uint64_t used_bytes = 0;        // of these; counted for Allocate
  // The sequences of its first and its last document; 0 while it has none.
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;

  bool IsAvailable(const store::DeviceSet& devices) const;
};

// What must have room in a segment that is made for it.
struct SegmentNeed {
  int64_t num_documents = 1;
  int64_t num_tokens = 0;
  int64_t text_bytes = 0;   // of ids and payloads
  int64_t field_bytes = 0;  // of the values of fields (collection::MaxIndexBytes)
};

// The properties that a generation's segments share. One that was made with less memory may have fewer planes of codes.
struct SegmentKind {
  bool replicated = false;                          // on every device that answers, or on one
  std::optional<store::Segment::Codes> codes = {};  // of the documents
  std::vector<collection::Field> fields = {};       // that payloads are indexed by
};

// The class is thread-safe.
class SegmentAllocator {
 public:
  // `devices` and `ledger` must outlive it. `name`, the collection's, is for messages.
  SegmentAllocator(std::string name, const collection::LogFormat& format, const LiveOptions& options,
                   store::DeviceSet* devices, store::MemoryLedger* ledger);

  enum class Bound {
    kConfigured,  // live.max_segment_bytes
    // What the log holds must be served, whatever the configuration said when it was written; memory is the only bound.
    kMemory,
  };

  // Makes a segment beside those that there are: on every device that answers when it is `kind.replicated`, else on the
  // one with the fewest bytes of these that has memory for it. It is as large as what they hold together there, but not
  // smaller than live.segment_bytes or than `need`. Where memory does not allow that, live.segment_bytes is tried, and
  // then `need` alone. Each size is cut to what kConfigured leaves. (What they have room for says nothing of how much
  // is written: a sealed one may be nearly empty.) RESOURCE_EXHAUSTED with the numbers; UNAVAILABLE where no device is
  // left.
  absl::StatusOr<LiveSegment> Allocate(absl::Span<const LiveSegment> present, const SegmentKind& kind,
                                       const SegmentNeed& need, Bound bound);

  store::DeviceSet& devices() const { return *devices_; }
  uint64_t row_bytes() const { return row_bytes_; }
  // Returns how much of a segment so many documents take, where few tokens each would run out of offsets first.
  uint64_t UsedBytes(int64_t num_documents, int64_t num_tokens) const;

 private:
  // Returns which devices may hold a segment, those that are tried first in front.
  std::vector<std::vector<uint32_t>> ChooseDevices(absl::Span<const LiveSegment> present, bool replicated) const;
  absl::StatusOr<LiveSegment> Make(const std::vector<uint32_t>& chosen, const SegmentKind& kind,
                                   uint64_t capacity_bytes, const SegmentNeed& need);
  absl::StatusOr<store::Segment::Memory> MakeMemory(uint32_t device, const store::Segment::Shape& shape);
  uint64_t MemoryOn(uint32_t device, const store::Segment::Shape& shape) const;

  const std::string name_;
  const collection::LogFormat format_;
  const LiveOptions options_;
  const uint64_t row_bytes_;
  store::DeviceSet* const devices_;
  store::MemoryLedger* const ledger_;
};

}  // namespace maxsim::live
