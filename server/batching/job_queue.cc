#include "server/batching/job_queue.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/saturating.h"

namespace maxsim::batching {
namespace {

// The maximum number of jobs that TakeBatch looks at. This limits how long TakeBatch holds the scheduler's lock if
// thousands of jobs on another collection stand between two jobs that can share a batch. At the limit, the batch stays
// smaller.
constexpr int kMaxScan = 4096;

size_t PriorityIndex(engine::Priority priority) { return std::min<size_t>(static_cast<size_t>(priority), 2); }

// The three resources that a queue bounds.
uint64_t Jobs(const QueueSize& size) { return static_cast<uint64_t>(size.jobs); }
uint64_t Work(const QueueSize& size) { return size.work; }
uint64_t Bytes(const QueueSize& size) { return size.bytes; }
using Resource = uint64_t (*)(const QueueSize&);
constexpr std::array<Resource, 3> kResources = {Jobs, Work, Bytes};

// A job that streams its collection (copies all of it to the GPU) counts in the queue with its work divided by this
// number, because about this number of such jobs can share one stream.
constexpr uint64_t kPricedSharers = 16;

QueueSize SizeOfJob(const engine::Job& job) { return {1, PriceOf(job), job.bytes}; }

bool FitsBound(Resource resource, const QueueSize& total, const QueueSize& more, const QueueSize& bounds) {
  return resource(total) <= resource(bounds) && resource(more) <= resource(bounds) - resource(total);
}

}  // namespace

uint64_t PriceOf(const engine::Job& job) {
  return engine::StreamsWholeCollection(job) ? std::max<uint64_t>(job.work / kPricedSharers, 1) : job.work;
}

// Check the deadline before the cancellation. gRPC cancels a call when its deadline passes, and such a call must not
// count as cancelled by its client.
absl::Status CheckAlive(const engine::Job& job, absl::Time now) {
  if (job.deadline <= now) return absl::DeadlineExceededError("the deadline passed before the request was scored");
  if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the client cancelled the call");
  }
  return absl::OkStatus();
}

QueuedJob JobQueue::Stamp(std::unique_ptr<engine::Job> job, absl::Time now) {
  const bool expires_at_all = max_queue_time_ > absl::ZeroDuration() && !job->ignores_max_queue_time;
  const absl::Time expires = expires_at_all ? now + max_queue_time_ : absl::InfiniteFuture();
  const bool streams = engine::StreamsWholeCollection(*job);
  const uint64_t price = PriceOf(*job);
  return {std::move(job), now, expires, next_sequence_++, streams, price};
}

void JobQueue::Push(std::unique_ptr<engine::Job> job, absl::Time now) {
  QueuedJob queued = Stamp(std::move(job), now);
  const engine::Job& pushed = *queued.job;
  const QueueSize size{1, queued.price, pushed.bytes};
  const int64_t num_queries = queued.num_queries();
  // Allocate first: if memory runs out, the queue has not changed.
  const auto held = queued_by_client_.try_emplace(pushed.client).first;
  const absl::Cleanup forget_client = [this, held] {
    if (held->second.jobs == 0) queued_by_client_.erase(held);
  };
  auto streaming = streaming_queries_.end();
  if (queued.streams) streaming = streaming_queries_.try_emplace(&pushed.collection->generation()).first;
  const absl::Cleanup forget_generation = [this, streaming] {
    if (streaming != streaming_queries_.end() && streaming->second == 0) streaming_queries_.erase(streaming);
  };
  by_priority_[PriorityIndex(pushed.priority)].Push(std::move(queued));
  num_queries_ += num_queries;
  if (streaming != streaming_queries_.end()) streaming->second += num_queries;
  for (QueueSize* sum : {&total_, &held->second}) {
    sum->jobs += size.jobs;
    sum->work += size.work;
    sum->bytes += size.bytes;
  }
}

