#include "server/store/memory/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace maxsim::store {
namespace {

using testing::ElementsAre;

constexpr Residency kGpu = Residency::kGpu;
constexpr Residency kHost = Residency::kHost;
constexpr Residency kDisk = Residency::kDisk;

// Returns a shard that may be placed in each of `tiers`, best first. It takes `bytes` of device memory in the tier
// kGpu, of host memory in kHost, and no memory in kDisk.
ShardToPlace Shard(uint64_t bytes, std::vector<Residency> tiers = {kGpu, kHost, kDisk}) {
  ShardToPlace shard{.token_bytes = bytes, .choices = {}};
  for (const Residency tier : tiers) {
    MemoryNeed need;
    if (tier == kGpu) need.device_bytes = bytes;
    if (tier == kHost) need.host_bytes = bytes;
    shard.choices.push_back({tier, need});
  }
  return shard;
}

std::vector<ShardToPlace> Shards(const std::vector<uint64_t>& sizes, const std::vector<Residency>& tiers) {
  std::vector<ShardToPlace> shards;
  for (const uint64_t bytes : sizes) shards.push_back(Shard(bytes, tiers));
  return shards;
}

// Returns the tier and the devices of each shard, as "gpu@0 host@1 ...".
std::string Text(const Placement& placement) {
  std::string text;
  for (const ShardPlacement& place : placement.shards) {
    text += (text.empty() ? "" : " ") + std::string(Name(place.tier.tier)) + "@";
    for (const uint32_t device : place.devices) text += std::to_string(device);
  }
  return text;
}

std::string PlaceAuto(const std::vector<uint64_t>& sizes, const Capacity& capacity) {
  return Text(PlaceShards(Shards(sizes, {kGpu, kHost, kDisk}), capacity, false));
}

TEST(PlacementTest, AutoTakesTheFirstTierThatHoldsAShardInManifestOrder) {
  struct Case {
    std::vector<uint64_t> sizes;
    uint64_t device = 0;
    uint64_t host = 0;
    std::string expected;
  };
  for (const Case& one : {
           Case{{10, 10, 10}, 30, 0, "gpu@0 gpu@0 gpu@0"},
           Case{{10, 10, 10}, 29, 10, "gpu@0 gpu@0 host@0"},
           Case{{10, 10, 10}, 29, 9, "gpu@0 gpu@0 disk@0"},
           Case{{10, 10, 10}, 9, 20, "host@0 host@0 disk@0"},
           Case{{10, 10, 10}, 0, 0, "disk@0 disk@0 disk@0"},
           Case{{30, 10, 5}, 15, 30, "host@0 gpu@0 gpu@0"},
           Case{{5, 30, 10}, 15, 29, "gpu@0 disk@0 gpu@0"},
           Case{{}, 15, 29, ""},
       }) {
    EXPECT_EQ(PlaceAuto(one.sizes, {.device_bytes = {one.device}, .host_bytes = one.host}), one.expected)
        << one.device << " " << one.host;
  }
}

// On the CPU backend, a shard on disk takes memory for everything except its tokens. A shard may be placed in host
// memory only if enough memory is left for the others on disk.
TEST(PlacementTest, ABetterTierLeavesRoomForTheOthersInTheirWorst) {
  std::vector<ShardToPlace> shards(4);
  for (ShardToPlace& shard : shards) {
    shard = {.token_bytes = 10, .choices = {{kHost, {.device_bytes = 12}}, {kDisk, {.device_bytes = 2}}}};
  }
  EXPECT_EQ(Text(PlaceShards(shards, {.device_bytes = {48}}, false)), "host@0 host@0 host@0 host@0");
  EXPECT_EQ(Text(PlaceShards(shards, {.device_bytes = {47}}, false)), "host@0 host@0 host@0 disk@0");
  EXPECT_EQ(Text(PlaceShards(shards, {.device_bytes = {18}}, false)), "host@0 disk@0 disk@0 disk@0");
  EXPECT_EQ(Text(PlaceShards(shards, {.device_bytes = {17}}, false)), "disk@0 disk@0 disk@0 disk@0");
  const Placement placement = PlaceShards(shards, {.device_bytes = {18}}, false);
  EXPECT_THAT(placement.demand.device_bytes, ElementsAre(18));
}

TEST(PlacementTest, WhatDoesNotFitIsPlacedAllTheSameAndItsDemandSaysSo) {
  const Placement placement = PlaceShards(Shards({10, 10}, {kGpu}), {.device_bytes = {15, 3}, .host_bytes = 0}, false);
  EXPECT_THAT(placement.demand.device_bytes, ElementsAre(10, 10));
  const Placement host = PlaceShards(Shards({10, 10}, {kHost}), {.device_bytes = {0, 0}, .host_bytes = 19}, false);
  EXPECT_EQ(host.demand.host_bytes, 20u);
}

TEST(PlacementTest, LargeShardsGoFirstToTheLeastLoadedDevice) {
  const Capacity capacity{.device_bytes = {1000, 1000}, .host_bytes = 0};
  EXPECT_EQ(Text(PlaceShards(Shards({1, 2, 3, 4, 5, 9}, {kGpu}), capacity, false)),
            "gpu@1 gpu@1 gpu@0 gpu@1 gpu@1 gpu@0");
  EXPECT_EQ(PlaceAuto({5, 5, 5, 5}, capacity), "gpu@0 gpu@1 gpu@0 gpu@1");
  // If several devices have equal load of this collection, the device with the most free memory is chosen: other
  // collections use the rest of the memory.
  EXPECT_EQ(PlaceAuto({5}, {.device_bytes = {10, 20, 20}, .host_bytes = 0}), "gpu@1");
}

TEST(PlacementTest, DevicesGetEqualSharesOfEveryTier) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> sizes(40 + random() % 40);
    uint64_t total = 0;
    for (uint64_t& bytes : sizes) total += bytes = 50 + random() % 100;
    for (const size_t num_devices : {1, 2, 3, 8}) {
      Capacity capacity{.device_bytes = {}, .host_bytes = total};
      capacity.device_bytes.assign(num_devices, total / num_devices / 2);
      const Placement placement = PlaceShards(Shards(sizes, {kGpu, kHost, kDisk}), capacity, false);
      std::vector<uint64_t> on_gpu(num_devices), all(num_devices);
      for (size_t idx = 0; idx < sizes.size(); ++idx) {
        const ShardPlacement& place = placement.shards[idx];
        EXPECT_NE(place.tier.tier, kDisk);
        all[place.devices[0]] += sizes[idx];
        if (place.tier.tier == kGpu) on_gpu[place.devices[0]] += sizes[idx];
      }
      for (size_t device = 0; device < num_devices; ++device) {
        EXPECT_LE(on_gpu[device], *capacity.device_bytes[device]);
        EXPECT_GE(on_gpu[device] + 150, *capacity.device_bytes[device]) << "a shard more would have fit";
        EXPECT_NEAR(static_cast<double>(all[device]), static_cast<double>(total) / static_cast<double>(num_devices),
                    300);
        EXPECT_EQ(on_gpu[device], placement.demand.device_bytes[device]);
      }
    }
  }
}

