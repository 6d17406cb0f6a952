#include <chrono>

#include <gtest/gtest.h>

#include "server/gate/relayed_peer.h"
#include "server/gate/token_bucket.h"

namespace maxsim::gate {
namespace {

using namespace std::chrono_literals;

TEST(TokenBucketTest, ABurstIsFreeAndWhatGoesBeyondItWaits) {
  TokenBucket bound(/*per_second=*/10, /*burst=*/5);
  const TokenBucket::Clock::time_point start(1s);
  EXPECT_EQ(bound.Take(5, start), 0ns);
  EXPECT_EQ(bound.Take(1, start), 100ms);
  EXPECT_EQ(bound.Take(1, start), 200ms);
  EXPECT_EQ(bound.Take(1, start + 300ms), 0ns);
}

TEST(TokenBucketTest, WhatComesBackIsNoMoreThanTheBurst) {
  TokenBucket bound(/*per_second=*/10, /*burst=*/5);
  const TokenBucket::Clock::time_point start(1s);
  EXPECT_EQ(bound.Take(5, start), 0ns);
  EXPECT_EQ(bound.Take(5, start + 1h), 0ns);
  EXPECT_EQ(bound.Take(1, start + 1h), 100ms);
}

TEST(RelayedPeerTest, HasTheAddressOfTheClient) {
  EXPECT_EQ(RelayedHost("unix-abstract:maxsim-relay/192.0.2.7:51234/17-0"), "192.0.2.7");
  EXPECT_EQ(RelayedHost("unix-abstract:maxsim-relay/2001:db8::1:51234/17-0"), "2001:db8::1");
  EXPECT_EQ(RelayedHost("unix-abstract:maxsim-relay//17-0"), "");
  EXPECT_EQ(RelayedHost("ipv4:192.0.2.7:51234"), "");
  EXPECT_EQ(RelayedHost("unix:"), "");
}

}  // namespace
}  // namespace maxsim::gate
