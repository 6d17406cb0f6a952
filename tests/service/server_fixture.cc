#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "httplib.h"
#include "kernels/reference.h"

namespace maxsim::test {

config::Config TestConfig() {
  config::Config config;
  config.grpc.address = "127.0.0.1:0";
  config.http.address = "127.0.0.1:0";
  config.backend.kind = config::BackendKind::kCpu;
  config.backend.cpu_threads = 2;
  config.server.shutdown_delay = absl::ZeroDuration();
  // These time limits are so long that even a busy machine does not exceed them. Tests of a limit set a shorter one.
  config.server.shutdown_grace = absl::Hours(1);
  config.http.request_timeout = absl::ZeroDuration();
  config.batching.max_queue_time = absl::ZeroDuration();
  return config;
}

RandomDocuments ServedDocuments(uint64_t seed, ScalarType type) {
  return SmallDocuments(seed, kNumDocuments, type, kDim);
}

void Publish(const std::string& folder, const RandomDocuments& documents, ScalarType storage) {
  CorpusOptions options;
  options.payloads = true;
  options.max_shard_bytes = collection::kMinMaxShardBytes;
  options.storage = storage;
  BuildCorpus(folder, documents, options);
}

std::vector<std::string> AllIds() {
  std::vector<std::string> ids;
  for (int64_t i = 0; i < kNumDocuments; ++i) ids.push_back(absl::StrCat("doc-", i));
  return ids;
}

v1::RerankRequest SmallRequest() {
  return MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
}

namespace {

std::vector<std::unique_ptr<Backend>> OneOrNone(std::unique_ptr<Backend> backend) {
  std::vector<std::unique_ptr<Backend>> backends;
  if (backend != nullptr) backends.push_back(std::move(backend));
  return backends;
}

}  // namespace

RunningServer::RunningServer(const std::function<void(config::Config*)>& change, std::unique_ptr<Backend> backend,
                             ScalarType storage)
    : RunningServer(change, OneOrNone(std::move(backend)), storage) {}

RunningServer::RunningServer(const std::function<void(config::Config*)>& change,
                             std::vector<std::unique_ptr<Backend>> backends, ScalarType storage)
    : collection_folder_(folder_ / "corpus"),
      documents_(ServedDocuments(TestSeed(), storage == ScalarType::kI8 ? ScalarType::kF32 : storage)) {
  Publish(collection_folder_, documents_, storage);
  if (storage == ScalarType::kI8) documents_ = Stored(documents_, storage);
  config::Config config = TestConfig();
  config.collections.push_back({.name = "corpus", .path = collection_folder_, .residency = store::Residency::kAuto});
  if (change != nullptr) change(&config);
  std::vector<NumberedBackend> numbered;
  for (std::unique_ptr<Backend>& backend : backends) {
    numbered.push_back({std::move(backend), static_cast<int>(numbered.size())});
  }
  auto server = Server::Create(config, std::move(numbered));
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const absl::Status started = server_->Start();
  EXPECT_TRUE(started.ok()) << started;
  thread_ = std::thread([this] { exit_code_ = server_->Run(); });
  channel_ = grpc::CreateChannel(grpc_address(), grpc::InsecureChannelCredentials());
  stub_ = v1::Reranker::NewStub(channel_);
  admin_ = v1::Admin::NewStub(channel_);
}

RunningServer::~RunningServer() { Stop(); }

std::string RunningServer::grpc_address() const { return absl::StrCat("127.0.0.1:", server_->grpc_port()); }

int RunningServer::Stop() {
  server_->RequestStop("test");
  return Wait();
}

int RunningServer::Wait() {
  if (thread_.joinable()) thread_.join();
  return exit_code_;
}

grpc::Status RunningServer::Rerank(const v1::RerankRequest& request, v1::RerankResponse* response,
                                   std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  return stub_->Rerank(&context, request, response);
}

std::string WrongAnswer(const RandomDocuments& documents, const RandomQuery& query,
                        const std::vector<int64_t>& candidates, uint32_t top_k, const v1::QueryResult& result,
                        const std::string& ids_prefix) {
  std::vector<uint32_t> known;
  std::vector<size_t> positions;  // for each of `known`: its first position in the request
  std::set<int64_t> seen;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i] < 0 || !seen.insert(candidates[i]).second) continue;
    known.push_back(static_cast<uint32_t>(candidates[i]));
    positions.push_back(i);
  }
  const std::vector<ReferenceScore> scores = ReferenceScores(documents.view(), query.view(1, &known));
  const size_t expected = std::min<size_t>(top_k, known.size());
  const auto count = static_cast<size_t>(result.scores_size());
  if (count != expected || static_cast<size_t>(result.positions_size()) != expected) {
    return absl::StrCat(count, " results, and ", expected, " are expected");
  }
  std::vector<bool> returned(known.size());
  for (size_t rank = 0; rank < count; ++rank) {
    const uint64_t position = result.positions(static_cast<int>(rank));
    const auto it = std::find(positions.begin(), positions.end(), position);
    if (it == positions.end()) return absl::StrCat("rank ", rank, ": position ", position, " is no candidate");
    const auto idx = static_cast<size_t>(it - positions.begin());
    if (returned[idx]) return absl::StrCat("rank ", rank, ": position ", position, " appears twice");
    returned[idx] = true;
    if (!ids_prefix.empty() &&
        result.string_ids().ids(static_cast<int>(rank)) != absl::StrCat(ids_prefix, known[idx])) {
      return absl::StrCat("rank ", rank, ": id ", result.string_ids().ids(static_cast<int>(rank)));
    }
    const double score = result.scores(static_cast<int>(rank));
    if (!(std::abs(score - scores[idx].score) <= 1e-5 * scores[idx].magnitude)) {
      return absl::StrCat("rank ", rank, ": score ", score, ", and FP64 has ", scores[idx].score);
    }
    if (rank == 0) continue;
    const double before = result.scores(static_cast<int>(rank) - 1);
    if (before < score || (before == score && result.positions(static_cast<int>(rank) - 1) > position)) {
      return absl::StrCat("rank ", rank, " is out of order");
    }
  }
  for (size_t idx = 0; idx < known.size() && count > 0; ++idx) {
    const double last = result.scores(static_cast<int>(count) - 1);
    if (!returned[idx] && scores[idx].score - last > 2e-5 * scores[idx].magnitude) {
      return absl::StrCat("document ", known[idx], " scores ", scores[idx].score, " and is left out");
    }
  }
  return "";
}

