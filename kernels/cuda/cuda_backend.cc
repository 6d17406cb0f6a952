#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/call/launch/copy_input.h"
#include "kernels/cuda/call/launch/quantize_launch.h"
#include "kernels/cuda/candidates/expand_mask.h"
#include "kernels/cuda/candidates/join_launch.h"
#include "kernels/cuda/candidates/order_candidates.h"
#include "kernels/cuda/codes/cuda_appendable_codes.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/codes/cuda_scan_executor.h"
#include "kernels/cuda/codes/scan_workspace.h"
#include "kernels/cuda/documents/cuda_appendable.h"
#include "kernels/cuda/documents/cuda_codebook.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gather.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"
#include "kernels/cuda/score/add_partials.h"
#include "kernels/cuda/score/hopper_deep/kernel.h"
#include "kernels/cuda/score/hopper_stream/kernel.h"
#include "kernels/cuda/score/hopper_wide/kernel.h"
#include "kernels/cuda/score/portable/kernel.h"
#include "kernels/cuda/score/residual/kernel.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/rows.h"
#include "kernels/validate.h"

namespace maxsim::cuda {
namespace {

// The size of each pinned buffer of an upload. With 16 MiB, copies reach the link's full rate; with 1 MiB, two thirds
// of it.
constexpr size_t kUploadSlotBytes = size_t{16} << 20;

absl::Status NoDevice(cudaError_t error) {
  cudaGetLastError();
  return absl::UnavailableError(
      absl::StrCat("no usable CUDA device: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const CudaOptions& options) {
  const int ordinal = options.device;
  int count = 0;
  MAXSIM_ASSIGN_OR_RETURN(count, CountCudaDevices());
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("there is no CUDA device ", ordinal, ": this machine has ", count));
  }
  auto device = std::make_unique<Device>();
  device->ordinal = options.device;
  device->stream_block_bytes = options.stream_block_bytes;
  device->document_cache_bytes = options.document_cache_bytes;
  device->readers = std::make_unique<ThreadPool>(options.reader_threads);
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) {
    return NoDevice(error);
  }
  device->name = properties.name;
  device->compute_major = properties.major;
  device->compute_minor = properties.minor;
  device->memory_bytes = properties.totalGlobalMem;
  device->cache_bytes = properties.l2CacheSize;
  device->limits.num_sms = properties.multiProcessorCount;
  device->limits.shared_bytes_per_block = static_cast<int32_t>(properties.sharedMemPerBlockOptin);
  device->limits.shared_bytes_per_sm = static_cast<int32_t>(properties.sharedMemPerMultiprocessor);
  device->limits.reserved_shared_bytes = static_cast<int32_t>(properties.reservedSharedMemPerBlock);
  device->limits.max_threads_per_sm = properties.maxThreadsPerMultiProcessor;
  device->limits.hopper = properties.major == 9 && properties.minor == 0;
  if (properties.major < 8) {
    return absl::UnavailableError(absl::StrCat("CUDA device ", ordinal, " (", device->name, ") has compute capability ",
                                               properties.major, ".", properties.minor, "; 8.0 is needed"));
  }
  const CurrentDevice current(ordinal);
  if (!current.status().ok()) return current.status();
  cudaError_t error = PreparePortableKernels(device->limits.shared_bytes_per_block);
  if (error == cudaSuccess) error = PrepareResidualKernels();
  if (error == cudaSuccess) error = PrepareQuantizeQueries();
  if (error == cudaSuccess) error = PrepareAddPartials(device->overlap);
  if (error == cudaSuccess) error = PrepareJoin();
  if (error == cudaSuccess) error = PrepareExpandMask();
  if (error == cudaSuccess) error = PrepareSelect(device->overlap);
  if (error == cudaSuccess) error = PrepareCopyInput();
  if (error == cudaSuccess) error = PrepareGather();
  if (error == cudaSuccess && device->limits.hopper) {
    error = sm90::PrepareStreamKernels();
    if (error == cudaSuccess) error = sm90::PrepareWideKernels();
    if (error == cudaSuccess) error = sm90::PrepareDeepKernels();
    if (error == cudaSuccess) error = PrepareOrderCandidates();
  }
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(absl::StrCat("this build's kernels do not load on CUDA device ", ordinal, " (",
                                               device->name, ", compute capability ", properties.major, ".",
                                               properties.minor, "): ", cudaGetErrorString(error)));
  }
  if (options.stream_block_bytes > 0) MAXSIM_ASSIGN_OR_RETURN(device->link, MeasureLink());
  return device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(const CudaOptions& options) {
  std::unique_ptr<Device> device;
  MAXSIM_ASSIGN_OR_RETURN(device, OpenDevice(options));
  return std::unique_ptr<CudaBackend>(new CudaBackend(std::move(device)));
}

CudaBackend::CudaBackend(std::unique_ptr<Device> device) : device_(std::move(device)) {
  info_.name = "cuda";
  info_.device = device_->name;
  info_.isa = absl::StrCat("sm_", device_->compute_major, device_->compute_minor);
  info_.parallelism = device_->limits.num_sms;
  info_.memory_bytes = device_->memory_bytes;
  if (device_->stream_block_bytes > 0) info_.link = device_->link.ToString();
}

absl::StatusOr<size_t> CudaBackend::FreeBytes() const {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));
  size_t free_bytes = 0, total_bytes = 0;
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(MAXSIM_CUDA_STATUS(cudaMemGetInfo(&free_bytes, &total_bytes))));
  return free_bytes;
}

