// maxsim_bench_gpu: times the CUDA backend per shape, after checking its scores against FP64. Also measures the
// device's limits in the same run, and can run a sweep of random shapes. Prints a table. --json writes the contents
// of docs/performance/kernels.json, to which compare_peers.py adds other implementations.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/kernels/gpu_cases.h"
#include "bench/kernels/gpu_limits.h"
#include "bench/kernels/gpu_shapes.h"
#include "bench/kernels/gpu_sweep.h"
#include "bench/program.h"
#include "kernels/plan/score_tile.h"
#include "maxsim_version.h"

namespace maxsim::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string json_path;
  std::string inputs_path;
  std::vector<std::string> shapes;
  std::vector<std::string> storage;
  std::vector<int32_t> dims;
  std::vector<std::string> tiles;
  bool join_lists = true;
  bool order_candidates = true;
  int32_t teams = -1;
  int repetitions = 15;
  SweepOptions sweep;

  // Returns the tilings that the plan may choose, as bits of DeviceLimits::tiles.
  uint32_t TileMask() const {
    uint32_t mask = 0;
    for (const ScoreTile tile : kAllScoreTiles) {
      if (std::find(tiles.begin(), tiles.end(), Name(tile)) != tiles.end()) mask |= 1u << static_cast<uint32_t>(tile);
    }
    return tiles.empty() ? ~uint32_t{0} : mask;
  }

  absl::StatusOr<std::vector<GpuCase>> Cases() const {
    std::vector<ScalarType> types;
    for (const std::string& name : storage) types.push_back(*ScalarTypeFromName(name));
    if (!shapes.empty()) return SelectCases(shapes, types, dims);
    if (sweep.count > 0) return std::vector<GpuCase>();
    return SelectCases({"goals"}, types, dims);
  }
};

Json ToJson(const GpuLimits& limits) {
  return {{"read_gbs", limits.read_bytes * 1e-9},
          {"h2d_gbs", limits.upload_bytes * 1e-9},
          {"fp16_tflops", limits.Operations(ScalarType::kF16) * 1e-12},
          {"bf16_tflops", limits.Operations(ScalarType::kBF16) * 1e-12},
          {"int8_tops", limits.Operations(ScalarType::kI8) * 1e-12},
          {"fp32_tflops", limits.f32 * 1e-12},
          {"fp16_mma_tflops", limits.f16_mma * 1e-12},
          {"fp16_wgmma_tflops", limits.f16_wgmma * 1e-12},
          {"int8_mma_tops", limits.i8_mma * 1e-12},
          {"int8_wgmma_tops", limits.i8_wgmma * 1e-12}};
}

Json ToJson(const GpuRow& row) {
  const GpuCase& shape = row.shape;
  Json json = {{"shape", shape.name}};
  if (shape.select_k > 0) {
    json.update({{"storage", "-"}, {"d", nullptr}});
  } else {
    json.update({{"storage", std::string(Name(shape.type))}, {"d", shape.dim}});
  }
  json.update({{"ours_ms", row.seconds * 1e3},
               {"limit_ms", row.limit_seconds * 1e3},
               {"tflops", shape.select_k > 0 ? Json(nullptr) : Json(row.operations_per_second * 1e-12)},
               {"gbs", row.bytes_per_second * 1e-9},
               {"max_rel_error", row.largest_error},
               {"peers", Json::object()},
               {"bound", row.memory_bound ? "memory" : "multiply"},
               {"limit_once_ms", row.limit_once_seconds * 1e3}});
  if (shape.select_k == 0) json.update({{"select_ms", row.select_seconds * 1e3}, {"call_ms", row.call_seconds * 1e3}});
  if (row.graph_seconds > 0) {
    json.update({{"launches_ms", row.launches_seconds * 1e3}, {"graph_ms", row.graph_seconds * 1e3}});
  }
  json["plan"] = row.plan;
  return json;
}

Json ToJson(const Sweep& sweep) {
  Json rows = Json::array();
  for (const GpuRow& row : sweep.rows) {
    rows.push_back({{"shape", row.shape.name},
                    {"storage", std::string(Name(row.shape.type))},
                    {"d", row.shape.dim},
                    {"ours_ms", row.seconds * 1e3},
                    {"roofline_ms", row.limit_once_seconds * 1e3},
                    {"ratio", row.seconds / row.limit_once_seconds},
                    {"max_rel_error", row.largest_error},
                    {"tile", row.tile}});
  }
  Json json = {{"seed", sweep.seed},
               {"shapes", sweep.rows.size()},
               {"counted", sweep.num_counted},
               {"within_1_5", sweep.num_close},
               {"worst_ratio", sweep.worst_ratio},
               {"worst_shape", sweep.num_counted > 0 ? Json(sweep.rows[sweep.worst].shape.name) : Json(nullptr)},
               {"refused", sweep.num_refused},
               {"left_out", sweep.num_left_out},
               {"failures", sweep.failures}};
  json["rows"] = std::move(rows);
  return json;
}

