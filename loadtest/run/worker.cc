#include "loadtest/run/worker.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "base/monotonic_clock.h"

namespace maxsim::loadtest {
namespace {

constexpr int64_t kPollNs = 100'000'000;
// While max_in_flight requests are in flight, the sender checks at this interval whether one has been answered. The
// interval is much shorter than late_after, so that the check itself makes no send late.
constexpr int64_t kRoomPollNs = 50'000;
// A closed loop waits for this time after an error, so that it does not send a million requests to a server that is
// down.
constexpr int64_t kErrorPauseNs = 1'000'000;

// A request's tag holds everything that the worker must know about a request in flight: the intended time, from the
// start of the run, and the index of the prepared request.
constexpr int kIndexBits = 20;  // bits of the index; the other 44 of 64 bits hold times of up to 4.8 hours
uint64_t MakeTag(int64_t since_start_ns, size_t request) {
  return static_cast<uint64_t>(since_start_ns) << kIndexBits | request;
}

// Measures a thread's processor time between the run's begin and end. The thread calls it often.
class CpuMeter {
 public:
  CpuMeter(const RunClock& clock, ThreadTime& time) : clock_(clock), time_(time) {}

  void Look(int64_t now_ns) {
    if (now_ns < clock_.begin_ns || ended_) return;
    const int64_t cpu_ns = CpuNs();
    if (!begun_) {
      begun_ = true;
      cpu_begin_ns_ = cpu_ns;
      wall_begin_ns_ = now_ns;
    }
    time_ = {cpu_ns - cpu_begin_ns_, now_ns - wall_begin_ns_};
    ended_ = now_ns >= clock_.end_ns.load(std::memory_order_relaxed);
    next_look_ns_ = now_ns + kPollNs / 10;
  }
  // Calls Look at most every 10 ms, since reading a thread's clock is a system call.
  void Glance(int64_t now_ns) {
    if (now_ns >= next_look_ns_) Look(now_ns);
  }

