#include "kernels/cuda/runtime/link_profile.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/gather.h"
#include "kernels/cuda/runtime/stream.h"

namespace maxsim::cuda {
namespace {

// The bytes that one measurement copies. Copying this many takes more than a millisecond, so the time to start and end
// the measurement does not matter.
constexpr int64_t kSampleBytes = int64_t{64} << 20;
constexpr int kRounds = 2;

// The number of gathering thread blocks is raised only if gathering then is at least this many times as fast: kernels
// that score cannot use these thread blocks' multiprocessors.
constexpr double kWorthMore = 1.02;

// Memory, a CUDA stream and events to measure with.
class Sample {
 public:
  absl::Status Allocate() {
    MAXSIM_ASSIGN_OR_RETURN(stream_, Stream::Create());
    MAXSIM_ASSIGN_OR_RETURN(begin_, Event::Create());
    MAXSIM_ASSIGN_OR_RETURN(end_, Event::Create());
    MAXSIM_ASSIGN_OR_RETURN(host_, PinnedBuffer::Allocate(kSampleBytes, "measuring the link"));
    MAXSIM_ASSIGN_OR_RETURN(device_, DeviceBuffer::Allocate(kSampleBytes, "measuring the link"));
    constexpr size_t kCopies = kSampleBytes / kGatherCopyBytes;
    MAXSIM_ASSIGN_OR_RETURN(copies_, DeviceBuffer::Allocate(kCopies * sizeof(GatherCopy), "measuring the link"));
    std::memset(host_.as(), 0, kSampleBytes);
    // The even-numbered pieces come first, then the odd ones, so that no piece is read right after its neighbour, as
    // with scattered documents.
    std::vector<GatherCopy> copies;
    for (size_t i = 0; i < kCopies; ++i) {
      const size_t offset = (i * 2 + (i * 2 >= kCopies ? 1 : 0)) % kCopies * kGatherCopyBytes;
      copies.push_back({host_.as<uint8_t>() + offset, device_.as<uint8_t>() + i * kGatherCopyBytes, kGatherCopyBytes});
    }
    return MAXSIM_CUDA_STATUS(
        cudaMemcpy(copies_.as(), copies.data(), kCopies * sizeof(GatherCopy), cudaMemcpyHostToDevice));
  }

  // Returns the rate of gathering by `blocks` thread blocks, in bytes per second.
  absl::StatusOr<double> Gather(int blocks) {
    return Rate(
        [&] { return LaunchGather(copies_.as<GatherCopy>(), kSampleBytes / kGatherCopyBytes, blocks, stream_.get()); });
  }

  // Returns the rate of copies of `piece_bytes` each, in bytes per second.
  absl::StatusOr<double> Copy(int64_t piece_bytes) {
    return Rate([&] {
      cudaError_t error = cudaSuccess;
      for (int64_t at = 0; at < kSampleBytes && error == cudaSuccess; at += piece_bytes) {
        error = cudaMemcpyAsync(device_.as<uint8_t>() + at, host_.as<uint8_t>() + at, static_cast<size_t>(piece_bytes),
                                cudaMemcpyHostToDevice, stream_.get());
      }
      return error;
    });
  }

 private:
  // Calls `start`, which starts one round of copies, several times. Returns the rate of the fastest round in bytes per
  // second.
  absl::StatusOr<double> Rate(absl::FunctionRef<cudaError_t()> start) {
    double best = 0;
    for (int round = 0; round <= kRounds; ++round) {
      MAXSIM_RETURN_IF_ERROR(begin_.Record(stream_.get()));
      MAXSIM_RETURN_IF_CUDA_ERROR(start());
      MAXSIM_RETURN_IF_ERROR(end_.Record(stream_.get()));
      MAXSIM_RETURN_IF_ERROR(end_.Wait());
      double seconds = 0;
      MAXSIM_ASSIGN_OR_RETURN(seconds, end_.SecondsSince(begin_));
      if (round > 0) best = std::max(best, kSampleBytes / seconds);
    }
    return best;
  }

  Stream stream_;
  Event begin_, end_;
  PinnedBuffer host_;
  DeviceBuffer device_, copies_;
};

}  // namespace

std::string LinkProfile::ToString() const {
  return absl::StrFormat("copies %.1f GB/s; gathers %.1f GB/s by %d thread blocks, documents below %d KiB",
                         copy_bytes * 1e-9, gather_bytes * 1e-9, gather_blocks, copy_document_bytes / 1024);
}

absl::StatusOr<LinkProfile> MeasureLink() {
  Sample sample;
  MAXSIM_RETURN_IF_ERROR(sample.Allocate());
  LinkProfile profile;
  MAXSIM_ASSIGN_OR_RETURN(profile.copy_bytes, sample.Copy(kSampleBytes));
  for (const int blocks : {8, 12, 16, 24, 32}) {
    double rate = 0;
    MAXSIM_ASSIGN_OR_RETURN(rate, sample.Gather(blocks));
    if (rate < profile.gather_bytes * kWorthMore) continue;
    profile.gather_blocks = blocks;
    profile.gather_bytes = rate;
  }
  // The longer documents are, the faster it is to copy them one by one. This loop finds the smallest size with which
  // copies are faster than gathering.
  for (const int64_t piece_bytes : {int64_t{4} << 20, int64_t{1} << 20, int64_t{256} << 10, int64_t{64} << 10}) {
    double rate = 0;
    MAXSIM_ASSIGN_OR_RETURN(rate, sample.Copy(piece_bytes));
    if (rate < profile.gather_bytes) break;
    profile.copy_document_bytes = piece_bytes;
  }
  return profile;
}

}  // namespace maxsim::cuda
