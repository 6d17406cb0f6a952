#include "kernels/bench/gpu_cases.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/cuda_executor.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/testing/random_fill.h"
#include "kernels/cuda/topk/topk_launch.h"
#include "kernels/reference.h"

namespace maxsim::bench {
namespace {

constexpr int32_t kTopK = 100;
constexpr int kSamples = 12;
constexpr double kTolerance = 1e-5;

struct Data {
  std::vector<int64_t> offsets;
  std::unique_ptr<cuda::CudaDocuments> documents;
  std::vector<std::vector<uint8_t>> query_tokens;
  std::vector<std::vector<uint32_t>> lists;
  std::vector<Query> queries;
};

// Log-normal lengths cut to 8 .. 512: mean near 121, as passages of a text collection have.
std::vector<int64_t> RaggedOffsets(int64_t count, std::mt19937_64& random) {
  std::lognormal_distribution<double> length(4.6, 0.62);
  std::vector<int64_t> offsets(1, 0);
  for (int64_t n = 0; n < count; ++n) {
    offsets.push_back(offsets.back() + std::clamp<int64_t>(std::llround(length(random)), 8, 512));
  }
  return offsets;
}

absl::StatusOr<Data> MakeData(cuda::CudaBackend& backend, const GpuCase& shape) {
  std::mt19937_64 random(shape.num_documents * 31 + shape.query_tokens);
  Data data;
  if (shape.document_tokens == 0) {
    data.offsets = RaggedOffsets(shape.num_documents, random);
  } else {
    for (int64_t n = 0; n <= shape.num_documents; ++n) data.offsets.push_back(n * shape.document_tokens);
  }
  const cuda::CudaDocuments::Shape size{shape.type, shape.dim, shape.num_documents, data.offsets.back()};
  const float scale = 1.7f / std::sqrt(static_cast<float>(shape.dim));  // rows of norm near 1
  cuda::DeviceBuffer tokens, offsets;
  MAXSIM_ASSIGN_OR_RETURN(tokens, cuda::DeviceBuffer::Allocate(size.token_bytes(), "documents"));
  MAXSIM_ASSIGN_OR_RETURN(offsets, cuda::DeviceBuffer::Allocate(size.offset_bytes(), "offsets"));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cuda::FillRandom(shape.type, tokens.as(), size.num_tokens * shape.dim, 11, scale, cudaStreamPerThread));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(offsets.as(), data.offsets.data(), size.offset_bytes(), cudaMemcpyHostToDevice));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamPerThread));
  data.documents = std::make_unique<cuda::CudaDocuments>(backend.device(), size, std::move(tokens), std::move(offsets));

  std::uniform_real_distribution<float> value(-scale, scale);
  std::uniform_int_distribution<uint32_t> ordinal(0, static_cast<uint32_t>(shape.num_documents - 1));
  const size_t values = static_cast<size_t>(shape.query_tokens) * static_cast<size_t>(shape.dim);
  data.query_tokens.resize(static_cast<size_t>(shape.num_queries));
  data.lists.resize(static_cast<size_t>(shape.num_queries));
  for (size_t i = 0; i < data.query_tokens.size(); ++i) {
    std::vector<float> wide(values);
    for (float& v : wide) v = value(random);
    data.query_tokens[i].resize(values * SizeOf(shape.type));
    ConvertElements(ScalarType::kF32, wide.data(), shape.type, data.query_tokens[i].data(), values);
    for (int64_t n = 0; n < shape.list_size; ++n) data.lists[i].push_back(ordinal(random));
    Query query;
    query.tokens = data.query_tokens[i].data();
    query.num_tokens = shape.query_tokens;
    query.ordinals = shape.list_size == 0 ? nullptr : data.lists[i].data();
    query.num_candidates = shape.list_size;
    query.top_k = kTopK;
    data.queries.push_back(query);
  }
  return data;
}

