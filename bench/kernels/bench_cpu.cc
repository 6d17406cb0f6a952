// maxsim_bench_cpu: times the CPU backend for every storage type and instruction set, and a plain -O3 loop for
// comparison. Each number is the time of the fastest call. Calls are repeated for --seconds. With one thread it is
// the thread's CPU time, so that other work on the machine has little influence. With several threads it is wall
// time. The backend's scores are compared with those of the loop, and some of them also with FP64, so that no wrong
// kernel is timed. --json writes rows in the form of maxsim_bench_gpu, with the loops as peers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/kernels/bench_shapes.h"
#include "bench/kernels/cpu_limits.h"
#include "bench/kernels/plain_loop.h"
#include "bench/program.h"
#include "kernels/maxsim.h"
#include "kernels/quantize.h"
#include "kernels/reference.h"
#include "maxsim_version.h"

namespace maxsim::bench {
namespace {

struct Options {
  int threads = 1;
  double seconds = 0.5;
  std::vector<std::string> isas;
  std::vector<std::string> shapes;
  std::string json_path;
};

double Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double BestSeconds(const Options& options, double share, const std::function<void()>& call) {
  const clockid_t clock = options.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  call();  // warm-up
  double best = 1e300;
  const double end = Now(CLOCK_MONOTONIC) + options.seconds * share;
  int calls = 0;
  do {
    const double before = Now(clock);
    call();
    best = std::min(best, Now(clock) - before);
  } while (++calls < 3 || Now(CLOCK_MONOTONIC) < end);
  return best;
}

// Returns values in [-0.1, 0.1). Their distribution does not matter for the time.
std::vector<float> Values(size_t count) {
  std::vector<float> values(count);
  uint64_t state = 88172645463325252;
  for (float& value : values) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = static_cast<float>(static_cast<int64_t>(state >> 40) - (1 << 23)) * 0x1p-23f * 0.1f;
  }
  return values;
}

// Returns the values converted to elements of `type`.
std::vector<uint16_t> As(ScalarType type, const std::vector<float>& values) {
  std::vector<uint16_t> elements(values.size() * SizeOf(type) / 2);
  ConvertElements(ScalarType::kF32, values.data(), type, elements.data(), values.size());
  return elements;
}

// The tokens of documents in one storage type.
struct Stored {
  std::vector<uint16_t> elements;
  std::vector<float> scales;  // I8: one per document; other types: empty
  double bytes = 0;           // of both
};

constexpr uint64_t kRotationSeed = 20240611;

Stored Store(ScalarType type, const std::vector<float>& tokens, const std::vector<int64_t>& offsets, int32_t dim) {
  if (type != ScalarType::kI8) {
    Stored stored;
    stored.elements = As(type, tokens);
    stored.bytes = static_cast<double>(stored.elements.size()) * 2;
    return stored;
  }
  Stored stored;
  stored.elements.resize((tokens.size() + 1) / 2);
  auto* const target = reinterpret_cast<int8_t*>(stored.elements.data());
  for (size_t document = 0; document + 1 < offsets.size(); ++document) {
    const size_t begin = offsets[document] * dim;
    const size_t end = offsets[document + 1] * dim;
    std::vector<float> rows(tokens.begin() + begin, tokens.begin() + end);
    stored.scales.push_back(QuantizeDocument(kRotationSeed, dim, absl::MakeSpan(rows), target + begin));
  }
  stored.bytes = static_cast<double>(tokens.size() + stored.scales.size() * sizeof(float));
  return stored;
}

struct Workload {
  explicit Workload(const Shape& shape_in) : shape(shape_in), offsets{0} {
    for (int64_t length : shape.lengths) offsets.push_back(offsets.back() + length);
    tokens = Values(static_cast<size_t>(offsets.back()) * shape.dim);
    query = Values(static_cast<size_t>(shape.num_query_tokens) * shape.dim);
  }

  double flops() const { return 2.0 * static_cast<double>(offsets.back()) * shape.num_query_tokens * shape.dim; }

  Shape shape;
  std::vector<int64_t> offsets;
  std::vector<float> tokens;
  std::vector<float> query;
};

class Report {
 public:
  explicit Report(const CpuLimits& limits) : limits_(limits) {}

  void Header() {
    std::printf("limits: read %.1f GB/s, f32 %.0f GFLOP/s\n\n", limits_.read_bytes / 1e9, limits_.f32 / 1e9);
    std::printf("%-18s %-5s %-14s %8s %11s %9s %9s %8s\n", "shape", "type", "isa", "threads", "ms/query", "GFLOP/s",
                "GB/s", "x loop");
  }

