// Carries out plans of moved slots (plan.h) by calls to the servers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "tools/maxsimctl/cluster/plan.h"
#include "tools/maxsimctl/cluster/servers.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl::cluster {

struct RunOptions {
  PlanOptions plan;
  std::string residency;  // of the collection on servers that get slots; "" means the server's default
  // How long one wait may take, such as the wait until a router notices a layout.
  absl::Duration patience = absl::Minutes(10);
  // The interval at which the cluster's state is read while waiting.
  absl::Duration poll_interval = absl::Milliseconds(500);
  // The pause before a step that failed for a reason that may pass is tried again.
  absl::Duration retry_pause = absl::Seconds(5);
};

// What a run has done.
struct RunReport {
  int num_steps = 0;
  uint64_t fetched_bytes = 0;
  uint64_t revision = 0;  // of the layout at the end
};

// One run for one collection. Writes a line to the context's `err` when a step begins and when it ends. Not
// thread-safe; the calls of steps that run at the same time have threads of their own, which end before Move and
// Replace return.
class Runner {
 public:
  // `servers` and `context` must live longer.
  Runner(Servers& servers, Context& context, std::string collection, RunOptions options)
      : servers_(servers), context_(context), collection_(std::move(collection)), options_(std::move(options)) {}
  ~Runner() { JoinAll(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Carries out the plan from the cluster's present state to the wanted layout. A step that fails because a server does
  // not answer or is busy (UNAVAILABLE, RESOURCE_EXHAUSTED) is planned again, until a server has failed kMaxFailures
  // times. For another failure, lets the running steps end and returns the failed step's error. ABORTED if another
  // command changes the layout meanwhile; DEADLINE_EXCEEDED if a wait takes longer than options.patience; errors of
  // NextSteps and Servers. After an error, a new run continues where this one stopped.
  absl::StatusOr<RunReport> Move(const Owners& wanted);

  // Carries out a step of PlanReplacement, and waits until the router uses the server.
  absl::StatusOr<RunReport> Replace(const Bootstrap& step);

 private:
  static constexpr int kMaxFailures = 3;

  // A step that is being carried out by a call in a thread.
  struct Running {
    Step step;
    int number;
    absl::Time began;
    std::thread thread = {};
    bool has_ended = false;                          // `outcome` is set; guarded by mutex_
    absl::StatusOr<uint64_t> outcome = uint64_t{0};  // fetched bytes
  };

  absl::StatusOr<ClusterState> ReadPatiently();
  absl::Status CheckLayout(const ClusterState& state, const Owners& wanted);
  absl::Status Begin(const Step& step);
  absl::Status DoAlone(const Step& step, const ClusterState& state, const Owners& wanted);
  absl::Status DoSetLayout(const SetLayout& step);
  absl::Status WaitALittle(const Step& step, const std::string& missing);
  // Waits at most `at_most` until a running step has ended, and processes its outcome. Returns the step's error if the
  // run must end, otherwise OK.
  absl::Status WaitForOne(absl::Duration at_most);
  absl::Status End(Running& running);
  absl::Status NoteFailure(const std::string& what, const absl::Status& status, bool may_pass);
  absl::Status NoteCall(const Bootstrap& call);
  std::vector<Step> RunningSteps() const;
  void JoinAll();
  void Say(const std::string& line) const;

  Servers& servers_;
  Context& context_;
  const std::string collection_;
  const RunOptions options_;
  RunReport report_;
  Progress progress_;
  std::optional<Owners> first_owners_;  // the owners when the run began
  uint64_t set_revision_ = 0;           // of the layout that this run has set last; 0 if none
  Owners set_owners_;
  std::map<std::string, int> failures_;  // in a row, by what failed
  std::map<std::string, int> calls_;     // calls that succeeded, by server and slots
  std::optional<Step> waited_for_;
  absl::Time waited_since_;
  absl::Time said_ = absl::InfinitePast();  // when the last line about steps that still run was printed
  std::vector<std::unique_ptr<Running>> running_;

  Mutex mutex_;
  ConditionVariable ended_;
};

}  // namespace maxsim::ctl::cluster
