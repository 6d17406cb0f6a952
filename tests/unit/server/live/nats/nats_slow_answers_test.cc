// Tests NATS messages that arrive too slowly. If a time limit passes meanwhile, only the call with this limit may fail.
#include <dlfcn.h>
#include <nats/nats.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/live/stream/nats_stream.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/nats/fake_nats.h"

namespace {

std::atomic<bool> next_subscription_fails{false};

}  // namespace

// Replaces this function of the NATS library in the whole program, so that a test can make one subscription fail.
extern "C" natsStatus natsConnection_Subscribe(natsSubscription** made, natsConnection* connection, const char* subject,
                                               natsMsgHandler handler, void* closure) {
  if (next_subscription_fails.exchange(false)) return NATS_NO_MEMORY;
  static const auto subscribe =
      reinterpret_cast<decltype(&natsConnection_Subscribe)>(dlsym(RTLD_NEXT, "natsConnection_Subscribe"));
  return subscribe(made, connection, subject, handler, closure);
}

namespace maxsim::live {
namespace {

using Part = FakeNats::Part;
using Manner = FakeNats::Manner;

constexpr Manner kManners[] = {Manner::kStops, Manner::kDrips, Manner::kEndless};

// A client of the stream that counts its acknowledged messages.
class Client {
 public:
  explicit Client(const FakeNats& server, absl::Duration timeout = absl::Seconds(20)) {
    NatsOptions options;
    options.url = server.url();
    options.timeout = timeout;
    stream_ = MakeNatsStream(options, "c");
    stream_->SetListener([this](std::string_view, const absl::StatusOr<uint64_t>& sequence) {
      const MutexLock lock(&mutex_);
      if (sequence.ok()) ++num_acknowledged_;
    });
  }
  ~Client() { stream_.reset(); }  // before what the listener uses

  OrderedStream& stream() { return *stream_; }
  int num_acknowledged() const {
    const MutexLock lock(&mutex_);
    return num_acknowledged_;
  }

 private:
  mutable Mutex mutex_;
  int num_acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<OrderedStream> stream_;
};

// Expects that the client can publish a message and receive it again.
void ExpectWorks(Client& client) {
  const absl::StatusOr<StreamInfo> info = client.stream().Open(false);
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_TRUE(client.stream().Subscribe(0).ok());
  ASSERT_TRUE(client.stream().Publish(7, "id-1", "data", absl::InfiniteFuture()).ok());
  EXPECT_TRUE(test::Eventually([&] { return client.num_acknowledged() == 1; }));
  std::vector<StreamMessage> messages;
  test::Eventually([&] {
    const auto received = client.stream().Receive(absl::Milliseconds(100));
    EXPECT_TRUE(received.ok()) << received.status();
    if (received.ok()) messages.insert(messages.end(), received->begin(), received->end());
    return !messages.empty();
  });
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].data, "data");
}

void ExpectWorks(const FakeNats& server) {
  Client client(server);
  ExpectWorks(client);
}

// If a connection fails to subscribe to acknowledgements, a write on it would never be answered. So the connection must
// be replaced.
TEST(NatsSubscriptionTest, AConnectionWhoseSubscriptionToAnswersFailedIsMadeAnew) {
  FakeNats server("c");
  Client client(server);
  next_subscription_fails = true;
  const absl::Status status = client.stream().Open(false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no subscription"));
  ExpectWorks(client);
}

TEST(NatsSlowAnswersTest, ALimitThatPassesWhileTheServerGreetsOrAnswersFailsTheCall) {
  FakeNats server("c");
  for (const Part part : {Part::kGreeting, Part::kStreamInfo, Part::kConsumer}) {
    for (const Manner manner : kManners) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(part) << " " << static_cast<int>(manner));
      server.Spoil(part, manner);
      Client client(server, absl::Milliseconds(60));
      absl::Status status = client.stream().Open(false).status();
      if (part == Part::kConsumer && status.ok()) status = client.stream().Subscribe(0);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
  }
  server.Spoil(Part::kNone, Manner::kStops);
  ExpectWorks(server);
}

TEST(NatsSlowAnswersTest, AStreamThatIsLeftWhileAMessageArrivesEnds) {
  FakeNats server("c");
  for (const Part part : {Part::kAcknowledged, Part::kDelivery}) {
    for (const Manner manner : kManners) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(part) << " " << static_cast<int>(manner));
      server.Spoil(Part::kNone, manner);
      Client client(server);
      ASSERT_TRUE(client.stream().Open(false).ok());
      ASSERT_TRUE(client.stream().Subscribe(0).ok());
      server.Spoil(part, manner);
      ASSERT_TRUE(client.stream().Publish(7, "id-1", "data", absl::InfiniteFuture()).ok());
      const int num_acknowledged = part == Part::kDelivery ? 1 : 0;
      EXPECT_TRUE(test::Eventually([&] { return client.num_acknowledged() == num_acknowledged; }));
      const auto received = client.stream().Receive(absl::Milliseconds(30));
      EXPECT_TRUE(!received.ok() || received->empty());
      EXPECT_EQ(client.num_acknowledged(), num_acknowledged);
    }
  }
  server.Spoil(Part::kNone, Manner::kStops);
  ExpectWorks(server);
}

TEST(NatsThreadsTest, AStreamTakesTwoThreadsOfTheLibrary) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  FakeNats server("c");
  // When the first client connects, the NATS library starts threads that all connections share. They are not counted.
  Client first(server);
  ASSERT_TRUE(first.stream().Open(false).ok());
  const auto before = count();
  constexpr int kStreams = 8;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<Client>(server));
    ASSERT_TRUE(clients.back()->stream().Open(false).ok());
    ASSERT_TRUE(clients.back()->stream().Subscribe(0).ok());
  }
  // Each client takes two threads of the NATS library, and one thread of the fake server.
  EXPECT_LE(count() - before, kStreams * 3);
}

}  // namespace
}  // namespace maxsim::live