  // Adds a row of the backend. `bytes` is the size of the documents, and `error` is relative to FP64.
  void Score(const Workload& work, ScalarType storage, const std::string& isa, int threads, double seconds,
             double loop_seconds, double bytes, double error) {
    Print(work, std::string(Name(storage)), isa, threads, seconds, loop_seconds, bytes);
    // Instructions for narrower numbers have other limits. These are not measured.
    const bool f32 = storage != ScalarType::kI8 && isa.find("amx") == std::string::npos &&
                     isa.find("bf16") == std::string::npos && limits_.f32 > 0;
    const double multiply = f32 ? work.flops() / limits_.f32 : 0;
    rows.push_back({{"shape", work.shape.name},
                    {"storage", std::string(Name(storage))},
                    {"d", work.shape.dim},
                    {"isa", isa},
                    {"threads", threads},
                    {"clock", threads == 1 ? "thread CPU time" : "wall time"},
                    {"ours_ms", seconds * 1e3},
                    {"limit_ms", std::max(bytes / limits_.read_bytes, multiply) * 1e3},
                    {"tflops", work.flops() / seconds / 1e12},
                    {"gbs", bytes / seconds / 1e9},
                    {"max_rel_error", error},
                    {"peers", peers_}});
  }

  // Prints the time of a loop in FP32 with one thread. The rows of the same shape that follow have this loop as a
  // peer.
  void Loop(const Workload& work, const std::string& name, double seconds, double loop_seconds) {
    const double bytes = static_cast<double>(work.tokens.size()) * sizeof(float);
    Print(work, "f32", name, 1, seconds, loop_seconds, bytes);
    if (seconds == loop_seconds) peers_ = nlohmann::ordered_json::object();
    peers_[name] = seconds * 1e3;
  }

  void Elements(const std::string& what, double bytes, double seconds) {
    std::printf("%-40s %9.2f GB/s read\n", what.c_str(), bytes / seconds / 1e9);
    elements.push_back({{"benchmark", what}, {"threads", 1}, {"gbs", bytes / seconds / 1e9}});
  }

  const CpuLimits& limits() const { return limits_; }

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  nlohmann::ordered_json elements = nlohmann::ordered_json::array();

 private:
  static void Print(const Workload& work, const std::string& storage, const std::string& isa, int threads,
                    double seconds, double loop_seconds, double bytes) {
    std::printf("%-18s %-5s %-14s %8d %11.3f %9.1f %9.2f %8.2f\n", work.shape.name.c_str(), storage.c_str(),
                isa.c_str(), threads, seconds * 1e3, work.flops() / seconds / 1e9, bytes / seconds / 1e9,
                loop_seconds / seconds);
  }

  const CpuLimits limits_;
  nlohmann::ordered_json peers_ = nlohmann::ordered_json::object();
};

// Returns the largest error of a few of the results, relative to their magnitude. Ends the program if the error is
// too large.
double LargestError(const DocumentsView& documents, Query query, const std::vector<Scored>& results) {
  constexpr size_t kSamples = 4;
  std::vector<uint32_t> ordinals;
  for (size_t n = 0; n < std::min(kSamples, results.size()); ++n) ordinals.push_back(results[n].position);
  query.ordinals = ordinals.data();
  query.num_candidates = static_cast<int64_t>(ordinals.size());
  const std::vector<ReferenceScore> expected = ReferenceScores(documents, query);
  double largest = 0;
  for (size_t n = 0; n < ordinals.size(); ++n) {
    largest = std::max(largest, std::fabs(results[n].score - expected[n].score) / expected[n].magnitude);
  }
  if (!(largest <= 1e-5)) Fail(absl::InternalError("the backend's scores are off by " + std::to_string(largest)));
  return largest;
}

// Ends the program if a score differs from the plain loop's by more than `tolerance` times its magnitude.
void CheckScores(const Workload& work, const std::vector<float>& expected, const std::vector<Scored>& results,
                 double tolerance) {
  // The magnitude of each value is at most 0.1, so this is an upper bound of a score's magnitude.
  const double scale = 0.01 * work.shape.num_query_tokens * work.shape.dim;
  for (const Scored& scored : results) {
    if (!(std::fabs(scored.score - expected[scored.position]) <= tolerance * scale)) {
      Fail(absl::InternalError("the backend's scores are not those of the plain loop"));
    }
  }
}

void BenchBackend(const Workload& work, const Options& options, const std::string& isa, ScalarType type,
                  const Stored& tokens, const std::vector<float>& expected, double loop_seconds, Report& report) {
  const auto backend = OrFail(CreateCpuBackend({.num_threads = options.threads, .isa = isa}));
  const auto executor = OrFail(backend->CreateExecutor({}));
  const std::vector<uint16_t> query_tokens = As(QueryType(type), work.query);
  const DocumentsView view{.type = type,
                           .dim = work.shape.dim,
                           .num_documents = static_cast<int64_t>(work.shape.lengths.size()),
                           .tokens = tokens.elements.data(),
                           .offsets = work.offsets.data(),
                           .scales = type == ScalarType::kI8 ? tokens.scales.data() : nullptr,
                           .rotation_seed = kRotationSeed};
  const auto documents = OrFail(backend->Load(view, Tier::kHost, nullptr));
  Query query;
  query.tokens = query_tokens.data();
  query.num_tokens = work.shape.num_query_tokens;
  query.top_k = 100;
  std::vector<std::vector<Scored>> results(1);
  const double seconds = BestSeconds(options, 1, [&] {
    const absl::Status status = executor->TopK(*documents, {&query, 1}, absl::MakeSpan(results), nullptr);
    if (!status.ok()) Fail(status);
  });
  CheckScores(work, expected, results[0], type == ScalarType::kF32 ? 1e-5 : 1e-2);
  report.Score(work, type, isa, backend->info().parallelism, seconds, loop_seconds, tokens.bytes,
               LargestError(view, query, results[0]));
}

double BenchLoop(const Workload& work, const Options& options, PlainLoop loop, float* scores) {
  return BestSeconds(options, 0.2, [&] {
    loop(work.query.data(), work.shape.num_query_tokens, work.tokens.data(), work.offsets.data(),
         static_cast<int64_t>(work.shape.lengths.size()), work.shape.dim, scores);
  });
}

// Returns whether `name` is among `names`. If `names` is empty, every name is selected.
bool Selected(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void BenchScores(const Options& options, Report& report) {
  report.Header();
  for (const Shape& shape : CpuShapes()) {
    if (!Selected(options.shapes, shape.name)) continue;
    const Workload work(shape);
    std::vector<float> expected(shape.lengths.size());
    const double loop_seconds = BenchLoop(work, options, &PlainLoopScores, expected.data());
    report.Loop(work, "plain loop", loop_seconds, loop_seconds);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      std::vector<float> unused(expected.size());
      const double seconds = BenchLoop(work, options, &FastMathLoopScores, unused.data());
      report.Loop(work, "fast-math loop", seconds, loop_seconds);
    }
#endif
    for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
      const Stored tokens = Store(type, work.tokens, work.offsets, work.shape.dim);
      for (const std::string& isa : CpuIsas()) {
        if (!Selected(options.isas, isa)) continue;
        BenchBackend(work, options, isa, type, tokens, expected, loop_seconds, report);
      }
    }
  }
}

