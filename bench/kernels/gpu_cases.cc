#include "bench/kernels/gpu_cases.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kernels/gpu_data.h"
#include "kernels/cuda/cuda_executor.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/cuda/testing/random_fill.h"
#include "kernels/plan/select.h"
#include "kernels/rank_order.h"
#include "kernels/reference.h"

namespace maxsim::bench {
namespace {

constexpr int32_t kTopK = 100;
constexpr size_t kSamples = 12;
constexpr double kTolerance = 1e-5;

// The documents of one query that are checked: first some of its best ones, then some random ones. Their number depends
// on how many products may be computed for the check.
struct Sample {
  std::vector<uint32_t> ordinals;
  size_t num_best = 0;  // how many of `ordinals` are the query's best, which come first in rank order
};

Sample DrawSample(const GpuData& data, const Query& query, const std::vector<Scored>& results, double products) {
  std::mt19937_64 random(5);
  Sample sample;
  double taken = 0;
  for (size_t n = 0; n < kSamples; ++n) {
    const bool best = n < std::min(results.size(), kSamples / 2);
    const uint32_t drawn = static_cast<uint32_t>(random() % static_cast<uint64_t>(data.shape.num_documents));
    const uint32_t position = best ? results[n].position : 0;
    const uint32_t ordinal = !best ? drawn : query.ordinals == nullptr ? position : query.ordinals[position];
    taken += static_cast<double>(data.offsets[ordinal + 1] - data.offsets[ordinal]) * query.num_tokens * data.shape.dim;
    if (n > 0 && taken > products) break;
    sample.ordinals.push_back(ordinal);
    sample.num_best += best ? 1 : 0;
  }
  return sample;
}

// Computes ReferenceScores for parts of the query, and adds up the results. A single call would compute each
// document's score on one thread, which takes seconds if query and document are long. Scores and magnitudes are sums
// over query tokens, so those of the parts can be added.
std::vector<ReferenceScore> ReferenceByParts(const DocumentsView& documents, const Query& query) {
  constexpr int32_t kParts = 16;
  const int32_t tokens = std::max((query.num_tokens + kParts - 1) / kParts, 8);
  const size_t token_bytes = static_cast<size_t>(documents.dim) * SizeOf(QueryType(documents.type));
  std::vector<std::future<std::vector<ReferenceScore>>> parts;
  for (int32_t first = 0; first < query.num_tokens; first += tokens) {
    Query part = query;
    part.tokens = static_cast<const uint8_t*>(query.tokens) + static_cast<size_t>(first) * token_bytes;
    part.num_tokens = std::min(tokens, query.num_tokens - first);
    parts.push_back(std::async(std::launch::async, [&documents, part] { return ReferenceScores(documents, part); }));
  }
  std::vector<ReferenceScore> scores(static_cast<size_t>(documents.num_documents));
  for (auto& part : parts) {
    const std::vector<ReferenceScore> part_scores = part.get();
    for (size_t n = 0; n < scores.size(); ++n) {
      scores[n].score += part_scores[n].score;
      scores[n].magnitude += part_scores[n].magnitude;
    }
  }
  return scores;
}

// Compares sampled scores of the first and the last query with FP64 scores of the same rows, as the device holds them.
// Returns the largest error.
absl::StatusOr<double> CheckSamples(cuda::CudaExecutor& executor, const GpuData& data,
                                    const std::vector<std::vector<Scored>>& results, double products) {
  const std::string& name = data.shape.name;
  double largest = 0;
  const size_t last = data.queries.size() - 1;
  for (size_t i = 0; i <= last; i += std::max<size_t>(last, 1)) {
    Query query = data.queries[i];
    const Sample sample = DrawSample(data, query, results[i], products / (last == 0 ? 1 : 2));
    DocumentsCopy copy;
    MAXSIM_ASSIGN_OR_RETURN(copy, CopyDocuments(data, sample.ordinals));
    query.ordinals = sample.ordinals.data();
    query.num_candidates = static_cast<int64_t>(sample.ordinals.size());
    std::vector<std::vector<Scored>> listed(1);
    MAXSIM_RETURN_IF_ERROR(executor.TopK(*data.documents, {&query, 1}, absl::MakeSpan(listed), nullptr));
    Query whole = query;
    whole.ordinals = nullptr;
    const std::vector<ReferenceScore> reference = ReferenceByParts(copy.view, whole);
    for (const Scored& scored : listed[0]) {
      const ReferenceScore& expected = reference[scored.position];
      const double error = std::fabs(scored.score - expected.score) / expected.magnitude;
      if (!(error <= kTolerance)) return absl::InternalError(absl::StrCat(name, ": relative error ", error));
      largest = std::max(largest, error);
      if (scored.position < sample.num_best && scored.score != results[i][scored.position].score) {
        return absl::InternalError(absl::StrCat(name, ": a document scores ", scored.score, " in a list and ",
                                                results[i][scored.position].score, " in the benchmark's call"));
      }
    }
  }
  return largest;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The bytes that a call must read, and the operations that its products take.
struct Work {
  double bytes = 0;       // of every list's documents
  double bytes_once = 0;  // of every document that any list names
  double operations = 0;
};

Work WorkOf(const GpuData& data) {
  const GpuCase& shape = data.shape;
  const double row_bytes = static_cast<double>(shape.dim) * static_cast<double>(SizeOf(shape.type));
  const double rows = static_cast<double>(data.offsets.back());
  Work work;
  double pairs = rows * shape.num_queries;  // document tokens that each query is scored against, summed over queries
  work.bytes = work.bytes_once = rows * row_bytes;
  if (shape.list_size > 0) {
    pairs = work.bytes_once = 0;
    std::vector<bool> read(static_cast<size_t>(shape.num_documents));
    for (const std::vector<uint32_t>& list : data.lists) {
      for (uint32_t n : list) {
        const double tokens = static_cast<double>(data.offsets[n + 1] - data.offsets[n]);
        pairs += tokens;
        if (!read[n]) work.bytes_once += tokens * row_bytes;
        read[n] = true;
      }
    }
    work.bytes = pairs * row_bytes;
  }
  work.operations = 2 * pairs * shape.query_tokens * shape.dim;
  return work;
}

// Returns options with room for this case. max_candidates is never below its default, which servers have: it decides
// how a call is divided, and the benchmark must divide calls as a server does.
ExecutorOptions OptionsFor(const GpuCase& shape) {
  ExecutorOptions options;
  options.max_queries = std::max(shape.num_queries, 1);
  options.max_query_tokens = std::max<int64_t>(int64_t{shape.num_queries} * shape.query_tokens, 1024);
  const int64_t candidates = shape.list_size > 0 ? shape.list_size : shape.num_documents;
  options.max_candidates = std::max(options.max_candidates, candidates * shape.num_queries);
  options.max_dim = shape.dim;
  options.max_staged_bytes = int64_t{1} << 20;
  options.max_staged_documents = 1;
  return options;
}

// Returns the median time of whole calls in seconds, from host memory to host memory.
absl::StatusOr<double> TimeCalls(cuda::CudaExecutor& executor, const GpuData& data, CacheFlush& flush, int repetitions,
                                 std::vector<std::vector<Scored>>& results) {
  std::vector<double> seconds;
  for (int run = 0; run < repetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(flush.Run());
    const auto begin = std::chrono::steady_clock::now();
    MAXSIM_RETURN_IF_ERROR(executor.TopK(*data.documents, data.queries, absl::MakeSpan(results), nullptr));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return Median(seconds);
}

// `start` enqueues work on the CUDA stream. Returns the median seconds from the call of `start` until the host sees
// that all of this work is done.
template <class Start>
absl::StatusOr<double> TimeStarts(cudaStream_t stream, CacheFlush& flush, int repetitions, Start start) {
  std::vector<double> seconds;
  for (int run = 0; run < repetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(flush.Run());
    const auto begin = std::chrono::steady_clock::now();
    MAXSIM_RETURN_IF_ERROR(start());
    while (true) {
      const cudaError_t error = cudaStreamQuery(stream);
      if (error == cudaSuccess) break;
      if (error != cudaErrorNotReady) return MAXSIM_CUDA_STATUS(error);
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return Median(seconds);
}

// Times the kernels of the executor's last call twice: launched one by one, and as a graph.
absl::Status TimeGraph(cuda::CudaExecutor& executor, const GpuData& data, CacheFlush& flush, int repetitions,
                       GpuRow& row) {
  const auto launch = [&] { return executor.StartAgain(*data.documents); };
  absl::StatusOr<double> launches = TimeStarts(executor.stream(), flush, repetitions, launch);
  if (absl::IsFailedPrecondition(launches.status())) return absl::OkStatus();  // a call with copies
  MAXSIM_ASSIGN_OR_RETURN(row.launches_seconds, std::move(launches));
  cudaGraph_t graph = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(executor.stream(), cudaStreamCaptureModeThreadLocal));
  const absl::Status launched = launch();
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(executor.stream(), &graph));
  const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> graph_owner(graph, cudaGraphDestroy);
  MAXSIM_RETURN_IF_ERROR(launched);
  cudaGraphExec_t exec = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&exec, graph, 0));
  const std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)> exec_owner(exec, cudaGraphExecDestroy);
  MAXSIM_ASSIGN_OR_RETURN(row.graph_seconds, TimeStarts(executor.stream(), flush, repetitions, [&] {
                            return MAXSIM_CUDA_STATUS(cudaGraphLaunch(exec, executor.stream()));
                          }));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuRow> RunGpuCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                  CacheFlush& flush, const RunOptions& options) {
  GpuData data;
  MAXSIM_ASSIGN_OR_RETURN(data, MakeGpuData(backend, shape, kTopK));
  std::unique_ptr<cuda::CudaExecutor> executor;
  MAXSIM_ASSIGN_OR_RETURN(executor, cuda::CudaExecutor::Create(backend.device(), OptionsFor(shape)));
  executor->tuning().tiles = options.tiles;
  executor->tuning().joins = options.join_lists ? cuda::Joins::kWorthwhile : cuda::Joins::kNever;
  executor->tuning().ordering = options.order_candidates ? cuda::Ordering::kWorthwhile : cuda::Ordering::kNever;
  executor->tuning().stream = {.teams = options.teams};

  GpuRow row;
  row.shape = shape;
  std::vector<std::vector<Scored>> results(data.queries.size());
  std::vector<double> score, select;
  executor->tuning().stage_events = true;
  for (int run = -2; run < options.repetitions; ++run) {  // two runs warm up
    // The flush is enqueued on the call's own CUDA stream, and the host does not wait for it. So the host's work
    // before the first launch, and the launches, happen while the device still flushes, as in a graph's replay.
    MAXSIM_RETURN_IF_ERROR(flush.Enqueue(executor->stream()));
    MAXSIM_RETURN_IF_ERROR(executor->TopK(*data.documents, data.queries, absl::MakeSpan(results), nullptr));
    if (run == -2) {
      row.plan = executor->trace().plan.ToString();
      row.tile = Name(executor->trace().plan.tile);
      MAXSIM_ASSIGN_OR_RETURN(row.largest_error, CheckSamples(*executor, data, results, options.check_products));
    }
    if (run < 0) continue;
    score.push_back(executor->trace().seconds.score);
    select.push_back(executor->trace().seconds.select);
  }
  row.seconds = Median(score);
  row.select_seconds = Median(select);
  executor->tuning().stage_events = false;
  if (options.whole_calls) {
    MAXSIM_ASSIGN_OR_RETURN(row.call_seconds, TimeCalls(*executor, data, flush, options.repetitions, results));
    MAXSIM_RETURN_IF_ERROR(TimeGraph(*executor, data, flush, options.repetitions, row));
  }
  const Work work = WorkOf(data);
  const double multiply = work.operations / limits.Operations(shape.type);
  row.limit_seconds = std::max(work.bytes / limits.read_bytes, multiply);
  row.limit_once_seconds = std::max(work.bytes_once / limits.read_bytes, multiply);
  row.memory_bound = row.limit_seconds > multiply;
  row.bytes_per_second = work.bytes / row.seconds;
  row.operations_per_second = work.operations / row.seconds;
  return row;
}

absl::StatusOr<GpuRow> RunSelectCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                     CacheFlush& flush, const RunOptions& options) {
  const int64_t num_scores = shape.num_documents;
  const int32_t k = static_cast<int32_t>(std::min<int64_t>(shape.select_k, num_scores));
  cuda::Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, cuda::Stream::Create());
  cuda::Event begin, end;
  MAXSIM_ASSIGN_OR_RETURN(begin, cuda::Event::Create(cuda::Event::Use::kTime));
  MAXSIM_ASSIGN_OR_RETURN(end, cuda::Event::Create(cuda::Event::Use::kTime));
  const SelectPlan plan = PlanSelect(num_scores, k, 1, backend.device()->limits);
  cuda::DeviceBuffer scores, workspace, keys, results, table;
  MAXSIM_ASSIGN_OR_RETURN(scores,
                          cuda::DeviceBuffer::Allocate(static_cast<size_t>(num_scores) * sizeof(float), "scores"));
  MAXSIM_ASSIGN_OR_RETURN(workspace, cuda::DeviceBuffer::Allocate(sizeof(cuda::SelectWorkspace), "selection"));
  MAXSIM_ASSIGN_OR_RETURN(
      keys, cuda::DeviceBuffer::Allocate(static_cast<size_t>(plan.keys()) * sizeof(uint64_t), "selection"));
  MAXSIM_ASSIGN_OR_RETURN(results,
                          cuda::DeviceBuffer::Allocate(static_cast<size_t>(k) * sizeof(cuda::DeviceScored), "results"));
  MAXSIM_ASSIGN_OR_RETURN(table, cuda::DeviceBuffer::Allocate(sizeof(cuda::SelectQuery), "selection"));
  const cuda::SelectQuery query{0, num_scores, 0, 0, k, plan.splits, plan.buckets, plan.list_keys};
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpy(table.as(), &query, sizeof(query), cudaMemcpyHostToDevice));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(workspace.as(), 0, workspace.bytes(), stream.get()));
  MAXSIM_RETURN_IF_CUDA_ERROR(cuda::FillRandom(ScalarType::kF32, scores.as(), num_scores, 3, 20.0f, stream.get()));
  cuda::SelectCall call{};
  call.queries = table.as<cuda::SelectQuery>();
  call.scores = scores.as<float>();
  call.workspaces = workspace.as<cuda::SelectWorkspace>();
  call.keys = keys.as<uint64_t>();
  call.results = results.as<cuda::DeviceScored>();
  (plan.large() ? call.num_large : call.num_small) = 1;
  call.most_splits = plan.splits;
  call.most_rank_blocks = plan.rank_blocks;
  call.only = query;
  std::vector<double> seconds;
  for (int run = -2; run < options.repetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(flush.Enqueue(stream.get()));
    MAXSIM_RETURN_IF_ERROR(begin.Record(stream.get()));
    MAXSIM_RETURN_IF_CUDA_ERROR(cuda::LaunchSelect(call, {}, backend.device()->overlap, stream.get()));
    MAXSIM_RETURN_IF_ERROR(end.Record(stream.get()));
    MAXSIM_RETURN_IF_ERROR(end.Wait());
    double elapsed = 0;
    MAXSIM_ASSIGN_OR_RETURN(elapsed, end.SecondsSince(begin));
    if (run >= 0) seconds.push_back(elapsed);
  }

  std::vector<float> host(static_cast<size_t>(num_scores));
  std::vector<Scored> best(static_cast<size_t>(k)), expected;
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(host.data(), scores.as(), host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(best.data(), results.as(), best.size() * sizeof(Scored), cudaMemcpyDeviceToHost));
  for (size_t n = 0; n < host.size(); ++n) expected.push_back({host[n], static_cast<uint32_t>(n)});
  std::partial_sort(expected.begin(), expected.begin() + k, expected.end(), RanksBefore);
  if (!std::equal(best.begin(), best.end(), expected.begin())) {
    return absl::InternalError(absl::StrCat(shape.name, ": the device selects other scores than the host"));
  }

  GpuRow row;
  row.shape = shape;
  row.plan = plan.ToString();
  row.tile = plan.large() ? "bound" : "rank";
  row.seconds = Median(seconds);
  const double bytes = static_cast<double>(num_scores) * sizeof(float);
  row.limit_seconds = row.limit_once_seconds = bytes / limits.read_bytes;
  row.memory_bound = true;
  row.bytes_per_second = bytes / row.seconds;
  return row;
}

}  // namespace maxsim::bench