 private:
  static int64_t CpuNs() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  const RunClock& clock_;
  ThreadTime& time_;
  bool begun_ = false, ended_ = false;
  int64_t cpu_begin_ns_ = 0, wall_begin_ns_ = 0, next_look_ns_ = 0;
};

}  // namespace

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepUntilNs(int64_t time_ns) {
  const timespec time{.tv_sec = time_ns / 1'000'000'000, .tv_nsec = time_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

Worker::Worker(const LoadOptions& options, int part, const RunClock& clock, const Workload& workload,
               std::unique_ptr<client::CallQueue> queue, ThreadStats& stats)
    : options_(options),
      part_(part),
      clock_(clock),
      workload_(workload),
      queue_(std::move(queue)),
      stats_(stats),
      // Each thread begins at another request, so that threads do not send the same requests at the same time.
      next_request_(workload.size() * static_cast<size_t>(part) / static_cast<size_t>(options.threads)) {}

void Worker::Run() {
  if (options_.mode == Mode::kClosed) {
    RunClosed();
  } else {
    RunOpen();
  }
  queue_->Close();
}

void Worker::Send(int64_t intended_ns) {
  const size_t request = next_request_;
  next_request_ = request + 1 < workload_.size() ? request + 1 : 0;
  stats_.sent.Add();
  queue_->Start(workload_[request].encoded(), MakeTag(intended_ns - clock_.start_ns, request));
}

bool Worker::Take() {
  last_ = Last::kNone;
  const client::CallQueue::Event event = queue_->Next(MonotonicNow() + absl::Nanoseconds(kPollNs), answer_);
  if (event == client::CallQueue::Event::kAnswer) Count(answer_, NowNs());
  return event != client::CallQueue::Event::kClosed;
}

void Worker::CloseWhenOverdue(int64_t now_ns) {
  const int64_t end_ns = clock_.end_ns.load(std::memory_order_relaxed);
  if (now_ns > end_ns + absl::ToInt64Nanoseconds(options_.timeout + absl::Seconds(1))) queue_->Close();
}

void Worker::RunClosed() {
  CpuMeter meter(clock_, stats_.receiver);
  SleepUntilNs(clock_.start_ns);
  const int share = ShareOf(options_.concurrency, part_, options_.threads);
  for (int i = 0; i < share; ++i) Send(NowNs());
  while (in_flight() > 0 && Take()) {
    const int64_t now_ns = NowNs();
    meter.Glance(now_ns);
    if (now_ns >= clock_.end_ns.load(std::memory_order_relaxed)) {
      CloseWhenOverdue(now_ns);
      continue;
    }
    if (last_ == Last::kError) SleepUntilNs(now_ns + kErrorPauseNs);
    if (last_ != Last::kNone) Send(NowNs());
  }
  meter.Look(NowNs());
}

void Worker::RunOpen() {
  prctl(PR_SET_TIMERSLACK, 1);  // in ns; with the default, 50 us, every send would be 50 us late
  std::thread receiver([this] { Receive(); });
  CpuMeter meter(clock_, stats_.sender);
  Schedule schedule(options_.arrivals, options_.rate, part_, options_.threads, options_.seed);
  while (true) {
    const int64_t due_ns = clock_.start_ns + schedule.NextNs();
    int64_t now_ns = NowNs();
    while (now_ns < due_ns && now_ns < clock_.end_ns.load(std::memory_order_relaxed)) {
      SleepUntilNs(std::min(due_ns, now_ns + kPollNs));
      now_ns = NowNs();
      meter.Glance(now_ns);
    }
    meter.Glance(now_ns);
    if (due_ns >= clock_.end_ns.load(std::memory_order_relaxed)) break;
    SendScheduled(due_ns);
  }
  meter.Look(NowNs());
  sends_done_.store(true, std::memory_order_release);
  receiver.join();
}

void Worker::SendScheduled(int64_t due_ns) {
  const bool measured = due_ns >= clock_.begin_ns;
  const int limit = std::max(1, ShareOf(options_.max_in_flight, part_, options_.threads));
  const int64_t timeout_ns = absl::ToInt64Nanoseconds(options_.timeout);
  bool at_limit = false;
  int64_t now_ns = NowNs();
  while (in_flight() >= limit) {
    at_limit = true;
    SleepUntilNs(now_ns + kRoomPollNs);
    now_ns = NowNs();
    if (now_ns >= clock_.end_ns.load(std::memory_order_relaxed)) break;
  }
  // A thread that is late still sends for up to one timeout after the end of the run. A thread that waited because of
  // max_in_flight stops at the end.
  if (now_ns >= clock_.end_ns.load(std::memory_order_relaxed) + (at_limit ? 0 : timeout_ns)) {
    if (measured) stats_.unsent.Add();
    return;
  }
  // If a send had to wait because of max_in_flight, the sends after it are late for the same reason, until the thread
  // has caught up with its schedule. held_back_ is true in this state.
  const bool late = now_ns - due_ns > absl::ToInt64Nanoseconds(options_.late_after);
  held_back_ = late && (held_back_ || at_limit);
  if (measured && late) {
    stats_.late.Add();
    if (held_back_) stats_.late_at_limit.Add();
  }
  Send(due_ns);
}

void Worker::Receive() {
  CpuMeter meter(clock_, stats_.receiver);
  // sends_done_ is read before in_flight(): the number of sends is final once sends_done_ is seen.
  while (true) {
    const bool sends_done = sends_done_.load(std::memory_order_acquire);
    if ((sends_done && in_flight() == 0) || !Take()) break;
    const int64_t now_ns = NowNs();
    meter.Glance(now_ns);
    if (sends_done) CloseWhenOverdue(now_ns);
  }
  meter.Look(NowNs());
}

void Worker::Count(const client::CallQueue::Answer& answer, int64_t now_ns) {
  const auto intended_ns = clock_.start_ns + static_cast<int64_t>(answer.tag >> kIndexBits);
  const PreparedRequest& request = workload_[answer.tag & ((size_t{1} << kIndexBits) - 1)];
  const int64_t end_ns = clock_.end_ns.load(std::memory_order_relaxed);
  // A closed loop counts the requests that are answered in the measured part. An open loop counts those that were due
  // in it, however long they take.
  const int64_t counted_ns = options_.mode == Mode::kClosed ? now_ns : intended_ns;
  const bool measured = counted_ns >= clock_.begin_ns && counted_ns < end_ns;
  absl::Status status = answer.status;
  if (status.ok()) {
    status = request.Check(answer.response);
    if (!status.ok()) stats_.all_wrong.Add();
  }
  last_ = Last::kAnswer;
  if (status.ok()) {
    stats_.all_answered.Add();
    if (measured) {
      const v1::Timings& timings = answer.response.timings();
      // The server's timings may be any numbers.
      const auto record_us = [](Recorder& recorder, double us) {
        recorder.Record(us > 0 && us < 1e9 ? static_cast<int64_t>(us * 1e3) : 0);
      };
      stats_.answered.Add();
      stats_.queries.Add(request.num_queries());
      stats_.latency.Record(now_ns - intended_ns);
      record_us(stats_.server_total, timings.total_us());
      record_us(stats_.server_queue, timings.queue_us());
      record_us(stats_.copy, timings.copy_us());
      record_us(stats_.kernel, timings.kernel_us());
    }
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    stats_.all_rejected.Add();
    if (measured) stats_.rejected.Add();
  } else {
    last_ = Last::kError;
    stats_.all_errors.Add();
    const size_t code = std::min(static_cast<size_t>(status.code()), kNumCodes - 1);
    if (measured) stats_.errors[code].Add();
    if (stats_.first_error[code].empty()) stats_.first_error[code] = std::string(status.message());
  }
  stats_.done.Add();
}

}  // namespace maxsim::loadtest