void BenchElements(const Options& options, Report& report) {
  // The values are few enough to stay in the second-level cache, as the values of a request do.
  const std::vector<float> values = Values(size_t{1} << 16);
  std::vector<float> target(values.size());
  constexpr ScalarType kTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16};
  for (ScalarType from : kTypes) {
    const std::vector<uint16_t> source = As(from, values);
    const double bytes = static_cast<double>(source.size()) * 2;
    for (ScalarType to : kTypes) {
      if (from == to) continue;
      const double seconds =
          BestSeconds(options, 0.2, [&] { ConvertElements(from, source.data(), to, target.data(), values.size()); });
      report.Elements("convert " + std::string(Name(from)) + " to " + std::string(Name(to)), bytes, seconds);
    }
    const double seconds = BestSeconds(options, 0.2, [&] {
      if (FindUnusableElement(from, source.data(), values.size())) std::abort();
    });
    report.Elements("find unusable " + std::string(Name(from)), bytes, seconds);
  }
}

// Returns the kernel's version, such as "Linux 6.1". The report has it where a GPU's report has the driver.
std::string OperatingSystem() {
  std::ifstream file("/proc/sys/kernel/osrelease");
  std::string major, minor;
  std::getline(std::getline(file, major, '.'), minor, '.');
  return "Linux " + major + "." + minor;
}

void WriteJson(const Options& options, const std::string& command, const Report& report) {
  const auto backend = OrFail(CreateCpuBackend({.num_threads = 1, .isa = ""}));
  const auto all_cores = OrFail(CreateCpuBackend({}));
  const CpuLimits& limits = report.limits();
  const nlohmann::ordered_json json = {
      {"device", backend->info().device},
      {"driver", OperatingSystem()},
      {"cores", all_cores->info().parallelism},
      {"commit", kCommit},
      {"command", command},
      {"date", Date()},
      {"limits", {{"read_gbs", limits.read_bytes / 1e9}, {"fp32_tflops", limits.f32 / 1e12}}},
      {"rows", report.rows},
      {"elements", report.elements}};
  WriteReport(options.json_path, json);
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times the CPU backend beside a plain -O3 loop on one thread.", "maxsim_bench_cpu");
  app.add_option("--threads", options.threads, "threads of the backend; 0: every core")->check(CLI::Range(0, 1024));
  app.add_option("--seconds", options.seconds, "time spent on each measurement")->check(CLI::PositiveNumber);
  app.add_option("--isa", options.isas, "only these instruction sets")->check(CLI::IsMember(maxsim::CpuIsas()));
  app.add_option("--shape", options.shapes, "only these shapes");
  app.add_option("--json", options.json_path, "write the results to this file too");
  CLI11_PARSE(app, argc, argv);

  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  maxsim::bench::Report report(maxsim::bench::MeasureCpuLimits(std::max(threads, 1)));
  maxsim::bench::BenchScores(options, report);
  if (options.shapes.empty()) maxsim::bench::BenchElements(options, report);
  if (!options.json_path.empty()) maxsim::bench::WriteJson(options, maxsim::bench::CommandLine(argc, argv), report);
  return 0;
}
