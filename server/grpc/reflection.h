// The services grpc.reflection.v1 and v1alpha, which tell tools such as grpcurl which services the server has. They use
// the callback API and need no thread. gRPC's own plugin keeps a thread for each open stream, without a limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/service_descriptors.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"

namespace maxsim::rpc {

class ReflectionStream;

// Limits on reflection, for all clients together.
struct ReflectionLimits {
  int max_streams = 64;             // open at a time; one more ends with RESOURCE_EXHAUSTED
  size_t max_request_bytes = 4096;  // of one request; a longer one ends its stream with INVALID_ARGUMENT
  std::chrono::steady_clock::duration max_idle = std::chrono::seconds(60);  // without a request; then UNAVAILABLE
};

// A stream handles one request at a time. Thread-safe.
class Reflection {
 public:
  using Limits = ReflectionLimits;
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Describes `services` (full names), the health service and the reflection services. Each stream, and each request in
  // a stream, needs a token that may search. All arguments must outlive the gRPC server that services() are registered
  // with. `calls` counts each open stream as a call in progress.
  Reflection(std::vector<std::string> services, const service::Authenticator* authenticator,
             service::CallTracker* calls, Limits limits = {});

  // Returns the services to register. This object must outlive the gRPC server.
  std::vector<grpc::Service*> services() { return {&v1_, &v1alpha_}; }

  // Ends the streams that have been idle for max_idle. Call it regularly.
  void EndIdleStreams();

  // Ends the open streams, and all later ones, with UNAVAILABLE.
  void Drain();

 private:
  friend class ReflectionStream;

  // The service for one version of the reflection API, v1 or v1alpha. Both versions have the same messages under
  // different names.
  template <typename RawService>
  class Version : public RawService {
   public:
    explicit Version(Reflection* reflection) : reflection_(reflection) {}
    Reactor* ServerReflectionInfo(grpc::CallbackServerContext* context) override { return reflection_->Begin(context); }

   private:
    Reflection* const reflection_;
  };
  template <typename Api>
  using RawServiceOf = typename Api::template WithRawCallbackMethod_ServerReflectionInfo<typename Api::Service>;

  Reactor* Begin(grpc::CallbackServerContext* context);
  absl::Status Add(const std::shared_ptr<ReflectionStream>& stream);
  void Remove(const std::shared_ptr<ReflectionStream>& stream);
  std::vector<std::shared_ptr<ReflectionStream>> OpenStreams();

  const ServiceDescriptors descriptors_;
  const service::Authenticator* const authenticator_;
  service::CallTracker* const calls_;
  const Limits limits_;
  Version<RawServiceOf<grpc::reflection::v1::ServerReflection>> v1_{this};
  Version<RawServiceOf<grpc::reflection::v1alpha::ServerReflection>> v1alpha_{this};

  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<ReflectionStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::rpc
