#include "server/live/stream/nats_keys.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "client/error_details.h"
#include "server/live/stream/nats_bucket.h"
#include "server/live/stream/nats_stream.h"

namespace maxsim::live {
namespace {

using nats::Bucket;

constexpr int64_t kPollMs = 100;

// All keys must have come this long after the request for them.
constexpr absl::Duration kReadLimit = absl::Seconds(10);

// All keys are read again after this time. It bounds how long this server misses something that NATS does not report to
// watchers, such as that the bucket was deleted and created again.
constexpr absl::Duration kReadAgain = absl::Minutes(1);

// The waits between attempts to follow the bucket. kRefusedWait is for errors that an operator must repair.
constexpr absl::Duration kFirstRetryWait = absl::Milliseconds(50);
constexpr absl::Duration kMaxRetryWait = absl::Seconds(2);
constexpr absl::Duration kRefusedWait = absl::Seconds(30);

// The maximum number of attempts of Put for a key whose value was removed, if others write the key at the same time.
constexpr int kMaxPuts = 4;

using OwnedEntry = std::unique_ptr<kvEntry, nats::Destroyer<kvEntry_Destroy>>;

class NatsKeys final : public KeyValueStore {
 public:
  explicit NatsKeys(NatsOptions options)
      : options_(std::move(options)),
        server_(Cat("NATS JetStream (nats.url ", WithoutSecrets(options_.url), ")")),
        status_(absl::UnavailableError(Cat(server_, " has not answered yet"))) {}
  ~NatsKeys() override;

  std::string name() const override { return Cat("bucket ", options_.stream_prefix); }
  void Add(Watch watch) override;
  absl::StatusOr<std::optional<KeyValueStore::Entry>> Get(const std::string& key) override;
  absl::StatusOr<PutResult> Put(const std::string& key, std::string_view value, uint64_t expected_revision) override;
  absl::Status Delete(const std::string& key) override;

 private:
  // These run on the thread:
  void Run();
  absl::Status Follow();
  absl::StatusOr<std::shared_ptr<Bucket>> Connect();
  absl::Status ReadChanges(const Bucket& bucket, uint64_t num_reconnects, kvWatcher* watcher,
                           const std::vector<Watch>& watches);
  void TellRemoved(const std::set<std::string>& present, const std::vector<Watch>& watches) const;
  static void Pass(kvEntry* entry, const std::vector<Watch>& watches, std::set<std::string>* keys);
  void Tell(const absl::Status& status, const std::vector<Watch>& watches);
  bool must_end() const;
  std::vector<Watch> all_watches() const;
  void WaitUnlessEnding(absl::Duration duration);

  // Returns the connection if it exists and the bucket is followed.
  absl::StatusOr<std::shared_ptr<Bucket>> Connected() const;
  absl::Status Away(std::string_view what) const { return absl::UnavailableError(Cat(server_, ": ", what)); }

  const NatsOptions options_;
  const std::string server_;  // for messages

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Watch> watches_ ABSL_GUARDED_BY(mutex_);
  bool has_more_watches_ ABSL_GUARDED_BY(mutex_) = false;  // than those that Follow tells of changes
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);             // why the bucket is not followed
  std::shared_ptr<Bucket> bucket_ ABSL_GUARDED_BY(mutex_);  // null before the first connection

