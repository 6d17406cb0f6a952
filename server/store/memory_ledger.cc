#include "server/store/memory_ledger.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/saturating.h"
#include "base/text.h"
#include "base/units.h"

namespace maxsim::store {

// Bytes of one memory that reservations stand for.
struct Account {
  uint64_t held_bytes = 0;
  uint64_t pending_bytes = 0;
};

namespace {

uint64_t LessOrZero(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

MemoryLedger::Availability Judge(const Account& account, const MemoryBudget& budget,
                                 const absl::StatusOr<uint64_t>& free_bytes) {
  MemoryLedger::Availability result;
  result.budget_bytes = budget.budget_bytes;
  result.held_bytes = account.held_bytes;
  result.pending_bytes = account.pending_bytes;
  result.reserve_bytes = budget.budget_bytes == 0 ? budget.reserve_bytes : 0;
  result.status = free_bytes.status();
  if (!free_bytes.ok()) return result;
  result.free_bytes = *free_bytes;
  // What other loads have reserved and not allocated yet is still reported as free.
  result.available_bytes = LessOrZero(LessOrZero(result.free_bytes, result.pending_bytes), result.reserve_bytes);
  if (result.budget_bytes != 0) {
    result.available_bytes = std::min(result.available_bytes, LessOrZero(result.budget_bytes, result.held_bytes));
  }
  return result;
}

absl::Status CheckFits(uint64_t bytes, const MemoryLedger::Availability& now, std::string_view purpose,
                       std::string_view memory) {
  if (bytes == 0) return absl::OkStatus();
  if (!now.status.ok()) return now.status;
  if (bytes <= now.available_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      Cat(purpose, " needs ", FormatBytesExactly(bytes), " of ", memory, " and ",
          FormatBytesExactly(now.available_bytes), " can be taken: budget ",
          now.budget_bytes == 0 ? std::string("none") : FormatBytesExactly(now.budget_bytes), ", held by collections ",
          FormatBytesExactly(now.held_bytes), ", of that still loading ", FormatBytesExactly(now.pending_bytes),
          ", free ", FormatBytesExactly(now.free_bytes), ", kept free ", FormatBytesExactly(now.reserve_bytes)));
}

}  // namespace

uint64_t MemoryDemand::total() const {
  uint64_t bytes = host_bytes;
  for (const uint64_t of_device : device_bytes) bytes = SaturatingAdd(bytes, of_device);
  return bytes;
}

struct MemoryLedger::Books {
  std::mutex mutex;
  std::vector<Account> devices;
  Account host;
};

class MemoryLedger::Share final : public Reservation {
 public:
  Share(std::shared_ptr<Books> books, const MemoryDemand& demand)
      : books_(std::move(books)), held_(demand), pending_(demand) {}

  ~Share() override {
    const std::lock_guard lock(books_->mutex);
    for (size_t device = 0; device < held_.device_bytes.size(); ++device) {
      books_->devices[device].held_bytes -= held_.device_bytes[device];
      books_->devices[device].pending_bytes -= pending_.device_bytes[device];
    }
    books_->host.held_bytes -= held_.host_bytes;
    books_->host.pending_bytes -= pending_.host_bytes;
  }

  void Commit(const MemoryDemand& allocated) override {
    const std::lock_guard lock(books_->mutex);
    for (size_t device = 0; device < std::min(allocated.device_bytes.size(), pending_.device_bytes.size()); ++device) {
      Settle(allocated.device_bytes[device], pending_.device_bytes[device], books_->devices[device]);
    }
    Settle(allocated.host_bytes, pending_.host_bytes, books_->host);
  }

 private:
  static void Settle(uint64_t allocated, uint64_t& pending, Account& account) {
    const uint64_t committed = std::min(allocated, pending);
    pending -= committed;
    account.pending_bytes -= committed;
  }

  const std::shared_ptr<Books> books_;
  const MemoryDemand held_;
  MemoryDemand pending_;  // guarded by books_->mutex
};

MemoryLedger::MemoryLedger(const DeviceSet* devices, MemoryBudget device, MemoryBudget host,
                           std::function<uint64_t()> free_host_bytes)
    : devices_(devices),
      device_budget_(device),
      host_budget_(host),
      free_host_bytes_(std::move(free_host_bytes)),
      books_(std::make_shared<Books>()) {
  books_->devices.resize(devices->size());
}

MemoryLedger::~MemoryLedger() = default;

MemoryLedger::Memory MemoryLedger::AvailableLocked() const {
  Memory memory;
  for (size_t device = 0; device < devices_->size(); ++device) {
    const absl::Status lost = devices_->StatusOf(device);
    const absl::StatusOr<uint64_t> free_bytes =
        lost.ok() ? absl::StatusOr<uint64_t>(devices_->backend(device).FreeBytes()) : lost;
    memory.devices.push_back(Judge(books_->devices[device], device_budget_, free_bytes));
  }
  memory.host = Judge(books_->host, host_budget_,
                      free_host_bytes_ == nullptr ? std::numeric_limits<uint64_t>::max() : free_host_bytes_());
  return memory;
}

MemoryLedger::Memory MemoryLedger::Available() const {
  const std::lock_guard lock(books_->mutex);
  return AvailableLocked();
}

absl::StatusOr<std::shared_ptr<Reservation>> MemoryLedger::Reserve(const MemoryDemand& demand,
                                                                   std::string_view purpose) {
  const std::lock_guard lock(books_->mutex);
  const Memory now = AvailableLocked();
  for (size_t device = 0; device < demand.device_bytes.size(); ++device) {
    const std::string kind = Cat(devices_->backend(device).info().name, " memory");
    const absl::Status fits =
        CheckFits(demand.device_bytes[device], now.devices[device], purpose,
                  devices_->size() == 1 ? kind : Cat(kind, " of device ", devices_->number(device)));
    if (!fits.ok()) return fits;
  }
  const absl::Status fits = CheckFits(demand.host_bytes, now.host, purpose, "pinned host memory");
  if (!fits.ok()) return fits;
  for (size_t device = 0; device < demand.device_bytes.size(); ++device) {
    books_->devices[device].held_bytes += demand.device_bytes[device];
    books_->devices[device].pending_bytes += demand.device_bytes[device];
  }
  books_->host.held_bytes += demand.host_bytes;
  books_->host.pending_bytes += demand.host_bytes;
  return std::static_pointer_cast<Reservation>(std::make_shared<Share>(books_, demand));
}

}  // namespace maxsim::store
