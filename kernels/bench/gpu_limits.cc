#include "kernels/bench/gpu_limits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/bench/gpu_limit_kernels.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/event.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/testing/random_fill.h"

namespace maxsim::bench {
namespace {

constexpr size_t kReadBytes = size_t{4} << 30;
constexpr size_t kFlushBytes = size_t{256} << 20;
constexpr int kRepetitions = 9;
constexpr int kMultiplyIterations = 20000;

// Median seconds of a launch, after one that warms up.
template <class Launch>
absl::StatusOr<double> MedianSeconds(cudaStream_t stream, Launch launch) {
  cuda::Event begin, end;
  MAXSIM_ASSIGN_OR_RETURN(begin, cuda::Event::Create());
  MAXSIM_ASSIGN_OR_RETURN(end, cuda::Event::Create());
  std::vector<double> seconds;
  for (int run = 0; run <= kRepetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(begin.Record(stream));
    MAXSIM_RETURN_IF_CUDA_ERROR(launch());
    MAXSIM_RETURN_IF_ERROR(end.Record(stream));
    MAXSIM_RETURN_IF_ERROR(end.Wait());
    double elapsed = 0;
    MAXSIM_ASSIGN_OR_RETURN(elapsed, end.SecondsSince(begin));
    if (run > 0) seconds.push_back(elapsed);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
  return seconds[kRepetitions / 2];
}

}  // namespace

absl::StatusOr<GpuLimits> MeasureGpuLimits() {
  cuda::Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, cuda::Stream::Create());
  cuda::DeviceBuffer memory, sink;
  MAXSIM_ASSIGN_OR_RETURN(memory, cuda::DeviceBuffer::Allocate(kReadBytes, "measuring the read limit"));
  MAXSIM_ASSIGN_OR_RETURN(sink, cuda::DeviceBuffer::Allocate(sizeof(float), "measuring"));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cuda::FillRandom(ScalarType::kF32, memory.as(), kReadBytes / sizeof(float), 1, 1.0f, stream.get()));
  GpuLimits limits;
  double seconds = 0;
  MAXSIM_ASSIGN_OR_RETURN(seconds, MedianSeconds(stream.get(), [&] {
                            return LaunchRead(memory.as(), kReadBytes, sink.as<float>(), stream.get());
                          }));
  limits.read_bytes_per_second = kReadBytes / seconds;
  for (const auto& [type, rate] : {std::pair(ScalarType::kF16, &limits.f16_flops_per_second),
                                   std::pair(ScalarType::kBF16, &limits.bf16_flops_per_second),
                                   std::pair(ScalarType::kF32, &limits.f32_flops_per_second)}) {
    double flops = 0;
    MAXSIM_ASSIGN_OR_RETURN(seconds, MedianSeconds(stream.get(), [&, scalar = type] {
                              return LaunchMultiply(scalar, kMultiplyIterations, sink.as<float>(), &flops,
                                                    stream.get());
                            }));
    *rate = flops / seconds;
  }
  return limits;
}

absl::StatusOr<CacheFlush> CacheFlush::Create() {
  void* memory = nullptr;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, kFlushBytes + 16));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemset(memory, 0x5a, kFlushBytes + 16));
  return CacheFlush(memory);
}

CacheFlush::CacheFlush(CacheFlush&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

CacheFlush::~CacheFlush() {
  if (memory_ != nullptr) cudaFree(memory_);
}

absl::Status CacheFlush::Run() {
  float* sink = reinterpret_cast<float*>(static_cast<char*>(memory_) + kFlushBytes);
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchRead(memory_, kFlushBytes, sink, cudaStreamPerThread));
  return MAXSIM_CUDA_STATUS(cudaStreamSynchronize(cudaStreamPerThread));
}

}  // namespace maxsim::bench
