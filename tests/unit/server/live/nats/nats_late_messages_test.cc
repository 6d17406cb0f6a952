// Messages that are under way for longer than their sender waits.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "server/live/stream/nats_stream.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/nats/fake_nats.h"

namespace maxsim::live {
namespace {

std::vector<StreamMessage> ReceiveOne(OrderedStream& stream) {
  std::vector<StreamMessage> messages;
  test::Eventually([&] {
    const auto received = stream.Receive(absl::Milliseconds(100));
    EXPECT_TRUE(received.ok()) << received.status();
    if (received.ok()) messages.insert(messages.end(), received->begin(), received->end());
    return !messages.empty();
  });
  return messages;
}

// The fake server's clock shows a time years before that of this machine. Only the server's clock may decide whether a
// message is late.
TEST(NatsLateMessagesTest, AMessageIsLateIfTheStreamTakesItAfterItsExpiry) {
  FakeNats server("c");
  NatsOptions options;
  options.url = server.url();
  options.timeout = absl::Seconds(20);
  const std::unique_ptr<OrderedStream> stream = MakeNatsStream(options, "c");
  stream->SetListener([](std::string_view, const absl::StatusOr<uint64_t>&) {});
  ASSERT_TRUE(stream->Open(false).ok());
  ASSERT_TRUE(stream->Subscribe(0).ok());
  const struct {
    absl::Duration delay;
    bool is_late;
  } cases[] = {{absl::ZeroDuration(), false}, {absl::Hours(2), true}, {absl::Hours(2), false}};
  for (const auto& [delay, is_late] : cases) {
    server.DelayMessages(delay);
    ASSERT_TRUE(stream->Publish(7, "id-1", "data", MonotonicNow() + absl::Hours(1)).ok());
    const std::vector<StreamMessage> messages = ReceiveOne(*stream);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].id, "id-1");
    EXPECT_EQ(messages[0].data, "data");
    // The third message has the delay of the second, but is not late: the second one has told the client the server's
    // time.
    EXPECT_EQ(messages[0].is_late, is_late) << delay;
  }
}

}  // namespace
}  // namespace maxsim::live
