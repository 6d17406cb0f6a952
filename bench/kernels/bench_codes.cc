// maxsim_bench_codes: times the encoding of documents and scans of their codes on one core. For comparison it also
// times how the CPU backend scores the same documents in F16 and INT8. Each measurement repeats its call for --seconds.
// Its number is the thread's CPU time of the fastest call.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/program.h"
#include "kernels/codes/encode.h"
#include "kernels/codes/query_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/cpu/codes/code_scanner.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/maxsim.h"
#include "kernels/quantize.h"
#include "kernels/thread_pool.h"

namespace maxsim::bench {
namespace {

struct Options {
  int32_t dim = 128;
  int64_t documents = 20000;
  int64_t tokens = 72;
  int32_t query_tokens = 32;
  int32_t queries = 1;
  double seconds = 1;
  std::string isa;
};

constexpr uint64_t kSeed = 20261128;

double CpuNow() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double BestCpuSeconds(const Options& options, const std::function<void()>& call) {
  call();  // warm-up
  double best = 1e300;
  double spent = 0;
  for (int calls = 0; calls < 3 || spent < options.seconds; ++calls) {
    const double before = CpuNow();
    call();
    const double seconds = CpuNow() - before;
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

void OrFailWith(const absl::Status& status) {
  if (!status.ok()) Fail(status);
}

// Documents of random gaussian rows, in F16 and in I8.
struct Workload {
  explicit Workload(const Options& options) {
    std::mt19937_64 generator(1);
    std::normal_distribution<float> gaussian(0, 0.09f);
    const auto num_values = static_cast<size_t>(options.documents * options.tokens * options.dim);
    // The rows repeat after a while, because their values do not matter for the time.
    std::vector<float> values(std::min<size_t>(num_values, size_t{1} << 22));
    for (float& value : values) value = gaussian(generator);
    for (int64_t document = 0; document <= options.documents; ++document) offsets.push_back(document * options.tokens);
    f16.resize(num_values);
    i8.resize(num_values);
    scales.resize(static_cast<size_t>(options.documents), 0.003f);
    for (size_t idx = 0; idx < num_values; ++idx) f16[idx] = F32ToF16(values[idx % values.size()]);
    Quantize(values, i8.data());
    for (size_t idx = values.size(); idx < num_values; ++idx) i8[idx] = i8[idx - values.size()];
    query.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(options.query_tokens) * options.dim);
    view = {.type = ScalarType::kF16,
            .dim = options.dim,
            .num_documents = options.documents,
            .tokens = f16.data(),
            .offsets = offsets.data()};
    i8_view = view;
    i8_view.type = ScalarType::kI8;
    i8_view.tokens = i8.data();
    i8_view.scales = scales.data();
    i8_view.rotation_seed = kSeed;
  }

  std::vector<int64_t> offsets;
  std::vector<uint16_t> f16;
  std::vector<int8_t> i8;
  std::vector<float> scales;
  std::vector<float> query;
  DocumentsView view;
  DocumentsView i8_view;
};

void Print(const std::string& what, const Options& options, size_t token_bytes, double seconds) {
  const auto tokens = static_cast<double>(options.documents * options.tokens);
  std::printf("%-26s %10.2f ms %8.2f M tokens/s %7.2f GB/s %8.1f G multiply-adds/s\n", what.c_str(), seconds * 1e3,
              tokens / seconds / 1e6, tokens * static_cast<double>(token_bytes) / seconds / 1e9,
              tokens * options.query_tokens * options.queries * options.dim / seconds / 1e9);
}

void BenchOriginals(const Workload& work, const Options& options, const DocumentsView& view, const cpu::Isa& isa) {
  const auto backend = OrFail(CreateCpuBackend({.num_threads = 1, .isa = isa.name}));
  const auto executor = OrFail(backend->CreateExecutor({}));
  const auto documents = OrFail(backend->Load(view, Tier::kHost, nullptr));
  std::vector<uint16_t> narrow(work.query.size());
  ConvertElements(ScalarType::kF32, work.query.data(), ScalarType::kF16, narrow.data(), narrow.size());
  Query query;
  query.tokens = view.type == ScalarType::kI8 ? static_cast<const void*>(work.query.data()) : narrow.data();
  query.num_tokens = options.query_tokens;
  query.top_k = 1000;
  const std::vector<Query> queries(static_cast<size_t>(options.queries), query);
  std::vector<std::vector<Scored>> results(queries.size());
  const double seconds = BestCpuSeconds(
      options, [&] { OrFailWith(executor->TopK(*documents, queries, absl::MakeSpan(results), nullptr)); });
  Print(std::string(Name(view.type)) + " originals", options, static_cast<size_t>(options.dim) * SizeOf(view.type),
        seconds);
}

void BenchScans(const Workload& work, const Options& options, const EncodedDocuments& encoded, const cpu::Isa& isa) {
  ThreadPool pool(1);
  CodeScanner scanner(isa, pool);
  for (const int planes : {1, 2, 4}) {
    const CodesView codes = encoded.view(planes);
    const QueryCodes query = OrFail(EncodeQuery(codes.shape, planes, work.query, {}));
    for (const ScanOrder order : {ScanOrder::kEstimate, ScanOrder::kUpperBound}) {
      const std::vector<ScanQuery> queries(static_cast<size_t>(options.queries),
                                           {.codes = &query, .num_results = 1000, .order = order});
      std::vector<std::vector<Scored>> results(queries.size());
      const double seconds =
          BestCpuSeconds(options, [&] { OrFailWith(scanner.Scan(codes, queries, absl::MakeSpan(results))); });
      Print(std::to_string(planes) + (order == ScanOrder::kEstimate ? " planes, estimates" : " planes, upper bounds"),
            options, CodeBytes(options.dim, planes), seconds);
    }
  }
}

void Run(const Options& options) {
  const cpu::Isa* isa = cpu::AvailableIsas().front();
  for (const cpu::Isa* candidate : cpu::AvailableIsas()) {
    if (options.isa == candidate->name) isa = candidate;
  }
  std::printf("%lld documents x %lld tokens, d %d, %d queries x %d tokens, %s, one core\n",
              static_cast<long long>(options.documents), static_cast<long long>(options.tokens), options.dim,
              options.queries, options.query_tokens, isa->name);
  const Workload work(options);
  EncodedDocuments encoded;
  const CodeShape shape = CodeShapeOf(work.view, kSeed, false);
  const double seconds = BestCpuSeconds(options, [&] { encoded = OrFail(EncodedDocuments::Encode(shape, work.view)); });
  std::printf("%-26s %10.2f ms %8.2f M tokens/s\n", "encode F16 to 4 planes", seconds * 1e3,
              static_cast<double>(options.documents * options.tokens) / seconds / 1e6);
  BenchOriginals(work, options, work.view, *isa);
  BenchOriginals(work, options, work.i8_view, *isa);
  BenchScans(work, options, encoded, *isa);
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times scans over codes on one core.", "maxsim_bench_codes");
  app.add_option("--dim", options.dim, "columns of a token")->check(CLI::Range(8, 4096));
  app.add_option("--documents", options.documents, "documents")->check(CLI::Range(1, 10000000));
  app.add_option("--tokens", options.tokens, "tokens of a document")->check(CLI::Range(1, 65536));
  app.add_option("--query-tokens", options.query_tokens, "tokens of a query")->check(CLI::Range(1, 4096));
  app.add_option("--queries", options.queries, "queries of a call")->check(CLI::Range(1, 64));
  app.add_option("--seconds", options.seconds, "time spent on each measurement")->check(CLI::PositiveNumber);
  app.add_option("--isa", options.isa, "this instruction set, not the best one")
      ->check(CLI::IsMember(maxsim::CpuIsas()));
  CLI11_PARSE(app, argc, argv);
  maxsim::bench::Run(options);
  return 0;
}
