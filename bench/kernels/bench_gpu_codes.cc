// maxsim_bench_gpu_codes: times scans of codes that are made on the device. The bits are random, so that no document
// stands out for a query. The kernels' time does not depend on the bits. A row is the median time of whole calls,
// from the query in host memory to the best documents in host memory. It also has the device's own times of the scan
// and of the selection.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/gpu_limits.h"
#include "bench/program.h"
#include "kernels/codes/query_codes.h"
#include "kernels/cuda/codes/cuda_code_scanner.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/testing/random_fill.h"
#include "maxsim_version.h"

namespace maxsim::bench {
namespace {

using Clock = std::chrono::steady_clock;

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(status);
}

struct Options {
  int64_t documents = 10'000'000;
  int64_t tokens = 72;
  int32_t dim = 128;
  std::vector<int> planes = {1};
  std::vector<int> queries = {1};
  int32_t query_tokens = 32;
  int32_t results = 3000;
  int calls = 20;
  bool portable = false;
  std::string json_path;
};

// The codes of documents of equal length, in device memory.
class RandomCodes {
 public:
  RandomCodes(cuda::Device& device, const Options& options, int planes) {
    const auto num_tokens = static_cast<size_t>(options.documents * options.tokens);
    cuda::CudaCodes::Arrays arrays{.shape = {.dim = options.dim, .originals = ScalarType::kF16, .rotation_seed = 1},
                                   .planes = planes,
                                   .num_documents = options.documents};
    const size_t plane_bytes = num_tokens * PlaneRowBytes(options.dim);
    arrays.plane0 = Random(plane_bytes);
    if (planes >= 2) arrays.plane1 = Random(plane_bytes);
    if (planes == 4) arrays.planes23 = Random(2 * plane_bytes);
    std::vector<int64_t> offsets;
    for (int64_t n = 0; n <= options.documents; ++n) offsets.push_back(n * options.tokens);
    arrays.offsets = static_cast<const int64_t*>(Copy(offsets.data(), offsets.size() * sizeof(int64_t)));
    const std::vector<float> scales(static_cast<size_t>(options.documents), 0.0884F);
    arrays.scales = static_cast<const float*>(Copy(scales.data(), scales.size() * sizeof(float)));
    codes_ = cuda::CudaCodes::Borrow(device, arrays);
  }

  const cuda::CudaCodes& get() const { return *codes_; }
  size_t bytes() const { return bytes_; }

 private:
  void* Allocate(size_t bytes) {
    buffers_.push_back(OrFail(cuda::DeviceBuffer::Allocate(bytes, "codes")));
    bytes_ += bytes;
    return buffers_.back().as();
  }
  const uint8_t* Random(size_t bytes) {
    void* const memory = Allocate(bytes);
    Check(MAXSIM_CUDA_STATUS(
        cuda::FillRandom(ScalarType::kI8, memory, static_cast<int64_t>(bytes), ++seed_, 1, nullptr)));
    Check(MAXSIM_CUDA_STATUS(cudaDeviceSynchronize()));
    return static_cast<const uint8_t*>(memory);
  }
  const void* Copy(const void* from, size_t bytes) {
    void* const memory = Allocate(bytes);
    Check(MAXSIM_CUDA_STATUS(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice)));
    return memory;
  }

