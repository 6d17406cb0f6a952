// Tests servers that create a stream at the same time. All must record the same identity of the stream.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/live/stream/nats_stream.h"
#include "tests/unit/server/live/nats/fake_nats.h"

namespace maxsim::live {
namespace {

using Creation = FakeNats::Creation;

// 2026-01-01T00:00:00Z, which FakeNats reports in the stream's info.
constexpr uint64_t kCreatedNs = uint64_t{1'767'225'600} * 1'000'000'000;

std::unique_ptr<OrderedStream> Connect(const FakeNats& server, absl::Duration timeout = absl::Seconds(20)) {
  NatsOptions options;
  options.url = server.url();
  options.timeout = timeout;
  return MakeNatsStream(options, "c");
}

TEST(NatsCreationTest, TheIdentityOfAStreamIsThatOfItsInfoWhateverItsCreationAnswers) {
  for (const Creation answer :
       {Creation::kInfo, Creation::kOtherTime, Creation::kNoTime, Creation::kOverlap, Creation::kNoAnswer}) {
    SCOPED_TRACE(static_cast<int>(answer));
    FakeNats server("c");
    server.AwaitCreation(answer);
    const absl::Duration timeout = answer == Creation::kNoAnswer ? absl::Milliseconds(500) : absl::Seconds(20);
    const auto first = Connect(server, timeout);
    const absl::StatusOr<StreamInfo> created = first->Open(true);
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_EQ(created->stream.created_ns, kCreatedNs);
    const absl::StatusOr<StreamInfo> later = Connect(server)->Open(false);
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_EQ(later->stream, created->stream);
  }
}

TEST(NatsCreationTest, AStreamIsOnlyCreatedIfTheCallerAsksForIt) {
  FakeNats server("c");
  server.AwaitCreation(Creation::kInfo);
  EXPECT_TRUE(absl::IsNotFound(Connect(server)->Open(false).status()));
  EXPECT_TRUE(absl::IsNotFound(Connect(server)->Open(false).status()));
}

TEST(NatsCreationTest, AStreamWithoutATimeOfCreationIsAskedForLater) {
  FakeNats server("c");
  server.HideTimeOfCreation();
  const absl::Status status = Connect(server)->Open(false).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace maxsim::live