MemoryNeed CudaBackend::BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                                    Tier tier) const {
  const CudaDocuments::Shape shape{type, dim, num_documents, num_tokens};
  if (tier == Tier::kDevice) return {.device_bytes = shape.total_bytes()};
  return HostDocuments::BytesNeeded(shape, tier);
}

MemoryNeed CudaBackend::CodebookBytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids) const {
  return {.device_bytes = CudaCodebook::BytesNeeded(type, dim, num_centroids)};
}

absl::StatusOr<std::unique_ptr<Documents>> CudaBackend::Load(const DocumentsView& documents, Tier tier,
                                                             std::shared_ptr<const void> keep_alive) {
  MAXSIM_RETURN_IF_ERROR(ValidateDocuments(documents));
  if (tier == Tier::kDevice) return LoadResident(documents);
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const int64_t row_bytes = DeviceRowBytes(documents.type, documents.dim);
  for (int64_t n = 0; n < documents.num_documents; ++n) {
    const int64_t bytes = (documents.offsets[n + 1] - documents.offsets[n]) * row_bytes;
    if (bytes <= device_->stream_block_bytes) continue;
    return absl::FailedPreconditionError(absl::StrCat("document ", n, " takes ", bytes,
                                                      " bytes; documents outside of the device's memory may take ",
                                                      device_->stream_block_bytes, " (stream_block_bytes)"));
  }
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));
  absl::StatusOr<std::unique_ptr<HostDocuments>> loaded =
      HostDocuments::Load(device_.get(), device_->readers.get(), documents, tier, std::move(keep_alive));
  if (!loaded.ok()) return device_->health.Note(loaded.status());
  return std::move(loaded).value();
}

absl::Status CudaBackend::CheckRoom(const CudaDocuments::Shape& shape, size_t codebook_bytes) const {
  size_t free_bytes = 0;
  MAXSIM_ASSIGN_OR_RETURN(free_bytes, FreeBytes());
  const size_t bytes = shape.total_bytes() + codebook_bytes;
  if (bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      shape.num_documents, " documents of ", shape.num_tokens, " tokens take ", bytes, " bytes of device memory; ",
      free_bytes, " of ", device_->memory_bytes, " bytes are free on ", device_->name));
}

absl::StatusOr<std::unique_ptr<Documents>> CudaBackend::LoadResident(const DocumentsView& documents) {
  MAXSIM_RETURN_IF_ERROR(
      CheckRoom({documents.type, documents.dim, documents.num_documents, documents.num_tokens()},
                CudaCodebook::BytesNeeded(documents.type, documents.dim, documents.codebook.num_centroids)));
  absl::StatusOr<std::unique_ptr<Documents>> loaded = Upload(documents);
  if (!loaded.ok()) return device_->health.Note(loaded.status());
  return loaded;
}

absl::StatusOr<std::unique_ptr<Documents>> CudaBackend::Upload(const DocumentsView& view) {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  const CudaDocuments::Shape shape = CudaDocuments::Shape::Of(view);
  DeviceBuffer tokens, offsets, scales;
  MAXSIM_ASSIGN_OR_RETURN(tokens, DeviceBuffer::Allocate(shape.token_bytes(), "document tokens"));
  MAXSIM_ASSIGN_OR_RETURN(offsets, DeviceBuffer::Allocate(shape.offset_bytes(), "document offsets"));
  MAXSIM_ASSIGN_OR_RETURN(scales, DeviceBuffer::Allocate(shape.scale_bytes(), "document scales"));
  std::unique_ptr<const CudaCodebook> codebook;
  if (view.codebook.num_centroids > 0) {
    MAXSIM_ASSIGN_OR_RETURN(codebook, CudaCodebook::Upload(view.type, view.dim, view.codebook));
  }
  Stream stream;
  MAXSIM_ASSIGN_OR_RETURN(stream, Stream::Create());
  Uploader uploader;
  MAXSIM_ASSIGN_OR_RETURN(uploader, Uploader::Create(kUploadSlotBytes));
  FinishOnError started(stream.get());  // before the uploader's pieces are given back
  MAXSIM_RETURN_IF_ERROR(uploader.CopyRows(view.tokens, shape.num_tokens,
                                           static_cast<size_t>(RowBytes(view.type, view.dim)), tokens.as(),
                                           static_cast<size_t>(shape.row_bytes()), stream.get()));
  if (shape.num_documents > 0) {
    MAXSIM_RETURN_IF_ERROR(uploader.CopyBytes(view.offsets, shape.offset_bytes(), offsets.as(), stream.get()));
    MAXSIM_RETURN_IF_ERROR(uploader.CopyBytes(view.scales, shape.scale_bytes(), scales.as(), stream.get()));
  }
  Event done;
  MAXSIM_ASSIGN_OR_RETURN(done, Event::Create());
  MAXSIM_RETURN_IF_ERROR(done.Record(stream.get()));
  MAXSIM_RETURN_IF_ERROR(done.Wait());
  started.Finished();
  return std::make_unique<CudaDocuments>(device_.get(), shape, std::move(tokens), std::move(offsets), std::move(scales),
                                         view.rotation_seed, std::move(codebook));
}