void Print(const GpuRow& row) {
  const std::string d = row.shape.select_k > 0 ? "-" : std::to_string(row.shape.dim);
  const std::string type = row.shape.select_k > 0 ? "-" : std::string(Name(row.shape.type));
  std::printf("%-24s %-4s %4s %9.4f %9.4f %5.2fx %-8s %6.0f %7.1f %9.4f %9.4f  %.1e  %s\n", row.shape.name.c_str(),
              type.c_str(), d.c_str(), row.seconds * 1e3, row.limit_seconds * 1e3, row.seconds / row.limit_seconds,
              row.memory_bound ? "memory" : "multiply", row.bytes_per_second * 1e-9, row.operations_per_second * 1e-12,
              row.select_seconds * 1e3, row.call_seconds * 1e3, row.largest_error, row.tile.c_str());
  std::fflush(stdout);
}

void Print(const Sweep& sweep) {
  if (sweep.num_refused > 0) std::printf("%d shapes skipped: %s\n", sweep.num_refused, sweep.refusal.c_str());
  if (sweep.num_left_out > 0) std::printf("%d shapes left out for want of time\n", sweep.num_left_out);
  std::printf("sweep of %zu shapes, seed %llu: %d have a roofline above %.0f us; of those %d (%.0f %%) within %.1fx",
              sweep.rows.size(), static_cast<unsigned long long>(sweep.seed), sweep.num_counted, kSweepMinSeconds * 1e6,
              sweep.num_close, 100.0 * sweep.num_close / std::max(sweep.num_counted, 1), kSweepCloseRatio);
  if (sweep.num_counted > 0) {
    const GpuCase& worst = sweep.rows[sweep.worst].shape;
    std::printf(", the worst %.2fx (%s %s d %d)", sweep.worst_ratio, worst.name.c_str(),
                std::string(Name(worst.type)).c_str(), worst.dim);
  }
  std::printf("; %zu failed\n", sweep.failures.size());
}

// Writes the offsets and lists of ragged shapes, for other programs that time the same inputs. Writes SHAPE.offsets
// (int64) and SHAPE.lists (uint32, one list after the other). In these names SHAPE is the shape's name with '_'
// instead of ':'.
absl::Status WriteInputs(const std::filesystem::path& folder, const GpuCase& shape) {
  if (shape.select_k > 0 || (shape.list_size == 0 && shape.min_document_tokens == shape.max_document_tokens)) {
    return absl::OkStatus();
  }
  std::string name = shape.name;
  std::replace(name.begin(), name.end(), ':', '_');
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& suffix, const auto& values) -> absl::Status {
    std::ofstream file(folder / (name + suffix), std::ios::binary | std::ios::app);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(values[0])));
    return file.flush() ? absl::OkStatus() : absl::UnavailableError("cannot write " + (folder / name).string());
  };
  for (const char* suffix : {".offsets", ".lists"}) std::filesystem::remove(folder / (name + suffix));
  absl::Status status = write(".offsets", OffsetsOf(shape));
  for (const std::vector<uint32_t>& list : ListsOf(shape)) {
    if (status.ok() && !list.empty()) status = write(".lists", list);
  }
  return status;
}

// Runs the named shapes. If a shape fails, reports it and runs the others, unless the device no longer answers.
absl::Status RunCases(cuda::CudaBackend& backend, const std::vector<GpuCase>& cases, const Options& options,
                      const GpuLimits& limits, CacheFlush& flush, Json& report) {
  RunOptions run;
  run.tiles = options.TileMask();
  run.join_lists = options.join_lists;
  run.order_candidates = options.order_candidates;
  run.teams = options.teams;
  run.repetitions = options.repetitions;
  if (!cases.empty()) {
    std::printf("%-24s %-4s %4s %9s %9s %6s %-8s %6s %7s %9s %9s  %s\n", "shape", "type", "d", "ours ms", "limit ms",
                "ratio", "bound", "GB/s", "TOP/s", "select ms", "call ms", "error    tile");
  }
  for (const GpuCase& shape : cases) {
    if (!options.inputs_path.empty()) {
      if (absl::Status status = WriteInputs(options.inputs_path, shape); !status.ok()) return status;
    }
    const absl::StatusOr<GpuRow> row = shape.select_k > 0 ? RunSelectCase(backend, shape, limits, flush, run)
                                                          : RunGpuCase(backend, shape, limits, flush, run);
    if (absl::IsUnavailable(row.status())) return row.status();
    if (row.ok()) {
      Print(*row);
      report["rows"].push_back(ToJson(*row));
      continue;
    }
    const bool refused = IsRefusal(shape, row.status());
    const std::string line = shape.name + " " + std::string(Name(shape.type)) + " d " + std::to_string(shape.dim) +
                             ": " + std::string(row.status().message());
    std::printf("%s %s\n", refused ? "skipped" : "FAILED", line.c_str());
    report[refused ? "skipped" : "failures"].push_back(line);
  }
  return absl::OkStatus();
}

