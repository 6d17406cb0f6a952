// One sending thread's part of a run.
//
// Closed loop: keeps its share of the requests under way; each answer sends the next. Latency counts from the send.
// Open loop: sends when the schedule says so, whatever has come back, on a thread of its own while another takes the
// answers. Latency counts from the intended time: a request that could not be sent in time has waited too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/call_queue.h"
#include "loadtest/options.h"
#include "loadtest/schedule.h"
#include "loadtest/thread_stats.h"
#include "loadtest/workload.h"

namespace maxsim::loadtest {

// Nanoseconds of the steady clock.
int64_t NowNs();
// Sleeps until then, as precisely as the kernel does.
void SleepUntilNs(int64_t time_ns);

// When a run begins and ends, the same for all of its threads.
struct RunClock {
  int64_t start_ns = 0;            // first sends: the warm-up
  int64_t begin_ns = 0;            // what is measured begins,
  std::atomic<int64_t> end_ns{0};  // and ends; may be brought forward while the run goes on
};

class Worker {
 public:
  // `part` of options.threads. Everything must outlive the worker.
  Worker(const LoadOptions& options, int part, const RunClock& clock, const Workload& workload,
         std::unique_ptr<client::CallQueue> queue, ThreadStats& stats);

  // Sends until the clock's end, and returns when all has been answered.
  void Run();

 private:
  void RunClosed();
  void RunOpen();
  // Takes answers until the sender has ended and nothing is under way.
  void Receive();
  void Send(int64_t intended_ns);
  // Waits for an answer, a tenth of a second at most, and counts it. False when there will be none: the queue is
  // closed.
  bool Take();
  // Nothing is sent any more. What a session has not answered by a timeout after the end will not be.
  void CloseWhenOverdue(int64_t now_ns);
  void Count(const client::CallQueue::Answer& answer, int64_t now_ns);
  int64_t in_flight() const { return stats_.sent.value() - stats_.done.value(); }
  void SendScheduled(int64_t due_ns);

  const LoadOptions& options_;
  const int part_;
  const RunClock& clock_;
  const Workload& workload_;
  const std::unique_ptr<client::CallQueue> queue_;
  ThreadStats& stats_;
  size_t next_request_;
  bool held_back_ = false;                     // by max_in_flight, now or since the last send that was on time
  enum class Last { kNone, kAnswer, kError };  // what Take took; a rejection is an answer
  Last last_ = Last::kNone;
  client::CallQueue::Answer answer_;
  std::atomic<bool> sends_done_{false};
};

// Returns the share of `total` that `part` of `num_parts` has: the first ones have one more where it does not divide.
inline int ShareOf(int total, int part, int num_parts) {
  return total / num_parts + (part < total % num_parts ? 1 : 0);
}

}  // namespace maxsim::loadtest
