// maxsim_bench_wire: a server whose answers cost nothing. It shows how much of a request's time gRPC takes.
//
// When a request comes for the first time, it is forwarded to the server at --target. The answer is kept and given to
// every later request with the same bytes. The port is set up as maxsimd's is, requests are not parsed, and only
// gRPC's own threads take part. The load tester sends the same few requests again and again, and so measures gRPC,
// the sockets and itself.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/process/abseil_mutexes.h"
#include "bench/program.h"
#include "client/options.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/grpc/grpc_port.h"
#include "server/grpc/grpc_reranker.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/startup.h"
#include "server/tls/tls_certificates.h"
#include "xxhash.h"

namespace maxsim::bench {
namespace {

uint64_t HashOf(const grpc::ByteBuffer& message) {
  grpc::Slice whole;  // the message in one piece; it may have arrived in several
  if (!message.DumpToSingleSlice(&whole).ok()) return 0;
  return XXH3_64bits(whole.begin(), whole.size());
}

// Holds answers by hashes of the requests' bytes. Thread-safe.
class Answers {
 public:
  std::optional<grpc::ByteBuffer> Find(uint64_t request) const {
    const MutexLock lock(&mutex_);
    const auto found = answers_.find(request);
    if (found == answers_.end()) return std::nullopt;
    return found->second;
  }

  // Keeps the answer, but not its timings, since nothing is scored when it is given again.
  void Keep(uint64_t request, const grpc::ByteBuffer& answer) {
    v1::RerankResponse parsed;
    if (!rpc::ParseMessage(answer, parsed).ok()) return;
    parsed.clear_timings();
    const MutexLock lock(&mutex_);
    answers_.insert_or_assign(request, rpc::ToBuffer(parsed));
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, grpc::ByteBuffer> answers_ ABSL_GUARDED_BY(mutex_);
};

// Answers Rerank calls from Answers, or from the target if Answers has no answer. The target's errors are passed on
// to the client and are not kept. Streams are UNIMPLEMENTED.
class Replay final : public rpc::RawReranker {
 public:
  explicit Replay(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(channel), typed_(v1::Reranker::NewStub(channel)) {}

  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const uint64_t hash = HashOf(*request);
    if (std::optional<grpc::ByteBuffer> known = answers_.Find(hash)) {
      *response = *std::move(known);
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }
    auto call = std::make_shared<grpc::ClientContext>();
    call->set_deadline(context->deadline());
    stub_.UnaryCall(call.get(), "/maxsim.v1.Reranker/Rerank", {}, request, response,
                    [this, call, hash, response, reactor](const grpc::Status& status) {
                      if (status.ok()) answers_.Keep(hash, *response);
                      reactor->Finish(status);
                    });
    return reactor;
  }

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest* request,
                                    v1::GetInfoResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    auto call = std::make_shared<grpc::ClientContext>();
    call->set_deadline(context->deadline());
    typed_->async()->GetInfo(call.get(), request, response,
                             [call, reactor](const grpc::Status& status) { reactor->Finish(status); });
    return reactor;
  }

 private:
  grpc::GenericStub stub_;
  const std::unique_ptr<v1::Reranker::Stub> typed_;
  Answers answers_;
};

struct Options {
  std::string target;
  std::string address = "127.0.0.1:0";
  std::string unix_socket;
  std::string port_file;
};

absl::Status Serve(const Options& options) {
  client::ClientOptions client_options;
  client_options.target = options.target;
  auto channels = client::MakeChannels(client_options);
  if (!channels.ok()) return channels.status();
  Replay replay(channels->front());
  config::Config config;
  config.grpc.address = options.address;
  config.grpc.unix_socket = options.unix_socket;
  if (!options.port_file.empty()) {
    if (absl::Status status = PreparePortFile(options.port_file); !status.ok()) return status;
  }
  TlsCertificates certificates(TlsFiles{});
  const auto opened = GrpcPort::Open(config, {.certificates = &certificates, .services = {&replay}});
  if (!opened.ok()) return opened.status();
  GrpcPort& port = **opened;
  port.SetHealth(true);
  std::printf("port %d, answers of %s\n", port.port(), options.target.c_str());
  std::fflush(stdout);
  if (!options.port_file.empty()) {
    if (absl::Status status = WritePortFile(options.port_file, port.port(), 0); !status.ok()) return status;
  }
  port.Wait();
  return absl::OkStatus();
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::SkipDeadlockSearch();
  maxsim::bench::Options options;
  CLI::App app("Answers as another server did before: what is left of a request's time is gRPC's. Ends by a signal.",
               "maxsim_bench_wire");
  app.add_option("--target", options.target, "HOST:PORT of the maxsimd whose answers are kept")->required();
  app.add_option("--address", options.address, "HOST:PORT to listen on, maxsimd's grpc.address; port 0: any")
      ->capture_default_str();
  app.add_option("--unix-socket", options.unix_socket,
                 "listen on this Unix socket as well, maxsimd's grpc.unix_socket");
  app.add_option("--port-file", options.port_file,
                 "write the port to this file, maxsimd's server.port_file; it is left there");
  CLI11_PARSE(app, argc, argv);
  if (absl::Status status = maxsim::bench::Serve(options); !status.ok()) maxsim::bench::Fail(status);
  return 0;
}