namespace {

httplib::Headers HeadersWith(const std::string& token) {
  httplib::Headers headers;
  if (!token.empty()) headers.emplace("Authorization", "Bearer " + token);
  return headers;
}

HttpAnswer ToAnswer(const httplib::Result& result) {
  if (!result) return {};
  return {result->status, result->body, result->get_header_value("Retry-After")};
}

}  // namespace

HttpAnswer HttpGet(int port, const std::string& path, const std::string& token) {
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(kTestLimit);
  client.set_read_timeout(kTestLimit);
  return ToAnswer(client.Get(path, HeadersWith(token)));
}

HttpAnswer HttpPost(int port, const std::string& path, const std::string& body, const std::string& content_type,
                    const std::string& token) {
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(kTestLimit);
  client.set_read_timeout(kTestLimit);
  return ToAnswer(client.Post(path, HeadersWith(token), body, content_type.c_str()));
}

HttpAnswer HttpSend(const std::string& method, int port, const std::string& path, const std::string& body,
                    const std::string& token) {
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(kTestLimit);
  client.set_read_timeout(kTestLimit);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  request.headers = HeadersWith(token);
  request.set_header("Content-Type", kJson);
  return ToAnswer(client.send(request));
}

Health HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  // Encodes and decodes grpc.health.v1.HealthCheckRequest{service = 1} and HealthCheckResponse{status = 1} by hand,
  // because the distribution has no generated code for them.
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
  grpc::CompletionQueue queue;
  std::string bytes;
  if (!service.empty()) bytes = std::string("\x0a") + static_cast<char>(service.size()) + service;
  grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !response.Dump(&slices).ok()) return Health::kUnknown;
  std::string answer;
  for (const grpc::Slice& part : slices) answer.append(reinterpret_cast<const char*>(part.begin()), part.size());
  if (answer == std::string("\x08\x01")) return Health::kServing;
  return answer == std::string("\x08\x02") ? Health::kNotServing : Health::kUnknown;
}

}  // namespace maxsim::test
