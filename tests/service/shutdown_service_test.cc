// Tests how stopping the server affects calls that are in progress or arrive later.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// In these tests the grace period is an hour. A stop that waited for it would exceed CTest's time limit.

// Keeps a Watch stream of the health service open.
class HealthWatch {
 public:
  explicit HealthWatch(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    call_ = stub_.PrepareCall(&context_, "/grpc.health.v1.Health/Watch", &queue_);
    call_->StartCall(Tag(1));
    EXPECT_TRUE(Next());
    const grpc::Slice nothing("");  // an empty message asks for the health of the whole server
    call_->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), Tag(2));
    EXPECT_TRUE(Next());
  }
  ~HealthWatch() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }

  // Returns the next status that the server reports, or "" at the stream's end.
  std::string Read() {
    grpc::ByteBuffer message;
    call_->Read(&message, Tag(3));
    std::vector<grpc::Slice> slices;
    if (!Next() || !message.Dump(&slices).ok()) return "";
    std::string bytes;
    for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return bytes;
  }

 private:
  static void* Tag(intptr_t number) { return reinterpret_cast<void*>(number); }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST(ShutdownServiceTest, AnOpenHealthWatchIsToldAndDoesNotHoldTheStop) {
  RunningServer server;
  HealthWatch watch(server.channel());
  EXPECT_EQ(watch.Read(), "\x08\x01") << "SERVING";
  server.server().RequestStop("test");
  EXPECT_EQ(watch.Read(), "\x08\x02") << "NOT_SERVING";
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_EQ(watch.Read(), "");
}

TEST(ShutdownServiceTest, AnIdleStreamEndsWithTheServer) {
  RunningServer server;
  grpc::ClientContext context;
  auto stream = server.stub().RerankStream(&context);
  ASSERT_TRUE(stream->Write(SmallRequest()));
  v1::RerankStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  server.server().RequestStop("test");
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is draining");
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ShutdownServiceTest, ClientsThatDoNotRestAreRefusedAndNeverCutOff) {
  RunningServer server;
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      const auto stub =
          v1::Reranker::NewStub(grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
      // Each client calls until it has been refused three times, so that calls also arrive while the server refuses
      // them.
      for (int refused = 0; refused < 3;) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
        grpc::Status status;
        if (c % 2 == 0) {
          v1::RerankResponse response;
          status = stub->Rerank(&context, SmallRequest(), &response);
        } else {
          auto stream = stub->RerankStream(&context);
          stream->Write(SmallRequest());
          stream->WritesDone();
          v1::RerankStreamResponse response;
          while (stream->Read(&response)) {
          }
          status = stream->Finish();
        }
        if (status.ok()) {
          ++answered;
          continue;
        }
        EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
        ++refused;
      }
    });
  }
  while (answered < 100) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(server.Stop(), 0);
  for (std::thread& client : clients) client.join();
}

// Tests stops during a load. The backend blocks in the load of the first shard until the test releases it.
class LoadShutdownTest : public testing::Test {
 protected:
  void SetUp() override {
    auto owned = std::make_unique<FakeBackend>();
    backend_ = owned.get();
    server_ = std::make_unique<RunningServer>([](config::Config* config) { config->store.load_threads = 1; },
                                              std::move(owned));
    Publish(server_->folder(), ServedDocuments(5));
    loads_before_ = backend_->num_loads();
    backend_->OnLoad([this] {
      std::call_once(once_, [this] {
        begun_.set_value();
        release_.get_future().wait();
      });
    });
  }

  grpc::Status Reload() {
    grpc::ClientContext context;
    v1::ReloadCollectionRequest request;
    request.set_name("corpus");
    v1::ReloadCollectionResponse response;
    return server_->admin().ReloadCollection(&context, request, &response);
  }

  FakeBackend* backend_ = nullptr;
  std::unique_ptr<RunningServer> server_;
  int64_t loads_before_ = 0;
  std::once_flag once_;
  std::promise<void> begun_, release_;
};

TEST_F(LoadShutdownTest, AStopEndsTheLoadThatRunsAndTheCallsThatWaitForTheirs) {
  std::future<grpc::Status> running = std::async(std::launch::async, [this] { return Reload(); });
  begun_.get_future().wait();
  std::future<grpc::Status> waiting = std::async(std::launch::async, [this] { return Reload(); });
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  server_->server().RequestStop("test");
  const grpc::Status dropped = waiting.get();
  EXPECT_EQ(dropped.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(dropped.error_message(), "the server is draining");
  EXPECT_EQ(running.wait_for(0ms), std::future_status::timeout) << "a shard that is being read is finished";
  release_.set_value();
  const grpc::Status stopped = running.get();
  EXPECT_EQ(stopped.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(stopped.error_message(), HasSubstr("stopped because the server is shutting down"));
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_EQ(backend_->num_loads(), loads_before_ + 1) << "shards after the first were loaded";
}

TEST_F(LoadShutdownTest, AReloadByTheServerItselfStopsToo) {
  server_->server().RequestReload();
  begun_.get_future().wait();
  server_->server().RequestStop("test");
  release_.set_value();
  EXPECT_EQ(server_->Wait(), 0);
  server_ = nullptr;  // also destroys the backend: a load that continued would crash
}

}  // namespace
}  // namespace maxsim::test
