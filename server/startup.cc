#include "server/startup.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/logging.h"

namespace maxsim {
namespace {

constexpr int kWarmUpQueryTokens = 32;  // as many as a ColBERT query has
constexpr uint64_t kWarmUpDocuments = 256;
constexpr absl::Duration kWarmUpTimeout = absl::Minutes(2);

absl::StatusOr<std::unique_ptr<Backend>> CreateCpu(const config::Config& config) {
  auto backend = CreateCpuBackend({.num_threads = config.backend.cpu_threads, .isa = config.backend.cpu_isa});
  if (backend.ok()) return backend;
  return absl::Status(backend.status().code(), absl::StrCat("backend.kind cpu: ", backend.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(const config::Config& config) {
  if (config.backend.kind == config::BackendKind::kCpu) return CreateCpu(config);
  auto cuda = CreateCudaBackend({.device = config.backend.device});
  if (cuda.ok()) return cuda;
  if (config.backend.kind == config::BackendKind::kCuda) {
    return absl::Status(cuda.status().code(), absl::StrCat("backend.kind cuda: ", cuda.status().message()));
  }
  log::Write(spdlog::level::info, "no_cuda_cpu_scores", {{"reason", std::string(cuda.status().message())}});
  return CreateCpu(config);
}

absl::Status WarmUp(std::shared_ptr<const store::Collection> collection, batching::Scheduler& scheduler) {
  if (collection->num_documents() == 0) return absl::OkStatus();
  engine::JobQuery query;
  query.num_tokens = kWarmUpQueryTokens;
  query.top_k = 1;
  const std::vector<float> values(static_cast<size_t>(kWarmUpQueryTokens) * static_cast<size_t>(collection->dim()),
                                  0.1F);
  query.tokens.resize(values.size() * SizeOf(collection->storage()));
  ConvertElements(ScalarType::kF32, values.data(), collection->storage(), query.tokens.data(), values.size());
  auto candidates = std::make_shared<engine::CandidateSet>();
  candidates->kind = engine::CandidateSet::Kind::kOrdinals;
  for (uint64_t i = 0; i < std::min(kWarmUpDocuments, collection->num_documents()); ++i) {
    candidates->ordinals.push_back(i);
    candidates->positions.push_back(static_cast<uint32_t>(i));
  }
  query.candidates = std::move(candidates);

  auto job = std::make_unique<engine::Job>();
  job->collection = std::move(collection);
  job->queries.push_back(std::move(query));
  job->deadline = absl::Now() + kWarmUpTimeout;
  engine::ComputeWork(job.get());
  auto answered = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> answer = answered->get_future();
  job->done = [answered](const absl::StatusOr<engine::JobResult>& result) { answered->set_value(result.status()); };
  if (absl::Status status = scheduler.Submit(job); !status.ok()) return status;
  return answer.get();
}

absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  errno = 0;
  std::ofstream file(temporary, std::ios::trunc);
  file << "{\"grpc_port\":" << grpc_port << ",\"http_port\":" << http_port << ",\"pid\":" << getpid() << "}\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("server.port_file: cannot write ", path, ": ", reason));
  }
  return absl::OkStatus();
}

}  // namespace maxsim
