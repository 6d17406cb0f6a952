#include "server/batching/fair_line.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/saturating.h"

namespace maxsim::batching {
namespace {

// A job for nothing would be served for ever.
uint64_t PriceOf(const QueuedJob& job) { return std::max<uint64_t>(job.job->work, 1); }

}  // namespace

uint64_t FairLine::work_of(uint64_t client) const {
  const auto found = places_.find(client);
  return found == places_.end() ? 0 : found->second->work;
}

uint64_t FairLine::Quantum() const {
  return widest_ >= 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << widest_) - 1;
}

void FairLine::GiveTurn(Client& client) {
  if (client.in_turn) return;
  client.in_turn = true;
  if (client.round == round_) {
    ++round_;
    quantum_ = Quantum();
  }
  client.round = round_;
  client.credit = SaturatingAdd(client.credit, quantum_);
}

FairLine::Ring::iterator FairLine::EndTurn(Ring::iterator place) {
  place->in_turn = false;
  const auto next = std::next(place);
  if (next == ring_.end()) return place;  // it is the last already, and its next turn begins
  ring_.splice(ring_.end(), ring_, place);
  return next;
}

void FairLine::Settle() {
  while (!ring_.empty()) {
    const auto front = ring_.begin();
    GiveTurn(*front);
    if (PriceOf(front->jobs.front()) <= front->credit) return;
    EndTurn(front);
  }
}

void FairLine::Push(QueuedJob job) {
  const uint64_t id = job.job->client;
  auto [found, is_new] = places_.try_emplace(id);
  if (is_new) {
    found->second = ring_.emplace(ring_.end());
    found->second->id = id;
  }
  Client& client = *found->second;
  client.work += job.job->work;
  work_ += job.job->work;
  const int width = std::bit_width(PriceOf(job));
  num_of_width_[static_cast<size_t>(width)] += 1;
  widest_ = std::max(widest_, width);
  client.jobs.push_back(std::move(job));
  if (is_new && ring_.size() == 1) {
    client.round = round_;  // what the last round was worth is of no concern any more
    GiveTurn(client);
  }
}

QueuedJob FairLine::Remove(Client& client, Jobs::iterator position) {
  Jobs taken;
  taken.splice(taken.begin(), client.jobs, position);
  QueuedJob job = std::move(taken.front());
  client.work -= job.job->work;
  work_ -= job.job->work;
  num_of_width_[static_cast<size_t>(std::bit_width(PriceOf(job)))] -= 1;
  while (widest_ > 0 && num_of_width_[static_cast<size_t>(widest_)] == 0) --widest_;
  return job;
}

void FairLine::BeginWalk() {
  ++walk_;
  cursor_ = ring_.begin();
}

const QueuedJob* FairLine::Current() {
  while (cursor_ != ring_.end()) {
    Client& client = *cursor_;
    if (client.jobs.empty()) {
      places_.erase(client.id);
      cursor_ = ring_.erase(cursor_);
      continue;
    }
    if (client.walk != walk_) {
      client.walk = walk_;
      client.next = client.jobs.begin();
    }
    if (client.next == client.jobs.end()) {
      ++cursor_;
      continue;
    }
    GiveTurn(client);
    if (PriceOf(*client.next) <= client.credit) return &*client.next;
    // A client whose first job was skipped keeps its place and its turn: that job is served next.
    if (client.next != client.jobs.begin()) {
      ++cursor_;
    } else {
      cursor_ = EndTurn(cursor_);
    }
  }
  return nullptr;
}

void FairLine::Skip() { ++cursor_->next; }

QueuedJob FairLine::Take() {
  cursor_->credit -= PriceOf(*cursor_->next);
  return Drop();
}

QueuedJob FairLine::Drop() {
  const auto position = cursor_->next++;
  return Remove(*cursor_, position);
}

void FairLine::EndWalk() {
  // The walk may have ended before it came past a client whose last job it took.
  if (cursor_ != ring_.end() && cursor_->jobs.empty()) {
    places_.erase(cursor_->id);
    ring_.erase(cursor_);
  }
  cursor_ = ring_.end();
  Settle();
}

void FairLine::RemoveIf(absl::FunctionRef<bool(const QueuedJob&)> leaves, std::vector<QueuedJob>* removed) {
  const size_t before = removed->size();
  for (auto place = ring_.begin(); place != ring_.end();) {
    for (auto position = place->jobs.begin(); position != place->jobs.end();) {
      const auto current = position++;
      if (leaves(*current)) removed->push_back(Remove(*place, current));
    }
    if (place->jobs.empty()) {
      places_.erase(place->id);
      place = ring_.erase(place);
    } else {
      ++place;
    }
  }
  if (removed->size() != before) Settle();
}

QueuedJob FairLine::RemoveNewest(uint64_t client) {
  const auto found = places_.find(client);
  const auto place = found->second;
  QueuedJob job = Remove(*place, std::prev(place->jobs.end()));
  if (place->jobs.empty()) {
    places_.erase(found);
    ring_.erase(place);
  }
  Settle();
  return job;
}

}  // namespace maxsim::batching
