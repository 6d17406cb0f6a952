// maxsim_bench_engine: times batches of one job inside the engine, without gRPC: from queries and candidates in host
// memory to the best documents in host memory. It needs a collection that maxsim-shard has made.
//
// Every call has candidates of its own, drawn at random before the clock starts. The times are of Lane::Execute for a
// batch of one job. "executor" is the part of this time that the backend's call takes, and "device" is the part of
// the backend's call that the device takes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "kernels/maxsim.h"
#include "maxsim_version.h"
#include "server/engine/engine.h"
#include "server/store/collection_store.h"

namespace maxsim::bench {
namespace {

struct Options {
  std::string path;
  int64_t candidates = 1000;
  int query_tokens = 32;
  int queries = 1;
  int top_k = 100;
  int calls = 2000;
  std::string case_name = "engine";
  std::string json_path;
};

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::unique_ptr<Backend> MakeBackend() {
  auto cuda = CreateCudaBackend({});
  if (cuda.ok()) return *std::move(cuda);
  return OrFail(CreateCpuBackend({}));
}

// Forwards to another executor and adds up the time of its TopK calls.
class TimedExecutor final : public Executor {
 public:
  TimedExecutor(std::unique_ptr<Executor> executor, double* seconds)
      : executor_(std::move(executor)), seconds_(*seconds) {}

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override {
    const Clock::time_point begin = Clock::now();
    absl::Status status = executor_->TopK(documents, queries, results, timings);
    seconds_ += SecondsSince(begin);
    return status;
  }
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override {
    return executor_->Align(documents, query, ordinals, matches);
  }
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override {
    return executor_->Stage(documents);
  }

 private:
  const std::unique_ptr<Executor> executor_;
  double& seconds_;
};

// Forwards to another backend and makes executors whose TopK calls are timed.
class TimedBackend final : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  const BackendInfo& info() const override { return backend_->info(); }
  absl::StatusOr<size_t> FreeBytes() const override { return backend_->FreeBytes(); }
  MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                         Tier tier) const override {
    return backend_->BytesNeeded(type, dim, num_documents, num_tokens, tier);
  }
  MemoryNeed CodebookBytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids) const override {
    return backend_->CodebookBytesNeeded(type, dim, num_centroids);
  }
  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                  std::shared_ptr<const void> keep_alive) override {
    return backend_->Load(documents, tier, std::move(keep_alive));
  }
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override {
    return backend_->CreateAppendable(shape);
  }
  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) override {
    absl::StatusOr<std::unique_ptr<Executor>> executor = backend_->CreateExecutor(options);
    if (!executor.ok()) return executor.status();
    return std::make_unique<TimedExecutor>(*std::move(executor), &seconds_);
  }
  absl::Status Health() const override { return backend_->Health(); }

  // Returns the seconds that TopK calls have taken since TakeSeconds was called last.
  double TakeSeconds() { return std::exchange(seconds_, 0.0); }

 private:
  const std::unique_ptr<Backend> backend_;
  double seconds_ = 0;
};

// Makes jobs that each have queries and candidates of their own. `options` must outlive it.
class Jobs {
 public:
  Jobs(const Options& options, std::shared_ptr<const store::Collection> collection)
      : options_(options), collection_(std::move(collection)), ordinals_(collection_->num_documents()) {
    for (size_t i = 0; i < ordinals_.size(); ++i) ordinals_[i] = i;
  }

  std::unique_ptr<engine::Job> Next() {
    auto job = std::make_unique<engine::Job>();
    job->collection = collection_;
    auto set = std::make_shared<engine::CandidateSet>();
    set->kind = engine::CandidateSet::Kind::kOrdinals;
    const auto count = std::min(static_cast<size_t>(options_.candidates), ordinals_.size());
    for (size_t i = 0; i < count; ++i) {
      std::swap(ordinals_[i], ordinals_[i + random_() % (ordinals_.size() - i)]);
      set->positions.push_back(static_cast<uint32_t>(i));
    }
    set->ordinals.assign(ordinals_.begin(), ordinals_.begin() + static_cast<ptrdiff_t>(count));
    const ScalarType type = QueryType(collection_->storage());
    for (int q = 0; q < options_.queries; ++q) {
      engine::JobQuery& query = job->queries.emplace_back();
      std::vector<float> values(static_cast<size_t>(options_.query_tokens) * static_cast<size_t>(collection_->dim()));
      const auto deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(collection_->dim())));
      std::normal_distribution<float> gauss(0, deviation);
      for (float& value : values) value = gauss(random_);
      query.tokens.resize(values.size() * SizeOf(type));
      ConvertElements(ScalarType::kF32, values.data(), type, query.tokens.data(), values.size());
      query.num_tokens = options_.query_tokens;
      query.top_k = options_.top_k;
      query.candidates = set;
    }
    engine::ComputeWork(job.get());
    return job;
  }

 private:
  const Options& options_;
  const std::shared_ptr<const store::Collection> collection_;
  std::vector<uint64_t> ordinals_;
  std::mt19937_64 random_{17};
};

