// Runs the steps of TLS handshakes on their own threads: one signature takes as long as hundreds of answers to health
// probes. Internal to server/http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "server/http/transport/connections.h"

namespace maxsim::http {

// The class is thread-safe.
class HandshakeThreads {
 public:
  using Step = absl::AnyInvocable<void()>;

  explicit HandshakeThreads(int num_threads);
  ~HandshakeThreads();  // waits for running steps, and drops waiting ones
  HandshakeThreads(const HandshakeThreads&) = delete;
  HandshakeThreads& operator=(const HandshakeThreads&) = delete;

  // Queues a step for one of the threads; returns its number, for Remove. Peers take turns, one step each, so that a
  // flood from one peer delays another peer by no more than a step. A peer's newest step goes first, because in a flood
  // the oldest connections are closed first, and work on their handshakes would be wasted. Throws std::bad_alloc. A
  // step must not throw.
  uint64_t Add(const PeerKey& peer, Step step);

  // Removes a waiting step. Returns false if the step is running or has run.
  bool Remove(const PeerKey& peer, uint64_t number);

 private:
  using Steps = std::map<uint64_t, Step, std::greater<>>;  // by number, the newest first

  void Run();
  Step Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  ConditionVariable not_empty_;
  std::map<PeerKey, Steps> waiting_ ABSL_GUARDED_BY(mutex_);  // peers that have waiting steps
  PeerKey last_ ABSL_GUARDED_BY(mutex_) = {};                 // the peer whose turn it was
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace maxsim::http
