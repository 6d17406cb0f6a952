#include "server/store/collection/segment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/store/collection/part_fields.h"
#include "server/store/collection/slot_masks.h"

namespace maxsim::store {
namespace {

// Size of a block of texts, in bytes.
constexpr int64_t kTextBlockBytes = int64_t{1} << 20;

template <typename T>
std::unique_ptr<T[]> Array(int64_t size) {
  return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(size));
}

}  // namespace

Segment::Segment(const Shape& shape, std::vector<Memory> memory, std::shared_ptr<const void> reservation,
                 uint64_t reserved_bytes)
    : shape_(shape),
      memory_(std::move(memory)),
      reservation_(std::move(reservation)),
      reserved_bytes_(reserved_bytes),
      slot_masks_(std::make_shared<SlotMasks>()),
      offsets_(Array<int64_t>(shape.tokens.max_documents + 1)),
      sequences_(Array<uint64_t>(shape.tokens.max_documents)),
      payloads_(Array<Text>(shape.tokens.max_documents)) {
  offsets_[0] = 0;
  if (!shape.fields.empty()) fields_ = std::make_shared<const PartFields>(shape.fields);
  if (shape.tokens.type == ScalarType::kI8) scales_ = Array<float>(shape.tokens.max_documents);
  if (shape.id_type == collection::IdType::kInt64) {
    int_ids_ = Array<int64_t>(shape.tokens.max_documents);
  } else {
    string_ids_ = Array<Text>(shape.tokens.max_documents);
  }
}

bool Segment::HasRoomFor(int64_t num_documents, int64_t num_tokens, int64_t text_bytes, int64_t field_bytes) const {
  return !broken_ && num_documents <= shape_.tokens.max_documents - num_documents_ &&
         num_tokens <= shape_.tokens.max_tokens - this->num_tokens() &&
         text_bytes <= shape_.max_text_bytes - text_bytes_ && field_bytes <= shape_.max_field_bytes - field_bytes_;
}

Segment::Text Segment::Keep(std::string_view text) {
  if (text.empty()) return {.begin = nullptr, .size = 0};
  const auto size = static_cast<int64_t>(text.size());
  if (size > block_room_) {
    const int64_t block_bytes = std::max(kTextBlockBytes, size);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(static_cast<size_t>(block_bytes)));
    block_end_ = blocks_.back().get();
    block_room_ = block_bytes;
    block_bytes_.fetch_add(static_cast<uint64_t>(block_bytes), std::memory_order_relaxed);
  }
  char* const begin = block_end_;
  std::memcpy(begin, text.data(), text.size());
  block_end_ += size;
  block_room_ -= size;
  text_bytes_ += size;
  return {.begin = begin, .size = text.size()};
}

absl::Status Segment::AppendTo(const Memory& one, const DocumentsView& documents, const EncodedDocuments& codes) const {
  absl::Status status = one.documents->Append(documents);
  if (!status.ok() || one.codes == nullptr) return status;
  return one.codes->Append(codes.view());
}

// Returns the fields of the segment's documents and of `upserts`, or null.
absl::StatusOr<std::shared_ptr<const PartFields>> Segment::FieldsWith(
    absl::Span<const collection::LogRecord> upserts) const {
  if (fields_ == nullptr) return nullptr;
  return fields_->With(static_cast<int64_t>(upserts.size()), [&](uint32_t ordinal) {
    const auto idx = static_cast<size_t>(ordinal);
    const auto num_before = static_cast<size_t>(num_documents_);
    return idx < num_before ? payload(ordinal) : upserts[idx - num_before].payload;
  });
}