// Scores of the best and of some random candidates of the first and the last query, against FP64 on the rows that the
// device holds.
absl::StatusOr<double> CheckSamples(cuda::CudaExecutor& executor, const GpuCase& shape, const Data& data,
                                    const std::vector<std::vector<Scored>>& results) {
  std::mt19937_64 random(5);
  double largest = 0;
  for (size_t i : {size_t{0}, data.queries.size() - 1}) {
    Query query = data.queries[i];
    std::vector<uint32_t> sample;
    const size_t num_best = std::min<size_t>(results[i].size(), kSamples / 2);
    for (size_t n = 0; n < num_best; ++n) {
      const uint32_t position = results[i][n].position;
      sample.push_back(query.ordinals == nullptr ? position : query.ordinals[position]);
    }
    while (sample.size() < kSamples)
      sample.push_back(static_cast<uint32_t>(random() % static_cast<uint64_t>(shape.num_documents)));
    std::vector<int64_t> offsets(1, 0);
    for (uint32_t n : sample) offsets.push_back(offsets.back() + data.offsets[n + 1] - data.offsets[n]);
    const size_t row_bytes = static_cast<size_t>(data.documents->row_bytes());
    std::vector<uint8_t> rows(static_cast<size_t>(offsets.back()) * row_bytes);
    for (size_t n = 0; n < sample.size(); ++n) {
      MAXSIM_RETURN_IF_CUDA_ERROR(
          cudaMemcpy(rows.data() + static_cast<size_t>(offsets[n]) * row_bytes,
                     data.documents->device_tokens() + data.offsets[sample[n]] * static_cast<int64_t>(row_bytes),
                     static_cast<size_t>(offsets[n + 1] - offsets[n]) * row_bytes, cudaMemcpyDeviceToHost));
    }
    query.ordinals = sample.data();
    query.num_candidates = static_cast<int64_t>(sample.size());
    std::vector<std::vector<Scored>> listed(1);
    MAXSIM_RETURN_IF_ERROR(executor.TopK(*data.documents, {&query, 1}, absl::MakeSpan(listed), nullptr));
    const DocumentsView view{shape.type, shape.dim, static_cast<int64_t>(sample.size()), rows.data(), offsets.data()};
    Query whole = query;
    whole.ordinals = nullptr;
    const std::vector<ReferenceScore> reference = ReferenceScores(view, whole);
    for (const Scored& scored : listed[0]) {
      const ReferenceScore& expected = reference[scored.position];
      largest = std::max(largest, std::fabs(scored.score - expected.score) / expected.magnitude);
      if (scored.position < num_best && scored.score != results[i][scored.position].score) {
        return absl::InternalError(absl::StrCat(shape.name, ": a document scores ", scored.score, " in a list and ",
                                                results[i][scored.position].score, " in the benchmark's call"));
      }
    }
  }
  if (!(largest <= kTolerance)) return absl::InternalError(absl::StrCat(shape.name, ": relative error ", largest));
  return largest;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Bytes that have to be read once, and operations, of a call.
struct Work {
  double bytes = 0;
  double flops = 0;
};

Work WorkOf(const GpuCase& shape, const Data& data) {
  double pairs_of_a_row = 0;  // document tokens that one token of every query meets, summed over queries
  Work work;
  const double row_bytes = static_cast<double>(data.documents->row_bytes());
  if (shape.list_size == 0) {
    pairs_of_a_row = static_cast<double>(data.offsets.back()) * shape.num_queries;
    work.bytes = static_cast<double>(data.offsets.back()) * row_bytes;
  } else {
    std::vector<bool> read(static_cast<size_t>(shape.num_documents));
    for (const std::vector<uint32_t>& list : data.lists) {
      for (uint32_t n : list) {
        const double tokens = static_cast<double>(data.offsets[n + 1] - data.offsets[n]);
        pairs_of_a_row += tokens;
        if (!read[n]) work.bytes += tokens * row_bytes;
        read[n] = true;
      }
    }
  }
  work.flops = 2.0 * pairs_of_a_row * shape.query_tokens * shape.dim;
  return work;
}

double FlopsLimit(ScalarType type, const GpuLimits& limits) {
  if (type == ScalarType::kF32) return limits.f32_flops_per_second;
  return type == ScalarType::kF16 ? limits.f16_flops_per_second : limits.bf16_flops_per_second;
}

}  // namespace

