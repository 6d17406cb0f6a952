// Tests gRPC server reflection: its answers, which clients get them, and how much memory and time of the server clients
// can use.
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server_builder.h"
#include "server/grpc/reflection.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using testing::ElementsAre;
using testing::HasSubstr;

// One open stream, of either version of the reflection service.
template <typename Service = ServerReflection, typename Request = ServerReflectionRequest,
          typename Response = ServerReflectionResponse>
class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel, const std::string& token = "") {
    context_.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stub_ = Service::NewStub(channel);
    stream_ = stub_->ServerReflectionInfo(&context_);
  }

  bool Write(const Request& request) { return stream_->Write(request); }

  // Asks for the .proto file of a symbol. Returns the answer, or an empty message if the stream has ended.
  Response AskForSymbol(const std::string& name) {
    Request request;
    request.set_file_containing_symbol(name);
    return Ask(request);
  }

  Response Ask(const Request& request) {
    Response response;
    if (stream_->Write(request)) stream_->Read(&response);
    return response;
  }

  std::vector<std::string> Services() {
    Request request;
    request.set_list_services("");
    const Response response = Ask(request);
    std::vector<std::string> names;
    for (const auto& service : response.list_services_response().service()) names.push_back(service.name());
    return names;
  }

  // Ends this side of the stream. Returns the status with which the server ends the stream.
  grpc::Status End() {
    stream_->WritesDone();
    return WaitForEnd();
  }

  grpc::Status WaitForEnd() {
    Response response;
    while (stream_->Read(&response)) continue;
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<typename Service::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

using AlphaStream =
    Stream<grpc::reflection::v1alpha::ServerReflection, grpc::reflection::v1alpha::ServerReflectionRequest,
           grpc::reflection::v1alpha::ServerReflectionResponse>;

ptrdiff_t NumThreads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(ReflectionServiceTest, BothVersionsListTheServices) {
  RunningServer server;
  const auto expected =
      ElementsAre("maxsim.v1.Reranker", "maxsim.v1.Documents", "maxsim.v1.Admin", "grpc.health.v1.Health",
                  "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection");
  Stream<> stream(server.channel());
  EXPECT_THAT(stream.Services(), expected);
  EXPECT_TRUE(stream.End().ok());
  AlphaStream alpha(server.channel());
  EXPECT_THAT(alpha.Services(), expected);
  EXPECT_TRUE(alpha.End().ok());
}

// grpcurl has no .proto file of the health service, so it must get everything from reflection.
TEST(ReflectionServiceTest, TheHealthServiceIsCalledByReflectionAlone) {
  RunningServer server;
  Stream<> stream(server.channel());
  google::protobuf::DescriptorPool pool;
  const ServerReflectionResponse reflected = stream.AskForSymbol("grpc.health.v1.Health");
  for (const std::string& bytes : reflected.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
  }
  const google::protobuf::MethodDescriptor* const check = pool.FindMethodByName("grpc.health.v1.Health.Check");
  ASSERT_NE(check, nullptr);
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(check->input_type())->New());
  request->GetReflection()->SetString(request.get(), check->input_type()->FindFieldByName("service"),
                                      "maxsim.v1.Reranker");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(server.channel());
  const grpc::Slice slice(request->SerializeAsString());
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice bytes;
  ASSERT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
  const std::unique_ptr<google::protobuf::Message> response(factory.GetPrototype(check->output_type())->New());
  ASSERT_TRUE(response->ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
  const auto* const field = check->output_type()->FindFieldByName("status");
  EXPECT_EQ(response->GetReflection()->GetEnum(*response, field)->name(), "SERVING");
  EXPECT_TRUE(stream.End().ok());
}

// A tool must be able to build its messages only from these answers.
TEST(ReflectionServiceTest, TheFileOfASymbolComesWithAllThatItImports) {
  RunningServer server;
  Stream<> stream(server.channel());
  for (const char* symbol :
       {"maxsim.v1.Admin.LoadCollection", "maxsim.v1.Reranker", "grpc.health.v1.Health", "grpc.health.v1.Health.Check",
        "maxsim.v1.RerankRequest.queries", "maxsim.v1.DATA_TYPE_F16", "grpc.reflection.v1alpha.ServerReflection",
        "grpc.reflection.v1.ServerReflectionRequest"}) {
    SCOPED_TRACE(symbol);
    const ServerReflectionResponse response = stream.AskForSymbol(symbol);
    EXPECT_EQ(response.original_request().file_containing_symbol(), symbol);
    google::protobuf::DescriptorPool pool;
    const auto& files = response.file_descriptor_response().file_descriptor_proto();
    for (auto it = files.rbegin(); it != files.rend(); ++it) {  // a file comes before the files that it imports
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(*it));
      ASSERT_NE(pool.BuildFile(file), nullptr) << file.name();
    }
    EXPECT_NE(pool.FindFileContainingSymbol(symbol), nullptr);
    ServerReflectionRequest by_name;
    by_name.set_file_by_filename(pool.FindFileContainingSymbol(symbol)->name());
    EXPECT_EQ(stream.Ask(by_name).file_descriptor_response().SerializeAsString(),
              response.file_descriptor_response().SerializeAsString());
  }
  EXPECT_TRUE(stream.End().ok());
}