absl::Status Segment::Append(absl::Span<const collection::LogRecord> upserts, uint32_t* lost_device,
                             int64_t field_bytes) {
  // If there are several documents, joins their token vectors, so that they are copied to the device in one piece.
  std::vector<int64_t> offsets = {0};
  std::vector<float> scales;
  std::vector<std::byte> joined;
  offsets.reserve(upserts.size() + 1);
  for (const collection::LogRecord& record : upserts) offsets.push_back(offsets.back() + record.num_tokens);
  const void* rows = nullptr;
  if (upserts.size() == 1 && reinterpret_cast<uintptr_t>(upserts.front().rows.data()) % alignof(float) == 0) {
    rows = upserts.front().rows.data();
  } else {
    size_t num_bytes = 0;
    for (const collection::LogRecord& record : upserts) num_bytes += record.rows.size();
    joined.reserve(num_bytes);
    for (const collection::LogRecord& record : upserts) {
      const auto* const begin = reinterpret_cast<const std::byte*>(record.rows.data());
      joined.insert(joined.end(), begin, begin + record.rows.size());
    }
    rows = joined.data();
  }
  if (scales_ != nullptr) {
    for (const collection::LogRecord& record : upserts) scales.push_back(record.scale);
  }
  const DocumentsView view{.type = shape_.tokens.type,
                           .dim = shape_.tokens.dim,
                           .num_documents = static_cast<int64_t>(upserts.size()),
                           .tokens = rows,
                           .offsets = offsets.data(),
                           .scales = scales_ == nullptr ? nullptr : scales.data(),
                           .rotation_seed = shape_.tokens.rotation_seed};
  // The codes are computed once for all devices. They are bitwise equal to the codes that a build writes.
  EncodedDocuments codes;
  if (shape_.codes.has_value()) {
    absl::StatusOr<EncodedDocuments> encoded = EncodedDocuments::Encode(shape_.codes->shape, view);
    if (!encoded.ok()) return encoded.status();
    codes = *std::move(encoded);
  }
  absl::StatusOr<std::shared_ptr<const PartFields>> fields = FieldsWith(upserts);
  if (!fields.ok()) return fields.status();
  // If AppendTo fails on a device, the devices may hold different documents, and the segment stays broken.
  broken_ = true;
  for (const Memory& one : memory_) {
    absl::Status status = AppendTo(one, view, codes);
    if (status.ok()) continue;
    if (absl::IsUnavailable(status)) *lost_device = one.device;
    return status;
  }
  const int64_t first_token = num_tokens();
  for (size_t idx = 0; idx < upserts.size(); ++idx) {
    const collection::LogRecord& record = upserts[idx];
    const auto ordinal = static_cast<size_t>(num_documents_) + idx;
    sequences_[ordinal] = record.sequence;
    if (scales_ != nullptr) scales_[ordinal] = record.scale;
    if (int_ids_ != nullptr) {
      int_ids_[ordinal] = record.int_id;
    } else {
      string_ids_[ordinal] = Keep(record.string_id);
    }
    payloads_[ordinal] = Keep(record.payload);
    offsets_[ordinal + 1] = first_token + offsets[idx + 1];
  }
  std::vector<Replica> replicas;
  replicas.reserve(memory_.size());
  for (const Memory& one : memory_) {
    replicas.push_back({one.device, one.documents->Snapshot(), one.codes == nullptr ? nullptr : one.codes->Snapshot()});
  }
  replicas_.swap(replicas);
  fields_ = *std::move(fields);
  field_bytes_ += field_bytes;
  if (fields_ != nullptr) {
    index_bytes_.store(static_cast<uint64_t>(fields_->memory_bytes()), std::memory_order_relaxed);
  }
  num_documents_ += static_cast<int64_t>(upserts.size());
  broken_ = false;
  return absl::OkStatus();
}

Part Segment::MakePart(uint64_t first_ordinal) const {
  Part part;
  part.segment = shared_from_this();
  part.tier = shape_.tier;
  part.first_ordinal = first_ordinal;
  part.view = {.type = shape_.tokens.type,
               .dim = shape_.tokens.dim,
               .num_documents = num_documents_,
               .offsets = offsets_.get(),
               .scales = scales_.get(),
               .rotation_seed = shape_.tokens.rotation_seed};
  part.replicas = replicas_;
  part.fields = fields_;
  part.slot_masks = slot_masks_;
  return part;
}

absl::Status Segment::ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const {
  absl::Status status = absl::UnavailableError("no device that holds the segment answers");
  for (const Memory& one : memory_) {
    status = one.documents->ReadRows(first_token, num_tokens, rows);
    if (status.ok()) return status;
  }
  return status;
}

uint64_t Segment::host_bytes() const {
  const auto of_document = sizeof(int64_t) + sizeof(uint64_t) + sizeof(Text) +
                           (scales_ == nullptr ? 0 : sizeof(float)) +
                           (int_ids_ == nullptr ? sizeof(Text) : sizeof(int64_t));
  return static_cast<uint64_t>(shape_.tokens.max_documents) * of_document +
         block_bytes_.load(std::memory_order_relaxed) + index_bytes_.load(std::memory_order_relaxed);
}

}  // namespace maxsim::store
