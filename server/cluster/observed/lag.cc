#include "server/cluster/observed/lag.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace maxsim::cluster {
namespace {

// The number of points in a history's length.
constexpr int kPointsPerLength = 1024;

// The length of a history is at least this, and at least four times the bound in time. A longer lag is reported as the
// length.
constexpr absl::Duration kMinLength = absl::Minutes(10);

}  // namespace

void SequenceHistory::Note(uint64_t sequence, absl::Time now) {
  if (!points_.empty() && sequence <= points_.back().sequence) return;
  const size_t count = points_.size();
  // Replacing the last point makes the time of its sequence later than it was, so no lag becomes longer than it is.
  if (count >= 2 && points_[count - 1].time - points_[count - 2].time < length_ / kPointsPerLength) points_.pop_back();
  points_.push_back({now, sequence});
  // Keeps one point that is older than `length_`.
  const auto first_kept =
      std::find_if(points_.begin() + 1, points_.end(), [&](const Point& point) { return point.time > now - length_; });
  points_.erase(points_.begin(), first_kept - 1);
}

Lag SequenceHistory::LagOf(uint64_t sequence, uint64_t own_writes, absl::Time asked) const {
  Lag lag{.writes = own_writes, .time = absl::ZeroDuration()};
  const auto first_missing =
      std::upper_bound(points_.begin(), points_.end(), sequence,
                       [](uint64_t of_server, const Point& point) { return of_server < point.sequence; });
  const auto known_end = std::lower_bound(first_missing, points_.end(), asked,
                                          [](const Point& point, absl::Time time) { return point.time < time; });
  if (first_missing == known_end) return lag;
  lag.time = asked - first_missing->time;
  lag.writes = std::max(lag.writes, (known_end - 1)->sequence - sequence);
  return lag;
}

LagTracker::LagTracker(LagBounds bounds) : bounds_(bounds) {}

void LagTracker::Note(const std::string& collection, uint64_t sequence, absl::Time now) {
  histories_.try_emplace(collection, std::max(kMinLength, 4 * bounds_.time)).first->second.Note(sequence, now);
}

Lag LagTracker::LagOf(std::string_view collection, uint64_t sequence, uint64_t own_writes, absl::Time asked) const {
  const auto found = histories_.find(collection);
  if (found == histories_.end()) return {.writes = own_writes, .time = absl::ZeroDuration()};
  return found->second.LagOf(sequence, own_writes, asked);
}

std::string LagTracker::Excess(const Lag& lag) const {
  if (bounds_.writes > 0 && lag.writes > bounds_.writes) {
    return absl::StrCat("it is ", lag.writes, " writes behind, but the limit is ", bounds_.writes,
                        " (cluster.max_lag_writes)");
  }
  if (bounds_.time > absl::ZeroDuration() && lag.time > bounds_.time) {
    return absl::StrCat("it has been behind for ", absl::FormatDuration(absl::Trunc(lag.time, absl::Seconds(1))),
                        ", but the limit is ", absl::FormatDuration(bounds_.time), " (cluster.max_lag_seconds)");
  }
  return "";
}

}  // namespace maxsim::cluster