std::vector<GpuCase> GpuCases() {
  constexpr ScalarType kF16 = ScalarType::kF16;
  return {
      {"1 x 1,000 x 32 x 300", kF16, 128, 1, 32, 1000, 300, 0},
      {"1 x 10,000 x 32 x 300", kF16, 128, 1, 32, 10000, 300, 0},
      {"1 x 1,000 x 32 x 1024", kF16, 128, 1, 32, 1000, 1024, 0},
      {"1 x 1,000 x 128 x 1024", kF16, 128, 1, 128, 1000, 1024, 0},
      {"1 x 1,000 x 512 x 1024", kF16, 128, 1, 512, 1000, 1024, 0},
      {"1 x 1,000 x 1024 x 1024", kF16, 128, 1, 1024, 1000, 1024, 0},
      {"32 x 1,024 x 32 x 180", kF16, 128, 32, 32, 1024, 180, 0},
      {"32 x 1,024 x 32 x 1024", kF16, 128, 32, 32, 1024, 1024, 0},
      {"128 x 128 x 32 x 300", kF16, 128, 128, 32, 128, 300, 0},
      {"32 x 128 x 1024 x 1024", kF16, 128, 32, 1024, 128, 1024, 0},
      {"8 x 10,000 x 32 x 300", kF16, 128, 8, 32, 10000, 300, 0},
      {"32 lists of 1,000 of 100,000 ragged", kF16, 128, 32, 32, 100000, 0, 1000},
      {"1 list of 1,000 of 100,000 ragged", kF16, 128, 1, 32, 100000, 0, 1000},
      {"whole ragged shard of 100,000, 1 query", kF16, 128, 1, 32, 100000, 0, 0},
      {"whole ragged shard of 100,000, 32 queries", kF16, 128, 32, 32, 100000, 0, 0},
      {"1 x 1,000 x 32 x 300, d = 48", kF16, 48, 1, 32, 1000, 300, 0},
      {"1 x 1,000 x 32 x 300, d = 96", kF16, 96, 1, 32, 1000, 300, 0},
      {"1 x 1,000 x 32 x 300, d = 768", kF16, 768, 1, 32, 1000, 300, 0},
      {"1 x 10,000 x 32 x 300, bf16", ScalarType::kBF16, 128, 1, 32, 10000, 300, 0},
      {"1 x 1,000 x 1024 x 1024, bf16", ScalarType::kBF16, 128, 1, 1024, 1000, 1024, 0},
      {"1 x 10,000 x 32 x 300, f32", ScalarType::kF32, 128, 1, 32, 10000, 300, 0},
  };
}

absl::StatusOr<GpuRow> RunGpuCase(cuda::CudaBackend& backend, const GpuCase& shape, const GpuLimits& limits,
                                  CacheFlush& flush, uint32_t tiles, cuda::WaitMode wait, int repetitions) {
  Data data;
  MAXSIM_ASSIGN_OR_RETURN(data, MakeData(backend, shape));
  ExecutorOptions options;
  options.max_queries = std::max(shape.num_queries, 1);
  std::unique_ptr<cuda::CudaExecutor> executor;
  MAXSIM_ASSIGN_OR_RETURN(executor, cuda::CudaExecutor::Create(backend.device(), options));
  executor->AllowTiles(tiles);

  GpuRow row;
  row.shape = shape;
  std::vector<std::vector<Scored>> results(data.queries.size());
  executor->SetWaitMode(wait);
  std::vector<double> score, select, call;
  // First the stages, timed by events between them, then the call as it is.
  for (const bool stages : {true, false}) {
    executor->SetStageEvents(stages);
    for (int run = -2; run < repetitions; ++run) {  // two warm up
      MAXSIM_RETURN_IF_ERROR(flush.Run());
      const auto begin = std::chrono::steady_clock::now();
      MAXSIM_RETURN_IF_ERROR(executor->TopK(*data.documents, data.queries, absl::MakeSpan(results), nullptr));
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (run == -2) {
        row.plan = executor->last_plan().ToString();
        row.tile = Name(executor->last_plan().tile);
        MAXSIM_ASSIGN_OR_RETURN(row.largest_error, CheckSamples(*executor, shape, data, results));
      }
      if (run < 0) continue;
      if (stages) {
        score.push_back(executor->last_timings().score);
        select.push_back(executor->last_timings().select);
      } else {
        call.push_back(elapsed.count());
      }
    }
  }
  row.score_seconds = Median(score);
  row.select_seconds = Median(select);
  row.call_seconds = Median(call);
  const Work work = WorkOf(shape, data);
  const double memory_floor = work.bytes / limits.read_bytes_per_second;
  const double multiply_floor = work.flops / FlopsLimit(shape.type, limits);
  row.floor_seconds = std::max(memory_floor, multiply_floor);
  row.memory_bound = memory_floor >= multiply_floor;
  row.bytes_per_second = work.bytes / row.score_seconds;
  row.flops_per_second = work.flops / row.score_seconds;
  return row;
}

