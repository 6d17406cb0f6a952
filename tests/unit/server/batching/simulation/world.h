// Simulates a dispatcher from its start to its shutdown, with threads, clients, and a device that may fail. The
// simulation runs in one thread and in virtual time. Its seed determines all events and their times.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/batching/dispatcher.h"
#include "server/observability/metrics.h"
#include "tests/unit/server/batching/simulation/ledger.h"

namespace maxsim::batching {

// The properties of a world, which the world draws at random from its seed.
struct WorldOptions {
  SchedulerOptions scheduler;
  int num_lanes = 1;
  // These options describe the traffic.
  uint64_t num_clients = 1;
  bool one_collection = true;  // if false, each client uses one of several collections
  int price_shape = 0;         // prices of jobs: 0 equal, 1 uniform, 2 over many orders of magnitude
  uint64_t price = 1000;
  double load = 1;  // offered work divided by the work that the lanes can do
  bool one_priority = false;
  double deadline_share = 0;
  double cancel_share = 0;
  double caller_share = 0;  // share of jobs that come by SubmitOrTakeBatch
  // These options describe the device.
  double work_per_second = 1e6;
  double slow_share = 0;  // share of batches that take a hundred times as long
  double fail_share = 0;  // share of jobs that fail
  int64_t lost_at_step = -1;
  // These options describe the shutdown.
  int64_t stop_at_step = 0;
  absl::Duration stop_grace = absl::InfiniteDuration();
  bool spurious_wakes = false;

  static WorldOptions Draw(std::mt19937_64& random, int64_t num_steps);
  std::string ToString() const;
};

// Counts the events in simulated worlds, so that a test can check that every kind of event has occurred.
struct Tally {
  int64_t steps = 0;
  int64_t jobs = 0;
  std::array<int64_t, 17> answers{};  // by status code
  std::array<int64_t, 17> refusals{};
  int64_t displaced = 0;
  int64_t expired = 0;     // after max_queue_time
  int64_t by_callers = 0;  // batches that callers scored
  int64_t batches = 0;
  uint64_t digest = 0;  // of all events in their order

  std::string ToString() const;
};

class World {
 public:
  using Collections = std::vector<std::shared_ptr<const store::Collection>>;

  // `collections` must not be empty, and all collections in it must be resident.
  World(uint64_t seed, int64_t num_steps, const Collections& collections);

  // Runs the world until all its threads have ended. Returns "", or a text with the first broken promise and its step.
  std::string Run(Tally* tally);

 private:
  using Wakeups = Dispatcher::Wakeups;
  enum class State { kReady, kSleeping, kHoldingBack, kScoring, kAnswering, kIdle, kEnded };
  struct Thread {
    State state = State::kReady;
    absl::Time at = absl::InfiniteFuture();  // when the thread runs next
    bool notified = false;
    Batch batch = {};
    std::vector<DroppedJob> dropped = {};
  };

  // Executes the next event. Returns false if there is none.
  bool Step();
  void StepLane(Thread& lane);
  void StepCaller();
  void StepReaper();
  void StepAnswerer(Thread& answerer);
  void StepStop();
  void Arrive();
  void CancelOne();
  void Offer(bool by_caller);
  std::unique_ptr<engine::Job> MakeJob();
  void BeginScoring(Thread& thread, absl::Time thread_now);
  void EndScoring(Thread& thread);
  void Wake(const Wakeups& wakes);
  void AfterCall();
  void CheckProgress();
  bool Over() const;
  void CheckCounts();

  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  bool Chance(double probability) { return Uniform() < probability; }
  absl::Duration Latency();  // time from a thread's wake-up, or from getting work, until the thread runs
  absl::Duration Exponential(absl::Duration mean);
  uint64_t Price();
  absl::Status health() const { return lost_ ? absl::UnavailableError("lost") : absl::OkStatus(); }
  void Note(uint64_t event);

  std::mt19937_64 random_;
  const WorldOptions options_;
  const Collections& collections_;
  Metrics metrics_;
  Dispatcher dispatcher_;
  Ledger ledger_;
  Tally tally_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);

  std::vector<Thread> lanes_;
  std::vector<Thread> answerers_;
  Thread reaper_;
  Thread caller_{.state = State::kIdle};  // the caller that scores a batch
  Thread stop_{.state = State::kIdle};
  std::vector<std::pair<absl::Time, Wakeups>> in_flight_;  // notifications to send, with their times
  absl::Time next_arrival_;
  absl::Time next_cancel_;
  absl::Time stop_deadline_ = absl::InfiniteFuture();
  int burst_ = 0;  // remaining jobs of a burst, which arrive without a pause
  bool stopping_ = false;
  bool rest_failed_ = false;
  bool lost_ = false;
};

}  // namespace maxsim::batching