TEST(ReflectionServiceTest, WhatTheServicesDoNotNeedIsNotTold) {
  RunningServer server([](config::Config* config) { config->admin.enabled = false; });
  Stream<> stream(server.channel());
  EXPECT_THAT(stream.Services(), testing::Not(testing::Contains("maxsim.v1.Admin")));
  for (const char* symbol : {"maxsim.v1.Admin", "google.protobuf.FileDescriptorProto", "no.such.thing", ""}) {
    const ServerReflectionResponse response = stream.AskForSymbol(symbol);
    EXPECT_EQ(response.error_response().error_code(), grpc::NOT_FOUND) << symbol << ": " << response.DebugString();
  }
  ServerReflectionRequest extensions;
  extensions.set_all_extension_numbers_of_type("maxsim.v1.RerankRequest");
  EXPECT_EQ(stream.Ask(extensions).all_extension_numbers_response().extension_number_size(), 0);
  extensions.mutable_file_containing_extension()->set_containing_type("maxsim.v1.RerankRequest");
  EXPECT_EQ(stream.Ask(extensions).error_response().error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(stream.Ask(ServerReflectionRequest()).error_response().error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(stream.End().ok()) << "errors do not end a stream";
}

TEST(ReflectionServiceTest, AServerWithTokensWantsOne) {
  TemporaryFolder folder;
  WriteFile(folder / "tokens", "a-token-of-the-test\n");
  RunningServer server([&](config::Config* config) { config->auth.tokens_file = folder / "tokens"; });
  EXPECT_EQ(Stream<>(server.channel()).End().error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(AlphaStream(server.channel(), "another").End().error_code(), grpc::UNAUTHENTICATED);
  Stream<> stream(server.channel(), "a-token-of-the-test");
  EXPECT_FALSE(stream.Services().empty());
  WriteFile(folder / "tokens", "a-new-token-of-the-test\n");
  server.server().RequestReload();
  EXPECT_TRUE(stream.Services().empty()) << "a token that was withdrawn is good for no further request";
  EXPECT_EQ(stream.WaitForEnd().error_code(), grpc::UNAUTHENTICATED);
}

TEST(ReflectionServiceTest, SwitchedOffItIsUnimplemented) {
  RunningServer server([](config::Config* config) { config->grpc.reflection = false; });
  EXPECT_EQ(Stream<>(server.channel()).End().error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(AlphaStream(server.channel()).End().error_code(), grpc::UNIMPLEMENTED);
}

TEST(ReflectionServiceTest, FiveHundredOpenStreamsTakeNoThreads) {
  RunningServer server;
  Stream<> first(server.channel());
  ASSERT_FALSE(first.Services().empty());
  const ptrdiff_t before = NumThreads();
  std::vector<std::unique_ptr<AlphaStream>> streams;
  for (int i = 0; i < 500; ++i) {
    streams.push_back(std::make_unique<AlphaStream>(server.channel()));
    streams.back()->Write(grpc::reflection::v1alpha::ServerReflectionRequest());
  }
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(NumThreads(), before + 16);
}

TEST(ReflectionServiceTest, AStreamBeyondTheBoundIsRefusedUntilAnotherEnds) {
  RunningServer server;
  const int bound = rpc::ReflectionLimits().max_streams;
  std::vector<std::unique_ptr<Stream<>>> streams;
  for (int i = 0; i < bound; ++i) {
    streams.push_back(std::make_unique<Stream<>>(server.channel()));
    ASSERT_FALSE(streams.back()->Services().empty()) << i;
  }
  const grpc::Status refused = AlphaStream(server.channel()).End();
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr(absl::StrCat(bound, " reflection streams are open")));
  EXPECT_FALSE(streams.front()->Services().empty()) << "those that are open go on";
  EXPECT_TRUE(streams.back()->End().ok());
  // The server counts an ended stream until gRPC frees the call, for which the client does not wait. So the test
  // retries until a new stream is accepted.
  for (const auto end = std::chrono::steady_clock::now() + kTestLimit; std::chrono::steady_clock::now() < end;) {
    if (!AlphaStream(server.channel()).Services().empty()) return;
  }
  ADD_FAILURE() << "the place has not become free";
}

TEST(ReflectionServiceTest, ARequestThatIsTooLongOrIsNoneEndsItsStream) {
  RunningServer server;
  Stream<> stream(server.channel());
  EXPECT_EQ(stream.AskForSymbol(std::string(4000, 'x')).error_response().error_code(), grpc::NOT_FOUND);
  EXPECT_FALSE(stream.AskForSymbol(std::string(5000, 'x')).has_error_response());
  const grpc::Status longer = stream.WaitForEnd();
  EXPECT_EQ(longer.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(longer.error_message(), HasSubstr("more than the limit 4096"));
  Stream<> malformed(server.channel());
  EXPECT_FALSE(malformed.AskForSymbol("\xff").has_error_response());
  EXPECT_EQ(malformed.WaitForEnd().error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ReflectionServiceTest, StreamsEndWhenTheServerDrainsAndHoldNothingUp) {
  RunningServer server([](config::Config* config) { config->server.shutdown_grace = absl::Hours(1); });
  // This stream needs a connection of its own. Otherwise gRPC could send the stream's end only after the unread
  // answers, which would be never before the port closes.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  Stream<> idle(grpc::CreateCustomChannel(server.grpc_address(), grpc::InsecureChannelCredentials(), own));
  ASSERT_FALSE(idle.Services().empty());
  Stream<> unread(server.channel());
  ServerReflectionRequest request;
  request.set_file_containing_symbol("maxsim.v1.Admin");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(unread.Write(request));  // leaves megabytes of answers unread
  EXPECT_EQ(server.Stop(), 0);                                       // and does not wait for the grace
  // After 100 ms the port closes whatever is still open. With a sanitizer, writing the stream's end may take longer.
  const grpc::StatusCode ended = idle.WaitForEnd().error_code();
  if (kSanitized && ended == grpc::CANCELLED) return;
  EXPECT_EQ(ended, grpc::UNAVAILABLE);
}

// Runs a gRPC server with only the reflection service. Its time limits are short enough to wait for.
class ReflectionAloneTest : public testing::Test {
 protected:
  explicit ReflectionAloneTest(rpc::ReflectionLimits limits = {.max_streams = 2, .max_idle = 200ms})
      : reflection_({}, &authenticator_, &calls_, limits) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service : reflection_.services()) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }

  service::Authenticator authenticator_{service::TokenFiles{}};
  service::CallTracker calls_;
  rpc::Reflection reflection_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ReflectionAloneTest, AStreamEndsOnceItIsIdleForTooLong) {
  Stream<> silent(channel_);
  Stream<> unread(channel_);
  ASSERT_FALSE(silent.Services().empty());
  ServerReflectionRequest request;
  request.set_file_containing_symbol("grpc.reflection.v1.ServerReflection");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(unread.Write(request));
  reflection_.EndIdleStreams();
  ASSERT_FALSE(silent.Services().empty()) << "it was not idle for that long";
  std::this_thread::sleep_for(500ms);
  reflection_.EndIdleStreams();
  const grpc::Status ended = silent.WaitForEnd();
  EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(ended.error_message(), "the reflection stream was idle");
  EXPECT_FALSE(unread.WaitForEnd().ok());
}

TEST_F(ReflectionAloneTest, AClientThatGoesAwayLeavesItsPlace) {
  for (int i = 0; i < 20; ++i) {
    auto stream = std::make_unique<Stream<>>(channel_);
    const auto end = std::chrono::steady_clock::now() + kTestLimit;
    while (stream->Services().empty() && std::chrono::steady_clock::now() < end) {
      stream->WaitForEnd();
      stream = std::make_unique<Stream<>>(channel_);
    }
    ASSERT_LT(std::chrono::steady_clock::now(), end) << i;
  }  // the destructor cancels the call
}

}  // namespace
}  // namespace maxsim::test
