#include "server/live/stream/streamed_collection.h"

#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

// Returns random digits, so that no other process has the same ones.
std::string MakeNonce() {
  std::random_device device;
  const uint64_t high = device();
  return absl::StrFormat("%016x", high << 32 | device());
}

}  // namespace

StreamedCollection::StreamedCollection(std::string name, MessageRules rules, std::unique_ptr<LiveCollection> collection,
                                       std::unique_ptr<OrderedStream> stream, const LiveOptions& options,
                                       Metrics* metrics, Layouts* layouts)
    : name_(std::move(name)),
      rules_(std::move(rules)),
      options_(options),
      metrics_(metrics),
      layouts_(layouts),
      collection_(std::move(collection)),
      // max_queue_time only limits the wait in this queue. Once a call's messages are sent to the stream,
      // nats.timeout limits how long the call waits for the stream's answers.
      queue_(name_, {.max_bytes = options.max_queued_bytes, .max_queue_time = options.max_queue_time}),
      pending_(MakeNonce()),
      lost_(absl::UnavailableError(Cat(stream->server(), " has not answered yet"))),
      publisher_(collection_->publishers(), [this] { return PublishOnce(); }),
      stream_(std::move(stream)),
      retention_(name_),
      doubt_(options.stream_patience) {
  stream_->SetListener(
      [this](std::string_view id, const absl::StatusOr<uint64_t>& sequence) { OnAcknowledged(id, sequence); });
  if (layouts_ != nullptr) layouts_->Follow();
}

StreamedCollection::~StreamedCollection() { Stop(); }

store::LiveState StreamedCollection::state() const {
  store::LiveState state = collection_->state();
  store::StreamState& stream = state.stream.emplace();
  stream.identity = collection_->stream();
  if (layouts_ != nullptr) state.layout = layouts_->Find(name_);
  {
    const MutexLock lock(&mutex_);
    stream.connected = following_;
    if (state.status.ok()) state.status = Refusal();
  }
  // Reads the stream's last sequence only now, after following_: the follower learns it before it sets following_. So
  // it is known if the collection follows the stream.
  stream.last_sequence = stream_->last_sequence();
  stream.retention_margin = retention_.margin(MonotonicNow());
  return state;
}

absl::StatusOr<collection::SlotLayout> StreamedCollection::SetLayout(const std::vector<collection::SlotOwner>& owners,
                                                                     uint64_t expected_revision) {
  if (layouts_ == nullptr) return LiveDocuments::SetLayout(owners, expected_revision);
  return layouts_->Set(name_, owners, expected_revision);
}

absl::Status StreamedCollection::Serve(std::shared_ptr<const store::Generation> generation, Publish publish,
                                       const StopSignal* stop) {
  absl::Status status = collection_->Serve(std::move(generation), std::move(publish), stop);
  if (!status.ok()) return status;
  const uint64_t applied = position();
  const MutexLock lock(&mutex_);
  if (served_ || stopping_) return status;
  applied_sequence_ = applied;
  status = collection_->publishers()->Start();
  if (status.ok()) {
    status = StartThread(
        "live_follower", [this] { RunFollower(); }, &follower_);
  }
  served_ = status.ok();
  return status;
}

void StreamedCollection::EndWrites() {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) {
      while (!left_) changed_.Wait(lock);
      return;
    }
    changed_.NotifyAll();
    // Each pending call has a time limit, so this wait ends.
    while (served_ && (publishing_ || !queue_.empty() || !pending_.empty())) changed_.Wait(lock);
    leaving_ = true;
  }
  changed_.NotifyAll();
  stream_->Interrupt();
  publisher_.Stop();
  if (follower_.joinable()) follower_.join();
  {
    const MutexLock lock(&mutex_);
    left_ = true;
  }
  changed_.NotifyAll();
}

void StreamedCollection::Stop() {
  EndWrites();
  collection_->Stop();
}

}  // namespace maxsim::live
