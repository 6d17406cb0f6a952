// Tests that all servers that follow one stream hold the same documents and versions in the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

class StreamAgreementTest : public StreamedTest {};

TEST_F(StreamAgreementTest, GivesEachWriteTheSequenceOfItsMessageOnEveryServer) {
  OpenBoth();
  const auto first = a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)));
  EXPECT_EQ(Outcomes(first), "AA");
  EXPECT_EQ(first.results[0].sequence, 1u);
  EXPECT_EQ(first.results[1].sequence, 2u);
  const auto second = b_.MustWrite(List(Upsert("x", 3), Delete("y")));
  EXPECT_EQ(Outcomes(second), "AA");
  EXPECT_EQ(second.results[1].sequence, 4u);
  EXPECT_EQ(second.sequence, 4u);
  ASSERT_TRUE(a_.Reaches(4));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(b_.Now(), a_.Now());
  EXPECT_EQ(a_.state().lag(), 0u);
}

TEST_F(StreamAgreementTest, DecidesAboutStaleAndMissingWritesByTheOrderOfTheStream) {
  OpenBoth();
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1, 5)))), "A");
  const auto stale = b_.MustWrite(List(Upsert("x", 2, 5), Delete("none"), Upsert("x", 3, 6), Delete("none", 2)));
  EXPECT_EQ(Outcomes(stale), "SNAN");
  EXPECT_EQ(stale.results[0].sequence, 0u);
  EXPECT_EQ(stale.results[1].sequence, 0u);
  EXPECT_EQ(stale.results[2].sequence, 4u);
  EXPECT_EQ(stale.results[3].sequence, 5u);
  ASSERT_TRUE(a_.Reaches(5));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(a_.live().VersionOf("none").value_or(0), 2u);
  // A stale write (one with an old version) changes no document but keeps its sequence, also after a restart and a
  // compaction.
  a_.Open();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(a_.state().sequence, 5u);
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  EXPECT_EQ(a_.state().compacted_sequence, 5u);
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 9, 6)))), "S");
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
}

TEST_F(StreamAgreementTest, AgreesOnEveryServerWhateverIsWrittenWhere) {
  OpenBoth();
  constexpr int kCalls = 150;
  const auto write = [](Replica& replica, int seed) {
    for (int call = 0; call < kCalls; ++call) {
      const std::string id = absl::StrCat("id", (call * 7 + seed) % 20);
      const uint64_t version = call % 3 == 0 ? static_cast<uint64_t>(1 + call % 17) : 0;
      if (call % 5 == 4) {
        replica.MustWrite(List(Delete(id, version)));
      } else {
        replica.MustWrite(List(Upsert(id, 1000 * seed + call, version), Upsert(id, 1000 * seed + call + 1)));
      }
    }
  };
  std::thread other([&] { write(b_, 2); });
  write(a_, 1);
  other.join();
  ASSERT_TRUE(a_.Reaches(server_.num_messages()) && b_.Reaches(server_.num_messages()));
  EXPECT_EQ(a_.Now(), b_.Now());
  a_.Open();
  EXPECT_EQ(a_.Now(), b_.Now());
}

TEST_F(StreamAgreementTest, AgreesOnEveryServerWhatIsForgotten) {
  for (const std::string_view name : {"a", "b"}) {
    std::filesystem::remove_all(folder_ / std::string(name));
    CreateWithMemory(folder_ / std::string(name), 300, collection::CodesFormat{.planes = 2, .factors = true});
  }
  for (Replica* replica : {&a_, &b_}) replica->options_.remembered_bytes = 300;
  OpenBoth();
  const auto write = [](Replica& replica, int seed) {
    std::mt19937 random(seed);
    for (int call = 0; call < 60; ++call) {
      std::vector<store::Write> writes;
      for (int idx = 0; idx < 8; ++idx) {
        const std::string id = absl::StrCat("id", random() % 12);
        const uint64_t version = 1 + random() % 40;
        writes.push_back(random() % 2 == 0 ? Delete(id, version) : Upsert(id, 1000 * seed + call, version));
      }
      replica.MustWrite(std::move(writes));
      // Only server a compacts and restarts, and so removes the versions that it has forgotten. Both servers must
      // still agree.
      bool changed = false;
      if (seed == 1 && call % 10 == 9) {
        EXPECT_TRUE(replica.live().Compact(nullptr, &changed).ok());
      }
      if (seed != 1 || call % 20 != 19) continue;
      replica.Open();
      ASSERT_TRUE(LiveIsConnected(replica));
    }
  };
  std::thread other([&] { write(b_, 2); });
  write(a_, 1);
  other.join();
  ASSERT_TRUE(a_.Reaches(server_.num_messages()) && b_.Reaches(server_.num_messages()));
  EXPECT_EQ(a_.Now(), b_.Now());
  for (int idx = 0; idx < 12; ++idx) {
    const std::string id = absl::StrCat("id", idx);
    EXPECT_EQ(a_.live().VersionOf(std::string_view(id)).value_or(98),
              b_.live().VersionOf(std::string_view(id)).value_or(99))
        << id;
  }
}

}  // namespace
}  // namespace maxsim::live
