#include "server/store/memory_ledger.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/shard/text.h"

namespace maxsim::store {
namespace {

uint64_t LessOrZero(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

}  // namespace

std::string FormatGrouped(uint64_t value) {
  return shard::FormatCount(static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max())));
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return shard::Cat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s (%s bytes)", value, kUnits[unit], FormatGrouped(bytes));
}

struct MemoryLedger::Books {
  std::mutex mutex;
  uint64_t held_bytes = 0;
  uint64_t pending_bytes = 0;
};

class MemoryLedger::Share final : public Reservation {
 public:
  Share(std::shared_ptr<Books> books, uint64_t bytes) : books_(std::move(books)), bytes_(bytes), pending_(bytes) {}

  ~Share() override {
    const std::lock_guard lock(books_->mutex);
    books_->held_bytes -= bytes_;
    books_->pending_bytes -= pending_;
  }

  void Commit(uint64_t bytes) override {
    const std::lock_guard lock(books_->mutex);
    const uint64_t committed = std::min(bytes, pending_);
    pending_ -= committed;
    books_->pending_bytes -= committed;
  }

 private:
  const std::shared_ptr<Books> books_;
  const uint64_t bytes_;
  uint64_t pending_;  // guarded by books_->mutex
};

MemoryLedger::MemoryLedger(Backend* backend, uint64_t budget_bytes, uint64_t reserve_bytes)
    : backend_(backend),
      budget_bytes_(budget_bytes),
      reserve_bytes_(budget_bytes == 0 ? reserve_bytes : 0),
      books_(std::make_shared<Books>()) {}

MemoryLedger::~MemoryLedger() = default;

absl::StatusOr<MemoryLedger::Availability> MemoryLedger::AvailableLocked() const {
  const absl::StatusOr<size_t> free_bytes = backend_->FreeBytes();
  if (!free_bytes.ok()) return free_bytes.status();
  Availability result;
  result.budget_bytes = budget_bytes_;
  result.held_bytes = books_->held_bytes;
  result.pending_bytes = books_->pending_bytes;
  result.free_bytes = *free_bytes;
  result.reserve_bytes = reserve_bytes_;
  // What other loads have reserved and not allocated yet is still shown as free by the backend.
  result.available_bytes = LessOrZero(LessOrZero(result.free_bytes, result.pending_bytes), reserve_bytes_);
  if (budget_bytes_ != 0) {
    result.available_bytes = std::min(result.available_bytes, LessOrZero(budget_bytes_, result.held_bytes));
  }
  return result;
}

absl::StatusOr<MemoryLedger::Availability> MemoryLedger::Available() const {
  const std::lock_guard lock(books_->mutex);
  return AvailableLocked();
}

absl::StatusOr<std::shared_ptr<Reservation>> MemoryLedger::Reserve(uint64_t bytes, std::string_view purpose) {
  const std::lock_guard lock(books_->mutex);
  const absl::StatusOr<Availability> now = AvailableLocked();
  if (!now.ok()) return now.status();
  if (bytes > now->available_bytes) {
    return absl::ResourceExhaustedError(
        shard::Cat(purpose, " needs ", FormatBytes(bytes), " of ", backend_->info().name, " memory and ",
                   FormatBytes(now->available_bytes), " can be taken: budget ",
                   budget_bytes_ == 0 ? std::string("none") : FormatBytes(budget_bytes_), ", held by collections ",
                   FormatBytes(now->held_bytes), ", of that still loading ", FormatBytes(now->pending_bytes), ", free ",
                   FormatBytes(now->free_bytes), ", kept free ", FormatBytes(now->reserve_bytes)));
  }
  books_->held_bytes += bytes;
  books_->pending_bytes += bytes;
  return std::static_pointer_cast<Reservation>(std::make_shared<Share>(books_, bytes));
}

}  // namespace maxsim::store
