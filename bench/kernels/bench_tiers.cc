// maxsim_bench_tiers: times calls on documents in host memory and in files, and measures the rate of the link to the
// device. A scan reads all pages of a collection, and a list reads a thousand scattered documents. The first two calls
// of each case are not timed: their results are compared with those of the same documents in device memory. A time is
// the median of whole calls, from queries in host memory to the best hundred documents in host memory. "gbs" in a row
// counts the bytes that were copied over the link.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/gpu_limits.h"
#include "bench/program.h"
#include "kernels/maxsim.h"
#include "maxsim_version.h"

namespace maxsim::bench {
namespace {

constexpr int32_t kDim = 128;
constexpr int32_t kQueryTokens = 32;
constexpr int64_t kPageTokens = 1024;
constexpr int64_t kPassageTokens = 300;
constexpr size_t kListedDocuments = 1000;

struct Options {
  double gigabytes = 4;
  double seconds = 1;
  int64_t block_mib = 64;
  int64_t cache_mib = 0;
  double zipf = 0;
  std::string json_path;
};

// Documents of equal length. Their rows repeat a random megabyte.
struct Collection {
  std::vector<std::byte> rows;
  std::vector<int64_t> offsets;
  std::vector<float> scales;
  DocumentsView view;
};

Collection MakeCollection(ScalarType type, int64_t tokens, double bytes) {
  const size_t row_bytes = kDim * SizeOf(type);
  Collection made;
  const auto count = static_cast<int64_t>(bytes / static_cast<double>(tokens) / static_cast<double>(row_bytes));
  for (int64_t n = 0; n <= count; ++n) made.offsets.push_back(n * tokens);
  std::mt19937 random(7);
  std::vector<std::byte> pattern((size_t{1} << 20) + 16);
  if (type == ScalarType::kI8) {
    for (std::byte& value : pattern) value = static_cast<std::byte>(static_cast<int>(random() % 255) - 127);
    made.scales.assign(static_cast<size_t>(count), 1.0F / 127);
  } else {
    std::normal_distribution<float> gauss(0, 0.09F);
    std::vector<float> values(pattern.size() / 2);
    for (float& value : values) value = gauss(random);
    ConvertElements(ScalarType::kF32, values.data(), type, pattern.data(), values.size());
  }
  made.rows.resize(static_cast<size_t>(count * tokens) * row_bytes);
  // Each copy of the pattern is rotated by seventeen elements more than the copy before it, so that no two documents
  // are equal.
  const size_t period = pattern.size() - 16;
  for (size_t at = 0; at < made.rows.size(); at += period) {
    std::memcpy(made.rows.data() + at, pattern.data(), std::min(period, made.rows.size() - at));
    std::rotate(pattern.begin(), pattern.begin() + 17 * static_cast<ptrdiff_t>(SizeOf(type)), pattern.end());
  }
  made.view = {.type = type,
               .dim = kDim,
               .num_documents = count,
               .tokens = made.rows.data(),
               .offsets = made.offsets.data(),
               .scales = made.scales.empty() ? nullptr : made.scales.data(),
               .rotation_seed = 1};
  return made;
}

// Draws lists of documents. The popularity of documents has a Zipf distribution, and their popularity ranks are in
// random order.
class ListSampler {
 public:
  ListSampler(int64_t count, double exponent) : order_(static_cast<size_t>(count)) {
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<uint32_t>(i);
    std::shuffle(order_.begin(), order_.end(), random_);
    double sum = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      sum += std::pow(static_cast<double>(i) + 1, -exponent);
      cumulated_.push_back(sum);
    }
  }
  std::vector<uint32_t> List() {
    std::uniform_real_distribution<double> uniform(0, cumulated_.back());
    std::vector<uint32_t> list;
    std::vector<bool> taken(order_.size());
    while (list.size() < std::min(kListedDocuments, order_.size())) {
      const auto rank = std::lower_bound(cumulated_.begin(), cumulated_.end(), uniform(random_)) - cumulated_.begin();
      const size_t pick = std::min(static_cast<size_t>(rank), order_.size() - 1);
      if (taken[pick]) continue;
      taken[pick] = true;
      list.push_back(order_[pick]);
    }
    return list;
  }

 private:
  std::mt19937_64 random_{11};
  std::vector<uint32_t> order_;
  std::vector<double> cumulated_;
};

class Bench {
 public:
  Bench(const Options& options, double link_bytes) : options_(options), link_bytes_(link_bytes) {
    CudaOptions cuda;
    cuda.stream_block_bytes = options.block_mib << 20;
    cuda.document_cache_bytes = options.cache_mib << 20;
    backend_ = OrFail(CreateCudaBackend(cuda));
    executor_ = OrFail(backend_->CreateExecutor({.max_candidates = int64_t{1} << 20}));
    std::normal_distribution<float> gauss(0, 0.09F);
    std::mt19937 random(3);
    query_values_.resize(size_t{64} * kQueryTokens * kDim);
    for (float& value : query_values_) value = gauss(random);
  }

