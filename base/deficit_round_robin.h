// A queue that is fair between clients. The jobs of one client are served in order of arrival. Clients take turns by
// deficit round robin, weighted by work. Used for scoring requests, and for the write calls of a live collection.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/saturating.h"

namespace maxsim {

// `Job` must have client() and work(), both uint64_t. Their values must not change while the job is in the queue.
//
// Clients stand in a ring in order of arrival and take turns. In its turn, a client gets a fixed credit (the quantum),
// and each job served subtracts its cost (its work, at least 1). If the credit does not cover the client's next job,
// the client moves to the end of the ring and keeps the rest of its credit. A client with no jobs left leaves the ring
// and loses its credit. (M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1996.)
//
// In each round, every client gets one turn with the same quantum. The quantum is the cost of the largest job that
// waits when the round begins, rounded up to a power of two minus one, but at most `max_quantum`. A job that costs more
// than its client's credit waits for a later round. Unless `max_quantum` limits the quantum, at least every second turn
// serves a job, so the cost per job is O(1). Of two clients that both have jobs waiting, neither gets ahead of the
// other by more than about three of the largest jobs. A new client waits for at most one turn of each other client.
//
// Not thread-safe.
template <typename Job>
class DeficitRoundRobin {
 public:
  // With a smaller `max_quantum`, clients take turns more often, so small jobs wait less for other clients' large jobs.
  // In return, a job that costs more than `max_quantum` needs several turns. A turn takes a few nanoseconds.
  explicit DeficitRoundRobin(uint64_t max_quantum = std::numeric_limits<uint64_t>::max()) : max_quantum_(max_quantum) {}

  bool empty() const { return ring_.empty(); }
  size_t num_clients() const { return ring_.size(); }
  uint64_t work() const { return work_; }      // Total of all jobs. The caller of Push must keep it below 2^64.
  uint64_t work_of(uint64_t client_id) const;  // Returns 0 for a client without jobs.
  bool HasJobsOf(uint64_t client_id) const { return clients_by_id_.contains(client_id); }

  void Push(Job job);

  // Returns the job that is served next. The queue must not be empty.
  const Job& Head() const { return ring_.front().jobs.front(); }

  // A scan visits the waiting jobs in the order of service. Take serves a job and charges its cost to its client. Skip
  // leaves a job in its place. A client whose jobs are all skipped keeps its turn. Between BeginScan and EndScan, call
  // only Current, Skip, Take and Drop.
  void BeginScan();
  const Job* Current();  // Returns null at the end of the scan.
  void Skip();           // Skip, Take and Drop need a Current that is not null.
  Job Take();
  Job Drop();  // Removes the job without serving it, and does not charge its client.
  void EndScan();

  // Removes the jobs for which `predicate` is true and appends them to `removed`. The jobs of one client stay in order
  // of arrival.
  void RemoveIf(absl::FunctionRef<bool(const Job&)> predicate, std::vector<Job>* removed);

  // Removes the job that the client added last. The client must have one.
  Job RemoveNewest(uint64_t client_id);

 private:
  using Jobs = std::list<Job>;
  struct Client {
    uint64_t id = 0;
    Jobs jobs;  // In order of arrival; not empty outside of a scan.
    uint64_t work = 0;
    uint64_t credit = 0;
    bool has_turn = false;  // The credit includes the quantum of this turn.
    uint64_t round = 0;     // The round of its last turn; 0 before the first.
    // `next` is the job that the scan with number `scan` visits next. Outdated if `scan` is not the current scan.
    uint64_t scan = 0;
    typename Jobs::iterator next;
  };
  using Ring = std::list<Client>;

  // A job costs at least 1, because jobs without cost would never use up their client's credit.
  static uint64_t CostOf(const Job& job) { return std::max<uint64_t>(job.work(), 1); }

  uint64_t Quantum() const;
  void BeginTurn(Client& client);
  // Ends the turn of `client` and returns the next client.
  typename Ring::iterator EndTurn(typename Ring::iterator client);
  Job Remove(Client& client, typename Jobs::iterator position);
  // Ends turns until the front of the ring is a client whose credit covers its first job.
  void AdvanceToServable();

  uint64_t max_quantum_;
  Ring ring_;
  // A standard container, because Abseil's do not survive an allocation that throws (guard.h).
  std::unordered_map<uint64_t, typename Ring::iterator> clients_by_id_;
  uint64_t work_ = 0;
  std::array<uint32_t, 65> num_jobs_by_cost_bits_{};  // Counts waiting jobs by the bit width of their cost.
  int max_cost_bits_ = 0;                             // The largest bit width with a job; 0 without one.

  uint64_t round_ = 0;    // The number of the current round.
  uint64_t quantum_ = 0;  // The quantum of the current round.

  uint64_t scan_ = 0;  // The number of the current or last scan.
  typename Ring::iterator cursor_;
};

template <typename Job>
uint64_t DeficitRoundRobin<Job>::work_of(uint64_t client_id) const {
  const auto found = clients_by_id_.find(client_id);
  return found == clients_by_id_.end() ? 0 : found->second->work;
}

template <typename Job>
uint64_t DeficitRoundRobin<Job>::Quantum() const {
  return max_cost_bits_ >= 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << max_cost_bits_) - 1;
}

template <typename Job>
void DeficitRoundRobin<Job>::BeginTurn(Client& client) {
  if (client.has_turn) return;
  client.has_turn = true;
  if (client.round == round_) {
    ++round_;
    quantum_ = std::min(Quantum(), max_quantum_);
  }
  client.round = round_;
  client.credit = SaturatingAdd(client.credit, quantum_);
}