absl::Status Run(Options options, const std::string& command) {
  const absl::StatusOr<std::vector<GpuCase>> cases = options.Cases();
  if (!cases.ok()) return cases.status();
  absl::StatusOr<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create({});
  if (!backend.ok()) return backend.status();
  absl::StatusOr<GpuLimits> limits = MeasureGpuLimits();
  if (!limits.ok()) return limits.status();
  absl::StatusOr<CacheFlush> flush = CacheFlush::Create();
  if (!flush.ok()) return flush.status();

  Json report = {{"device", (*backend)->info().device},
                 {"driver", DriverVersion()},
                 {"commit", kCommit},
                 {"command", command},
                 {"date", Date()},
                 {"limits", ToJson(*limits)},
                 {"rows", Json::array()},
                 {"skipped", Json::array()},
                 {"failures", Json::array()}};
  std::printf(
      "%s: read %.0f GB/s, host to device %.1f GB/s; TFLOP/s f16 %.0f (mma.sync %.0f), bf16 %.0f, f32 %.1f; TOP/s "
      "i8 %.0f (mma.sync %.0f)\n\n",
      (*backend)->info().device.c_str(), limits->read_bytes * 1e-9, limits->upload_bytes * 1e-9,
      limits->Operations(ScalarType::kF16) * 1e-12, limits->f16_mma * 1e-12,
      limits->Operations(ScalarType::kBF16) * 1e-12, limits->f32 * 1e-12, limits->Operations(ScalarType::kI8) * 1e-12,
      limits->i8_mma * 1e-12);
  absl::Status status = RunCases(**backend, *cases, options, *limits, *flush, report);
  if (status.ok() && options.sweep.count > 0) {
    std::printf("\nsweep: seed %llu\n", static_cast<unsigned long long>(options.sweep.seed));
    for (const GpuCase& shape :
         RandomCases(options.inputs_path.empty() ? 0 : options.sweep.count, options.sweep.seed)) {
      if (absl::Status written = WriteInputs(options.inputs_path, shape); !written.ok()) return written;
    }
    options.sweep.run.tiles = options.TileMask();
    options.sweep.run.join_lists = options.join_lists;
    options.sweep.run.order_candidates = options.order_candidates;
    options.sweep.run.teams = options.teams;
    options.sweep.run.repetitions = std::min(options.repetitions, 7);
    options.sweep.run.whole_calls = false;
    options.sweep.run.check_products = 3e7;
    const absl::StatusOr<Sweep> sweep = RunSweep(**backend, *limits, *flush, options.sweep);
    status = sweep.status();
    if (sweep.ok()) {
      Print(*sweep);
      report["sweep"] = ToJson(*sweep);
      for (const std::string& failure : sweep->failures) report["failures"].push_back(failure);
    }
  }
  // If the device was lost, the report is still written, with the measurements until then.
  if (!options.json_path.empty()) WriteReport(options.json_path, report);
  if (status.ok() && !report["failures"].empty()) {
    return absl::InternalError(std::to_string(report["failures"].size()) + " shapes failed");
  }
  return status;
}

}  // namespace
}  // namespace maxsim::bench

int main(int argc, char** argv) {
  maxsim::bench::Options options;
  CLI::App app("Times the CUDA backend by shape, beside the device's measured limits.");
  app.add_option("--json", options.json_path, "Write the results to this file");
  app.add_option("--inputs", options.inputs_path, "Write lengths and lists of ragged shapes to this folder");
  app.add_option("--shapes", options.shapes,
                 "Shapes, separated by commas: goals, all, or names such as 1x1000x32x300, shard:32x100000, "
                 "lists:32x1000of100000, topk:1000000k100; default: goals, or none with --sweep")
      ->delimiter(',');
  app.add_option("--storage", options.storage, "Storage types instead of the shapes' own, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16", "i8"}));
  app.add_option("--d", options.dims, "Widths instead of the shapes' own, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(8, 4096));
  std::vector<std::string> names;
  for (const maxsim::ScoreTile tile : maxsim::kAllScoreTiles) names.push_back(maxsim::Name(tile));
  app.add_option("--tiles", options.tiles, "Tilings that may be chosen, separated by commas; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_flag("--join-lists,!--no-join-lists", options.join_lists,
               "Score lists that have documents in common as their union, where that saves time (default: on)");
  app.add_flag("--order-candidates,!--no-order-candidates", options.order_candidates,
               "Take the longest documents first, where that saves time (default: on)");
  const std::map<std::string, int32_t> teams = {{"auto", -1}, {"never", 0}, {"always", 1}};
  app.add_option("--teams", options.teams,
                 "Whether thread blocks of the stream kernel share documents: auto (default: where that saves time), "
                 "never, or always (wherever they can)")
      ->transform(CLI::CheckedTransformer(teams));
  app.add_option("--repetitions", options.repetitions, "Timed calls of a shape; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--sweep", options.sweep.count, "Random shapes to run after the others")->check(CLI::Range(0, 100000));
  app.add_option("--seed", options.sweep.seed, "Where the random shapes come from")->capture_default_str();
  app.add_option("--sweep-seconds", options.sweep.seconds, "Time after which no further random shape is begun")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = maxsim::bench::Run(options, maxsim::bench::CommandLine(argc, argv));
  if (!status.ok()) maxsim::bench::Fail(status);
  return 0;
}
