#include "server/startup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/monotonic_clock.h"
#include "base/token_file.h"
#include "server/encoder/encoder_cache.h"
#include "server/encoder/http_encoder.h"
#include "server/observability/logging.h"

namespace maxsim {
namespace {

constexpr int kWarmUpQueryTokens = 32;  // as many as a ColBERT query has
constexpr uint64_t kWarmUpDocuments = 256;
constexpr absl::Duration kWarmUpTimeout = absl::Minutes(2);

absl::StatusOr<std::vector<NumberedBackend>> CreateCpu(const config::Config& config) {
  auto backend = CreateCpuBackend({.num_threads = config.backend.cpu_threads, .isa = config.backend.cpu_isa});
  if (!backend.ok()) {
    const char* const key = config.backend.cpu_isa.empty() ? "backend.kind cpu: " : "backend.cpu_isa: ";
    return absl::Status(backend.status().code(), absl::StrCat(key, backend.status().message()));
  }
  std::vector<NumberedBackend> backends;
  backends.push_back({*std::move(backend), 0});
  return backends;
}

CudaOptions OnDevice(int number, CudaOptions options) {
  options.device = number;
  return options;
}

// Returns the backends of all CUDA devices that work, and logs the other devices. If no device works, returns the first
// error.
absl::StatusOr<std::vector<NumberedBackend>> CreateEveryCuda(const CudaOptions& common) {
  const absl::StatusOr<int> count = CountCudaDevices();
  if (!count.ok()) return count.status();
  std::vector<NumberedBackend> backends;
  absl::Status first;
  for (int number = 0; number < *count; ++number) {
    auto backend = CreateCudaBackend(OnDevice(number, common));
    if (backend.ok()) {
      backends.push_back({*std::move(backend), number});
      continue;
    }
    log::Write(spdlog::level::warn, "device_left_out",
               {{"device", number}, {"reason", std::string(backend.status().message())}});
    first.Update(backend.status());
  }
  if (backends.empty()) return first;
  return backends;
}

absl::StatusOr<std::vector<NumberedBackend>> CreateCuda(const std::vector<int>& numbers, const CudaOptions& common) {
  if (numbers.empty()) return CreateEveryCuda(common);
  std::vector<NumberedBackend> backends;
  for (const int number : numbers) {
    auto backend = CreateCudaBackend(OnDevice(number, common));
    if (!backend.ok()) {
      // If several devices are configured, the server must not start with fewer of them.
      return backends.empty() ? backend.status()
                              : absl::InvalidArgumentError(
                                    absl::StrCat("backend.devices: device ", number, ": ", backend.status().message()));
    }
    backends.push_back({*std::move(backend), number});
  }
  return backends;
}

// Returns a job with one query, all of 0.1, for a few documents of each part of the collection.
std::unique_ptr<engine::Job> WarmUpJob(std::shared_ptr<const store::Collection> collection, int32_t num_tokens) {
  engine::JobQuery query;
  query.num_tokens = num_tokens;
  query.top_k = 1;
  const std::vector<float> values(static_cast<size_t>(num_tokens) * static_cast<size_t>(collection->dim()), 0.1F);
  const ScalarType type = QueryType(collection->storage());
  query.tokens.resize(values.size() * SizeOf(type));
  ConvertElements(ScalarType::kF32, values.data(), type, query.tokens.data(), values.size());
  auto candidates = std::make_shared<engine::CandidateSet>();
  candidates->kind = engine::CandidateSet::Kind::kOrdinals;
  const uint64_t of_each = std::max<uint64_t>(kWarmUpDocuments / collection->num_parts(), 1);
  for (size_t part_idx = 0; part_idx < collection->num_parts(); ++part_idx) {
    const store::Part& part = collection->part(part_idx);
    for (uint64_t i = 0; i < std::min(of_each, static_cast<uint64_t>(part.num_documents())); ++i) {
      candidates->positions.push_back(static_cast<uint32_t>(candidates->ordinals.size()));
      candidates->ordinals.push_back(part.first_ordinal + i);
    }
  }
  query.candidates = std::move(candidates);
  auto job = std::make_unique<engine::Job>();
  job->collection = std::move(collection);
  job->queries.push_back(std::move(query));
  job->deadline = MonotonicNow() + kWarmUpTimeout;
  job->ignores_max_queue_time = true;
  engine::ComputeWork(job.get());
  return job;
}

}  // namespace

absl::StatusOr<std::vector<NumberedBackend>> ChooseBackends(const config::Config& config) {
  if (config.backend.kind == config::BackendKind::kCpu) return CreateCpu(config);
  auto cuda = CreateCuda(config.backend.devices, config.backend.cuda);
  if (cuda.ok()) return cuda;
  if (config.backend.kind == config::BackendKind::kCuda || absl::IsInvalidArgument(cuda.status())) {
    return absl::Status(cuda.status().code(), absl::StrCat("backend.kind cuda: ", cuda.status().message()));
  }
  std::string reason(cuda.status().message());
  if (absl::StrContains(reason, "driver version is insufficient")) reason += " (or no driver is installed)";
  // On a machine with a GPU this is a warning: the operator should know the reason.
  const bool has_device = CountCudaDevices().ok();
  log::Write(has_device ? spdlog::level::warn : spdlog::level::info, "using_cpu", {{"reason", reason}});
  return CreateCpu(config);
}

absl::StatusOr<std::unique_ptr<encoder::Encoder>> MakeEncoder(const config::Config& config, Metrics* metrics) {
  if (config.encoder.http.url.empty()) return nullptr;
  encoder::HttpEncoderOptions options = config.encoder.http;
  // Make the encoder refuse answers with more tokens than the service accepts.
  const service::RequestLimits& limits = config.limits;
  options.max_query_tokens = static_cast<int32_t>(std::min<int64_t>(options.max_query_tokens, limits.max_query_tokens));
  options.max_document_tokens =
      static_cast<int32_t>(std::min<int64_t>(options.max_document_tokens, limits.max_document_tokens));
  absl::StatusOr<std::unique_ptr<encoder::HttpEncoder>> http = encoder::HttpEncoder::Create(options, metrics);
  if (!http.ok()) return http.status();
  return std::make_unique<encoder::CachedEncoder>(*std::move(http), config.encoder.cache_bytes, metrics);
}

absl::StatusOr<client::ClientOptions> OptionsToServers(const config::Config& config) {
  client::ClientOptions options;
  options.tls = config.cluster.tls;
  options.max_message_bytes = static_cast<int64_t>(
      std::max({config.limits.max_answer_bytes, config.limits.max_request_bytes, uint64_t{256} << 20}));
  if (!config.cluster.token_file.empty()) {
    // Use the first token. The file may hold several, which servers accept.
    const absl::StatusOr<std::vector<std::string>> tokens =
        ReadTokenFile("cluster.token_file", config.cluster.token_file);
    if (!tokens.ok()) return tokens.status();
    options.bearer_token = tokens->front();
  }
  if (absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> made = client::MakeCredentials(options.tls);
      !made.ok()) {
    return absl::Status(made.status().code(), absl::StrCat("cluster.tls: ", made.status().message()));
  }
  return options;
}

live::LiveOptions LiveOptionsOf(const config::Config& config) {
  live::LiveOptions options = config.live;
  if (options.compact_after == absl::ZeroDuration()) options.compact_after = absl::InfiniteDuration();
  return options;
}

absl::Status WarmUp(const std::shared_ptr<const store::Collection>& collection, batching::Scheduler& scheduler,
                    int64_t max_query_tokens) {
  if (collection->num_documents() == 0) return absl::OkStatus();
  const auto num_tokens = static_cast<int32_t>(std::min<int64_t>(kWarmUpQueryTokens, max_query_tokens));
  // Devices that have copies of the collection take turns: one job per device.
  const size_t rounds = collection->part(0).replicas.size();
  for (size_t round = 0; round < rounds; ++round) {
    std::unique_ptr<engine::Job> job = WarmUpJob(collection, num_tokens);
    auto answered = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> answer = answered->get_future();
    job->done = [answered](const absl::StatusOr<engine::JobResult>& result) { answered->set_value(result.status()); };
    if (absl::Status status = scheduler.Submit(job); !status.ok()) return status;
    if (absl::Status status = answer.get(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port) {
  const std::string text =
      absl::StrCat("{\"grpc_port\":", grpc_port, ",\"http_port\":", http_port, ",\"pid\":", getpid(), "}\n");
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  unlink(temporary.c_str());  // left by a killed server that had the same process id
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) written = close(file) == 0 && written;
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) unlink(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("server.port_file: cannot write ", path, ": ", reason));
  }
  return absl::OkStatus();
}

absl::Status PreparePortFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("server.port_file: cannot write ", path, ": ", std::strerror(errno)));
  }
  return RemovePortFile(path);
}

bool NamesThisProcess(const std::string& path) {
  if (!OtherKind(path).empty()) return false;
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && absl::EndsWith(line, absl::StrCat("\"pid\":", getpid(), "}"));
}

absl::Status RemovePortFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("server.port_file: cannot remove ", path, ": ", std::strerror(errno)));
}

}  // namespace maxsim
