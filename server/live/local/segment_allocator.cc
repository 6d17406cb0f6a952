#include "server/live/local/segment_allocator.h"

#include <algorithm>
#include <utility>

#include "base/saturating.h"
#include "base/text.h"
#include "base/units.h"
#include "kernels/codes/codes.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "server/store/collection/part_fields.h"

namespace maxsim::live {
namespace {

// A segment has room for one document per this many bytes of token vectors: four tokens of 128 FP16 columns. In
// addition each document takes 8 bytes of device memory for offsets, 36 for codes of 4 planes, and 48 bytes of host
// memory for ids and lengths.
constexpr uint64_t kBytesPerDocument = 1024;

// The limit for the ids and payloads of a small segment. They are stored in host memory, which is allocated as
// needed. Without this limit, documents with few tokens and large payloads could take more host memory than device
// memory.
constexpr int64_t kMinTextBytes = int64_t{64} << 20;

// A segment reserves this many bytes per field and document. The sum over all fields is at most 1 / kFieldShare of
// the bytes of the segment's token vectors, unless a single document needs more.
constexpr int64_t kBytesPerFieldValue = 40;
constexpr int64_t kFieldShare = 4;

int64_t MaxFieldBytes(const store::Segment::Shape& shape, uint64_t capacity_bytes, int64_t needed) {
  if (shape.fields.empty()) return 0;
  const int64_t values = static_cast<int64_t>(shape.fields.size()) * shape.tokens.max_documents * kBytesPerFieldValue;
  return std::max(std::min(values, static_cast<int64_t>(capacity_bytes) / kFieldShare), needed);
}

// Adds up the segments' `kind` bytes (a member of LiveSegment) per device, and returns the largest sum on any of the
// chosen devices.
uint64_t MostBytesOn(const std::vector<uint32_t>& chosen, absl::Span<const LiveSegment> present,
                     uint64_t LiveSegment::*kind) {
  uint64_t most = 0;
  for (const uint32_t device : chosen) {
    uint64_t bytes = 0;
    for (const LiveSegment& segment : present) {
      if (std::count(segment.devices.begin(), segment.devices.end(), device) > 0) bytes += segment.*kind;
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

bool LiveSegment::IsAvailable(const store::DeviceSet& set) const {
  return std::any_of(devices.begin(), devices.end(), [&](uint32_t device) { return set.alive(device); });
}

SegmentAllocator::SegmentAllocator(std::string name, const collection::LogFormat& format, const LiveOptions& options,
                                   store::DeviceSet* devices, store::MemoryLedger* ledger)
    : name_(std::move(name)),
      format_(format),
      options_(options),
      row_bytes_(static_cast<uint64_t>(format.dim) * SizeOf(format.storage)),
      devices_(devices),
      ledger_(ledger) {}

std::vector<std::vector<uint32_t>> SegmentAllocator::ChooseDevices(absl::Span<const LiveSegment> present,
                                                                   bool replicated) const {
  std::vector<uint32_t> alive;
  for (size_t device = 0; device < devices_->size(); ++device) {
    if (devices_->alive(device)) alive.push_back(static_cast<uint32_t>(device));
  }
  if (alive.empty()) return {};
  if (replicated || alive.size() < 2) return {alive};
  struct Choice {
    uint32_t device = 0;
    uint64_t bytes = 0;
    uint64_t available_bytes = 0;
  };
  const store::MemoryLedger::Memory memory = ledger_->Available();
  std::vector<Choice> choices;
  choices.reserve(alive.size());
  for (const uint32_t device : alive) {
    choices.push_back(
        {device, MostBytesOn({device}, present, &LiveSegment::capacity_bytes), memory.devices[device].available_bytes});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.available_bytes > b.available_bytes;
  });
  std::vector<std::vector<uint32_t>> chosen;
  chosen.reserve(choices.size());
  for (const Choice& choice : choices) chosen.push_back({choice.device});
  return chosen;
}

uint64_t SegmentAllocator::UsedBytes(int64_t num_documents, int64_t num_tokens) const {
  return std::max(static_cast<uint64_t>(num_tokens) * row_bytes_,
                  static_cast<uint64_t>(num_documents) * kBytesPerDocument);
}

uint64_t SegmentAllocator::MemoryOn(uint32_t device, const store::Segment::Shape& shape) const {
  const AppendableShape& tokens = shape.tokens;
  uint64_t bytes = devices_->backend(device)
                       .BytesNeeded(tokens.type, tokens.dim, tokens.max_documents, tokens.max_tokens, Tier::kDevice)
                       .device_bytes;
  if (!devices_->is_gpu()) {
    // The CPU backend counts 0 bytes for views, because it does not own their memory. A segment does own its arrays,
    // so count them here.
    const auto num_documents = static_cast<uint64_t>(tokens.max_documents);
    uint64_t arrays = static_cast<uint64_t>(tokens.max_tokens) * row_bytes_ + (num_documents + 1) * sizeof(int64_t);
    if (tokens.type == ScalarType::kI8) arrays += num_documents * sizeof(float);
    bytes = SaturatingAdd(bytes, arrays);
  }
  if (!shape.codes.has_value()) return bytes;
  return SaturatingAdd(
      bytes, CodeArrayBytes(shape.codes->shape, shape.codes->planes, tokens.max_documents, tokens.max_tokens));
}

// Allocates a segment's memory on one device.
absl::StatusOr<store::Segment::Memory> SegmentAllocator::MakeMemory(uint32_t device,
                                                                    const store::Segment::Shape& shape) {
  Backend& backend = devices_->backend(device);
  store::Segment::Memory memory{.device = device, .documents = nullptr};
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> documents = backend.CreateAppendable(shape.tokens);
  if (!documents.ok()) return documents.status();
  memory.documents = *std::move(documents);
  if (!shape.codes.has_value()) return memory;
  absl::StatusOr<std::shared_ptr<AppendableCodes>> codes =
      backend.CreateAppendableCodes({.codes = shape.codes->shape,
                                     .planes = shape.codes->planes,
                                     .max_documents = shape.tokens.max_documents,
                                     .max_tokens = shape.tokens.max_tokens});
  if (!codes.ok()) return codes.status();
  memory.codes = *std::move(codes);
  return memory;
}

absl::StatusOr<LiveSegment> SegmentAllocator::Make(const std::vector<uint32_t>& chosen, const SegmentKind& kind,
                                                   uint64_t capacity_bytes, const SegmentNeed& need) {
  store::Segment::Shape shape;
  shape.tokens.type = format_.storage;
  shape.tokens.dim = format_.dim;
  shape.tokens.rotation_seed = format_.rotation_seed;
  shape.tokens.max_tokens = std::max(static_cast<int64_t>(capacity_bytes / row_bytes_), need.num_tokens);
  shape.tokens.max_documents = std::max(static_cast<int64_t>(capacity_bytes / kBytesPerDocument), need.num_documents);
  shape.tokens.max_documents = std::min({shape.tokens.max_documents, shape.tokens.max_tokens, kMaxShardDocuments});
  shape.codes = kind.codes;
  shape.id_type = format_.id_type;
  shape.tier = devices_->is_gpu() ? store::Residency::kGpu : store::Residency::kHost;
  shape.max_text_bytes = std::max({kMinTextBytes, static_cast<int64_t>(capacity_bytes), need.text_bytes});

  shape.fields = kind.fields;
  shape.max_field_bytes = MaxFieldBytes(shape, capacity_bytes, need.field_bytes);

  LiveSegment result;
  result.devices = chosen;
  result.capacity_bytes = static_cast<uint64_t>(shape.tokens.max_tokens) * row_bytes_;
  store::MemoryDemand demand;
  demand.device_bytes.resize(devices_->size());
  demand.scan_bytes.resize(devices_->size());
  for (const uint32_t device : chosen) {
    demand.device_bytes[device] = MemoryOn(device, shape);
    if (!shape.codes.has_value()) continue;
    demand.scan_bytes[device] = devices_->ScanBytesNeeded(shape.codes->shape, shape.tokens.max_documents);
  }
  const uint64_t reserved_bytes = demand.device_bytes[chosen.front()];
  if (!shape.fields.empty()) {
    // The index of fields is in host memory, and is stored only once for all devices. On the CPU backend it counts as
    // memory of the first device.
    const auto field_bytes = static_cast<uint64_t>(
        store::PartFields::MaxSegmentBytes(shape.fields.size(), shape.tokens.max_documents, shape.max_field_bytes));
    uint64_t& held = devices_->is_gpu() ? demand.host_bytes : demand.device_bytes[chosen.front()];
    held = SaturatingAdd(held, field_bytes);
  }
  auto reservation = ledger_->Reserve(demand, Cat("a segment of collection ", name_));
  if (!reservation.ok()) return reservation.status();
  std::vector<store::Segment::Memory> memory;
  for (const uint32_t device : chosen) {
    absl::StatusOr<store::Segment::Memory> made = MakeMemory(device, shape);
    if (!made.ok()) {
      const absl::Status health = devices_->backend(device).Health();
      if (!health.ok()) devices_->MarkLost(device, health);
      return made.status();
    }
    memory.push_back(*std::move(made));
  }
  (*reservation)->Commit(demand);
  result.segment = std::make_shared<store::Segment>(shape, std::move(memory), *std::move(reservation), reserved_bytes);
  return result;
}

absl::StatusOr<LiveSegment> SegmentAllocator::Allocate(absl::Span<const LiveSegment> present, const SegmentKind& kind,
                                                       const SegmentNeed& need, Bound bound) {
  const uint64_t needed = static_cast<uint64_t>(need.num_tokens) * row_bytes_;
  absl::Status refused = absl::UnavailableError("all devices are lost");
  for (const std::vector<uint32_t>& chosen : ChooseDevices(present, kind.replicated)) {
    const uint64_t taken = MostBytesOn(chosen, present, &LiveSegment::capacity_bytes);
    const uint64_t configured = std::max(static_cast<uint64_t>(options_.segment_bytes), needed);
    uint64_t most = std::max(configured, MostBytesOn(chosen, present, &LiveSegment::used_bytes));
    if (bound == Bound::kConfigured) {
      const auto limit = static_cast<uint64_t>(options_.max_segment_bytes);
      most = std::min(most, limit > taken ? limit - taken : 0);
      if (most < std::max<uint64_t>(needed, 1)) {
        return absl::ResourceExhaustedError(Cat("the segments of collection ", name_, " are full: they take ",
                                                FormatBytesExactly(taken), ", the next write needs ",
                                                FormatBytesExactly(UsedBytes(need.num_documents, need.num_tokens)),
                                                ", and live.max_segment_bytes is ", FormatBytesExactly(limit)));
      }
    }
    // Tries three sizes in turn, and makes the first segment for which there is enough memory.
    absl::Status status;
    for (const uint64_t bytes : {most, std::min(most, configured), needed}) {
      absl::StatusOr<LiveSegment> made = Make(chosen, kind, std::max(bytes, row_bytes_), need);
      if (made.ok()) return made;
      status = made.status();
      if (!absl::IsResourceExhausted(status)) break;
    }
    // If Make lost a device, tries again without it. Otherwise tries the next device, which may have more memory.
    const bool lost = std::any_of(chosen.begin(), chosen.end(), [&](uint32_t idx) { return !devices_->alive(idx); });
    if (lost) return Allocate(present, kind, need, bound);
    if (!absl::IsResourceExhausted(status)) return status;
    refused = std::move(status);
  }
  return refused;
}

}  // namespace maxsim::live
