// Checks two promises of the scheduler by looking only at what is served when: no client gets far ahead of another,
// and no priority starves.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace maxsim::batching {

// Checks that, while two clients both have jobs of one priority waiting on one collection, neither gets far ahead of
// the other. docs/internals/batching.md says that about three of the largest jobs are the limit. This check allows
// four, which can never be exceeded: a turn is worth less than two of the largest waiting jobs, and a client may begin
// and end a turn with less than one such job's worth of credit (2 + 2 x 1).
//
// With several collections that does not hold, because a batch also takes jobs of its collection beyond their clients'
// turns. There, only the jobs that begin a batch count: while a client waits unserved, no other client may begin
// batches worth more than the same limit.
class FairnessCheck {
 public:
  explicit FairnessCheck(bool one_collection) : one_collection_(one_collection) {}

  static constexpr uint64_t kLargestJobs = 4;

  // Notes that a job of `client` came into the line, which holds all waiting jobs of one priority. `waiting` has the
  // jobs of all clients in the line, by client, including the new one.
  template <typename Waiting>
  void Came(size_t line, uint64_t client, uint64_t work, const Waiting& waiting) {
    work = std::max<uint64_t>(work, 1);
    if (waiting.size() == 1 && waiting.at(client).size() == 1) largest_[line] = 0;
    largest_[line] = std::max(largest_[line], work);
    for (auto& [ids, pair] : pairs_[line]) pair.largest = std::max(pair.largest, work);
    if (waiting.at(client).size() > 1) return;
    for (const auto& [other, jobs] : waiting) {
      if (other != client) pairs_[line][Ids(client, other)] = {.largest = largest_[line]};
    }
  }

  // Notes that `client` has no more jobs in the line.
  void Left(size_t line, uint64_t client) {
    for (auto place = pairs_[line].begin(); place != pairs_[line].end();) {
      const bool mine = place->first.first == client || place->first.second == client;
      place = mine ? pairs_[line].erase(place) : std::next(place);
    }
  }

  // Notes that a job was taken to be scored. `begins` says whether it is the first job of its batch. Returns "", or a
  // text that says which promise was broken.
  std::string Served(size_t line, uint64_t client, uint64_t work, bool begins) {
    work = std::max<uint64_t>(work, 1);
    std::string wrong;
    for (auto& [ids, pair] : pairs_[line]) {
      if (ids.first != client && ids.second != client) continue;
      const bool is_first = ids.first == client;
      pair.ahead += is_first ? static_cast<int64_t>(work) : -static_cast<int64_t>(work);
      pair.least = std::min(pair.least, pair.ahead);
      pair.most = std::max(pair.most, pair.ahead);
      (is_first ? pair.begun_first : pair.begun_second) += begins ? work : 0;
      (is_first ? pair.begun_second : pair.begun_first) = 0;
      const uint64_t bound = kLargestJobs * pair.largest;
      const auto range = static_cast<uint64_t>(pair.most - pair.least);
      if (one_collection_ && range > bound) {
        wrong = absl::StrCat("fairness: of clients ", ids.first, " and ", ids.second, " one got ", range,
                             " ahead of the other, and ", kLargestJobs, " of the largest jobs are ", bound);
      }
      if (const uint64_t begun = is_first ? pair.begun_first : pair.begun_second; begun > bound) {
        wrong = absl::StrCat("fairness: client ", client, " began batches of ", begun, " while ",
                             is_first ? ids.second : ids.first, " waited, and ", kLargestJobs,
                             " of the largest jobs are ", bound);
      }
    }
    return wrong;
  }

 private:
  struct Pair {
    int64_t ahead = 0;  // work served for the first client minus work served for the second
    int64_t least = 0;
    int64_t most = 0;
    uint64_t begun_first = 0;  // work of the first client's jobs that began a batch since the second was last served
    uint64_t begun_second = 0;
    uint64_t largest = 0;  // work of the largest job that was in the line while both clients waited
  };

  static std::pair<uint64_t, uint64_t> Ids(uint64_t a, uint64_t b) { return {std::min(a, b), std::max(a, b)}; }

  const bool one_collection_;
  std::array<std::map<std::pair<uint64_t, uint64_t>, Pair>, 3> pairs_;
  // The largest job since the line was last empty, even if that job has left. The credit of a turn may still depend on
  // it.
  std::array<uint64_t, 3> largest_{};
};

// Checks the promise that "a job of lower priority that has waited this long goes before newer ones of higher
// priority" (SchedulerOptions). The promise is for the next job of a priority (JobQueue). A job that is served was the
// next of its line since another job last left that line. After the job had waited for the limit in that time, no
// batch may have begun with a newer job of another line.
class StarvationCheck {
 public:
  explicit StarvationCheck(absl::Duration limit) : limit_(limit) {}

  // Notes that a job left the line. The check does not know which job was next before, so it forgets the batches so
  // far.
  void Changed(size_t line) { begun_[line].clear(); }

  // Notes that a batch began with job `number` of `line`, which was submitted at `enqueued`. Returns "", or a text
  // that says which promise was broken.
  std::string Began(size_t line, uint64_t number, absl::Time enqueued, absl::Time now) {
    std::string wrong;
    for (const Begun& other : begun_[line]) {
      if (other.at - enqueued < limit_ || other.number < number) continue;
      wrong = absl::StrCat("starvation: job ", number, " had waited for ", absl::FormatDuration(other.at - enqueued),
                           ", and the newer job ", other.number, " of another priority went before it");
    }
    for (size_t other = 0; other < begun_.size(); ++other) {
      if (other != line) begun_[other].push_back({now, number});
    }
    Changed(line);
    return wrong;
  }

 private:
  struct Begun {
    absl::Time at;
    uint64_t number = 0;
  };

  const absl::Duration limit_;
  // For each line, the jobs of other lines with which batches have begun since the line last changed.
  std::array<std::vector<Begun>, 3> begun_;
};

}  // namespace maxsim::batching