std::vector<SelectCase> SelectCases() {
  return {{1000, 100, 1},     {4096, 1000, 1},     {4097, 100, 1},       {10000, 100, 1},    {10000, 1000, 1},
          {100000, 100, 1},   {100000, 1000, 1},   {1000000, 100, 1},    {1000000, 1000, 1}, {1000000, 10000, 1},
          {10000000, 100, 1}, {10000000, 1000, 1}, {10000000, 10000, 1}, {1000, 100, 32},    {10000, 100, 32},
          {100000, 100, 32},  {100000, 1000, 8}};
}

std::string SelectCase::Name() const {
  return absl::StrCat("topk:", num_scores, "k", k, num_queries == 1 ? "" : absl::StrCat("q", num_queries));
}

absl::StatusOr<SelectRow> RunSelectCase(cuda::CudaBackend& backend, const SelectCase& shape, const GpuLimits& limits,
                                        CacheFlush& flush, int repetitions) {
  const int64_t stride = (shape.num_scores + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment;
  const auto num_queries = static_cast<size_t>(shape.num_queries);
  const size_t num_results = num_queries * static_cast<size_t>(shape.k);
  const SelectPlan plan = PlanSelect(shape.num_scores, shape.k, shape.num_queries, backend.device()->limits);
  std::vector<cuda::SelectQuery> queries;
  for (int64_t i = 0; i < shape.num_queries; ++i) {
    queries.push_back({i * stride, shape.num_scores, i * shape.k, i * plan.keys(), shape.k, plan.chunks, plan.groups,
                       plan.list_keys});
  }
  cuda::Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, cuda::Stream::Create());
  cuda::Event begin, end;
  MAXSIM_ASSIGN_OR_RETURN(begin, cuda::Event::Create());
  MAXSIM_ASSIGN_OR_RETURN(end, cuda::Event::Create());
  cuda::DeviceBuffer scores, workspaces, keys, results, table;
  const size_t num_scores = num_queries * static_cast<size_t>(stride);
  MAXSIM_ASSIGN_OR_RETURN(scores, cuda::DeviceBuffer::Allocate(num_scores * sizeof(float), "scores"));
  MAXSIM_ASSIGN_OR_RETURN(workspaces,
                          cuda::DeviceBuffer::Allocate(num_queries * sizeof(cuda::SelectWorkspace), "selection"));
  MAXSIM_ASSIGN_OR_RETURN(keys, cuda::DeviceBuffer::Allocate(
                                    num_queries * static_cast<size_t>(plan.keys()) * sizeof(uint64_t), "selection"));
  MAXSIM_ASSIGN_OR_RETURN(results, cuda::DeviceBuffer::Allocate(num_results * sizeof(cuda::DeviceScored), "results"));
  MAXSIM_ASSIGN_OR_RETURN(table, cuda::DeviceBuffer::Allocate(queries.size() * sizeof(queries[0]), "selection"));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpy(table.as(), queries.data(), table.bytes(), cudaMemcpyHostToDevice));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(workspaces.as(), 0, workspaces.bytes(), stream.get()));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cuda::FillRandom(ScalarType::kF32, scores.as(), static_cast<int64_t>(num_scores), 3, 20.0f, stream.get()));
  cuda::SelectCall call{};
  call.queries = table.as<cuda::SelectQuery>();
  call.scores = scores.as<float>();
  call.workspaces = workspaces.as<cuda::SelectWorkspace>();
  call.keys = keys.as<uint64_t>();
  call.results = results.as<cuda::DeviceScored>();
  (plan.large() ? call.num_large : call.num_small) = shape.num_queries;
  call.most_chunks = plan.chunks;
  call.most_rank_blocks = plan.rank_blocks;
  call.only = queries.front();
  std::vector<double> seconds;
  for (int run = -2; run < repetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(flush.Run());
    MAXSIM_RETURN_IF_ERROR(begin.Record(stream.get()));
    MAXSIM_RETURN_IF_CUDA_ERROR(cuda::LaunchSelect(call, {}, backend.device()->overlapping_select, stream.get()));
    MAXSIM_RETURN_IF_ERROR(end.Record(stream.get()));
    MAXSIM_RETURN_IF_ERROR(end.Wait());
    double elapsed = 0;
    MAXSIM_ASSIGN_OR_RETURN(elapsed, end.SecondsSince(begin));
    if (run >= 0) seconds.push_back(elapsed);
  }
  return SelectRow{shape, plan.ToString(), Median(seconds),
                   static_cast<double>(shape.num_scores) * static_cast<double>(num_queries) * sizeof(float) /
                       limits.read_bytes_per_second};
}

}  // namespace maxsim::bench
