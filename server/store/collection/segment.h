// Documents that were written to a live collection, in memory of a fixed size on one or more devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/log/log_record.h"
#include "collection/manifest.h"
#include "kernels/codes/appendable_codes.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/encode.h"
#include "kernels/maxsim.h"
#include "server/store/collection/part.h"

namespace maxsim::store {

// One thread appends. Any thread may read a document (string_id, payload and so on) once it has a Part made after the
// document was appended. A segment lives as long as a snapshot holds it.
class Segment : public std::enable_shared_from_this<Segment> {
 public:
  // The shape of the codes that are made for the documents.
  struct Codes {
    CodeShape shape;
    int planes = 1;  // 1, 2 or 4
  };
  struct Shape {
    AppendableShape tokens;
    std::optional<Codes> codes = {};  // nullopt: none
    collection::IdType id_type = collection::IdType::kString;
    int64_t max_text_bytes = 0;                  // of ids and payloads, in host memory
    std::vector<collection::Field> fields = {};  // that payloads are indexed by
    int64_t max_field_bytes = 0;                 // of their values (collection::MaxIndexBytes), in host memory
    Residency tier = Residency::kGpu;            // kHost on the CPU backend
  };
  // The memory on one device.
  struct Memory {
    uint32_t device = 0;  // index in the server's DeviceSet
    std::shared_ptr<AppendableDocuments> documents;
    std::shared_ptr<AppendableCodes> codes = {};  // null without Shape::codes
  };

  // Makes a segment in `memory`, which has one element for each device, ordered by device, and must not be empty.
  // `reservation` (may be null) reserves this memory in the ledger: `reserved_bytes` on each device.
  Segment(const Shape& shape, std::vector<Memory> memory, std::shared_ptr<const void> reservation,
          uint64_t reserved_bytes);

  // For the writing thread:

  // Returns whether the segment has room for this many more documents, tokens, bytes of ids and payloads, and bytes of
  // field values.
  bool HasRoomFor(int64_t num_documents, int64_t num_tokens, int64_t text_bytes, int64_t field_bytes = 0) const;
  // Appends upserts (no deletes) and their codes on every device. The segment must have room for them. The first one
  // gets the ordinal num_documents(). If a device is lost, returns UNAVAILABLE and sets `lost_device` to its index: no
  // document is appended, and all later calls fail. Throws std::bad_alloc if memory runs out: then, too, no document is
  // appended, and all later calls fail. `field_bytes` is the sum of the documents' collection::MaxIndexBytes. Payloads
  // must fit the fields.
  absl::Status Append(absl::Span<const collection::LogRecord> upserts, uint32_t* lost_device, int64_t field_bytes = 0);
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return offsets_[static_cast<size_t>(num_documents_)]; }
  int64_t text_bytes() const { return text_bytes_; }  // of ids and payloads
  // Returns a part with the documents appended so far. `first_ordinal` is the ordinal in the collection of the part's
  // first document.
  Part MakePart(uint64_t first_ordinal) const;

  // For any thread:

  std::string_view string_id(uint32_t ordinal) const { return string_ids_[ordinal].view(); }
  int64_t int_id(uint32_t ordinal) const { return int_ids_[ordinal]; }
  std::string_view payload(uint32_t ordinal) const { return payloads_[ordinal].view(); }
  uint64_t sequence(uint32_t ordinal) const { return sequences_[ordinal]; }
  int64_t document_tokens(uint32_t ordinal) const { return offsets_[ordinal + 1] - offsets_[ordinal]; }
  float scale(uint32_t ordinal) const { return scales_ == nullptr ? 0 : scales_[ordinal]; }
  // Copies token vectors from a device to `rows`, without padding. Returns UNAVAILABLE if no device of the segment
  // answers.
  absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const;
  const Shape& shape() const { return shape_; }
  uint64_t reserved_bytes() const { return reserved_bytes_; }  // on each device
  size_t num_devices() const { return memory_.size(); }
  uint64_t host_bytes() const;  // about how much ids, payloads, offsets and the index of fields take

 private:
  // A text in a block. Unlike std::string_view, this type has no default constructor that writes to memory, so making
  // an array of texts does not touch the array's memory.
  struct Text {
    const char* begin;
    size_t size;
    std::string_view view() const { return {begin, size}; }
  };
  static_assert(std::is_trivially_default_constructible_v<Text>);

  Text Keep(std::string_view text);
  absl::StatusOr<std::shared_ptr<const PartFields>> FieldsWith(absl::Span<const collection::LogRecord> upserts) const;
  absl::Status AppendTo(const Memory& one, const DocumentsView& documents, const EncodedDocuments& codes) const;

  const Shape shape_;
  const std::vector<Memory> memory_;
  const std::shared_ptr<const void> reservation_;
  const uint64_t reserved_bytes_;

  int64_t num_documents_ = 0;
  std::vector<Replica> replicas_;             // of the segment's documents; empty while there are none
  std::shared_ptr<const PartFields> fields_;  // of the segment's documents; null if the shape has no fields
  const std::shared_ptr<SlotMasks> slot_masks_;
  int64_t field_bytes_ = 0;
  bool broken_ = false;  // Append failed: devices may hold different documents
  // Arrays of the largest size that the segment may need. The system provides their memory only when it is first
  // touched.
  std::unique_ptr<int64_t[]> offsets_;     // [max_documents + 1]
  std::unique_ptr<uint64_t[]> sequences_;  // [max_documents]
  std::unique_ptr<float[]> scales_;        // [max_documents] of i8; else null
  std::unique_ptr<int64_t[]> int_ids_;     // [max_documents] of int64 ids; else null
  std::unique_ptr<Text[]> string_ids_;     // [max_documents] of string ids; else null
  std::unique_ptr<Text[]> payloads_;       // [max_documents]
  // The bytes of ids and payloads, in blocks.
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_end_ = nullptr;
  int64_t block_room_ = 0;
  int64_t text_bytes_ = 0;
  std::atomic<uint64_t> block_bytes_{0};
  std::atomic<uint64_t> index_bytes_{0};  // of fields_
};

}  // namespace maxsim::store
