#include "server/store/memory/file_ledger.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/open_descriptors.h"
#include "base/text.h"

namespace maxsim::store {
namespace {

constexpr int64_t kKeptShare = 8;  // 1 / kKeptShare of a limit is kept free.
constexpr int64_t kMaxDescriptorsKept = 64;

// A limit of the system and how much of it is in use.
struct Limit {
  int64_t limit = 0;
  int64_t used = 0;
  int64_t kept = 0;
};

std::optional<Limit> Descriptors() {
  struct rlimit limits = {};
  if (::getrlimit(RLIMIT_NOFILE, &limits) != 0 || limits.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::optional<int64_t> count = CountOpenDescriptors();
  if (!count.has_value()) return std::nullopt;
  const auto limit = static_cast<int64_t>(limits.rlim_cur);
  return Limit{limit, *count, std::min(kMaxDescriptorsKept, limit / kKeptShare)};
}

std::optional<Limit> Mappings() {
  std::ifstream of_system("/proc/sys/vm/max_map_count");
  std::ifstream of_process("/proc/self/maps");
  int64_t limit = 0;
  if (!(of_system >> limit) || !of_process) return std::nullopt;
  const auto count = std::count(std::istreambuf_iterator<char>(of_process), std::istreambuf_iterator<char>(), '\n');
  return Limit{limit, count, limit / kKeptShare};
}

// Returns OK if `wanted` more descriptors or mappings fit. `unit` ("descriptors" for example) and `remedy`, which says
// how to raise the limit, are for the error.
absl::Status CheckFits(int64_t wanted, int64_t pending, const std::optional<Limit>& now, std::string_view purpose,
                       std::string_view unit, std::string_view remedy) {
  if (!now.has_value() || wanted == 0) return absl::OkStatus();
  const int64_t available = std::max<int64_t>(now->limit - now->used - pending - now->kept, 0);
  if (wanted <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(purpose, " needs ", wanted, " ", unit, " but only ", available,
                                          " can be taken: limit ", now->limit, ", in use ", now->used,
                                          ", reserved by other loads ", pending, ", kept free ", now->kept, "; ",
                                          remedy, " raises the limit, and larger shards need fewer"));
}

}  // namespace

struct FileLedger::State {
  Mutex mutex;
  FileDemand pending ABSL_GUARDED_BY(mutex);  // reserved and not open yet
};

class FileLedger::HeldReservation final : public Reservation {
 public:
  HeldReservation(std::shared_ptr<State> books, const FileDemand& demand)
      : state_(std::move(books)), pending_(demand) {}
  ~HeldReservation() override { MarkAllocated(FileDemand(pending_)); }
  void Commit(const FileDemand& opened) override { MarkAllocated(opened); }

 private:
  void MarkAllocated(const FileDemand& opened) {
    const MutexLock lock(&state_->mutex);
    const int64_t descriptors = std::min(opened.descriptors, pending_.descriptors);
    const int64_t mappings = std::min(opened.mappings, pending_.mappings);
    pending_.descriptors -= descriptors;
    pending_.mappings -= mappings;
    state_->pending.descriptors -= descriptors;
    state_->pending.mappings -= mappings;
  }

  const std::shared_ptr<State> state_;
  FileDemand pending_ ABSL_GUARDED_BY(state_->mutex);
};

FileLedger::FileLedger() : state_(std::make_shared<State>()) {}
FileLedger::~FileLedger() = default;

absl::StatusOr<std::unique_ptr<FileLedger::Reservation>> FileLedger::Reserve(const FileDemand& demand,
                                                                             std::string_view purpose) {
  const MutexLock lock(&state_->mutex);
  absl::Status fits = CheckFits(demand.descriptors, state_->pending.descriptors, Descriptors(), purpose,
                                "file descriptors (one for each shard on tier disk, and those of reading)",
                                "`ulimit -n`, or LimitNOFILE= of the systemd unit,");
  if (fits.ok()) {
    fits = CheckFits(demand.mappings, state_->pending.mappings, Mappings(), purpose,
                     "memory mappings (one to three for each shard)", "sysctl vm.max_map_count");
  }
  if (!fits.ok()) return fits;
  state_->pending.descriptors += demand.descriptors;
  state_->pending.mappings += demand.mappings;
  return std::unique_ptr<Reservation>(std::make_unique<HeldReservation>(state_, demand));
}

}  // namespace maxsim::store