  void Run(const std::string& name, ScalarType type, int64_t tokens, Tier tier, int num_queries, bool lists) {
    const Collection collection = MakeCollection(type, tokens, options_.gigabytes * 1e9);
    const auto documents = OrFail(backend_->Load(collection.view, tier, nullptr));
    const auto resident = OrFail(backend_->Load(collection.view, Tier::kDevice, nullptr));
    ListSampler sampler(collection.view.num_documents, options_.zipf);
    std::vector<std::byte> tokens_bytes(query_values_.size() * SizeOf(QueryType(type)));
    ConvertElements(ScalarType::kF32, query_values_.data(), QueryType(type), tokens_bytes.data(), query_values_.size());
    std::vector<Query> queries(static_cast<size_t>(num_queries));
    std::vector<std::vector<Scored>> results(queries.size()), expected(queries.size());
    std::vector<double> seconds;
    int64_t streamed = 0, hits = 0, misses = 0;
    const auto start = Clock::now();
    for (int call = 0; call < 5 || Clock::now() - start < std::chrono::duration<double>(options_.seconds); ++call) {
      const std::vector<uint32_t> list = lists ? sampler.List() : std::vector<uint32_t>();
      for (size_t q = 0; q < queries.size(); ++q) {
        queries[q].tokens = tokens_bytes.data() + q * kQueryTokens * kDim * SizeOf(QueryType(type));
        queries[q].num_tokens = kQueryTokens;
        queries[q].top_k = 100;
        queries[q].ordinals = lists ? list.data() : nullptr;
        queries[q].num_candidates = static_cast<int64_t>(list.size());
      }
      CallTimings timings;
      const auto before = Clock::now();
      if (auto status = executor_->TopK(*documents, queries, absl::MakeSpan(results), &timings); !status.ok())
        Fail(status);
      const double took = std::chrono::duration<double>(Clock::now() - before).count();
      if (call == 0 || call == 1) {
        if (auto status = executor_->TopK(*resident, queries, absl::MakeSpan(expected), nullptr); !status.ok()) {
          Fail(status);
        }
        if (results != expected) Fail(absl::InternalError(name + ": other scores than in the device's memory"));
      }
      if (call < 2) continue;
      seconds.push_back(took);
      streamed += timings.streamed_bytes;
      hits += timings.cache_hits;
      misses += timings.cache_misses;
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const double bytes = lists ? static_cast<double>(kListedDocuments) * static_cast<double>(tokens) * kDim *
                                     static_cast<double>(SizeOf(type))
                               : static_cast<double>(collection.rows.size());
    const double came = static_cast<double>(streamed) / static_cast<double>(seconds.size()) / median;
    std::printf("%-34s %8.3f ms  %6.1f GB/s asked  %6.1f GB/s over the link (%.3f of %.1f)  hits %.3f\n", name.c_str(),
                median * 1e3, bytes / median * 1e-9, came * 1e-9, came / link_bytes_, link_bytes_ * 1e-9,
                static_cast<double>(hits) / static_cast<double>(std::max<int64_t>(hits + misses, 1)));
    std::fflush(stdout);
    rows_.push_back(
        {{"case", name},
         {"ms", median * 1e3},
         {"calls", seconds.size()},
         {"gbs", came * 1e-9},
         {"link_gbs", link_bytes_ * 1e-9},
         {"asked_gbs", bytes / median * 1e-9},
         {"cache_hit_ratio", static_cast<double>(hits) / static_cast<double>(std::max<int64_t>(hits + misses, 1))}});
  }

  nlohmann::ordered_json Report(const std::string& command) const {
    return {{"device", backend_->info().device}, {"commit", kCommit}, {"command", command}, {"rows", rows_}};
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Options options_;
  const double link_bytes_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> query_values_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

void RunAll(const Options& options, const std::string& command) {
  const GpuLimits limits = OrFail(MeasureGpuLimits());
  Bench bench(options, limits.upload_bytes);
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const std::string storage(Name(type));
    for (const int num_queries : {1, 32}) {
      bench.Run("host-scan:" + storage + "-pages-" + std::to_string(num_queries), type, kPageTokens, Tier::kHost,
                num_queries, false);
    }
    bench.Run("host-lists:" + storage + "-1000x300", type, kPassageTokens, Tier::kHost, 1, true);
    bench.Run("host-lists:" + storage + "-1000x1024", type, kPageTokens, Tier::kHost, 1, true);
  }
  bench.Run("disk-scan:f16-pages-1", ScalarType::kF16, kPageTokens, Tier::kDisk, 1, false);
  bench.Run("disk-lists:f16-1000x300", ScalarType::kF16, kPassageTokens, Tier::kDisk, 1, true);
  if (!options.json_path.empty()) WriteReport(options.json_path, bench.Report(command));
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times calls over documents that are not in the device's memory.", "maxsim_bench_tiers");
  app.add_option("--gigabytes", options.gigabytes, "of a collection")->check(CLI::Range(0.1, 64.0));
  app.add_option("--seconds", options.seconds, "time spent on each measurement")->check(CLI::PositiveNumber);
  app.add_option("--block-mib", options.block_mib, "MiB of a block")->check(CLI::Range(1, 4096));
  app.add_option("--cache-mib", options.cache_mib, "MiB of the cache for listed documents")
      ->check(CLI::Range(0, 65536));
  app.add_option("--zipf", options.zipf, "exponent of the listed documents' popularity; 0: all alike")
      ->check(CLI::Range(0.0, 3.0));
  app.add_option("--json", options.json_path, "write the results to this file too");
  CLI11_PARSE(app, argc, argv);
  maxsim::bench::RunAll(options, maxsim::bench::CommandLine(argc, argv));
  return 0;
}