absl::Status JobQueue::CheckMayWait(const QueuedJob& queued, absl::Time now) const {
  absl::Status alive = CheckAlive(*queued.job, now);
  if (!alive.ok() || now < queued.expires) return alive;
  absl::Status status =
      absl::ResourceExhaustedError(absl::StrCat("the queue is full: this request has waited for ",
                                                absl::FormatDuration(max_queue_time_), " (batching.max_queue_time)"));
  status.SetPayload(kQueueFullMark, absl::Cord(kQueueTimeMark));
  return status;
}

void JobQueue::AccountRemoved(const QueuedJob& queued) {
  const engine::Job& job = *queued.job;
  num_queries_ -= queued.num_queries();
  const auto held = queued_by_client_.find(job.client);
  for (QueueSize* size : {&total_, &held->second}) {
    size->jobs -= 1;
    size->work -= queued.price;
    size->bytes -= job.bytes;
  }
  if (held->second.jobs == 0) queued_by_client_.erase(held);
  if (!queued.streams) return;
  const auto streaming = streaming_queries_.find(&job.collection->generation());
  streaming->second -= queued.num_queries();
  if (streaming->second == 0) streaming_queries_.erase(streaming);
}

int64_t JobQueue::num_streaming_queries(const store::Generation* generation) const {
  const auto found = streaming_queries_.find(generation);
  return found == streaming_queries_.end() ? 0 : found->second;
}

template <typename Next>
size_t JobQueue::NextPriority(Next next, absl::Time now) const {
  size_t first = kNumPriorities;
  const QueuedJob* best = nullptr;
  for (size_t level = kNumPriorities; level-- > 0;) {
    const QueuedJob* const candidate = next(level);
    if (candidate == nullptr) continue;
    if (best == nullptr || (now - candidate->enqueued >= starvation_limit_ && candidate->sequence < best->sequence)) {
      first = level;
      best = candidate;
    }
  }
  return first;
}

const QueuedJob& JobQueue::Head(absl::Time now) const {
  const auto next = [this](size_t level) {
    return by_priority_[level].empty() ? nullptr : &by_priority_[level].Head();
  };
  return by_priority_[NextPriority(next, now)].Head();
}

uint64_t JobQueue::WorkAhead(engine::Priority priority, uint64_t client, uint64_t work) const {
  const size_t own = PriorityIndex(priority);
  uint64_t ahead = 0;
  for (size_t level = own + 1; level < kNumPriorities; ++level)
    ahead = SaturatingAdd(ahead, by_priority_[level].work());
  const DeficitRoundRobin<QueuedJob>& order = by_priority_[own];
  const uint64_t others = order.num_clients() - (order.HasJobsOf(client) ? 1 : 0);
  const uint64_t mine = order.work_of(client);
  const uint64_t in_turns = SaturatingAdd(mine, SaturatingMultiply(others, SaturatingAdd(mine, work)));
  return SaturatingAdd(ahead, std::min(order.work(), in_turns));
}

bool JobQueue::Fits(const engine::Job& job, const QueueSize& bounds) const {
  return std::all_of(kResources.begin(), kResources.end(),
                     [&](Resource resource) { return FitsBound(resource, total_, SizeOfJob(job), bounds); });
}

bool JobQueue::MakeRoom(const engine::Job& job, const QueueSize& bounds, std::vector<QueuedJob>* removed) {
  const QueueSize more = SizeOfJob(job);
  const auto held = queued_by_client_.find(job.client);
  const QueueSize mine = held == queued_by_client_.end() ? QueueSize() : held->second;
  const uint64_t clients = queued_by_client_.size() + (held == queued_by_client_.end() ? 1 : 0);
  for (const Resource resource : kResources) {
    if (FitsBound(resource, total_, more, bounds)) continue;
    const uint64_t share = resource(bounds) / clients;
    if (resource(mine) > share || resource(more) > share - resource(mine)) return false;
  }
  for (const Resource resource : kResources) {
    while (!FitsBound(resource, total_, more, bounds)) {
      const auto most = std::max_element(
          queued_by_client_.begin(), queued_by_client_.end(),
          [resource](const auto& a, const auto& b) { return resource(a.second) < resource(b.second); });
      // The job's client holds less than an equal share, so the one that holds most is another.
      size_t level = 0;
      while (level <= PriorityIndex(job.priority) && !by_priority_[level].HasJobsOf(most->first)) ++level;
      if (level > PriorityIndex(job.priority)) return false;
      removed->push_back(by_priority_[level].RemoveNewest(most->first));
      AccountRemoved(removed->back());
    }
  }
  return true;
}

