// Draws the options of worlds, and prints the events that happened in worlds.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/batching/simulation/world.h"

namespace maxsim::batching {
namespace {

template <typename T>
T OneOf(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

}  // namespace

WorldOptions WorldOptions::Draw(std::mt19937_64& random, int64_t num_steps) {
  WorldOptions options;
  options.num_lanes = OneOf(random, {1, 2, 3});
  options.num_clients = 1 + random() % 8;
  options.one_collection = random() % 2 == 0;
  options.price_shape = OneOf(random, {0, 1, 2});
  options.price = OneOf<uint64_t>(random, {1, 100, 10'000});
  options.load = OneOf(random, {0.2, 0.7, 1.0, 1.5, 4.0});
  options.one_priority = random() % 2 == 0;
  options.deadline_share = OneOf(random, {0.0, 0.1, 0.8});
  options.cancel_share = OneOf(random, {0.0, 0.02, 0.3});
  options.caller_share = OneOf(random, {0.0, 0.5, 1.0});
  options.work_per_second = static_cast<double>(options.price) * OneOf(random, {500.0, 5000.0, 50'000.0});
  options.slow_share = OneOf(random, {0.0, 0.01});
  options.fail_share = OneOf(random, {0.0, 0.02});
  options.stop_at_step = num_steps;
  if (random() % 8 == 0) {
    options.lost_at_step = static_cast<int64_t>(random() % static_cast<uint64_t>(num_steps));
    options.stop_at_step = std::min(num_steps, options.lost_at_step + 300);  // nothing but refusals comes after it
  }
  options.stop_grace = OneOf(random, {absl::InfiniteDuration(), absl::ZeroDuration(), absl::Milliseconds(5)});
  options.spurious_wakes = random() % 4 == 0;

  SchedulerOptions& scheduler = options.scheduler;
  scheduler.max_queue_jobs = OneOf(random, {3, 20, 200});
  scheduler.max_queue_work = options.price * OneOf<uint64_t>(random, {2, 30, 1000});
  scheduler.max_queue_bytes = OneOf<uint64_t>(random, {3000, 30'000, uint64_t{1} << 30});
  scheduler.max_queue_time =
      OneOf(random, {absl::ZeroDuration(), absl::Milliseconds(5), absl::Milliseconds(100), absl::Seconds(1)});
  scheduler.max_batch_delay =
      OneOf(random, {absl::ZeroDuration(), absl::ZeroDuration(), absl::Microseconds(200), absl::Milliseconds(5)});
  scheduler.max_batch_work = options.price * OneOf<uint64_t>(random, {1, 5, 1000});
  scheduler.max_batch_queries = OneOf(random, {1, 4, 64});
  scheduler.starvation_limit = OneOf(random, {absl::Milliseconds(2), absl::Milliseconds(20), absl::Milliseconds(500)});
  return options;
}

std::string WorldOptions::ToString() const {
  const auto text = [](absl::Duration time) { return absl::FormatDuration(time); };
  return absl::StrCat(
      "lanes ", num_lanes, ", clients ", num_clients, one_collection ? ", one collection" : ", several collections",
      ", price ", price, " of shape ", price_shape, ", load ", load, one_priority ? ", one priority" : "",
      ", deadlines ", deadline_share, ", cancelled ", cancel_share, ", callers ", caller_share, ", work a second ",
      work_per_second, ", slow ", slow_share, ", failing ", fail_share, ", lost at ", lost_at_step, ", stop at ",
      stop_at_step, " with grace ", text(stop_grace), ", queue ", scheduler.max_queue_jobs, " jobs, work ",
      scheduler.max_queue_work, ", bytes ", scheduler.max_queue_bytes, ", time ", text(scheduler.max_queue_time),
      ", batch work ", scheduler.max_batch_work, ", queries ", scheduler.max_batch_queries, ", delay ",
      text(scheduler.max_batch_delay), ", starvation ", text(scheduler.starvation_limit));
}

std::string Tally::ToString() const {
  const auto count = [](const std::array<int64_t, 17>& counts, absl::StatusCode code) {
    return counts[static_cast<size_t>(code)];
  };
  using absl::StatusCode;
  return absl::StrCat(
      steps, " steps, ", jobs, " jobs, ", batches, " batches of which ", by_callers, " by callers; answered OK ",
      count(answers, StatusCode::kOk), ", DEADLINE_EXCEEDED ", count(answers, StatusCode::kDeadlineExceeded),
      ", CANCELLED ", count(answers, StatusCode::kCancelled), ", UNAVAILABLE ",
      count(answers, StatusCode::kUnavailable), ", INTERNAL ", count(answers, StatusCode::kInternal), ", displaced ",
      displaced, ", after max_queue_time ", expired, "; refused for the queue ",
      count(refusals, StatusCode::kResourceExhausted), ", DEADLINE_EXCEEDED ",
      count(refusals, StatusCode::kDeadlineExceeded), ", UNAVAILABLE ", count(refusals, StatusCode::kUnavailable));
}

absl::Duration World::Latency() {
  const double kind = Uniform();
  const double most_us = kind < 0.9 ? 50 : kind < 0.99 ? 500 : 2000;
  return absl::Nanoseconds(1000 + static_cast<int64_t>(Uniform() * most_us * 1000));
}

absl::Duration World::Exponential(absl::Duration mean) { return mean * -std::log(1 - Uniform()); }

uint64_t World::Price() {
  switch (options_.price_shape) {
    case 0:
      return options_.price;
    case 1:
      return 1 + random_() % (2 * options_.price);
    default:
      return Chance(0.02)
                 ? 0
                 : 1 + static_cast<uint64_t>(static_cast<double>(options_.price) * std::exp2(Uniform() * 10 - 7));
  }
}

}  // namespace maxsim::batching
