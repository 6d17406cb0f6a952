#include "server/live/shared/collection_learner.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "server/observability/log_event.h"

namespace maxsim::live {

using collection::SlotOwner;
using collection::SlotRange;

namespace {

SlotRange RangeOf(const SlotOwner& owner) {
  return {.first = static_cast<int32_t>(owner.first_slot), .end = static_cast<int32_t>(owner.end_slot)};
}

absl::StatusOr<SlotRange> SlotsOfLayout(const collection::SlotLayout& layout, const OwnSlots& own) {
  const std::vector<SlotOwner>& owners = layout.owners;
  if (!own.group.empty()) {
    const auto found =
        std::find_if(owners.begin(), owners.end(), [&](const SlotOwner& owner) { return owner.group == own.group; });
    if (found != owners.end()) return RangeOf(*found);
    return absl::NotFoundError(Cat("group ", own.group, " has no slots in the layout of revision ", layout.revision));
  }
  const SlotRange wanted = own.partition.value_or(SlotRange());
  const bool is_there =
      std::any_of(owners.begin(), owners.end(), [&](const SlotOwner& owner) { return RangeOf(owner) == wanted; });
  if (is_there) return wanted;
  return absl::FailedPreconditionError(Cat("no group has ", collection::DescribeSlots(wanted),
                                           " in the layout of revision ", layout.revision,
                                           "; set cluster.group to the name of this server's group"));
}

}  // namespace

absl::StatusOr<SlotRange> SlotsOfServer(const store::SharedSettings& settings, const collection::SlotLayout* layout,
                                        const OwnSlots& own) {
  if (layout != nullptr) return SlotsOfLayout(*layout, own);
  if (own.partition.has_value()) return *own.partition;
  if (settings.is_partitioned) {
    return absl::FailedPreconditionError(
        "its slots are divided among groups, and it has no layout; give it one (maxsimctl cluster), or set "
        "cluster.partition to the slots of this server");
  }
  if (settings.group != own.group) {
    return absl::FailedPreconditionError(Cat("a server with cluster.group ", Quote(settings.group),
                                             " created it, it has no layout, and this server has "
                                             "cluster.group ",
                                             Quote(own.group), "; servers of one group need the same cluster.group"));
  }
  return SlotRange();
}

CollectionLearner::CollectionLearner(SharedCollections* shared, Layouts* layouts, Options options, Create create)
    : shared_(shared), layouts_(layouts), options_(std::move(options)), create_(std::move(create)) {}

CollectionLearner::~CollectionLearner() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

absl::Status CollectionLearner::Start() {
  // The store passes all existing keys to a watch before it reports that they are read. So follow layouts first: once
  // All returns collections, their layouts are known.
  layouts_->Follow();
  shared_->Follow();
  return StartThread(
      "live_learner", [this] { Run(); }, &thread_);
}

void CollectionLearner::RequestStop() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
}

bool CollectionLearner::stopping() const {
  const MutexLock lock(&mutex_);
  return stopping_;
}

void CollectionLearner::Run() {
  NameThisThread("live_learner");
  while (!stopping()) {
    Guarded([&] {
      LearnAll();
      return absl::OkStatus();
    }).IgnoreError();
    const absl::Time until = MonotonicNow() + options_.poll_interval;
    MutexLock lock(&mutex_);
    while (!stopping_) {
      const absl::Duration left = until - MonotonicNow();
      if (left <= absl::ZeroDuration()) break;
      changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
    }
  }
}

void CollectionLearner::LearnAll() {
  std::set<std::string> present;
  for (const SharedCollections::Shared& shared : shared_->All()) {
    if (stopping()) return;
    present.insert(shared.settings.options.name);
    Learn(shared);
  }
  std::erase_if(failures_, [&](const auto& failure) {
    if (present.contains(failure.first)) return false;
    if (options_.on_removed != nullptr) options_.on_removed(failure.first);
    return true;
  });
}

// Creates a collection, unless this failed moments ago. Logs an error only when it first occurs, because the thread
// tries again for as long as the settings are shared.
void CollectionLearner::Learn(const SharedCollections::Shared& shared) {
  const std::string& name = shared.settings.options.name;
  const auto failed = failures_.find(name);
  if (failed != failures_.end() && MonotonicNow() < failed->second.retry_at) return;
  const std::shared_ptr<const collection::SlotLayout> layout = layouts_->Find(name);
  // If the layout cannot be read, the server's slots are unknown, and the attempt fails.
  const absl::Status readable = layouts_->CheckReadable(name);
  const absl::StatusOr<SlotRange> slots =
      readable.ok() ? SlotsOfServer(shared.settings, layout.get(), options_.own) : readable;
  const absl::Time begin = MonotonicNow();
  const absl::Status status = slots.ok() ? create_(shared.settings, *slots) : slots.status();
  if (status.ok() || stopping()) {
    failures_.erase(name);
    return;
  }
  // Without slots there is no wait: the layout may give the group slots at any time, and looking at it costs nothing.
  absl::Duration wait = absl::ZeroDuration();
  if (slots.ok()) {
    const bool is_first = failed == failures_.end() || failed->second.wait == absl::ZeroDuration();
    wait = is_first ? options_.retry_wait : std::min(2 * failed->second.wait, options_.max_retry_wait);
  }
  const std::string error = status.ToString();
  const bool is_new = failed == failures_.end() || failed->second.error != error;
  // The wait is at least as long as the attempt took: an attempt may fetch much data before it fails, and repeating it
  // at once would load the network and the other servers all the time.
  const absl::Time end = MonotonicNow();
  const absl::Duration rest = slots.ok() ? end - begin : absl::ZeroDuration();
  failures_[name] = {.error = error, .retry_at = end + std::max(wait, rest), .wait = wait};
  if (!is_new) return;
  // A group without slots is not an error: maxsimctl cluster add-group gives a new group its slots later.
  log::Write(absl::IsNotFound(slots.status()) ? spdlog::level::info : spdlog::level::err,
             "shared_collection_not_created", {{"name", name}, {"error", error}});
}

}  // namespace maxsim::live
