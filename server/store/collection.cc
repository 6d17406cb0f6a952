#include "server/store/collection.h"

#include <algorithm>
#include <utility>

namespace maxsim::store {

Collection::Collection(std::string name, std::string path, shard::Manifest manifest, Residency residency,
                       std::vector<Part> parts, IdIndex index, absl::Time loaded_at,
                       std::shared_ptr<const void> reservation)
    : name_(std::move(name)),
      path_(std::move(path)),
      manifest_(std::move(manifest)),
      residency_(residency),
      reservation_(std::move(reservation)),
      parts_(std::move(parts)),
      index_(std::move(index)),
      loaded_at_(loaded_at) {}

size_t Collection::resident_bytes() const {
  size_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += part.documents->memory().device_bytes;
    if (residency_ != Residency::kGpu) bytes += static_cast<size_t>(part.shard->host_bytes());
  }
  return bytes;
}

size_t Collection::index_bytes() const {
  size_t bytes = index_.num_bytes();
  for (const Part& part : parts_) {
    if (residency_ == Residency::kGpu) bytes += static_cast<size_t>(part.shard->host_bytes());
  }
  return bytes;
}

absl::Status Collection::Check() const {
  for (const Part& part : parts_) {
    if (absl::Status status = part.shard->Check(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Collection::Location Collection::Locate(uint64_t ordinal) const {
  // The last part that begins at or before the ordinal. A part without documents shares its first ordinal with the part
  // behind it, which is the one this finds.
  const auto next = std::upper_bound(parts_.begin(), parts_.end(), ordinal,
                                     [](uint64_t value, const Part& part) { return value < part.first_ordinal; });
  const auto part = static_cast<uint32_t>(next - parts_.begin() - 1);
  return {part, static_cast<uint32_t>(ordinal - parts_[part].first_ordinal)};
}

std::string_view Collection::string_id(uint64_t ordinal) const {
  const Location place = Locate(ordinal);
  return parts_[place.part].shard->string_id(place.ordinal);
}

int64_t Collection::int_id(uint64_t ordinal) const {
  const Location place = Locate(ordinal);
  return parts_[place.part].shard->int_id(place.ordinal);
}

std::string_view Collection::payload(uint64_t ordinal) const {
  const Location place = Locate(ordinal);
  return parts_[place.part].shard->payload(place.ordinal);
}

uint64_t Collection::num_tokens(absl::Span<const uint64_t> ordinals) const {
  // Little beside the two loads, so that many documents' lengths are on their way from memory at a time.
  const auto length = [](const int64_t* offsets, uint64_t ordinal) {
    return static_cast<uint64_t>(offsets[ordinal + 1] - offsets[ordinal]);
  };
  uint64_t tokens = 0;
  if (parts().size() == 1) {
    const int64_t* const offsets = parts().front().shard->documents().offsets;
    for (const uint64_t ordinal : ordinals) tokens += length(offsets, ordinal);
    return tokens;
  }
  std::vector<const int64_t*> offsets;
  offsets.reserve(parts().size());
  for (const Part& part : parts()) offsets.push_back(part.shard->documents().offsets);
  for (const uint64_t ordinal : ordinals) {
    const Location place = Locate(ordinal);
    tokens += length(offsets[place.part], place.ordinal);
  }
  return tokens;
}

int64_t Collection::num_document_tokens(uint64_t ordinal) const {
  const Location place = Locate(ordinal);
  const int64_t* offsets = parts_[place.part].shard->documents().offsets;
  return offsets[place.ordinal + 1] - offsets[place.ordinal];
}

}  // namespace maxsim::store
