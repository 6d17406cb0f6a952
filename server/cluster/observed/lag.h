// Computes a server's lag behind the stream that it follows. Compares the sequences that all of the stream's servers
// report.
// Pure: no network, and the caller tells the time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace maxsim::cluster {

// The largest lag that a server may have. 0 means no limit.
struct LagBounds {
  uint64_t writes = 0;
  absl::Duration time;
};

struct Lag {
  uint64_t writes = 0;  // known writes that the server has not applied
  absl::Duration time;  // how long ago another server first had a write that this one has not applied

  friend bool operator==(const Lag&, const Lag&) = default;
};

// Remembers at which time the servers of one stream were first known to have reached which sequence. All times are of
// MonotonicNow().
class SequenceHistory {
 public:
  // Remembers at least the last `length`. A time may be too late by up to a 1024th of `length`, but is never too early.
  explicit SequenceHistory(absl::Duration length) : length_(length) {}

  // Notes that a server has reached `sequence` at `now`. Times must not go back.
  void Note(uint64_t sequence, absl::Time now);

  // Returns the lag of a server that reported `sequence` in the answer to a poll. The poll began at `asked`, so the
  // server is measured by the writes that were known then: a write that came later may simply have arrived after the
  // server answered. `own_writes` is the server's own report of its lag.
  Lag LagOf(uint64_t sequence, uint64_t own_writes, absl::Time asked) const;

 private:
  struct Point {
    absl::Time time;
    uint64_t sequence = 0;
  };
  const absl::Duration length_;
  std::vector<Point> points_;  // both members ascend
};

// The histories of all collections of a cluster that follow a stream. Not thread-safe.
class LagTracker {
 public:
  explicit LagTracker(LagBounds bounds);

  void Note(const std::string& collection, uint64_t sequence, absl::Time now);
  Lag LagOf(std::string_view collection, uint64_t sequence, uint64_t own_writes, absl::Time asked) const;
  // Returns "" if the lag is within the bounds. Otherwise returns a text with the lag, the bound and the key that sets
  // it.
  std::string Excess(const Lag& lag) const;

 private:
  const LagBounds bounds_;
  std::map<std::string, SequenceHistory, std::less<>> histories_;
};

}  // namespace maxsim::cluster
