#include "server/batching/deficit_round_robin.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/saturating.h"

namespace maxsim::batching {
namespace {

// A job costs at least 1: one that costs nothing would never use up its client's credit.
uint64_t CostOf(const QueuedJob& job) { return std::max<uint64_t>(job.job->work, 1); }

}  // namespace

uint64_t DeficitRoundRobin::work_of(uint64_t client_id) const {
  const auto found = clients_by_id_.find(client_id);
  return found == clients_by_id_.end() ? 0 : found->second->work;
}

uint64_t DeficitRoundRobin::Quantum() const {
  return max_cost_bits_ >= 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << max_cost_bits_) - 1;
}

void DeficitRoundRobin::BeginTurn(Client& client) {
  if (client.has_turn) return;
  client.has_turn = true;
  if (client.round == round_) {
    ++round_;
    quantum_ = Quantum();
  }
  client.round = round_;
  client.credit = SaturatingAdd(client.credit, quantum_);
}

DeficitRoundRobin::Ring::iterator DeficitRoundRobin::EndTurn(Ring::iterator client) {
  client->has_turn = false;
  const auto next = std::next(client);
  if (next == ring_.end()) return client;  // The client is the last already, and its next turn begins.
  ring_.splice(ring_.end(), ring_, client);
  return next;
}

void DeficitRoundRobin::AdvanceToServable() {
  while (!ring_.empty()) {
    const auto front = ring_.begin();
    BeginTurn(*front);
    if (CostOf(front->jobs.front()) <= front->credit) return;
    EndTurn(front);
  }
}

void DeficitRoundRobin::Push(QueuedJob job) {
  const uint64_t id = job.job->client;
  auto [found, is_new] = clients_by_id_.try_emplace(id);
  if (is_new) {
    found->second = ring_.emplace(ring_.end());
    found->second->id = id;
  }
  Client& client = *found->second;
  client.work += job.job->work;
  work_ += job.job->work;
  const int cost_bits = std::bit_width(CostOf(job));
  num_jobs_by_cost_bits_[static_cast<size_t>(cost_bits)] += 1;
  max_cost_bits_ = std::max(max_cost_bits_, cost_bits);
  client.jobs.push_back(std::move(job));
  if (is_new && ring_.size() == 1) {
    client.round = round_;  // Begins a new round: the quantum of the last one does not matter any more.
    BeginTurn(client);
  }
}

QueuedJob DeficitRoundRobin::Remove(Client& client, Jobs::iterator position) {
  Jobs taken;
  taken.splice(taken.begin(), client.jobs, position);
  QueuedJob job = std::move(taken.front());
  client.work -= job.job->work;
  work_ -= job.job->work;
  num_jobs_by_cost_bits_[static_cast<size_t>(std::bit_width(CostOf(job)))] -= 1;
  while (max_cost_bits_ > 0 && num_jobs_by_cost_bits_[static_cast<size_t>(max_cost_bits_)] == 0) --max_cost_bits_;
  return job;
}

void DeficitRoundRobin::BeginScan() {
  ++scan_;
  cursor_ = ring_.begin();
}

const QueuedJob* DeficitRoundRobin::Current() {
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
    // A client whose first job was skipped keeps its position and its turn: that job is served next.
    if (client.next != client.jobs.begin()) {
      ++cursor_;
    } else {
      cursor_ = EndTurn(cursor_);
    }
  }
  return nullptr;
}

void DeficitRoundRobin::Skip() { ++cursor_->next; }

QueuedJob DeficitRoundRobin::Take() {
  cursor_->credit -= CostOf(*cursor_->next);
  return Drop();
}

QueuedJob DeficitRoundRobin::Drop() {
  const auto position = cursor_->next++;
  return Remove(*cursor_, position);
}

void DeficitRoundRobin::EndScan() {
  // The scan may have ended before it passed a client whose last job it took.
  if (cursor_ != ring_.end() && cursor_->jobs.empty()) {
    clients_by_id_.erase(cursor_->id);
    ring_.erase(cursor_);
  }
  cursor_ = ring_.end();
  AdvanceToServable();
}

void DeficitRoundRobin::RemoveIf(absl::FunctionRef<bool(const QueuedJob&)> predicate, std::vector<QueuedJob>* removed) {
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

QueuedJob DeficitRoundRobin::RemoveNewest(uint64_t client_id) {
  const auto found = clients_by_id_.find(client_id);
  const auto client = found->second;
  QueuedJob job = Remove(*client, std::prev(client->jobs.end()));
  if (client->jobs.empty()) {
    clients_by_id_.erase(found);
    ring_.erase(client);
  }
  AdvanceToServable();
  return job;
}

}  // namespace maxsim::batching
