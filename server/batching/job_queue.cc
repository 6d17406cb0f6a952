#include "server/batching/job_queue.h"

#include <algorithm>
#include <utility>

namespace maxsim::batching {
namespace {

// How many jobs TakeBatch looks at. It bounds the time under the scheduler's lock when thousands of jobs for another
// collection stand between two of this one; beyond it a batch is merely smaller.
constexpr int kMaxScan = 4096;

size_t LineOf(engine::Priority priority) { return std::min<size_t>(static_cast<size_t>(priority), 2); }

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
  num_jobs_ += 1;
  num_queries_ += static_cast<int64_t>(job->queries.size());
  work_ += job->work;
  bytes_ += job->bytes;
  Line& line = lines_[LineOf(job->priority)];
  line.push_back({std::move(job), now, next_sequence_++});
}

JobQueue::Cursor JobQueue::Begin() const {
  Cursor cursor;
  for (size_t line = 0; line < kNumPriorities; ++line) cursor[line] = lines_[line].begin();
  return cursor;
}

size_t JobQueue::FirstLine(const Cursor& cursor, absl::Time now) const {
  size_t first = kNumPriorities;
  for (size_t line = kNumPriorities; line-- > 0;) {
    if (cursor[line] == lines_[line].end()) continue;
    const QueuedJob& candidate = *cursor[line];
    if (first == kNumPriorities ||
        (now - candidate.enqueued >= starvation_limit_ && candidate.sequence < cursor[first]->sequence)) {
      first = line;
    }
  }
  return first;
}

const QueuedJob& JobQueue::Head(absl::Time now) const { return lines_[FirstLine(Begin(), now)].front(); }

QueuedJob JobQueue::Remove(size_t line, Line::const_iterator position) {
  Line taken;
  taken.splice(taken.begin(), lines_[line], position);
  QueuedJob job = std::move(taken.front());
  num_jobs_ -= 1;
  num_queries_ -= job.num_queries();
  work_ -= job.job->work;
  bytes_ -= job.job->bytes;
  return job;
}

std::vector<QueuedJob> JobQueue::TakeBatch(absl::Time now, const BatchLimits& limits,
                                           std::vector<DroppedJob>* dropped) {
  std::vector<QueuedJob> batch;
  uint64_t work = 0;
  int num_queries = 0;
  Cursor cursor = Begin();
  for (int scanned = 0; scanned < kMaxScan; ++scanned) {
    const size_t line = FirstLine(cursor, now);
    if (line == kNumPriorities) break;
    const Line::const_iterator position = cursor[line]++;
    const engine::Job& job = *position->job;
    if (absl::Status alive = CheckAlive(job, now); !alive.ok()) {
      dropped->push_back({Remove(line, position), std::move(alive)});
      continue;
    }
    if (!batch.empty()) {
      if (job.collection != batch.front().job->collection) continue;
      const bool fits = work <= limits.max_work && job.work <= limits.max_work - work &&
                        position->num_queries() <= limits.max_queries - num_queries;
      if (!fits) break;
    }
    work += job.work;  // past max_work only for the head, and then nothing joins it
    num_queries += position->num_queries();
    batch.push_back(Remove(line, position));
  }
  return batch;
}

absl::Time JobQueue::DropDead(absl::Time now, std::vector<DroppedJob>* dropped) {
  absl::Time earliest = absl::InfiniteFuture();
  for (size_t line = 0; line < kNumPriorities; ++line) {
    for (Line::const_iterator position = lines_[line].begin(); position != lines_[line].end();) {
      const Line::const_iterator current = position++;
      const absl::Status alive = CheckAlive(*current->job, now);
      if (alive.ok()) {
        earliest = std::min(earliest, current->job->deadline);
      } else {
        dropped->push_back({Remove(line, current), alive});
      }
    }
  }
  return earliest;
}

void JobQueue::DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped) {
  for (size_t line = 0; line < kNumPriorities; ++line) {
    while (!lines_[line].empty()) dropped->push_back({Remove(line, lines_[line].begin()), reason});
  }
}

}  // namespace maxsim::batching
