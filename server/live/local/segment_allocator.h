// Makes segments: decides their size and their devices, and allocates their memory.
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

// A segment, with the data that its writer needs.
struct LiveSegment {
  std::shared_ptr<store::Segment> segment;
  std::vector<uint32_t> devices;  // that hold it
  uint64_t capacity_bytes = 0;    // of token vectors, on each device
  uint64_t used_bytes = 0;        // of capacity_bytes; Allocate adds these up
  // The sequences of its first and its last document; 0 while it is empty.
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;

  bool IsAvailable(const store::DeviceSet& devices) const;
};

// The room that a new segment must have.
struct SegmentNeed {
  int64_t num_documents = 1;
  int64_t num_tokens = 0;
  int64_t text_bytes = 0;   // of ids and payloads
  int64_t field_bytes = 0;  // of the values of fields (collection::MaxIndexBytes)
};

// The properties that all segments of a generation have.
struct SegmentKind {
  bool replicated = false;                          // on every device that answers, or on one
  std::optional<store::Segment::Codes> codes = {};  // of the documents
  std::vector<collection::Field> fields = {};       // that payloads are indexed by
};

// The class is thread-safe.
class SegmentAllocator {
 public:
  // `devices` and `ledger` must outlive the allocator. `name`, the collection's, is for messages.
  SegmentAllocator(std::string name, const collection::LogFormat& format, const LiveOptions& options,
                   store::DeviceSet* devices, store::MemoryLedger* ledger);

  enum class Bound {
    kConfigured,  // live.max_segment_bytes
    // The free memory. Used for records that are already in the log: they must be served even if live.max_segment_bytes
    // was reduced after they were written.
    kMemory,
  };

  // Makes a segment in addition to the segments `present`. If `kind.replicated`, the segment is on every device that
  // answers, otherwise on one device that has the memory; the devices where `present` takes the fewest bytes are tried
  // first. The size is the sum of the used bytes of `present` on the device, but at least live.segment_bytes and
  // `need`. (The sum of capacities would be too large, because a sealed segment may be nearly empty.) If there is no
  // memory for this size, live.segment_bytes is tried, and then just `need`. With kConfigured, no size exceeds the
  // bytes that `present` leaves of live.max_segment_bytes. Returns RESOURCE_EXHAUSTED with the numbers, or UNAVAILABLE
  // if no device is left.
  absl::StatusOr<LiveSegment> Allocate(absl::Span<const LiveSegment> present, const SegmentKind& kind,
                                       const SegmentNeed& need, Bound bound);

  store::DeviceSet& devices() const { return *devices_; }
  uint64_t row_bytes() const { return row_bytes_; }
  // Returns how many of a segment's capacity_bytes these documents use. Documents with few tokens use more than their
  // token vectors, because the segment's number of documents is limited too.
  uint64_t UsedBytes(int64_t num_documents, int64_t num_tokens) const;

 private:
  // Returns the sets of devices that may hold a segment, in the order in which to try them.
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
