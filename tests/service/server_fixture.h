// Runs a whole server in this process, on free ports, with a collection of random documents, and compares its answers
// with FP64 references.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "kernels/maxsim.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/config/config.h"
#include "server/server.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/requests.h"
#include "tests/support/values/eventually.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// Returns a configuration for tests: free ports on the loopback interface, two CPU threads, no delay of the shutdown.
config::Config TestConfig();

// The served collection has 200 documents of 1 to 12 tokens in F16, dimension 32, in several shards, with payloads and
// the ids "doc-0" ... "doc-199".
constexpr int64_t kNumDocuments = 200;
constexpr int32_t kDim = 32;
RandomDocuments ServedDocuments(uint64_t seed, ScalarType type = ScalarType::kF16);
// Publishes documents as the next generation in `folder`. If `storage` is i8, the documents must be F32.
void Publish(const std::string& folder, const RandomDocuments& documents, ScalarType storage = ScalarType::kF16);
std::vector<std::string> AllIds();
// Returns a valid request of one query for two documents of the collection "corpus".
v1::RerankRequest SmallRequest();

// Runs a server until the object is destroyed. If the server does not start, the test fails.
class RunningServer {
 public:
  // Serves the collection "corpus" from `folder`. If the folder has no collection, publishes one in `storage` first. If
  // `backend` is null, the CPU backend scores.
  explicit RunningServer(const std::function<void(config::Config*)>& change = nullptr,
                         std::unique_ptr<Backend> backend = nullptr, ScalarType storage = ScalarType::kF16);
  // Serves on several devices with the numbers 0, 1, ...
  RunningServer(const std::function<void(config::Config*)>& change, std::vector<std::unique_ptr<Backend>> backends,
                ScalarType storage = ScalarType::kF16);
  ~RunningServer();

  Server& server() { return *server_; }
  const RandomDocuments& documents() const { return documents_; }
  const std::string& folder() const { return collection_folder_; }
  std::string grpc_address() const;
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }
  v1::Reranker::Stub& stub() { return *stub_; }
  v1::Admin::Stub& admin() { return *admin_; }
  int http_port() const { return server_->http_port(); }

  // Stops the server. Returns Run's exit code. May be called several times.
  int Stop();
  // Waits until Run returns by itself. Returns its exit code.
  int Wait();

  grpc::Status Rerank(const v1::RerankRequest& request, v1::RerankResponse* response,
                      std::chrono::milliseconds timeout = kTestLimit);

 private:
  TemporaryFolder folder_;
  std::string collection_folder_;
  RandomDocuments documents_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  int exit_code_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Reranker::Stub> stub_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

// Compares `result` with the FP64 ranking of the candidates. Returns "" if every score is within 1e-5 of its magnitude,
// results are in rank order, no better candidate is left out, and no candidate is repeated. Otherwise returns the
// error. `candidates` has the ordinal of each candidate in the request, -1 for an unknown id. If `ids_prefix` is empty,
// the result must have no ids.
std::string WrongAnswer(const RandomDocuments& documents, const RandomQuery& query,
                        const std::vector<int64_t>& candidates, uint32_t top_k, const v1::QueryResult& result,
                        const std::string& ids_prefix = "doc-");

// The answer to an HTTP request. The status is -1 if no answer came.
struct HttpAnswer {
  int status = -1;
  std::string body;
  std::string retry_after;
};
inline constexpr char kJson[] = "application/json";
HttpAnswer HttpGet(int port, const std::string& path, const std::string& token = "");
HttpAnswer HttpPost(int port, const std::string& path, const std::string& body, const std::string& content_type,
                    const std::string& token = "");
// Sends a request with this method and a JSON body.
HttpAnswer HttpSend(const std::string& method, int port, const std::string& path, const std::string& body,
                    const std::string& token = "");

// The health of a service, as the health service reports it.
enum class Health { kServing, kNotServing, kUnknown };
Health HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);

}  // namespace maxsim::test
