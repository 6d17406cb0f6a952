// One sending thread's part of a run.
//
// In a closed loop the worker keeps its share of the requests in flight, and sends the next request when an answer
// comes; latency counts from the send. In an open loop one thread sends at the scheduled times, however many answers
// are missing, and another thread takes the answers. Latency then counts from the scheduled time, since a request that
// was sent late has waited too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/call_queue.h"
#include "loadtest/random/schedule.h"
#include "loadtest/run/options.h"
#include "loadtest/run/thread_stats.h"
#include "loadtest/run/workload.h"

namespace maxsim::loadtest {

// Returns the nanoseconds of the steady clock.
int64_t NowNs();
// Sleeps until NowNs() reaches `time_ns`, as precisely as the kernel can.
void SleepUntilNs(int64_t time_ns);

// The times (of NowNs) of a run, which all of its threads share.
struct RunClock {
  int64_t start_ns = 0;            // the warm-up begins
  int64_t begin_ns = 0;            // the measured part begins
  std::atomic<int64_t> end_ns{0};  // the measured part ends; may be set to an earlier time during the run
};

class Worker {
 public:
  // Makes worker `part`, 0 .. options.threads - 1. Everything that is passed by reference must outlive it.
  Worker(const LoadOptions& options, int part, const RunClock& clock, const Workload& workload,
         std::unique_ptr<client::CallQueue> queue, ThreadStats& stats);

  // Sends until the clock's end, and returns when every request has been answered. Called once.
  void Run();

 private:
  void RunClosed();
  void RunOpen();
  // Takes answers until the sender has ended and no request is in flight.
  void Receive();
  void Send(int64_t intended_ns);
  // Waits up to a tenth of a second for an answer, and counts it. Returns false if the queue is closed: no answer will
  // come any more.
  bool Take();
  // Closes the queue if `now_ns` is more than one timeout after the end of the run. By then no request is sent any
  // more, and all unanswered requests have timed out.
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
  bool held_back_ = false;                     // whether max_in_flight has delayed a send since the last punctual one
  enum class Last { kNone, kAnswer, kError };  // what Take took last; a rejection is an answer
  Last last_ = Last::kNone;
  client::CallQueue::Answer answer_;
  std::atomic<bool> sends_done_{false};
};

// Returns the share of `total` that part `part` of `num_parts` has. Where `total` does not divide evenly, the first
// parts have one more.
inline int ShareOf(int total, int part, int num_parts) {
  return total / num_parts + (part < total % num_parts ? 1 : 0);
}

}  // namespace maxsim::loadtest