template <typename Job>
typename DeficitRoundRobin<Job>::Ring::iterator DeficitRoundRobin<Job>::EndTurn(typename Ring::iterator client) {
  client->has_turn = false;
  const auto next = std::next(client);
  if (next == ring_.end()) return client;  // `client` is already the last, so its next turn begins here.
  ring_.splice(ring_.end(), ring_, client);
  return next;
}

template <typename Job>
void DeficitRoundRobin<Job>::AdvanceToServable() {
  while (!ring_.empty()) {
    const auto front = ring_.begin();
    BeginTurn(*front);
    if (CostOf(front->jobs.front()) <= front->credit) return;
    EndTurn(front);
  }
}

template <typename Job>
void DeficitRoundRobin<Job>::Push(Job job) {
  const uint64_t id = job.client();
  // Allocate first: if memory runs out, nothing has changed.
  Jobs one;
  one.push_back(std::move(job));
  auto found = clients_by_id_.find(id);
  const bool is_new = found == clients_by_id_.end();
  if (is_new) {
    Ring ring(1);
    ring.front().id = id;
    found = clients_by_id_.emplace(id, ring.begin()).first;
    ring_.splice(ring_.end(), ring);
  }
  Client& client = *found->second;
  client.work += one.front().work();
  work_ += one.front().work();
  const int cost_bits = std::bit_width(CostOf(one.front()));
  num_jobs_by_cost_bits_[static_cast<size_t>(cost_bits)] += 1;
  max_cost_bits_ = std::max(max_cost_bits_, cost_bits);
  client.jobs.splice(client.jobs.end(), one);
  if (is_new && ring_.size() == 1) {
    client.round = round_;  // A new round begins, so the last round's quantum no longer matters.
    BeginTurn(client);
  }
}

template <typename Job>
Job DeficitRoundRobin<Job>::Remove(Client& client, typename Jobs::iterator position) {
  Jobs taken;
  taken.splice(taken.begin(), client.jobs, position);
  Job job = std::move(taken.front());
  client.work -= job.work();
  work_ -= job.work();
  num_jobs_by_cost_bits_[static_cast<size_t>(std::bit_width(CostOf(job)))] -= 1;
  while (max_cost_bits_ > 0 && num_jobs_by_cost_bits_[static_cast<size_t>(max_cost_bits_)] == 0) --max_cost_bits_;
  return job;
}

template <typename Job>
void DeficitRoundRobin<Job>::BeginScan() {
  ++scan_;
  cursor_ = ring_.begin();
}

template <typename Job>
const Job* DeficitRoundRobin<Job>::Current() {
  while (cursor_ != ring_.end()) {
    Client& client = *cursor_;
    if (client.jobs.empty()) {
      clients_by_id_.erase(client.id);
      cursor_ = ring_.erase(cursor_);
      continue;
    }
    if (client.scan != scan_) {
      client.scan = scan_;
      client.next = client.jobs.begin();
    }
    if (client.next == client.jobs.end()) {
      ++cursor_;
      continue;
    }
    BeginTurn(client);
    if (CostOf(*client.next) <= client.credit) return &*client.next;
    // If earlier jobs of this client were skipped, the client keeps its place in the ring and its turn for them.
    if (client.next != client.jobs.begin()) {
      ++cursor_;
    } else {
      cursor_ = EndTurn(cursor_);
    }
  }
  return nullptr;
}

template <typename Job>
void DeficitRoundRobin<Job>::Skip() {
  ++cursor_->next;
}

template <typename Job>
Job DeficitRoundRobin<Job>::Take() {
  cursor_->credit -= CostOf(*cursor_->next);
  return Drop();
}

template <typename Job>
Job DeficitRoundRobin<Job>::Drop() {
  const auto position = cursor_->next++;
  return Remove(*cursor_, position);
}

template <typename Job>
void DeficitRoundRobin<Job>::EndScan() {
  // The scan may have ended at a client whose last job it took. This client must be removed.
  if (cursor_ != ring_.end() && cursor_->jobs.empty()) {
    clients_by_id_.erase(cursor_->id);
    ring_.erase(cursor_);
  }
  cursor_ = ring_.end();
  AdvanceToServable();
}

template <typename Job>
void DeficitRoundRobin<Job>::RemoveIf(absl::FunctionRef<bool(const Job&)> predicate, std::vector<Job>* removed) {
  const size_t before = removed->size();
  for (auto client = ring_.begin(); client != ring_.end();) {
    for (auto position = client->jobs.begin(); position != client->jobs.end();) {
      const auto current = position++;
      if (predicate(*current)) removed->push_back(Remove(*client, current));
    }
    if (client->jobs.empty()) {
      clients_by_id_.erase(client->id);
      client = ring_.erase(client);
    } else {
      ++client;
    }
  }
  if (removed->size() != before) AdvanceToServable();
}

template <typename Job>
Job DeficitRoundRobin<Job>::RemoveNewest(uint64_t client_id) {
  const auto found = clients_by_id_.find(client_id);
  const auto client = found->second;
  Job job = Remove(*client, std::prev(client->jobs.end()));
  if (client->jobs.empty()) {
    clients_by_id_.erase(found);
    ring_.erase(client);
  }
  AdvanceToServable();
  return job;
}

}  // namespace maxsim
