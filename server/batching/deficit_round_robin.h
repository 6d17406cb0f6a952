// The jobs of one priority that wait, in the order in which they are served: first come, first served for each client,
// and deficit round robin by work between clients. A plain data structure.
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
  uint64_t sequence = 0;  // order of arrival

  int num_queries() const { return static_cast<int>(job->queries.size()); }
};

// Clients (Job::client) stand in a ring in order of arrival and take turns. A turn gives its client credit, and its
// jobs are served while the credit lasts; then it goes to the end of the ring with what is left, and one without a job
// leaves with nothing. (M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1996.)
//
// The credit of a turn is the price of the largest job that waits when the round begins, rounded up to a power of two
// less one. A round gives every client one turn, and all the same credit: a large job that comes and goes between the
// turns of two clients gives neither of them more. A job that is larger than anything when the round began waits for
// the next one; every other turn serves a job, which makes the order cost O(1) a job however unlike jobs are; and of
// two clients that both have jobs waiting neither gets ahead of the other by more than about three of the largest jobs.
// A client that comes new waits for one turn of each other at most. One client alone is served in order of arrival.
//
// Not thread-safe.
class FairLine {
 public:
  bool empty() const { return ring_.empty(); }
  size_t num_clients() const { return ring_.size(); }
  uint64_t work() const { return work_; }   // of all jobs; whoever pushes keeps the sum below 2^64
  uint64_t work_of(uint64_t client) const;  // 0 for a client without a job here
  bool has(uint64_t client) const { return places_.contains(client); }

  void Push(QueuedJob job);

  // The job that is served next. The line must not be empty.
  const QueuedJob& Head() const { return ring_.front().jobs.front(); }

  // A walk through the waiting jobs in the order of service. What it takes is served, and charged to its client; what
  // it skips keeps its place: a client whose jobs were all skipped keeps its turn too. Between BeginWalk and EndWalk
  // only these may be called.
  void BeginWalk();
  const QueuedJob* Current();  // null at the end
  void Skip();                 // these three want a Current that is not null
  QueuedJob Take();
  QueuedJob Drop();  // takes it out uncharged: it is not served
  void EndWalk();

  // Takes out every job that `leaves` is true of, each client's in order of arrival, and appends it to `removed`.
  void RemoveIf(absl::FunctionRef<bool(const QueuedJob&)> leaves, std::vector<QueuedJob>* removed);

  // Takes out the job of `client`, which must have one, that came last.
  QueuedJob RemoveNewest(uint64_t client);

 private:
  using Jobs = std::list<QueuedJob>;
  struct Client {
    uint64_t id = 0;
    Jobs jobs;  // not empty, in order of arrival
    uint64_t work = 0;
    uint64_t credit = 0;
    bool in_turn = false;  // it has got the credit of this turn
    uint64_t round = 0;    // of its last turn; 0 before the first
    // Of the walk `walk`: where it stands.
    uint64_t walk = 0;
    Jobs::iterator next;
  };
  using Ring = std::list<Client>;

  uint64_t Quantum() const;
  void GiveTurn(Client& client);
  // Ends the turn of the client at `place`; returns the place that is then next.
  Ring::iterator EndTurn(Ring::iterator place);
  QueuedJob Remove(Client& client, Jobs::iterator position);
  // Makes the front of the ring a client that may be served.
  void Settle();

  Ring ring_;
  absl::flat_hash_map<uint64_t, Ring::iterator> places_;
  uint64_t work_ = 0;
  std::array<uint32_t, 65> num_of_width_{};  // waiting jobs by the number of bits of their price
  int widest_ = 0;                           // the largest such number with a job, 0 without one

  uint64_t round_ = 0;    // number of the round
  uint64_t quantum_ = 0;  // credit of a turn in it

  uint64_t walk_ = 0;  // number of the walk
  Ring::iterator cursor_;
};

}  // namespace maxsim::batching