  std::vector<cuda::DeviceBuffer> buffers_;
  std::unique_ptr<cuda::CudaCodes> codes_;
  size_t bytes_ = 0;
  uint64_t seed_ = 0;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

nlohmann::ordered_json Time(const Options& options, cuda::Device& device, const RandomCodes& codes, int planes,
                            int num_queries) {
  std::mt19937 random(3);
  std::normal_distribution<float> gauss(0, 0.0884F);
  std::vector<QueryCodes> query_codes;
  for (int q = 0; q < num_queries; ++q) {
    std::vector<float> tokens(static_cast<size_t>(options.query_tokens) * static_cast<size_t>(options.dim));
    for (float& value : tokens) value = gauss(random);
    query_codes.push_back(OrFail(EncodeQuery(codes.get().shape(), planes, tokens, {})));
  }
  using Kernels = cuda::CudaCodeScanner::Kernels;
  std::vector<ScanQuery> queries;
  queries.reserve(query_codes.size());
  for (const QueryCodes& query : query_codes) queries.push_back({.codes = &query, .num_results = options.results});
  cuda::CudaCodeScanner scanner = OrFail(cuda::CudaCodeScanner::Create(
      device, cuda::kMaxPassScores, options.portable ? Kernels::kPortable : Kernels::kFastest));
  std::vector<std::vector<Scored>> results(queries.size());
  std::vector<double> whole, scan, select;
  for (int call = 0; call < options.calls + 2; ++call) {
    const auto before = Clock::now();
    Check(scanner.Scan(codes.get(), queries, absl::MakeSpan(results)));
    const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
    if (call < 2) continue;  // These make the workspace.
    whole.push_back(seconds);
    scan.push_back(scanner.scan_seconds());
    select.push_back(scanner.select_seconds());
  }
  const double plane_bytes =
      static_cast<double>(options.documents * options.tokens) * static_cast<double>(CodeBytes(options.dim, planes));
  return {{"documents", options.documents},
          {"tokens", options.tokens},
          {"dim", options.dim},
          {"planes", planes},
          {"queries", num_queries},
          {"query_tokens", options.query_tokens},
          {"results", options.results},
          {"calls", options.calls},
          {"portable", options.portable},
          {"gigabytes", static_cast<double>(codes.bytes()) / 1e9},
          {"call_ms", Median(whole) * 1e3},
          {"scan_ms", Median(scan) * 1e3},
          {"select_ms", Median(select) * 1e3},
          {"scan_gbs", plane_bytes / Median(scan) / 1e9}};
}

void RunAll(const Options& options, const std::string& command) {
  const auto backend = OrFail(cuda::CudaBackend::Create({}));
  cuda::Device& device = *backend->device();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int planes : options.planes) {
    const RandomCodes codes(device, options, planes);
    for (const int num_queries : options.queries) {
      rows.push_back(Time(options, device, codes, planes, num_queries));
      std::printf("%s\n", rows.back().dump().c_str());
      std::fflush(stdout);
    }
  }
  if (options.json_path.empty()) return;
  WriteReport(options.json_path, {{"device", device.name},
                                  {"driver", DriverVersion()},
                                  {"commit", kCommit},
                                  {"command", command},
                                  {"rows", rows}});
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times scans of codes on a GPU.", "maxsim_bench_gpu_codes");
  app.add_option("--documents", options.documents, "documents")->check(CLI::PositiveNumber);
  app.add_option("--tokens", options.tokens, "tokens of a document")->check(CLI::Range(1, 65536));
  app.add_option("--dim", options.dim, "coordinates of a token")->check(CLI::Range(8, 4096));
  app.add_option("--planes", options.planes, "planes to scan")->check(CLI::IsMember({1, 2, 4}));
  app.add_option("--queries", options.queries, "queries of a call")->check(CLI::Range(1, 64));
  app.add_option("--query-tokens", options.query_tokens, "tokens of a query")->check(CLI::Range(1, 4096));
  app.add_option("--results", options.results, "documents that a query selects")->check(CLI::Range(1, 1 << 20));
  app.add_option("--calls", options.calls, "timed calls of a row")->check(CLI::PositiveNumber);
  app.add_flag("--portable", options.portable, "use the kernels for every device, also where there are faster ones");
  app.add_option("--json", options.json_path, "write the results to this file too");
  CLI11_PARSE(app, argc, argv);
  maxsim::bench::RunAll(options, maxsim::bench::CommandLine(argc, argv));
  return 0;
}
