// Serves a live collection from another folder instead of the one that has its name.
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "server/observability/log_event.h"
#include "server/store/collection_store.h"
#include "server/store/collection_store_impl.h"
#include "server/store/wanted_generation.h"

namespace maxsim::store {
namespace {

// The longest time that a swap waits for the new collection to apply the last write of the earlier one. Both apply the
// writes of the same stream, and the new one had caught up before, so this usually takes milliseconds. If the time runs
// out because the stream's server is lost, the swap still happens: the earlier collection takes no writes any more.
constexpr absl::Duration kMaxSwapWait = absl::Seconds(10);
constexpr std::chrono::milliseconds kSwapPoll{1};

// The longest time that the log of the earlier collection stays open for reads that began before the swap. Such reads
// take milliseconds. A snapshot that is being sent takes longer, but no longer needs the log.
constexpr absl::Duration kMaxReadWait = absl::Seconds(2);

// Waits until `live` has applied the writes up to `sequence`, for at most kMaxSwapWait, or until `stop` is stopped.
void WaitForSequence(const LiveDocuments& live, uint64_t sequence, const StopSignal& stop) {
  const absl::Time until = MonotonicNow() + kMaxSwapWait;
  while (live.state().sequence < sequence && MonotonicNow() < until && !stop.stopped()) {
    std::this_thread::sleep_for(kSwapPoll);
  }
}

// Waits until no other thread uses `live`, for at most kMaxReadWait.
void WaitForReads(const std::shared_ptr<LiveDocuments>& live) {
  const absl::Time until = MonotonicNow() + kMaxReadWait;
  while (live.use_count() > 1 && MonotonicNow() < until) std::this_thread::sleep_for(kSwapPoll);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::Replace(const LoadSpec& spec, const Prepare& prepare,
                                                                           const StopSignal* stop) {
  if (absl::Status status = collection::CheckCollectionName(spec.name); !status.ok()) return status;
  const auto entry = std::make_shared<Entry>(spec.name);
  entry->Begin(spec);
  absl::StatusOr<std::shared_ptr<const Collection>> loaded = nullptr;
  {
    // A compaction of the new collection reloads it, and must wait for this load.
    EntryLock entry_lock(this);
    if (absl::Status status = LockEntry(entry, nullptr, &entry_lock); !status.ok()) return status;
    bool changed = false;
    loaded = LoadEntry(entry, nullptr, {}, stop, &changed);
  }
  std::shared_ptr<LiveDocuments> live;
  {
    const MutexLock lock(&mutex_);
    live = entry->live;
  }
  absl::Status status = loaded.status();
  if (status.ok() && live == nullptr) {
    status = absl::FailedPreconditionError(Cat(spec.path, ": is not a live collection, so it can replace none"));
  }
  if (status.ok()) status = prepare(*live);
  loaded = nullptr;  // later snapshots replace this one
  if (!status.ok()) {
    if (live != nullptr) live->Stop();
    return status;
  }
  Swap(entry, live);
  const MutexLock lock(&mutex_);
  return entry->collection;
}

// Puts `entry` in the place of the entry with the same name. Cannot fail, and no stop signal ends it: `prepare` may
// already have recorded that the new collection is the one to serve.
void CollectionStore::Swap(const std::shared_ptr<Entry>& entry, const std::shared_ptr<LiveDocuments>& live) {
  while (true) {
    std::shared_ptr<Entry> earlier;
    {
      const MutexLock lock(&mutex_);
      const auto [found, is_new] = entries_.try_emplace(entry->name, entry);
      if (is_new) return;
      earlier = found->second;
    }
    EntryLock earlier_lock(this);
    LockEntry(earlier, nullptr, &earlier_lock).IgnoreError();  // without a stop signal it always succeeds
    std::shared_ptr<LiveDocuments> closed;
    {
      const MutexLock lock(&mutex_);
      if (earlier->removed) continue;
      closed = earlier->live;
    }
    uint64_t last_sequence = 0;
    bool replaces_a_collection = false;
    if (closed != nullptr) {
      // A client whose write was answered must find the write in later reads. So the new collection must have all
      // writes that the earlier one has answered.
      closed->EndWrites();
      last_sequence = closed->state().sequence;
      WaitForSequence(*live, last_sequence, stop_loads_);
    }
    std::shared_ptr<const Collection> released;  // freed outside the lock
    {
      const MutexLock lock(&mutex_);
      replaces_a_collection = !earlier->is_awaited;
      earlier->removed = true;
      earlier->live = nullptr;
      released = std::move(earlier->collection);
      entries_[entry->name] = entry;
    }
    if (!replaces_a_collection) return;
    const uint64_t sequence = live->state().sequence;
    log::Write(sequence < last_sequence ? spdlog::level::warn : spdlog::level::info, "collection_replaced",
               {{"name", entry->name},
                {"path", entry->path},
                {"sequence", sequence},
                {"earlier_path", earlier->path},
                {"earlier_sequence", last_sequence}});
    if (closed != nullptr) {
      WaitForReads(closed);
      closed->Stop();
    }
    return;
  }
}

}  // namespace maxsim::store
