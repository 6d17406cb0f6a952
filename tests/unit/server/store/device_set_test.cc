#include "server/store/memory/device_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

class DeviceSetTest : public testing::Test {
 protected:
  std::vector<DeviceSet::Member> Members() { return {{&backends_[0], 3}, {&backends_[1], 5}}; }

  test::FakeBackend backends_[2] = {test::FakeBackend("cuda"), test::FakeBackend("cuda")};
};

TEST_F(DeviceSetTest, ADeviceIsLostOnceAndForItsFirstReason) {
  DeviceSet devices(Members(), OnDeviceLoss::kDegrade);
  EXPECT_TRUE(devices.is_gpu());
  EXPECT_EQ(devices.num_alive(), 2u);
  EXPECT_TRUE(devices.StatusOf(1).ok());
  devices.MarkLost(1, absl::UnavailableError("Xid 79"));
  devices.MarkLost(1, absl::UnavailableError("later"));
  EXPECT_FALSE(devices.alive(1));
  EXPECT_TRUE(devices.alive(0));
  EXPECT_EQ(devices.num_alive(), 1u);
  EXPECT_EQ(devices.StatusOf(1).message(), "device 5: Xid 79");
  EXPECT_EQ(devices.StatusOf(1).code(), absl::StatusCode::kUnavailable);
}

TEST_F(DeviceSetTest, UnderExitTheFirstLossIsTheEndAndUnderDegradeTheLast) {
  DeviceSet exits(Members(), OnDeviceLoss::kExit);
  EXPECT_TRUE(exits.Health().ok());
  exits.MarkLost(1, absl::UnavailableError("a"));
  EXPECT_EQ(exits.Health().message(), "device 5: a");

  DeviceSet degrades(Members(), OnDeviceLoss::kDegrade);
  degrades.MarkLost(1, absl::UnavailableError("a"));
  EXPECT_TRUE(degrades.Health().ok());
  degrades.MarkLost(0, absl::UnavailableError("b"));
  EXPECT_EQ(degrades.Health().message(), "device 5: a");
  EXPECT_EQ(degrades.num_alive(), 0u);

  test::FakeBackend cpu;
  DeviceSet one(&cpu);
  EXPECT_FALSE(one.is_gpu());
  one.MarkLost(0, absl::UnavailableError("gone"));
  EXPECT_EQ(one.Health().message(), "gone") << "a single device needs no number";
}

TEST_F(DeviceSetTest, PollAsksTheDevicesThatAreAlive) {
  DeviceSet devices(Members(), OnDeviceLoss::kDegrade);
  devices.Poll();
  EXPECT_EQ(devices.num_alive(), 2u);
  backends_[0].SetHealth(absl::UnavailableError("ECC"));
  EXPECT_EQ(devices.num_alive(), 2u) << "nobody has asked";
  devices.Poll();
  EXPECT_EQ(devices.StatusOf(0).message(), "device 3: ECC");
  backends_[0].SetHealth(absl::OkStatus());
  devices.Poll();
  EXPECT_FALSE(devices.alive(0)) << "it does not come back";
}

TEST_F(DeviceSetTest, ThreadsMayLoseAndAskAtTheSameTime) {
  DeviceSet devices(Members(), OnDeviceLoss::kDegrade);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&, idx] {
      for (int round = 0; round < 200; ++round) {
        if (round == 100) devices.MarkLost(1, absl::UnavailableError("by " + std::to_string(idx)));
        devices.Poll();
        if (devices.alive(1) != devices.StatusOf(1).ok() && devices.alive(1)) ++wrong;
        if (!devices.Health().ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(devices.num_alive(), 1u);
}

}  // namespace
}  // namespace maxsim::store
