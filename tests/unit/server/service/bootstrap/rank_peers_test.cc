// Which server an empty one fetches a collection from.
#include "server/service/bootstrap/rank_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "client/slot_message.h"

namespace maxsim::service {
namespace {

using collection::SlotRange;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const SlotRange kSlots{.first = 1024, .end = 2048};

v1::CollectionInfo Docs(uint64_t sequence, const SlotRange& slots = kSlots) {
  v1::CollectionInfo info;
  info.set_name("docs");
  info.set_state(v1::COLLECTION_STATE_READY);
  info.mutable_live()->set_log("nats");
  info.mutable_live()->set_sequence(sequence);
  *info.mutable_partition() = client::SlotMessageOf(slots);
  return info;
}

PeerReport Report(const std::string& address, const v1::CollectionInfo& info) {
  v1::GetInfoResponse response;
  response.add_collections()->set_name("another");
  *response.add_collections() = info;
  return {.address = address, .info = response};
}

TEST(RankPeersTest, TheServerWithTheMostWritesComesFirst) {
  const RankedPeers ranked =
      RankPeers({Report("a:1", Docs(7)), Report("b:1", Docs(9)), Report("c:1", Docs(7))}, "docs", kSlots);
  EXPECT_THAT(ranked.addresses, ElementsAre("b:1", "a:1", "c:1"));
  EXPECT_THAT(ranked.others, IsEmpty());
}

TEST(RankPeersTest, AServerMustHoldAllWantedSlots) {
  const RankedPeers ranked = RankPeers(
      {Report("less:1", Docs(9, {.first = 1024, .end = 2047})), Report("more:1", Docs(7, {.first = 0, .end = 4096})),
       Report("later:1", Docs(8, {.first = 1025, .end = 2048}))},
      "docs", kSlots);
  EXPECT_THAT(ranked.addresses, ElementsAre("more:1"));
  EXPECT_EQ(ranked.others,
            "less:1 has only slots 1024 .. 2046 of slots 1024 .. 2047; later:1 has only slots 1025 .. 2047 of slots "
            "1024 .. 2047");
}

TEST(RankPeersTest, EachServerThatCannotSendItIsNamedWithTheReason) {
  v1::CollectionInfo loading = Docs(7);
  loading.set_state(v1::COLLECTION_STATE_LOADING);
  v1::CollectionInfo local = Docs(7);
  local.mutable_live()->set_log("local");
  v1::CollectionInfo impossible = Docs(7);
  impossible.mutable_partition()->set_end_slot(5000);
  const RankedPeers ranked = RankPeers({{.address = "a:1", .info = absl::UnavailableError("connection refused")},
                                        {.address = "b:1", .info = v1::GetInfoResponse()},
                                        Report("c:1", loading),
                                        Report("d:1", local),
                                        Report("e:1", Docs(0)),
                                        Report("f:1", impossible)},
                                       "docs", kSlots);
  EXPECT_THAT(ranked.addresses, IsEmpty());
  EXPECT_THAT(ranked.others, HasSubstr("a:1 does not answer: connection refused; b:1 does not have it; c:1 does not "
                                       "serve it yet; d:1 has it without a stream; e:1 has no write of it; f:1 "));
  EXPECT_THAT(ranked.others, HasSubstr("5000"));
}

TEST(RankPeersTest, WithoutServersThereIsNothingToSay) {
  const RankedPeers ranked = RankPeers({}, "docs", kSlots);
  EXPECT_THAT(ranked.addresses, IsEmpty());
  EXPECT_THAT(ranked.others, IsEmpty());
}

}  // namespace
}  // namespace maxsim::service
