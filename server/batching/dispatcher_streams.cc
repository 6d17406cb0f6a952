// Makes jobs that stream a collection (copy all of its documents to the GPU) wait for each other, so that they share
// one stream.
#include <algorithm>

#include "server/batching/dispatcher.h"

namespace maxsim::batching {
namespace {

// After a batch has streamed a collection, the next stream of this collection begins only after a pause. The pause
// lasts this share of the batch's time. In it the clients that were just answered can send their next requests, which
// join the next stream. If the batch had only one job and no job waited for it to end, there is no pause.
constexpr double kPauseShare = 1.0 / 32;
// The number of generations whose last stream is remembered.
constexpr size_t kMaxStreams = 64;

}  // namespace

BatchLimits Dispatcher::LimitsOfBatch(absl::Time now) const {
  BatchLimits limits = {MaxBatchWork(), options_.max_batch_queries};
  for (const Stream& stream : streams_) {
    if (stream.until > now) limits.streamed.push_back({stream.generation, stream.until});
  }
  for (const LaneLoad& lane : lane_loads_) {
    if (lane.streamed == nullptr) continue;
    const auto last = std::find_if(streams_.begin(), streams_.end(),
                                   [&](const Stream& stream) { return stream.generation == lane.streamed; });
    const absl::Time ends =
        last == streams_.end() ? absl::InfiniteFuture() : lane.since + (1 + kPauseShare) * last->took;
    limits.streamed.push_back({lane.streamed, std::max(ends, now)});
  }
  return limits;
}

// Returns the time until the first current pause ends; zero if there is none.
absl::Duration Dispatcher::PauseLeft(absl::Time now) const {
  absl::Duration left = absl::InfiniteDuration();
  for (const Stream& stream : streams_) {
    if (stream.until > now) left = std::min(left, stream.until - now);
  }
  return left == absl::InfiniteDuration() ? absl::ZeroDuration() : left;
}

void Dispatcher::NoteStream(const Batch& batch, const store::Generation* generation) {
  std::erase_if(streams_, [&](const Stream& stream) { return stream.generation == generation; });
  if (streams_.size() == kMaxStreams) streams_.erase(streams_.begin());
  const absl::Duration took = batch.end - batch.start;
  const bool is_shared = batch.jobs.size() > 1 || queue_.num_streaming_queries(generation) > 0;
  streams_.push_back({generation, took, is_shared ? batch.end + kPauseShare * took : batch.end});
}

bool Dispatcher::AnyLaneStreams() const {
  return std::any_of(lane_loads_.begin(), lane_loads_.end(),
                     [](const LaneLoad& lane) { return lane.streamed != nullptr; });
}

}  // namespace maxsim::batching
