// Tests the scheduler's decisions under simulated threads, clients and failures: the promises of
// docs/internals/batching.md hold in every order of events that a seed leads to. The first command runs for as long as
// one likes, the second one repeats a world that failed.
//
//   MAXSIM_SIMULATION_STEPS=100000000 build/release/tests/batching_simulation_test
//   MAXSIM_SIMULATION_WORLD=SEED build/release/tests/batching_simulation_test
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/batching/simulation/world.h"

namespace maxsim::batching {
namespace {

// A world has enough events for a queue that fills, stays full and empties again.
constexpr int64_t kStepsOfWorld = 3'000;
// Builds without optimization, which sanitizers' are too, take some ten times as long for a step.
#ifdef MAXSIM_OPTIMIZED_TESTS
constexpr int64_t kDefaultSteps = 1'000'000;
#else
constexpr int64_t kDefaultSteps = 200'000;
#endif

int64_t StepsFromEnvironment() {
  const char* const text = std::getenv("MAXSIM_SIMULATION_STEPS");
  int64_t steps = 0;
  return text != nullptr && absl::SimpleAtoi(text, &steps) ? steps : kDefaultSteps;
}

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() : level_(spdlog::get_level()) {
    spdlog::set_level(spdlog::level::off);  // a lost device logs an error each time
    test::BuildCorpus(folder_.path(), test::SmallDocuments(1, 10));
    for (int idx = 0; idx < 3; ++idx) collections_.push_back(test::LoadCorpus(folder_.path(), &backend_));
  }
  ~SimulationTest() override { spdlog::set_level(level_); }

  // Runs worlds from `seed` on for `num_steps` events in all. The first broken promise fails the test.
  void RunWorlds(uint64_t seed, int64_t num_steps, Tally* tally) {
    const char* const one = std::getenv("MAXSIM_SIMULATION_WORLD");
    uint64_t world_seed = 0;
    if (one != nullptr && absl::SimpleAtoi(one, &world_seed)) return RunWorld(world_seed, tally);
    std::mt19937_64 seeds(seed);
    while (tally->steps < num_steps && !HasFailure()) RunWorld(seeds(), tally);
  }

  void RunWorld(uint64_t world_seed, Tally* tally) {
    World world(world_seed, kStepsOfWorld, collections_);
    const std::string broken = world.Run(tally);
    EXPECT_EQ(broken, "") << "repeat with MAXSIM_SIMULATION_WORLD=" << world_seed;
  }

  const spdlog::level::level_enum level_;
  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  World::Collections collections_;
};

TEST_F(SimulationTest, PromisesHoldInWorldsThatAreTheSameEachTime) {
  Tally tally;
  for (const uint64_t seed : {1, 2, 3}) {
    Tally one;
    RunWorlds(seed, StepsFromEnvironment() / 3, &one);
    std::printf("seed %d: %s\n", static_cast<int>(seed), one.ToString().c_str());
    for (size_t code = 0; code < tally.answers.size(); ++code) {
      tally.answers[code] += one.answers[code];
      tally.refusals[code] += one.refusals[code];
    }
    tally.displaced += one.displaced;
    tally.expired += one.expired;
    tally.by_callers += one.by_callers;
  }
  if (HasFailure() || StepsFromEnvironment() < kDefaultSteps || std::getenv("MAXSIM_SIMULATION_WORLD") != nullptr)
    return;
  // The worlds had everything happen that the promises are about: otherwise they would hold by themselves.
  using absl::StatusCode;
  for (const StatusCode code : {StatusCode::kOk, StatusCode::kCancelled, StatusCode::kDeadlineExceeded,
                                StatusCode::kUnavailable, StatusCode::kInternal, StatusCode::kResourceExhausted}) {
    EXPECT_GT(tally.answers[static_cast<size_t>(code)], 100) << absl::StatusCodeToString(code);
  }
  for (const StatusCode code :
       {StatusCode::kDeadlineExceeded, StatusCode::kUnavailable, StatusCode::kResourceExhausted}) {
    EXPECT_GT(tally.refusals[static_cast<size_t>(code)], 100) << absl::StatusCodeToString(code);
  }
  EXPECT_GT(tally.displaced, 100);
  EXPECT_GT(tally.expired, 100);
  EXPECT_GT(tally.by_callers, 100);
}

TEST_F(SimulationTest, PromisesHoldInWorldsThatAreNewEachTime) {
  const auto seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  Tally tally;
  RunWorlds(seed, StepsFromEnvironment() / 3, &tally);
  std::printf("seed %s: %s\n", absl::StrCat(seed).c_str(), tally.ToString().c_str());
}

TEST_F(SimulationTest, ASeedLeadsToTheSameEventsAgain) {
  Tally first;
  Tally again;
  RunWorld(7, &first);
  RunWorld(7, &again);
  EXPECT_EQ(first.ToString(), again.ToString());
  EXPECT_EQ(first.digest, again.digest);
  Tally other;
  RunWorld(8, &other);
  EXPECT_NE(first.digest, other.digest);
}

}  // namespace
}  // namespace maxsim::batching