absl::StatusOr<std::shared_ptr<AppendableDocuments>> CudaBackend::CreateAppendable(const AppendableShape& shape) {
  MAXSIM_RETURN_IF_ERROR(ValidateAppendableShape(shape));
  MAXSIM_RETURN_IF_ERROR(
      CheckRoom({shape.type, shape.dim, shape.max_documents, shape.max_tokens}, /*codebook_bytes=*/0));
  absl::StatusOr<std::shared_ptr<CudaAppendable>> made = CudaAppendable::Create(device_.get(), shape);
  if (!made.ok()) return device_->health.Note(made.status());
  return std::move(made).value();
}

absl::StatusOr<std::unique_ptr<Executor>> CudaBackend::CreateExecutor(const ExecutorOptions& options) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  absl::StatusOr<std::unique_ptr<CudaExecutor>> executor = CudaExecutor::Create(device_.get(), options);
  if (!executor.ok()) return device_->health.Note(executor.status());
  return std::move(executor).value();
}

MemoryNeed CudaBackend::CodeBytesNeeded(const CodeShape& shape, int planes, int64_t num_documents,
                                        int64_t num_tokens) const {
  return {.device_bytes = CodeArrayBytes(shape, planes, num_documents, num_tokens)};
}

size_t CudaBackend::ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const {
  return MaxScanWorkspaceBytes(shape, num_documents, device_->limits);
}

absl::Status CudaBackend::CheckCodeRoom(const CodeShape& shape, int planes, int64_t num_documents,
                                        int64_t num_tokens) const {
  const size_t bytes = CodeArrayBytes(shape, planes, num_documents, num_tokens);
  size_t free_bytes = 0;
  MAXSIM_ASSIGN_OR_RETURN(free_bytes, FreeBytes());
  if (bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(planes, " planes of codes of ", num_documents, " documents take ",
                                                   bytes, " bytes of device memory; ", free_bytes, " of ",
                                                   device_->memory_bytes, " bytes are free on ", device_->name));
}

absl::StatusOr<std::shared_ptr<AppendableCodes>> CudaBackend::CreateAppendableCodes(const AppendableCodesShape& shape) {
  MAXSIM_RETURN_IF_ERROR(ValidateAppendableCodesShape(shape));
  MAXSIM_RETURN_IF_ERROR(CheckCodeRoom(shape.codes, shape.planes, shape.max_documents, shape.max_tokens));
  absl::StatusOr<std::shared_ptr<CudaAppendableCodes>> made = CudaAppendableCodes::Create(device_.get(), shape);
  if (!made.ok()) return device_->health.Note(made.status());
  return std::move(made).value();
}

absl::StatusOr<std::unique_ptr<LoadedCodes>> CudaBackend::LoadCodes(const CodesView& codes, int planes,
                                                                    std::shared_ptr<const void>) {
  MAXSIM_RETURN_IF_ERROR(ValidateCodes(codes));
  MAXSIM_RETURN_IF_ERROR(CheckCodeRoom(codes.shape, planes, codes.num_documents, codes.num_tokens()));
  absl::StatusOr<std::unique_ptr<CudaCodes>> loaded = CudaCodes::Upload(*device_, codes, planes);
  if (!loaded.ok()) return loaded.status();
  return std::move(loaded).value();
}

absl::StatusOr<std::unique_ptr<ScanExecutor>> CudaBackend::CreateScanExecutor() {
  absl::StatusOr<std::unique_ptr<CudaScanExecutor>> executor = CudaScanExecutor::Create(*device_);
  if (!executor.ok()) return executor.status();
  return std::move(executor).value();
}

// If a CUDA context is broken, every later call returns its error. So a cheap call is enough to find out.
absl::Status CudaBackend::Health() const { return FreeBytes().status(); }

}  // namespace maxsim::cuda

namespace maxsim {

absl::StatusOr<int> CountCudaDevices() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return cuda::NoDevice(error);
  if (count == 0) return cuda::NoDevice(cudaErrorNoDevice);
  return count;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options) {
  absl::StatusOr<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create(options);
  if (!backend.ok()) return backend.status();
  return std::move(backend).value();
}

bool BuiltWithCuda() { return true; }

}  // namespace maxsim
