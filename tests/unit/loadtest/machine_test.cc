#include "loadtest/run/machine.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <sstream>
#include <string>

namespace maxsim::loadtest {
namespace {

constexpr char kStat[] =
    "cpu  1111 0 0 8888 0 0 0 0 0 0\n"
    "cpu0 10 20 30 400 50 6 7 8 5 5\n"
    "cpu1 1 2 3 4 5 6 7 8 1 1\n"
    "cpu12 100 0 0 300 0 0 0 0 0 0\n"
    "intr 12345 1 2 3\n"
    "cpux 7 7 7 7 7 7 7 7 7 7\n"
    "ctxt 99\n";

MachineTicks Parse(const std::string& stat, std::initializer_list<int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int processor : processors) CPU_SET(processor, &set);
  std::istringstream stream(stat);
  return ParseMachineTicks(stream, set);
}

TEST(MachineTest, TicksAreThoseOfTheProcessorsInTheSet) {
  const MachineTicks one = Parse(kStat, {0});
  EXPECT_EQ(one.busy, 10 + 20 + 30 + 6 + 7 + 8);
  EXPECT_EQ(one.total, one.busy + 400 + 50);
  const MachineTicks two = Parse(kStat, {1, 12});
  EXPECT_EQ(two.busy, 1 + 2 + 3 + 6 + 7 + 8 + 100);
  EXPECT_EQ(two.total, two.busy + 4 + 5 + 300);
}

TEST(MachineTest, ProcessorsThatAreNotThereHaveNoTicks) {
  EXPECT_EQ(Parse(kStat, {2}).total, 0);
  EXPECT_EQ(Parse("", {0}).total, 0);
}

TEST(MachineTest, WithoutASetAllProcessorsCount) {
  const MachineTicks all = Parse(kStat, {});
  EXPECT_EQ(all.busy, 1111);
  EXPECT_EQ(all.total, 1111 + 8888);
}

TEST(MachineTest, ShareIsOfTheTicksBetween) {
  EXPECT_DOUBLE_EQ(BusyShare({10, 100}, {40, 200}), 0.3);
  EXPECT_EQ(BusyShare({10, 100}, {10, 100}), -1);
  EXPECT_EQ(BusyShare({}, {}), -1);
}

TEST(MachineTest, ThisMachineHasTicks) {
  EXPECT_GE(NumProcessors(), 1);
  EXPECT_GT(ReadMachineTicks().total, 0);
}

}  // namespace
}  // namespace maxsim::loadtest
