// maxsim_bench_gpu: times of the CUDA backend over fixed shapes, each checked against FP64 first, beside the floor that
// the device's measured limits set. Prints a table; --json writes everything.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/bench/gpu_cases.h"
#include "kernels/bench/gpu_limits.h"
#include "maxsim_version.h"

namespace maxsim::bench {
namespace {

struct Options {
  std::string json_path;
  std::string filter;
  std::vector<std::string> tiles;
  int repetitions = 15;
  cuda::WaitMode wait = cuda::WaitMode::kAdaptive;

  // As DeviceLimits::tiles.
  uint32_t TileMask() const {
    uint32_t mask = 0;
    for (const ScoreTile tile : kAllScoreTiles) {
      if (std::find(tiles.begin(), tiles.end(), Name(tile)) != tiles.end()) mask |= 1u << static_cast<uint32_t>(tile);
    }
    return tiles.empty() ? ~uint32_t{0} : mask;
  }
};

// The kernel driver's version, as its module shows it; else the CUDA version that the driver supports.
std::string DriverVersion() {
  std::ifstream version("/proc/driver/nvidia/version");
  std::string word;
  while (version >> word) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  int number = 0;
  cudaDriverGetVersion(&number);
  return "CUDA " + std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &utc);
  return text;
}

nlohmann::ordered_json ToJson(const GpuRow& row) {
  const GpuCase& shape = row.shape;
  return {{"shape", shape.name},
          {"type", std::string(Name(shape.type))},
          {"dim", shape.dim},
          {"queries", shape.num_queries},
          {"query_tokens", shape.query_tokens},
          {"documents", shape.num_documents},
          {"document_tokens", shape.document_tokens},
          {"list_size", shape.list_size},
          {"score_ms", row.score_seconds * 1e3},
          {"select_ms", row.select_seconds * 1e3},
          {"call_ms", row.call_seconds * 1e3},
          {"floor_ms", row.floor_seconds * 1e3},
          {"bound", row.memory_bound ? "memory" : "multiply"},
          {"gb_per_s", row.bytes_per_second * 1e-9},
          {"tflop_per_s", row.flops_per_second * 1e-12},
          {"largest_relative_error", row.largest_error},
          {"plan", row.plan}};
}

void Print(const GpuRow& row) {
  std::printf("%-42s %9.4f %9.4f %5.2fx %-8s %7.0f %7.1f %9.4f %9.4f  %.1e  %s\n", row.shape.name.c_str(),
              row.score_seconds * 1e3, row.floor_seconds * 1e3, row.score_seconds / row.floor_seconds,
              row.memory_bound ? "memory" : "multiply", row.bytes_per_second * 1e-9, row.flops_per_second * 1e-12,
              row.select_seconds * 1e3, row.call_seconds * 1e3, row.largest_error, row.tile.c_str());
  std::fflush(stdout);
}

absl::Status Run(const Options& options, const std::string& command) {
  absl::StatusOr<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create({});
  if (!backend.ok()) return backend.status();
  absl::StatusOr<GpuLimits> limits = MeasureGpuLimits();
  if (!limits.ok()) return limits.status();
  absl::StatusOr<CacheFlush> flush = CacheFlush::Create();
  if (!flush.ok()) return flush.status();

  nlohmann::ordered_json report = {{"device", (*backend)->info().device},
                                   {"driver", DriverVersion()},
                                   {"commit", kCommit},
                                   {"command", command},
                                   {"date", Date()},
                                   {"limits",
                                    {{"read_gb_per_s", limits->read_bytes_per_second * 1e-9},
                                     {"mma_f16_tflop_per_s", limits->f16_flops_per_second * 1e-12},
                                     {"mma_bf16_tflop_per_s", limits->bf16_flops_per_second * 1e-12},
                                     {"fma_f32_tflop_per_s", limits->f32_flops_per_second * 1e-12}}},
                                   {"rows", nlohmann::ordered_json::array()},
                                   {"select", nlohmann::ordered_json::array()}};
  std::printf("%s: read %.0f GB/s, mma.sync f16 %.0f TFLOP/s, bf16 %.0f, f32 %.1f\n\n",
              (*backend)->info().device.c_str(), limits->read_bytes_per_second * 1e-9,
              limits->f16_flops_per_second * 1e-12, limits->bf16_flops_per_second * 1e-12,
              limits->f32_flops_per_second * 1e-12);
  std::printf("%-42s %9s %9s %6s %-8s %7s %7s %9s %9s  %s\n", "queries x documents x Lq x Ld", "score ms", "floor ms",
              "ratio", "bound", "GB/s", "TFLOP/s", "select ms", "call ms", "error    tile");
  for (const GpuCase& shape : GpuCases()) {
    if (shape.name.find(options.filter) == std::string::npos) continue;
    absl::StatusOr<GpuRow> row =
        RunGpuCase(**backend, shape, *limits, *flush, options.TileMask(), options.wait, options.repetitions);
    if (!row.ok()) return row.status();
    Print(*row);
    report["rows"].push_back(ToJson(*row));
  }
  for (const SelectCase& shape : SelectCases()) {
    const std::string name = shape.Name();
    if (name.find(options.filter) == std::string::npos) continue;
    absl::StatusOr<SelectRow> row = RunSelectCase(**backend, shape, *limits, *flush, options.repetitions);
    if (!row.ok()) return row.status();
    std::printf("%-42s %9.4f %9.4f %5.2fx  %s\n", name.c_str(), row->seconds * 1e3, row->floor_seconds * 1e3,
                row->seconds / row->floor_seconds, row->plan.c_str());
    std::fflush(stdout);
    report["select"].push_back({{"shape", name},
                                {"scores", shape.num_scores},
                                {"k", shape.k},
                                {"queries", shape.num_queries},
                                {"ms", row->seconds * 1e3},
                                {"floor_ms", row->floor_seconds * 1e3},
                                {"plan", row->plan}});
  }
  if (!options.json_path.empty()) {
    std::ofstream file(options.json_path);
    file << report.dump(2) << "\n";
    if (!file.flush()) return absl::UnavailableError("cannot write " + options.json_path);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times the CUDA backend over fixed shapes, beside the device's measured limits.");
  app.add_option("--json", options.json_path, "Write the results to this file");
  app.add_option("--filter", options.filter, "Run the shapes whose name contains this text");
  std::vector<std::string> names;
  for (const maxsim::ScoreTile tile : maxsim::kAllScoreTiles) names.push_back(maxsim::Name(tile));
  app.add_option("--tiles", options.tiles, "Tilings that may be chosen, separated by commas; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  const std::map<std::string, maxsim::cuda::WaitMode> waits = {{"adaptive", maxsim::cuda::WaitMode::kAdaptive},
                                                               {"poll", maxsim::cuda::WaitMode::kPoll},
                                                               {"event", maxsim::cuda::WaitMode::kEvent}};
  app.add_option("--wait", options.wait, "How small calls are waited for: adaptive, poll or event; default: adaptive")
      ->transform(CLI::CheckedTransformer(waits));
  app.add_option("--repetitions", options.repetitions, "Timed calls of a shape; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::string command = "maxsim_bench_gpu";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  if (absl::Status status = maxsim::bench::Run(options, command); !status.ok()) {
    std::cerr << "maxsim_bench_gpu: " << status << "\n";
    return 1;
  }
  return 0;
}
