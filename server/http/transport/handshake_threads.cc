#include "server/http/transport/handshake_threads.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/thread_name.h"

namespace maxsim::http {

namespace {

// If processors are busy, requests and probes have priority over handshakes: with this niceness, a thread gets a
// tenth of the time of another thread.
constexpr int kNiceness = 10;

}  // namespace

HandshakeThreads::HandshakeThreads(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

HandshakeThreads::~HandshakeThreads() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  not_empty_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

uint64_t HandshakeThreads::Add(const PeerKey& peer, Step step) {
  uint64_t number = 0;
  {
    MutexLock lock(&mutex_);
    number = next_number_++;
    Steps added;
    added.emplace(number, std::move(step));
    waiting_[peer].merge(added);
  }
  not_empty_.NotifyOne();
  return number;
}

bool HandshakeThreads::Remove(const PeerKey& peer, uint64_t number) {
  Step removed;  // destroyed after the lock is released: it may hold the last reference to a connection
  MutexLock lock(&mutex_);
  const auto steps = waiting_.find(peer);
  if (steps == waiting_.end()) return false;
  const auto step = steps->second.find(number);
  if (step == steps->second.end()) return false;
  removed = std::move(step->second);
  steps->second.erase(step);
  if (steps->second.empty()) waiting_.erase(steps);
  return true;
}

void HandshakeThreads::Run() {
  NameThisThread("http-handshake");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  while (true) {
    Step step;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stopping_) not_empty_.Wait(lock);
      if (stopping_) return;
      step = Next();
    }
    step();
  }
}

HandshakeThreads::Step HandshakeThreads::Next() {
  auto turn = waiting_.upper_bound(last_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_ = turn->first;
  const auto newest = turn->second.begin();
  Step step = std::move(newest->second);
  turn->second.erase(newest);
  if (turn->second.empty()) waiting_.erase(turn);
  return step;
}

}  // namespace maxsim::http
