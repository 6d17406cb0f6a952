#include "kernels/cuda/documents/cuda_codebook.h"

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {
namespace {

constexpr size_t kUploadSlotBytes = size_t{4} << 20;

size_t CentroidBytes(int32_t dim, int64_t num_centroids) {
  return static_cast<size_t>(num_centroids * DeviceRowBytes(ScalarType::kF16, dim));
}

size_t WeightBytes(ScalarType type) { return (size_t{1} << ResidualBits(type)) * sizeof(float); }

}  // namespace

size_t CudaCodebook::BytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids) {
  return IsResidual(type) ? CentroidBytes(dim, num_centroids) + WeightBytes(type) : 0;
}

absl::StatusOr<std::unique_ptr<const CudaCodebook>> CudaCodebook::Upload(ScalarType type, int32_t dim,
                                                                         const ResidualCodebook& codebook) {
  std::unique_ptr<CudaCodebook> uploaded(new CudaCodebook);
  uploaded->num_centroids_ = codebook.num_centroids;
  MAXSIM_ASSIGN_OR_RETURN(uploaded->centroids_,
                          DeviceBuffer::Allocate(CentroidBytes(dim, codebook.num_centroids), "centroids"));
  MAXSIM_ASSIGN_OR_RETURN(uploaded->bucket_weights_, DeviceBuffer::Allocate(WeightBytes(type), "bucket weights"));
  Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, Stream::Create());
  Uploader uploader;
  MAXSIM_ASSIGN_OR_RETURN(uploader, Uploader::Create(kUploadSlotBytes));
  FinishOnError started(stream.get());  // before the uploader's pieces are given back
  MAXSIM_RETURN_IF_ERROR(uploader.CopyRows(
      codebook.centroids, codebook.num_centroids, static_cast<size_t>(RowBytes(ScalarType::kF16, dim)),
      uploaded->centroids_.as(), static_cast<size_t>(DeviceRowBytes(ScalarType::kF16, dim)), stream.get()));
  MAXSIM_RETURN_IF_ERROR(
      uploader.CopyBytes(codebook.bucket_weights, WeightBytes(type), uploaded->bucket_weights_.as(), stream.get()));
  Event done;
  MAXSIM_ASSIGN_OR_RETURN(done, Event::Create());
  MAXSIM_RETURN_IF_ERROR(done.Record(stream.get()));
  MAXSIM_RETURN_IF_ERROR(done.Wait());
  started.Finished();
  return uploaded;
}

}  // namespace maxsim::cuda