  std::set<std::string> known_;  // keys with values that watches were told of; only the thread uses it
  std::thread thread_;
};

NatsKeys::~NatsKeys() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void NatsKeys::Add(Watch watch) {
  absl::Status status;
  {
    const MutexLock lock(&mutex_);
    watches_.push_back(watch);
    has_more_watches_ = true;
    if (!thread_.joinable()) {
      status = StartThread(
          "live_keys", [this] { Run(); }, &thread_);
      if (!status.ok()) status_ = status;
    }
  }
  changed_.NotifyAll();
  if (!status.ok()) watch.on_status(status);
}

bool NatsKeys::must_end() const {
  const MutexLock lock(&mutex_);
  return stopping_ || has_more_watches_;
}

std::vector<KeyValueStore::Watch> NatsKeys::all_watches() const {
  const MutexLock lock(&mutex_);
  return watches_;
}

void NatsKeys::WaitUnlessEnding(absl::Duration duration) {
  const absl::Time until = MonotonicNow() + duration;
  MutexLock lock(&mutex_);
  while (!stopping_ && !has_more_watches_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
  }
}

void NatsKeys::Tell(const absl::Status& status, const std::vector<Watch>& watches) {
  {
    const MutexLock lock(&mutex_);
    status_ = status;
  }
  for (const Watch& watch : watches) watch.on_status(status);
}

void NatsKeys::Run() {
  NameThisThread("live_keys");
  absl::Duration wait = kFirstRetryWait;
  for (;;) {
    const absl::Time begin = MonotonicNow();
    const absl::Status status = Guarded([&] { return Follow(); });
    {
      const MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    if (status.ok()) continue;
    Guarded([&] {
      Tell(status, all_watches());
      return absl::OkStatus();
    }).IgnoreError();
    // If the bucket was followed for a while, starts again with the shortest wait.
    wait = MonotonicNow() - begin > kReadLimit ? kFirstRetryWait : std::min(2 * wait, kMaxRetryWait);
    WaitUnlessEnding(absl::IsUnavailable(status) ? wait : kRefusedWait);
  }
}

// Follows the bucket until it must be read again (OK), or until that is no longer possible.
absl::Status NatsKeys::Follow() {
  std::vector<Watch> watches;
  {
    const MutexLock lock(&mutex_);
    has_more_watches_ = false;
    watches = watches_;
  }
  const absl::StatusOr<std::shared_ptr<Bucket>> bucket = Connect();
  if (!bucket.ok()) return bucket.status();
  const uint64_t num_reconnects = (*bucket)->num_reconnects();
  const absl::StatusOr<nats::Watcher> watcher = (*bucket)->WatchAll(options_.replicas);
  if (!watcher.ok()) return watcher.status();
  return ReadChanges(**bucket, num_reconnects, watcher->get(), watches);
}

absl::StatusOr<std::shared_ptr<Bucket>> NatsKeys::Connect() {
  std::shared_ptr<Bucket> bucket;
  {
    const MutexLock lock(&mutex_);
    bucket = bucket_;
  }
  if (bucket != nullptr && !bucket->is_closed()) {
    if (bucket->is_connected()) return bucket;
    return Away("it does not answer");
  }
  absl::StatusOr<std::shared_ptr<Bucket>> made = Bucket::Connect(options_, server_, options_.stream_prefix);
  if (!made.ok()) return made.status();
  const MutexLock lock(&mutex_);
  bucket_ = *made;
  return made;
}

// Passes all keys to the watches, and then all changes. The library's watcher takes care of lost messages, but not of a
// connection that was lost for a while: NATS may then have forgotten the watcher. Returns an error in this case.
absl::Status NatsKeys::ReadChanges(const Bucket& bucket, uint64_t num_reconnects, kvWatcher* watcher,
                                   const std::vector<Watch>& watches) {
  const absl::Time begin = MonotonicNow();
  std::set<std::string> present;
  bool is_complete = false;
  while (!must_end()) {
    kvEntry* next = nullptr;
    const natsStatus status = kvWatcher_Next(&next, watcher, kPollMs);
    const OwnedEntry entry(next);
    if (status == NATS_OK && next != nullptr) {
      Pass(next, watches, is_complete ? &known_ : &present);
      continue;
    }
    if (status == NATS_OK && !is_complete) {  // all present keys have come
      TellRemoved(present, watches);
      known_.swap(present);
      is_complete = true;
      Tell(absl::OkStatus(), watches);
      continue;
    }
    if (status != NATS_OK && status != NATS_TIMEOUT) return Away(Cat("the watch ended: ", nats::LastError(status)));
    if (!bucket.is_connected()) return Away("it does not answer");
    if (bucket.num_reconnects() != num_reconnects) return Away("it was not reachable for a while");
    const absl::Duration passed = MonotonicNow() - begin;
    if (!is_complete && passed > kReadLimit) return Away(Cat(name(), " does not send its keys"));
    if (is_complete && passed > kReadAgain) break;
  }
  return absl::OkStatus();
}

void NatsKeys::TellRemoved(const std::set<std::string>& present, const std::vector<Watch>& watches) const {
  for (const std::string& key : known_) {
    if (present.contains(key)) continue;
    for (const Watch& watch : watches) {
      if (key.starts_with(watch.prefix)) watch.on_change({.key = key});
    }
  }
}

// Passes an entry to the watches of its key, and adds the key to `keys` or, if it has lost its value, removes it.
void NatsKeys::Pass(kvEntry* entry, const std::vector<Watch>& watches, std::set<std::string>* keys) {
  Change change{.key = kvEntry_Key(entry)};
  if (kvEntry_Operation(entry) == kvOp_Put) {
    change.revision = kvEntry_Revision(entry);
    if (const int size = kvEntry_ValueLen(entry); size > 0) {
      change.value.assign(static_cast<const char*>(kvEntry_Value(entry)), static_cast<size_t>(size));
    }
  }
  bool is_watched = false;
  for (const Watch& watch : watches) {
    if (!change.key.starts_with(watch.prefix)) continue;
    is_watched = true;
    watch.on_change(change);
  }
  if (change.revision == 0) {
    keys->erase(change.key);
  } else if (is_watched) {
    keys->insert(change.key);
  }
}

absl::StatusOr<std::shared_ptr<Bucket>> NatsKeys::Connected() const {
  const MutexLock lock(&mutex_);
  if (!status_.ok()) return status_;
  if (!bucket_->is_connected()) return Away("it does not answer");
  return bucket_;
}

absl::StatusOr<std::optional<KeyValueStore::Entry>> NatsKeys::Get(const std::string& key) {
  const absl::StatusOr<std::shared_ptr<Bucket>> bucket = Connected();
  if (!bucket.ok()) return bucket.status();
  absl::StatusOr<nats::LastMessage> last = (*bucket)->LastOf(key);
  if (!last.ok()) return last.status();
  if (!last->value.has_value()) return std::nullopt;
  return KeyValueStore::Entry{.value = *std::move(last->value), .revision = last->sequence};
}

absl::StatusOr<KeyValueStore::PutResult> NatsKeys::Put(const std::string& key, std::string_view value,
                                                       uint64_t expected_revision) {
  const absl::StatusOr<std::shared_ptr<Bucket>> bucket = Connected();
  if (!bucket.ok()) {
    absl::Status status = bucket.status();
    if (absl::IsUnavailable(status)) client::SetReason(client::kReasonNothingWritten, status);
    return status;
  }
  uint64_t expected = expected_revision;
  for (int i = 0; i < kMaxPuts; ++i) {
    const absl::StatusOr<uint64_t> stored = (*bucket)->PublishIfLast(key, value, expected);
    if (!stored.ok()) return stored.status();
    if (*stored > 0) return PutResult{.is_stored = true, .revision = *stored};
    const absl::StatusOr<nats::LastMessage> last = (*bucket)->LastOf(key);
    if (!last.ok()) return last.status();
    if (expected_revision > 0 || last->value.has_value()) {
      return PutResult{.is_stored = false, .revision = last->value.has_value() ? last->sequence : 0};
    }
    expected = last->sequence;  // of the message that removed the key
  }
  return Away(Cat("key ", key, " of ", name(), " changes all the time"));
}

absl::Status NatsKeys::Delete(const std::string& key) {
  const absl::StatusOr<std::shared_ptr<Bucket>> bucket = Connected();
  if (!bucket.ok()) return bucket.status();
  return (*bucket)->Publish(key, std::nullopt).status();
}

}  // namespace

std::unique_ptr<KeyValueStore> MakeNatsKeys(const NatsOptions& options) { return std::make_unique<NatsKeys>(options); }

}  // namespace maxsim::live
