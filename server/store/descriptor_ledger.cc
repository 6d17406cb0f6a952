#include "server/store/descriptor_ledger.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "server/shard/text.h"

namespace maxsim::store {
namespace {

constexpr int64_t kMostKept = 64;
constexpr int64_t kKeptShare = 8;  // one in so many of a small limit

std::optional<int64_t> NumOpen() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  int64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(folder);
  return count - 1;  // without the one that looked
}

}  // namespace

struct DescriptorLedger::Books {
  std::mutex mutex;
  int64_t pending = 0;  // reserved and not open yet; guarded by mutex
};

class DescriptorLedger::Share final : public Reservation {
 public:
  Share(std::shared_ptr<Books> books, int64_t count) : books_(std::move(books)), pending_(count) {}
  ~Share() override {
    const std::lock_guard lock(books_->mutex);
    books_->pending -= pending_;
  }
  void Commit() override {
    const std::lock_guard lock(books_->mutex);
    if (pending_ == 0) return;
    --pending_;
    --books_->pending;
  }

 private:
  const std::shared_ptr<Books> books_;
  int64_t pending_;  // guarded by books_->mutex
};

DescriptorLedger::DescriptorLedger() : books_(std::make_shared<Books>()) {}
DescriptorLedger::~DescriptorLedger() = default;

absl::StatusOr<std::unique_ptr<DescriptorLedger::Reservation>> DescriptorLedger::Reserve(int64_t count,
                                                                                         std::string_view purpose) {
  const std::lock_guard lock(books_->mutex);
  struct rlimit limits = {};
  const std::optional<int64_t> open = NumOpen();
  if (open.has_value() && ::getrlimit(RLIMIT_NOFILE, &limits) == 0 && limits.rlim_cur != RLIM_INFINITY) {
    const auto limit = static_cast<int64_t>(limits.rlim_cur);
    const int64_t kept = std::min(kMostKept, limit / kKeptShare);
    const int64_t available = std::max<int64_t>(limit - *open - books_->pending - kept, 0);
    if (count > available) {
      return absl::ResourceExhaustedError(shard::Cat(
          purpose, " needs ", count, " file descriptors (one for each shard on tier disk, and those of reading) and ",
          available, " can be taken: limit ", limit, ", open ", *open, ", reserved by other loads ", books_->pending,
          ", kept free for connections ", kept,
          "; `ulimit -n`, or LimitNOFILE= of the systemd unit, raises the limit, and larger shards need fewer"));
    }
  }
  books_->pending += count;
  return std::unique_ptr<Reservation>(std::make_unique<Share>(books_, count));
}

}  // namespace maxsim::store