double Percentile(std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

void Run(const Options& options, const std::string& command) {
  TimedBackend backend(MakeBackend());
  store::CollectionStore store(&backend, {.verify_checksums = false});
  const auto collection = OrFail(store.Load("bench", options.path, store::Residency::kAuto));
  engine::EngineOptions engine_options;
  engine_options.num_lanes = 1;
  const auto engine = OrFail(engine::Engine::Create(&backend, engine_options));
  Jobs jobs(options, collection);
  std::vector<double> seconds, executor_seconds, device_seconds;
  for (int call = 0; call < options.calls + 50; ++call) {
    const std::unique_ptr<engine::Job> job = jobs.Next();
    engine::Job* const one = job.get();
    engine::BatchStats stats;
    backend.TakeSeconds();
    const Clock::time_point before = Clock::now();
    const auto results = engine->lane(0).Execute({&one, 1}, &stats);
    const double took = SecondsSince(before);
    if (!results.front().ok()) Fail(results.front().status());
    if (call < 50) continue;
    seconds.push_back(took);
    executor_seconds.push_back(backend.TakeSeconds());
    device_seconds.push_back(stats.timings.copy_seconds + stats.timings.kernel_seconds);
  }
  for (std::vector<double>* times : {&seconds, &executor_seconds, &device_seconds}) {
    std::sort(times->begin(), times->end());
  }
  const double p50 = Percentile(seconds, 0.5) * 1e6, p99 = Percentile(seconds, 0.99) * 1e6;
  const double executor_p50 = Percentile(executor_seconds, 0.5) * 1e6;
  const double device_p50 = Percentile(device_seconds, 0.5) * 1e6;
  std::printf(
      "%s: p50 %.1f us, p99 %.1f us; in the executor %.1f us, on the device %.1f us (%d calls of %d queries, "
      "%lld candidates, %s)\n",
      options.case_name.c_str(), p50, p99, executor_p50, device_p50, options.calls, options.queries,
      static_cast<long long>(options.candidates), backend.info().device.c_str());
  if (options.json_path.empty()) return;
  const nlohmann::ordered_json report = {
      {"case", options.case_name},  {"command", command}, {"commit", kCommit}, {"device", backend.info().device},
      {"calls", options.calls},     {"p50_us", p50},      {"p99_us", p99},     {"executor_p50_us", executor_p50},
      {"device_p50_us", device_p50}};
  WriteReport(options.json_path, report);
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times batches of one request inside the engine, without gRPC.", "maxsim_bench_engine");
  app.add_option("collection", options.path, "folder of a collection")->required();
  app.add_option("--candidates", options.candidates, "of a request, drawn at random")->check(CLI::Range(1, 10'000'000));
  app.add_option("--query-tokens", options.query_tokens, "of a query")->check(CLI::Range(1, 4096));
  app.add_option("--queries", options.queries, "of a request, over the same candidates")->check(CLI::Range(1, 64));
  app.add_option("--top-k", options.top_k, "results of a query")->check(CLI::Range(1, 10'000));
  app.add_option("--calls", options.calls, "that are timed")->check(CLI::Range(1, 10'000'000));
  app.add_option("--case", options.case_name, "name in the report");
  app.add_option("--json", options.json_path, "write the results to this file too");
  CLI11_PARSE(app, argc, argv);
  maxsim::bench::Run(options, maxsim::bench::CommandLine(argc, argv));
  return 0;
}
