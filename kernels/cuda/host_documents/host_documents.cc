#include "kernels/cuda/host_documents/host_documents.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {
namespace {

// Bytes that one thread reads at a time: enough that the cost of the system call does not matter, and few enough that
// all threads end together.
constexpr int64_t kReadBytes = int64_t{1} << 20;

uint64_t NextId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

HostDocuments::HostDocuments(const Device* device, ThreadPool* readers, const DocumentsView& view, Tier tier)
    : LoadedDocuments(device), id_(NextId()), readers_(readers), tier_(tier), shape_(Shape::Of(view)), view_(view) {}

MemoryNeed HostDocuments::BytesNeeded(const Shape& shape, Tier tier) {
  return tier == Tier::kHost ? MemoryNeed{.host_bytes = shape.total_bytes()} : MemoryNeed{};
}

absl::StatusOr<std::unique_ptr<HostDocuments>> HostDocuments::Load(const Device* device, ThreadPool* readers,
                                                                   const DocumentsView& view, Tier tier,
                                                                   std::shared_ptr<const void> keep_alive) {
  std::unique_ptr<HostDocuments> documents(new HostDocuments(device, readers, view, tier));
  if (view.codebook.num_centroids > 0) {
    MAXSIM_ASSIGN_OR_RETURN(documents->codebook_, CudaCodebook::Upload(view.type, view.dim, view.codebook));
  }
  if (tier != Tier::kHost) {
    documents->keep_alive_ = std::move(keep_alive);
    return documents;
  }
  MAXSIM_ASSIGN_OR_RETURN(documents->rows_, PinnedBuffer::Allocate(documents->shape_.token_bytes(), "documents"));
  const RowRange all{0, documents->shape_.num_tokens};
  MAXSIM_RETURN_IF_ERROR(documents->ReadRows(absl::MakeConstSpan(&all, 1), documents->rows_.as<uint8_t>()));
  DocumentsView& held = documents->view_;
  if (view.num_documents > 0) {
    documents->offsets_.assign(view.offsets, view.offsets + view.num_documents + 1);
    if (view.scales != nullptr) documents->scales_.assign(view.scales, view.scales + view.num_documents);
  }
  held.tokens = nullptr;
  held.offsets = documents->offsets_.data();
  held.scales = view.scales == nullptr ? nullptr : documents->scales_.data();
  held.source = nullptr;
  held.codebook = {};
  return documents;
}

absl::Status HostDocuments::ReadPart(const RowRange& rows, uint8_t* to) const {
  const auto source_bytes = static_cast<size_t>(RowBytes(shape_.type, shape_.dim));
  const size_t target_bytes = static_cast<size_t>(row_bytes());
  const uint8_t* const from =
      static_cast<const uint8_t*>(view_.tokens) + static_cast<size_t>(rows.first) * source_bytes;
  const size_t count = static_cast<size_t>(rows.count);
  const auto read = [&](size_t bytes, uint8_t* out) -> absl::Status {
    if (view_.source != nullptr) return view_.source->Read(from, bytes, out);
    std::memcpy(out, from, bytes);
    return absl::OkStatus();
  };
  if (source_bytes == target_bytes) return read(count * source_bytes, to);
  // The target's rows are longer than the source's. So this reads all rows, packed, into the last bytes of the target,
  // and then moves each row to its own location, from the first row to the last. That is safe because a row's location
  // never overlaps packed rows that come after it.
  uint8_t* packed = to + count * (target_bytes - source_bytes);
  MAXSIM_RETURN_IF_ERROR(read(count * source_bytes, packed));
  for (size_t i = 0; i < count; ++i, to += target_bytes, packed += source_bytes) {
    std::memmove(to, packed, source_bytes);
    std::memset(to + source_bytes, 0, target_bytes - source_bytes);
  }
  return absl::OkStatus();
}

absl::Status HostDocuments::ReadRows(absl::Span<const RowRange> ranges, uint8_t* to) const {
  struct Piece {
    RowRange rows;
    uint8_t* to;
  };
  std::vector<Piece> parts;
  const int64_t most = std::max<int64_t>(kReadBytes / row_bytes(), 1);
  for (const RowRange& range : ranges) {
    for (int64_t done = 0; done < range.count; done += most) {
      const int64_t count = std::min(most, range.count - done);
      parts.push_back({{range.first + done, count}, to});
      to += count * row_bytes();
    }
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  absl::Status error;
  const auto work = [&](int) {
    for (size_t i = next.fetch_add(1); i < parts.size(); i = next.fetch_add(1)) {
      const absl::Status status = ReadPart(parts[i].rows, parts[i].to);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (error.ok()) error = status;
    }
  };
  if (parts.size() > 1) {
    readers_->Run(work);
  } else {
    work(0);
  }
  return error;
}

}  // namespace maxsim::cuda