bool JobQueue::WaitsForStream(const QueuedJob& queued, const BatchLimits& limits) {
  return queued.streams &&
         std::any_of(limits.streamed.begin(), limits.streamed.end(), [&](const BatchLimits::Streamed& streamed) {
           return streamed.generation == &queued.job->collection->generation() &&
                  streamed.ends <= std::min(queued.expires, queued.job->deadline);
         });
}

std::vector<QueuedJob> JobQueue::TakeBatch(absl::Time now, const BatchLimits& limits,
                                           std::vector<DroppedJob>* dropped) {
  std::vector<QueuedJob> batch;
  uint64_t work = 0;
  uint64_t max_work = limits.max_work;
  int num_queries = 0;
  for (DeficitRoundRobin<QueuedJob>& order : by_priority_) order.BeginScan();
  int scanned = 0;
  while (scanned < kMaxScan) {
    const size_t first = NextPriority([this](size_t level) { return by_priority_[level].Current(); }, now);
    if (first == kNumPriorities) break;
    DeficitRoundRobin<QueuedJob>& order = by_priority_[first];
    const QueuedJob& queued = *order.Current();
    const engine::Job& job = *queued.job;
    if (WaitsForStream(queued, limits) && CheckMayWait(queued, now).ok()) {
      order.Skip();  // not counted, because jobs that can be scored may come after many of these
      continue;
    }
    ++scanned;
    if (absl::Status may_wait = CheckMayWait(queued, now); !may_wait.ok()) {
      AccountRemoved(queued);
      dropped->push_back({order.Drop(), std::move(may_wait)});
      continue;
    }
    if (batch.empty()) {
      // Copying the collection to the GPU takes longer than computing, up to kStreamedQueryTokens query tokens in the
      // batch. So a batch may have this many, whatever max_work is.
      if (queued.streams) max_work = SaturatingMultiply(job.collection->num_tokens(), engine::kStreamedQueryTokens);
    } else {
      if (!engine::MayShareBatch(job, *batch.front().job) || queued.streams != batch.front().streams) {
        order.Skip();
        continue;
      }
      const bool fits =
          work <= max_work && job.work <= max_work - work && queued.num_queries() <= limits.max_queries - num_queries;
      if (!fits) break;
    }
    work += job.work;  // Only the first job can exceed max_work, and then no job joins it.
    num_queries += queued.num_queries();
    AccountRemoved(queued);
    batch.push_back(order.Take());
  }
  for (DeficitRoundRobin<QueuedJob>& order : by_priority_) order.EndScan();
  return batch;
}

absl::Time JobQueue::DropExpiredAndCancelled(absl::Time now, std::vector<DroppedJob>* dropped) {
  absl::Time earliest = absl::InfiniteFuture();
  std::vector<QueuedJob> dead;
  for (DeficitRoundRobin<QueuedJob>& order : by_priority_) {
    order.RemoveIf(
        [&](const QueuedJob& queued) {
          const bool stays = now < queued.expires && CheckAlive(*queued.job, now).ok();
          if (stays) earliest = std::min({earliest, queued.job->deadline, queued.expires});
          return !stays;
        },
        &dead);
  }
  for (QueuedJob& queued : dead) {
    AccountRemoved(queued);
    absl::Status reason = CheckMayWait(queued, now);
    dropped->push_back({std::move(queued), std::move(reason)});
  }
  return earliest;
}

void JobQueue::DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped) {
  std::vector<QueuedJob> all;
  for (DeficitRoundRobin<QueuedJob>& order : by_priority_) order.RemoveIf([](const QueuedJob&) { return true; }, &all);
  for (QueuedJob& queued : all) {
    AccountRemoved(queued);
    dropped->push_back({std::move(queued), reason});
  }
}

}  // namespace maxsim::batching
