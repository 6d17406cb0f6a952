#include "kernels/cuda/codes/cuda_codes.h"

#include <cuda_runtime_api.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"

namespace maxsim::cuda {
namespace {

constexpr size_t kUploadSlotBytes = size_t{16} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCodes>> CudaCodes::Upload(Device& device, const CodesView& codes, int planes) {
  if (!IsPlaneCount(planes) || planes > codes.planes) {
    return absl::InvalidArgumentError(
        absl::StrCat("planes is ", planes, "; must be 1, 2 or 4, and at most the ", codes.planes, " of the codes"));
  }
  MAXSIM_RETURN_IF_ERROR(device.health.Get());
  absl::StatusOr<std::unique_ptr<CudaCodes>> made = Copy(device, codes, planes);
  if (!made.ok()) return device.health.Note(made.status());
  return made;
}

absl::StatusOr<std::unique_ptr<CudaCodes>> CudaCodes::Copy(Device& device, const CodesView& codes, int planes) {
  const CurrentDevice current(device.ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, Stream::Create());
  Uploader uploader;
  MAXSIM_ASSIGN_OR_RETURN(uploader, Uploader::Create(kUploadSlotBytes));
  Arrays arrays{.shape = codes.shape, .planes = planes, .num_documents = codes.num_documents};
  std::unique_ptr<CudaCodes> made(new CudaCodes(device, arrays));
  FinishOnError finish(stream.get());
  size_t next = 0;
  // Copies `bytes` bytes to device memory that the object owns, and sets `to` to that memory.
  const auto copy = [&](const auto* from, size_t bytes, const auto*& to) -> absl::Status {
    if (from == nullptr || bytes == 0) return absl::OkStatus();
    DeviceBuffer& buffer = made->owned_[next++];
    MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, "codes of documents"));
    made->device_bytes_ += bytes;
    to = buffer.as<std::remove_cv_t<std::remove_pointer_t<decltype(from)>>>();
    return uploader.CopyBytes(from, bytes, buffer.as(), stream.get());
  };
  const auto num_documents = static_cast<size_t>(codes.num_documents);
  const auto num_tokens = static_cast<size_t>(codes.num_tokens());
  const size_t plane_bytes = num_tokens * PlaneRowBytes(codes.shape.dim);
  MAXSIM_RETURN_IF_ERROR(copy(codes.plane0, plane_bytes, arrays.plane0));
  if (planes >= 2) MAXSIM_RETURN_IF_ERROR(copy(codes.plane1, plane_bytes, arrays.plane1));
  if (planes == 4) MAXSIM_RETURN_IF_ERROR(copy(codes.planes23, 2 * plane_bytes, arrays.planes23));
  if (codes.shape.factors) MAXSIM_RETURN_IF_ERROR(copy(codes.factors, num_tokens, arrays.factors));
  if (num_documents > 0) {
    MAXSIM_RETURN_IF_ERROR(copy(codes.offsets, (num_documents + 1) * sizeof(int64_t), arrays.offsets));
  }
  MAXSIM_RETURN_IF_ERROR(copy(codes.scales, num_documents * sizeof(float), arrays.scales));
  for (const int count : {1, 2, 4}) {
    const auto idx = static_cast<size_t>(BoundIndex(count));
    if (count <= planes) {
      MAXSIM_RETURN_IF_ERROR(copy(codes.bounds[idx], num_documents * sizeof(CodeBound), arrays.bounds[idx]));
    }
  }
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.get()));
  finish.Finished();
  made->arrays_ = arrays;
  return made;
}

CodeArrays CudaCodes::ParamsFor(int planes) const {
  return {.plane0 = arrays_.plane0,
          .plane1 = arrays_.plane1,
          .planes23 = arrays_.planes23,
          .factors = arrays_.shape.factors ? arrays_.factors : nullptr,
          .offsets = arrays_.offsets,
          .scales = arrays_.scales,
          .bounds = arrays_.bounds[static_cast<size_t>(BoundIndex(planes))],
          .root_of_dim = std::sqrt(static_cast<double>(arrays_.shape.dim)),
          .largest_factor = static_cast<double>(arrays_.shape.factors ? kMaxFactor : 1)};
}

}  // namespace maxsim::cuda
