// Tests replacing a live collection that follows a stream by a copy, while writes and reads go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

class StreamReplacementTest : public StreamedTest {
 protected:
  // Replaces server a's collection by the one in the folder `copy`, once the latter has all messages of the stream.
  absl::Status Replace() {
    return a_.store()
        .Replace(
            {.name = "c", .path = folder_ / "copy"},
            [](const store::LiveDocuments& live) {
              const auto has_caught_up = [&] {
                const store::LiveState state = live.state();
                return state.stream->connected && state.lag() == 0;
              };
              return test::Eventually(has_caught_up) ? absl::OkStatus() : absl::DeadlineExceededError("not caught up");
            },
            nullptr)
        .status();
  }
};

TEST_F(StreamReplacementTest, ACollectionThatTakesNoWritesAnyMoreCanStillBeRead) {
  OpenBoth();
  std::vector<store::Write> writes = List(Upsert("x", 1));
  writes[0].version = 5;
  a_.MustWrite(std::move(writes));
  a_.live().EndWrites();
  EXPECT_EQ(a_.state().sequence, 1u);
  EXPECT_EQ(*a_.live().VersionOf("x"), 5u);
  const Answer refused = a_.Write(List(Upsert("y", 1)));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client::IsNothingWritten(refused.status()));
  b_.MustWrite(List(Upsert("z", 1)));
  EXPECT_EQ(a_.state().sequence, 1u) << "it has left the stream";
  a_.live().EndWrites();
  a_.live().Stop();
  EXPECT_EQ(a_.live().VersionOf("x").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(StreamReplacementTest, AnOlderCopyCatchesUpBeforeItIsServed) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 1)));
  ASSERT_TRUE(a_.live().SnapshotTo(folder_ / "copy", nullptr).ok());
  for (int value = 2; value < 30; ++value) a_.MustWrite(List(Upsert("x", value)));
  const Documents before = a_.Now();
  ASSERT_TRUE(Replace().ok());
  EXPECT_EQ(a_.Now(), before);
  a_.UseServed();
  EXPECT_EQ(a_.state().sequence, 30u);
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 99))).sequence, 31u);
  ASSERT_TRUE(b_.Reaches(31));
  EXPECT_EQ(b_.Now(), a_.Now());
}

// Each client writes a document and reads it at once. Some writes may be refused during the swap. The acknowledged ones
// must be found before the swap, during it and afterwards.
TEST_F(StreamReplacementTest, NoAcknowledgedWriteIsMissedDuringTheSwap) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  ASSERT_TRUE(a_.live().SnapshotTo(folder_ / "copy", nullptr).ok());
  std::atomic<bool> ends = false;
  std::atomic<int> num_written = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (int value = 1; !ends; ++value) {
        const std::string id = absl::StrCat("client-", client);
        std::promise<Answer> answer;
        const auto live = a_.store().FindLive("c");
        ASSERT_TRUE(live.ok()) << live.status();
        (*live)->Submit(List(Upsert(id, value)), {}, [&](Answer results) { answer.set_value(std::move(results)); });
        const Answer written = answer.get_future().get();
        if (!written.ok()) {
          EXPECT_TRUE(client::IsNothingWritten(written.status())) << written.status();
          continue;
        }
        ++num_written;
        const auto found = a_.store().Find("c");
        ASSERT_TRUE(found.ok()) << found.status();
        const Documents now = Contents(**found);
        ASSERT_TRUE(now.contains(id)) << id;
        EXPECT_EQ(now.at(id), value);
      }
    });
  }
  test::Eventually([&] { return num_written > 20; });
  const absl::Status replaced = Replace();
  EXPECT_TRUE(replaced.ok()) << replaced;
  const int before = num_written;
  test::Eventually([&] { return num_written > before + 20; });
  ends = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(num_written, before);
  a_.UseServed();
  ASSERT_TRUE(b_.Reaches(a_.state().sequence));
  EXPECT_EQ(b_.Now(), a_.Now());
}

}  // namespace
}  // namespace maxsim::live
