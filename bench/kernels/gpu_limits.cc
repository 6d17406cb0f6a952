#include "bench/kernels/gpu_limits.h"

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/gpu_limit_kernels.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/testing/random_fill.h"

namespace maxsim::bench {
namespace {

constexpr size_t kReadBytes = size_t{4} << 30;
constexpr size_t kUploadBytes = size_t{256} << 20;
constexpr size_t kFlushBytes = size_t{256} << 20;
constexpr int kLimitRepetitions = 9;
constexpr int kMultiplyIterations = 20000;
constexpr int kWgmmaIterations = 1500;

// Returns the median seconds of a launch, after one launch that warms up.
template <class Launch>
absl::StatusOr<double> MedianSeconds(cudaStream_t stream, Launch launch) {
  cuda::Event begin, end;
  MAXSIM_ASSIGN_OR_RETURN(begin, cuda::Event::Create());
  MAXSIM_ASSIGN_OR_RETURN(end, cuda::Event::Create());
  std::vector<double> seconds;
  for (int run = 0; run <= kLimitRepetitions; ++run) {
    MAXSIM_RETURN_IF_ERROR(begin.Record(stream));
    MAXSIM_RETURN_IF_CUDA_ERROR(launch());
    MAXSIM_RETURN_IF_ERROR(end.Record(stream));
    MAXSIM_RETURN_IF_ERROR(end.Wait());
    double elapsed = 0;
    MAXSIM_ASSIGN_OR_RETURN(elapsed, end.SecondsSince(begin));
    if (run > 0) seconds.push_back(elapsed);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kLimitRepetitions / 2, seconds.end());
  return seconds[kLimitRepetitions / 2];
}

// Measures reading device memory and copying from the host.
absl::Status MeasureMemory(cudaStream_t stream, float* sink, GpuLimits& limits) {
  cuda::DeviceBuffer memory;
  cuda::PinnedBuffer host;
  MAXSIM_ASSIGN_OR_RETURN(memory, cuda::DeviceBuffer::Allocate(kReadBytes, "measuring the read limit"));
  MAXSIM_ASSIGN_OR_RETURN(host, cuda::PinnedBuffer::Allocate(kUploadBytes, "measuring the copy limit"));
  std::memset(host.as(), 0x5a, kUploadBytes);
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cuda::FillRandom(ScalarType::kF32, memory.as(), kReadBytes / sizeof(float), 1, 1.0f, stream));
  double seconds = 0;
  MAXSIM_ASSIGN_OR_RETURN(seconds,
                          MedianSeconds(stream, [&] { return LaunchRead(memory.as(), kReadBytes, sink, stream); }));
  limits.read_bytes = kReadBytes / seconds;
  MAXSIM_ASSIGN_OR_RETURN(seconds, MedianSeconds(stream, [&] {
                            return cudaMemcpyAsync(memory.as(), host.as(), kUploadBytes, cudaMemcpyHostToDevice,
                                                   stream);
                          }));
  limits.upload_bytes = kUploadBytes / seconds;
  return absl::OkStatus();
}

absl::Status MeasureMultiplying(cudaStream_t stream, float* sink, GpuLimits& limits) {
  int device = 0, num_sms = 0, major = 0, minor = 0;
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  double operations = 0, seconds = 0;
  for (const auto& [type, rate] :
       {std::pair(ScalarType::kF32, &limits.f32), std::pair(ScalarType::kF16, &limits.f16_mma),
        std::pair(ScalarType::kBF16, &limits.bf16_mma), std::pair(ScalarType::kI8, &limits.i8_mma)}) {
    MAXSIM_ASSIGN_OR_RETURN(seconds, MedianSeconds(stream, [&, scalar = type] {
                              return LaunchMultiply(scalar, kMultiplyIterations, sink, &operations, stream);
                            }));
    *rate = operations / seconds;
  }
  if (major != 9 || minor != 0) return absl::OkStatus();
  for (const auto& [type, rate] :
       {std::pair(ScalarType::kF16, &limits.f16_wgmma), std::pair(ScalarType::kBF16, &limits.bf16_wgmma),
        std::pair(ScalarType::kI8, &limits.i8_wgmma)}) {
    MAXSIM_ASSIGN_OR_RETURN(seconds, MedianSeconds(stream, [&, scalar = type] {
                              return LaunchWgmma(scalar, kWgmmaIterations, num_sms, sink, &operations, stream);
                            }));
    *rate = operations / seconds;
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<GpuLimits> MeasureGpuLimits() {
  cuda::Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, cuda::Stream::Create());
  cuda::DeviceBuffer sink;
  MAXSIM_ASSIGN_OR_RETURN(sink, cuda::DeviceBuffer::Allocate(sizeof(float), "measuring"));
  GpuLimits limits;
  MAXSIM_RETURN_IF_ERROR(MeasureMemory(stream.get(), sink.as<float>(), limits));
  MAXSIM_RETURN_IF_ERROR(MeasureMultiplying(stream.get(), sink.as<float>(), limits));
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

absl::Status CacheFlush::Enqueue(cudaStream_t stream) {
  float* sink = reinterpret_cast<float*>(static_cast<char*>(memory_) + kFlushBytes);
  return MAXSIM_CUDA_STATUS(LaunchRead(memory_, kFlushBytes, sink, stream));
}

absl::Status CacheFlush::Run() {
  MAXSIM_RETURN_IF_ERROR(Enqueue(cudaStreamPerThread));
  return MAXSIM_CUDA_STATUS(cudaStreamSynchronize(cudaStreamPerThread));
}

}  // namespace maxsim::bench