TEST(PlacementTest, ADeviceWithLessRoomGetsLess) {
  EXPECT_EQ(Text(PlaceShards(Shards({5, 5, 4}, {kGpu}), {.device_bytes = {10, 4}, .host_bytes = 0}, false)),
            "gpu@0 gpu@0 gpu@1");
  // Auto prefers a better tier to a better balance between devices.
  EXPECT_EQ(PlaceAuto({5, 5, 4}, {.device_bytes = {10, 4}, .host_bytes = 100}), "gpu@0 gpu@0 gpu@1");
}

TEST(PlacementTest, NothingGoesToALostDevice) {
  const Capacity capacity{.device_bytes = {std::nullopt, 20, std::nullopt, 5}, .host_bytes = 100};
  EXPECT_EQ(PlaceAuto({10, 10, 5, 7}, capacity), "gpu@1 gpu@1 gpu@3 host@3");
  EXPECT_EQ(Text(PlaceShards(Shards({5, 5}, {kHost}), capacity, true)), "host@13 host@13");
}

TEST(PlacementTest, CopiesTakeTheirRoomOnEveryDevice) {
  const Capacity capacity{.device_bytes = {20, 15}, .host_bytes = 20};
  const Placement placement = PlaceShards(Shards({10, 5, 10, 10}, {kGpu, kHost, kDisk}), capacity, true);
  EXPECT_EQ(Text(placement), "gpu@01 gpu@01 host@01 disk@01");
  EXPECT_THAT(placement.demand.device_bytes, ElementsAre(15, 15));
  EXPECT_EQ(placement.demand.host_bytes, 20u) << "each device pins a copy of its own";
}

TEST(PlacementTest, AbsurdSizesSaturate) {
  const uint64_t huge = ~uint64_t{0} - 5;
  const Placement placement =
      PlaceShards(Shards({huge, huge, 10}, {kGpu}), {.device_bytes = {100}, .host_bytes = 0}, false);
  EXPECT_THAT(placement.demand.device_bytes, ElementsAre(~uint64_t{0}));
}

}  // namespace
}  // namespace maxsim::store
