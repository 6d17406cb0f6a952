#include "server/batching/job_queue.h"

#include <algorithm>
#include <utility>

#include "base/saturating.h"

namespace maxsim::batching {
namespace {

// How many jobs TakeBatch looks at. It bounds the time under the scheduler's lock when thousands of jobs for another
// collection stand between two of this one; beyond it a batch is merely smaller.
constexpr int kMaxScan = 4096;

size_t LineOf(engine::Priority priority) { return std::min<size_t>(static_cast<size_t>(priority), 2); }

// One of the three quantities that are bounded.
uint64_t Jobs(const Amount& amount) { return static_cast<uint64_t>(amount.jobs); }
uint64_t Work(const Amount& amount) { return amount.work; }
uint64_t Bytes(const Amount& amount) { return amount.bytes; }
using Quantity = uint64_t (*)(const Amount&);
constexpr std::array<Quantity, 3> kQuantities = {Jobs, Work, Bytes};

Amount AmountOf(const engine::Job& job) { return {1, job.work, job.bytes}; }

bool FitsOne(Quantity quantity, const Amount& total, const Amount& more, const Amount& bounds) {
  return quantity(total) <= quantity(bounds) && quantity(more) <= quantity(bounds) - quantity(total);
}

}  // namespace

// The deadline first: gRPC cancels an expired call, which must not count as one that its client gave up.
absl::Status CheckAlive(const engine::Job& job, absl::Time now) {
  if (job.deadline <= now) return absl::DeadlineExceededError("the deadline passed before the request was scored");
  if (job.cancelled != nullptr && job.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the request was cancelled");
  }
  return absl::OkStatus();
}

void JobQueue::Push(std::unique_ptr<engine::Job> job, absl::Time now) {
  num_queries_ += static_cast<int64_t>(job->queries.size());
  for (Amount* amount : {&total_, &held_[job->client]}) {
    amount->jobs += 1;
    amount->work += job->work;
    amount->bytes += job->bytes;
  }
  FairLine& line = lines_[LineOf(job->priority)];
  line.Push({std::move(job), now, next_sequence_++});
}

void JobQueue::Left(const QueuedJob& queued) {
  const engine::Job& job = *queued.job;
  num_queries_ -= queued.num_queries();
  const auto held = held_.find(job.client);
  for (Amount* amount : {&total_, &held->second}) {
    amount->jobs -= 1;
    amount->work -= job.work;
    amount->bytes -= job.bytes;
  }
  if (held->second.jobs == 0) held_.erase(held);
}

template <typename Next>
size_t JobQueue::FirstLine(Next next, absl::Time now) const {
  size_t first = kNumPriorities;
  const QueuedJob* best = nullptr;
  for (size_t line = kNumPriorities; line-- > 0;) {
    const QueuedJob* const candidate = next(line);
    if (candidate == nullptr) continue;
    if (best == nullptr || (now - candidate->enqueued >= starvation_limit_ && candidate->sequence < best->sequence)) {
      first = line;
      best = candidate;
    }
  }
  return first;
}

const QueuedJob& JobQueue::Head(absl::Time now) const {
  const auto next = [this](size_t line) { return lines_[line].empty() ? nullptr : &lines_[line].Head(); };
  return lines_[FirstLine(next, now)].Head();
}

uint64_t JobQueue::WorkAhead(engine::Priority priority, uint64_t client, uint64_t work) const {
  const size_t own = LineOf(priority);
  uint64_t ahead = 0;
  for (size_t line = own + 1; line < kNumPriorities; ++line) ahead = SaturatingAdd(ahead, lines_[line].work());
  const FairLine& line = lines_[own];
  const uint64_t others = line.num_clients() - (line.has(client) ? 1 : 0);
  const uint64_t mine = line.work_of(client);
  const uint64_t in_turns = SaturatingAdd(mine, SaturatingMultiply(others, SaturatingAdd(mine, work)));
  return SaturatingAdd(ahead, std::min(line.work(), in_turns));
}

bool JobQueue::Fits(const engine::Job& job, const Amount& bounds) const {
  return std::all_of(kQuantities.begin(), kQuantities.end(),
                     [&](Quantity quantity) { return FitsOne(quantity, total_, AmountOf(job), bounds); });
}

bool JobQueue::MakeRoom(const engine::Job& job, const Amount& bounds, std::vector<QueuedJob>* removed) {
  const Amount more = AmountOf(job);
  const auto held = held_.find(job.client);
  const Amount mine = held == held_.end() ? Amount() : held->second;
  const uint64_t clients = held_.size() + (held == held_.end() ? 1 : 0);
  for (const Quantity quantity : kQuantities) {
    if (FitsOne(quantity, total_, more, bounds)) continue;
    const uint64_t share = quantity(bounds) / clients;
    if (quantity(mine) > share || quantity(more) > share - quantity(mine)) return false;
  }
  for (const Quantity quantity : kQuantities) {
    while (!FitsOne(quantity, total_, more, bounds)) {
      const auto most = std::max_element(held_.begin(), held_.end(), [quantity](const auto& a, const auto& b) {
        return quantity(a.second) < quantity(b.second);
      });
      // Whoever asks is below the average of what breaks the bound, so this is another client.
      size_t line = 0;
      while (line <= LineOf(job.priority) && !lines_[line].has(most->first)) ++line;
      if (line > LineOf(job.priority)) return false;
      removed->push_back(lines_[line].RemoveNewest(most->first));
      Left(removed->back());
    }
  }
  return true;
}

std::vector<QueuedJob> JobQueue::TakeBatch(absl::Time now, const BatchLimits& limits,
                                           std::vector<DroppedJob>* dropped) {
  std::vector<QueuedJob> batch;
  uint64_t work = 0;
  int num_queries = 0;
  for (FairLine& line : lines_) line.BeginWalk();
  for (int scanned = 0; scanned < kMaxScan; ++scanned) {
    const size_t first = FirstLine([this](size_t line) { return lines_[line].Current(); }, now);
    if (first == kNumPriorities) break;
    FairLine& line = lines_[first];
    const QueuedJob& queued = *line.Current();
    const engine::Job& job = *queued.job;
    if (absl::Status alive = CheckAlive(job, now); !alive.ok()) {
      Left(queued);
      dropped->push_back({line.Drop(), std::move(alive)});
      continue;
    }
    if (!batch.empty()) {
      if (job.collection != batch.front().job->collection) {
        line.Skip();
        continue;
      }
      const bool fits = work <= limits.max_work && job.work <= limits.max_work - work &&
                        queued.num_queries() <= limits.max_queries - num_queries;
      if (!fits) break;
    }
    work += job.work;  // past max_work only for the head, and then nothing joins it
    num_queries += queued.num_queries();
    Left(queued);
    batch.push_back(line.Take());
  }
  for (FairLine& line : lines_) line.EndWalk();
  return batch;
}

absl::Time JobQueue::DropDead(absl::Time now, std::vector<DroppedJob>* dropped) {
  absl::Time earliest = absl::InfiniteFuture();
  std::vector<QueuedJob> dead;
  for (FairLine& line : lines_) {
    line.RemoveIf(
        [&](const QueuedJob& queued) {
          const bool alive = CheckAlive(*queued.job, now).ok();
          if (alive) earliest = std::min(earliest, queued.job->deadline);
          return !alive;
        },
        &dead);
  }
  for (QueuedJob& queued : dead) {
    Left(queued);
    absl::Status reason = CheckAlive(*queued.job, now);
    dropped->push_back({std::move(queued), std::move(reason)});
  }
  return earliest;
}

void JobQueue::DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped) {
  std::vector<QueuedJob> all;
  for (FairLine& line : lines_) line.RemoveIf([](const QueuedJob&) { return true; }, &all);
  for (QueuedJob& queued : all) {
    Left(queued);
    dropped->push_back({std::move(queued), reason});
  }
}

}  // namespace maxsim::batching
