// Checks two promises of the scheduler from the order in which jobs are served: no client gets far ahead of another,
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
// the other. docs/internals/batching.md states a limit of about three of the largest jobs. The check allows four, which
// can never be exceeded: a turn is worth less than two of the largest waiting jobs, and a client may begin and end a
// turn with less than one such job's worth of credit (2 + 2 x 1).
//
// With several collections, a batch also takes jobs of its collection beyond their clients' turns. So only the jobs
// that begin a batch count then: while a client waits unserved, no other client may begin batches worth more than the
// limit.
class FairnessCheck {
 public:
  explicit FairnessCheck(bool one_collection) : one_collection_(one_collection) {}

  static constexpr uint64_t kLargestJobs = 4;

  // Records that a job of `client` has joined the line, which holds all waiting jobs of one priority. `waiting` has all
  // clients' jobs in the line, by client, including the new one.
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

  // Records that a job is taken to be scored. `begins` says whether it is the first job of its batch. Returns "", or a
  // text that says which promise is broken.
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
  // The largest job since the line was last empty. It may have left the line, but the credit of a turn may still depend
  // on it.
  std::array<uint64_t, 3> largest_{};
};

// Checks the promise that "a job of lower priority that has waited this long goes before newer ones of higher priority"
// (SchedulerOptions). The promise is for the next job of each priority. The check knows that a job was the next of its
// line (waiting jobs of one priority) since another job last left the line. Once such a job has waited for the limit,
// no batch may begin with a newer job of another line.
class StarvationCheck {
 public:
  explicit StarvationCheck(absl::Duration limit) : limit_(limit) {}

  // Records that a job has left the line. The line's next job may be another one now, so earlier batches no longer
  // count.
  void Changed(size_t line) { begun_[line].clear(); }

  // Records that a batch begins with job `number` of `line`, which was submitted at `enqueued`. Returns "", or a text
  // that says which promise is broken.
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
  // For each line, the jobs of other lines that have begun batches since a job last left the line.
  std::array<std::vector<Begun>, 3> begun_;
};

}  // namespace maxsim::batching
