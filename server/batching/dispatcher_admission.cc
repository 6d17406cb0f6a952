// Decides which jobs join the queue, and which ones give way to them.
#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "server/batching/dispatcher.h"

namespace maxsim::batching {
namespace {

// Formats a duration for people, rounded up.
std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(time < absl::Seconds(1) ? absl::Ceil(time, absl::Microseconds(100))
                                                      : absl::Ceil(time, absl::Milliseconds(100)));
}

absl::Status QueueFull(const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", message));
  status.SetPayload(kQueueFullMark, absl::Cord());
  return status;
}

}  // namespace

// Returns a text that names the limit that the job would exceed.
std::string Dispatcher::ExceededBound(const engine::Job& job) const {
  if (queue_.num_jobs() >= options_.max_queue_jobs) {
    return absl::StrCat(queue_.num_jobs(), " requests wait, of at most ", options_.max_queue_jobs,
                        " (batching.max_queue_jobs)");
  }
  if (queue_.work() > options_.max_queue_work || PriceOf(job) > options_.max_queue_work - queue_.work()) {
    return absl::StrCat("requests of ", queue_.work(), " token pairs wait, of at most ", options_.max_queue_work,
                        " (batching.max_queue_work), and this one has ", PriceOf(job));
  }
  return absl::StrCat("requests of ", queue_.bytes(), " bytes wait, of at most ", options_.max_queue_bytes,
                      " (batching.max_queue_bytes), and this one has ", job.bytes);
}

// Returns how much work (token pairs) the busy lanes have left, estimated from the recent rate. Returns 0 if a lane is
// free.
uint64_t Dispatcher::RemainingWork(absl::Time now) const {
  if (!free_lanes_.empty()) return 0;
  const double lane_rate = throughput_.PerSecond() / static_cast<double>(lane_loads_.size());
  uint64_t remaining = 0;
  for (const LaneLoad& lane : lane_loads_) {
    const double done = std::max(absl::ToDoubleSeconds(now - lane.since), 0.0) * lane_rate;
    const double left = static_cast<double>(lane.work) - done;
    if (left > 0) remaining = SaturatingAdd(remaining, std::min(lane.work, static_cast<uint64_t>(left)));
  }
  return remaining;
}

absl::Status Dispatcher::CheckQueueTime(const engine::Job& job, absl::Time now) const {
  const double rate = throughput_.PerSecond();
  if (rate <= 0) return absl::OkStatus();
  const uint64_t ahead = SaturatingAdd(queue_.WorkAhead(job.priority, job.client, PriceOf(job)), RemainingWork(now));
  const absl::Duration wait = absl::Seconds(static_cast<double>(ahead) / rate);
  if (options_.max_queue_time > absl::ZeroDuration() && wait > options_.max_queue_time && !job.ignores_max_queue_time) {
    return QueueFull(absl::StrCat("this request would wait for about ", Rounded(wait), ", which is more than ",
                                  absl::FormatDuration(options_.max_queue_time), " (batching.max_queue_time)"));
  }
  if (job.deadline != absl::InfiniteFuture() && wait >= job.deadline - now) {
    return QueueFull(absl::StrCat("this request would wait for about ", Rounded(wait), ", but its deadline is ",
                                  Rounded(job.deadline - now), " away"));
  }
  return absl::OkStatus();
}

// Returns OK if the job may join the queue; else counts and returns the rejection.
absl::Status Dispatcher::Admit(const engine::Job& job, absl::Time now) {
  if (queue_.empty()) return absl::OkStatus();
  if (absl::Status status = CheckQueueTime(job, now); !status.ok()) {
    metrics_->CountRejection(Rejection::kQueueTime);
    return status;
  }
  const QueueSize bounds = {options_.max_queue_jobs, options_.max_queue_work, options_.max_queue_bytes};
  if (queue_.Fits(job, bounds)) return absl::OkStatus();
  const std::string full = ExceededBound(job);
  std::vector<QueuedJob> displaced;
  const bool has_room = queue_.MakeRoom(job, bounds, &displaced);
  for (QueuedJob& queued : displaced) {
    dropped_.push_back({std::move(queued), QueueFull("other clients had less than their share of it")});
  }
  if (!displaced.empty()) {
    OnQueueChanged();
    wakeups_.reaper = true;
  }
  if (has_room) return absl::OkStatus();
  metrics_->CountRejection(Rejection::kQueueFull);
  return QueueFull(full);
}

}  // namespace maxsim::batching
