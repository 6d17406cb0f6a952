// Tests Admin.ReadSnapshot over gRPC, with the client with which a new server fetches a snapshot.
#include "server/grpc/snapshot_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/status.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/cluster/snapshot_client.h"
#include "server/grpc/grpc_admin.h"
#include "server/observability/metrics.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/connections/call_order.h"
#include "tests/support/values/eventually.h"

namespace maxsim::rpc {
namespace {

// Sends what the test says.
class SendingCollections final : public service::CollectionApi {
 public:
  std::function<absl::Status(service::SnapshotSink sink, const StopSignal& stop)> on_read;

  absl::Status ReadSnapshot(const std::string& name, service::SnapshotSink sink,
                            const service::ChangeContext& context) override {
    test::CallOrder::Observe();
    EXPECT_EQ(name, "docs");
    return on_read(sink, *context.stop);
  }
  absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const v1::BootstrapCollectionRequest&,
                                                            const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest&,
                                                   const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest&,
                                                     const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CollectionInfo> Compact(const std::string&, bool*, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::ReloadCollectionResponse> Reload(const v1::ReloadCollectionRequest&,
                                                      const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<uint64_t> SnapshotForClient(const std::string&, const std::string&,
                                             const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::SlotLayout> SetLayout(const v1::SetLayoutRequest&, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::Status Unload(const std::string&, bool, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  std::vector<v1::CollectionInfo> List() const override { return {}; }
};

v1::ReadSnapshotResponse Data(size_t count, char fill = 'x') {
  v1::ReadSnapshotResponse message;
  message.set_data(std::string(count, fill));
  return message;
}

class SnapshotStreamTest : public testing::Test {
 protected:
  SnapshotStreamTest() {
    test::CallOrder::Begin();
    test::WriteFile(folder_ / "admin_tokens", "operator\n");
    EXPECT_TRUE(authenticator_.Load().ok());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    admin_.AcceptChanges();
  }
  ~SnapshotStreamTest() override { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5)); }

  std::unique_ptr<service::IncomingSnapshot> Open(const StopSignal* stop = nullptr,
                                                  const std::string& token = "operator") {
    client::ClientOptions options;
    options.target = "127.0.0.1:" + std::to_string(port_);
    options.bearer_token = token;
    auto opened = cluster::ReadSnapshotOf(std::move(options), "docs", {}, stop);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  // Reads to the end. Returns the status, and the number of messages.
  static std::pair<absl::Status, int> ReadAll(service::IncomingSnapshot& snapshot) {
    int count = 0;
    v1::ReadSnapshotResponse message;
    while (true) {
      const absl::StatusOr<bool> has_more = snapshot.Next(message);
      if (!has_more.ok() || !*has_more) return {has_more.status(), count};
      ++count;
    }
  }

  const test::TemporaryFolder folder_;
  service::Authenticator authenticator_{service::TokenFiles{.admin = folder_ / "admin_tokens"}};
  SendingCollections collections_;
  service::Worker worker_;
  Metrics metrics_;
  service::CallTracker calls_;
  GrpcAdmin admin_{&collections_, &authenticator_, &worker_, &metrics_, &calls_, nullptr};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SnapshotStreamTest, MessagesArriveInOrder) {
  collections_.on_read = [](service::SnapshotSink sink, const StopSignal&) {
    for (const char fill : {'a', 'b', 'c'}) {
      if (absl::Status status = sink(Data(size_t{1} << 20, fill)); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  const auto snapshot = Open();
  v1::ReadSnapshotResponse message;
  for (const char fill : {'a', 'b', 'c'}) {
    const absl::StatusOr<bool> has_more = snapshot->Next(message);
    ASSERT_TRUE(has_more.ok() && *has_more) << has_more.status();
    EXPECT_EQ(message.data(), std::string(size_t{1} << 20, fill));
  }
  const absl::StatusOr<bool> has_more = snapshot->Next(message);
  ASSERT_TRUE(has_more.ok()) << has_more.status();
  EXPECT_FALSE(*has_more);
}

TEST_F(SnapshotStreamTest, AnErrorArrivesWithItsRetryTime) {
  collections_.on_read = [](service::SnapshotSink sink, const StopSignal&) {
    EXPECT_TRUE(sink(Data(1)).ok());
    absl::Status busy = absl::ResourceExhaustedError("4 calls of ReadSnapshot are in progress");
    client::SetRetryAfter(absl::Seconds(10), busy);
    return busy;
  };
  const auto [status, count] = ReadAll(*Open());
  EXPECT_EQ(count, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client::RetryAfter(status), absl::Seconds(10));
}

TEST_F(SnapshotStreamTest, NeedsTheTokenOfAnAdministrator) {
  collections_.on_read = [](service::SnapshotSink, const StopSignal&) {
    ADD_FAILURE() << "the call is carried out";
    return absl::OkStatus();
  };
  EXPECT_EQ(ReadAll(*Open(nullptr, "reader")).first.code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(SnapshotStreamTest, AClientThatDoesNotReadHoldsTheServerBack) {
  constexpr int kCount = 256;
  std::atomic<int> num_sent = 0;
  collections_.on_read = [&](service::SnapshotSink sink, const StopSignal&) {
    const v1::ReadSnapshotResponse message = Data(size_t{1} << 20);
    for (int i = 0; i < kCount; ++i) {
      if (absl::Status status = sink(message); !status.ok()) return status;
      ++num_sent;
    }
    return absl::OkStatus();
  };
  const auto snapshot = Open();
  v1::ReadSnapshotResponse message;
  ASSERT_TRUE(snapshot->Next(message).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(num_sent, kCount);
  const auto [status, count] = ReadAll(*snapshot);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(count, kCount - 1);
}

TEST_F(SnapshotStreamTest, EndsWhenTheClientGoes) {
  std::atomic<bool> has_ended = false;
  collections_.on_read = [&](service::SnapshotSink sink, const StopSignal& stop) {
    absl::Status status;
    while (status.ok()) status = sink(Data(size_t{1} << 20));
    EXPECT_TRUE(test::Eventually([&] { return stop.stopped(); }));
    has_ended = true;
    return status;
  };
  {
    const auto snapshot = Open();
    v1::ReadSnapshotResponse message;
    ASSERT_TRUE(snapshot->Next(message).ok());
  }
  EXPECT_TRUE(test::Eventually([&] { return has_ended.load(); }));
}

TEST_F(SnapshotStreamTest, AServerThatStopsEndsItsStreams) {
  collections_.on_read = [&](service::SnapshotSink sink, const StopSignal& stop) {
    // This call of sink fails if the client has received the message and stopped the server before it returns.
    sink(Data(1)).IgnoreError();
    EXPECT_TRUE(test::Eventually([&] { return stop.stopped(); }));
    return sink(Data(1));
  };
  const auto snapshot = Open();
  v1::ReadSnapshotResponse message;
  ASSERT_TRUE(snapshot->Next(message).ok());
  admin_.DrainStreams();
  EXPECT_EQ(snapshot->Next(message).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReadAll(*Open()).first.code(), absl::StatusCode::kUnavailable) << "later streams end at once";
}

TEST_F(SnapshotStreamTest, TheSignalOfTheClientEndsTheCall) {
  collections_.on_read = [](service::SnapshotSink, const StopSignal& stop) {
    EXPECT_TRUE(test::Eventually([&] { return stop.stopped(); }));
    return stop.status();
  };
  StopSignal stop;
  const auto snapshot = Open(&stop);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.Request(absl::StatusCode::kDeadlineExceeded);
  });
  v1::ReadSnapshotResponse message;
  EXPECT_EQ(snapshot->Next(message).status().code(), absl::StatusCode::kDeadlineExceeded);
  stopper.join();
}

TEST_F(SnapshotStreamTest, AServerThatIsNotThereIsUnavailable) {
  server_->Shutdown(std::chrono::system_clock::now());
  const auto [status, count] = ReadAll(*Open());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace maxsim::rpc
