// Tells replicas that have missed a reload to load the generation that the others serve.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "server/cluster/changes/reload_order.h"
#include "server/cluster/groups/membership.h"

namespace maxsim::cluster {

// Looks at the router's view in regular intervals, and calls ReloadCollection of each replica that FindBehind returns,
// one after the other. Several routers may do this at the same time: a server carries out such calls one by one, and
// has nothing to do for the second one. The class is thread-safe.
class GenerationKeeper {
 public:
  // How long a replica is left alone after a call that failed. For example, files may be missing, which an operator
  // must bring first.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(30);

  // `membership` must outlive the object.
  GenerationKeeper(Membership* membership, absl::Duration interval) : membership_(membership), interval_(interval) {}
  ~GenerationKeeper() { Stop(); }
  GenerationKeeper(const GenerationKeeper&) = delete;
  GenerationKeeper& operator=(const GenerationKeeper&) = delete;

  // Starts the thread. Call it once.
  void Start();
  // Ends the call in progress and the thread, and waits for both.
  void Stop();

 private:
  // The last call to a replica about a collection, if it failed.
  struct Failure {
    uint64_t revision = 0;
    absl::Time time = absl::InfinitePast();
    std::string error;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // group, replica and collection

  void Run();
  // Calls a replica, unless a call failed lately. Returns whether it has loaded the generation.
  bool Tell(const Behind& behind);

  Membership* const membership_;
  const absl::Duration interval_;
  StopSignal stop_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Key, Failure> failures_;  // only the thread uses it
  std::thread thread_;
};

}  // namespace maxsim::cluster
