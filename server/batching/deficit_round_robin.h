// The waiting jobs of one priority in the order in which they are served: first come, first served for each client, and
// deficit round robin by work between clients. A plain data structure.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/engine/job.h"

namespace maxsim::batching {

// A job that was accepted.
struct QueuedJob {
  std::unique_ptr<engine::Job> job;
  absl::Time enqueued;
  uint64_t sequence = 0;  // Counts the accepted jobs in order of arrival.

  int num_queries() const { return static_cast<int>(job->queries.size()); }
};

// Clients (Job::client) stand in a ring in order of arrival and take turns. A turn adds a quantum to its client's
// credit, and each job that is served takes its cost (Job::work, at least 1) off; when the credit does not cover the
// client's next job, the client goes to the end of the ring and keeps its credit. A client without a job leaves the
// ring and loses its credit. (M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1996.)
//
// The quantum is set when a round begins: the cost of the largest job that waits then, rounded up to a power of two
// less one. Every client gets one turn a round, and the quantum is the same for all: a large job that comes and goes
// between the turns of two clients gives neither of them more. A job that is larger than anything that waited when the
// round began waits for the next round. Every other turn serves a job, so that the order costs O(1) a job however much
// jobs differ. Of two clients that both have jobs waiting, neither gets ahead of the other by more than about three of
// the largest jobs. A new client waits for one turn of each other client at most. A client that is alone is served in
// order of arrival.
//
// Not thread-safe.
class DeficitRoundRobin {
 public:
  bool empty() const { return ring_.empty(); }
  size_t num_clients() const { return ring_.size(); }
  uint64_t work() const { return work_; }      // Sums up all jobs; the caller of Push keeps the sum below 2^64.
  uint64_t work_of(uint64_t client_id) const;  // Returns 0 for a client without a job here.
  bool HasJobsOf(uint64_t client_id) const { return clients_by_id_.contains(client_id); }

  void Push(QueuedJob job);

  // Returns the job that is served next. There must be one.
  const QueuedJob& Head() const { return ring_.front().jobs.front(); }

  // A scan goes through the waiting jobs in the order of service. A job that it takes is served, and its cost is
  // charged to its client; a job that it skips keeps its position, and a client whose jobs were all skipped keeps its
  // turn. Between BeginScan and EndScan only Current, Skip, Take and Drop may be called.
  void BeginScan();
  const QueuedJob* Current();  // Returns null at the end of the scan.
  void Skip();                 // Skip, Take and Drop need a Current that is not null.
  QueuedJob Take();
  QueuedJob Drop();  // Removes the job without charging its client: it is not served.
  void EndScan();

  // Removes every job that `predicate` is true of, each client's in order of arrival, and appends it to `removed`.
  void RemoveIf(absl::FunctionRef<bool(const QueuedJob&)> predicate, std::vector<QueuedJob>* removed);

  // Removes the job of the client that came last. The client must have one.
  QueuedJob RemoveNewest(uint64_t client_id);

 private:
  using Jobs = std::list<QueuedJob>;
  struct Client {
    uint64_t id = 0;
    Jobs jobs;  // In order of arrival; not empty outside of a scan.
    uint64_t work = 0;
    uint64_t credit = 0;
    bool has_turn = false;  // The credit includes the quantum of this turn.
    uint64_t round = 0;     // The round of its last turn; 0 before the first.
    // `next` is the position of the scan with the number `scan` among this client's jobs.
    uint64_t scan = 0;
    Jobs::iterator next;
  };
  using Ring = std::list<Client>;

  uint64_t Quantum() const;
  void BeginTurn(Client& client);
  // Ends the turn of `client`; returns the client that is next.
  Ring::iterator EndTurn(Ring::iterator client);
  QueuedJob Remove(Client& client, Jobs::iterator position);
  // Ends turns until the front of the ring is a client whose credit covers its first job.
  void AdvanceToServable();

  Ring ring_;
  absl::flat_hash_map<uint64_t, Ring::iterator> clients_by_id_;
  uint64_t work_ = 0;
  std::array<uint32_t, 65> num_jobs_by_cost_bits_{};  // Counts waiting jobs by the bit width of their cost.
  int max_cost_bits_ = 0;                             // The largest bit width with a job; 0 without one.

  uint64_t round_ = 0;    // The number of the current round.
  uint64_t quantum_ = 0;  // The quantum of the current round.

  uint64_t scan_ = 0;  // The number of the current or last scan.
  Ring::iterator cursor_;
};

}  // namespace maxsim::batching
