// The CUDA backend (see kernels/maxsim.h for the contract).
#pragma once

#include <memory>

#include "kernels/codes/appendable_codes.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/cuda/cuda_executor.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

class CudaBackend final : public Backend {
 public:
  // Opens the device. Returns UNAVAILABLE if there is no driver, no device of that number, or no code for it in this
  // build, or if its compute capability is below 8.0.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(const CudaOptions& options);

  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<size_t> FreeBytes() const override;
  MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                         Tier tier) const override;
  MemoryNeed CodebookBytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids) const override;
  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                  std::shared_ptr<const void> keep_alive) override;
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override;
  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) override;
  MemoryNeed CodeBytesNeeded(const CodeShape& shape, int planes, int64_t num_documents,
                             int64_t num_tokens) const override;
  size_t ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const override;
  absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                         std::shared_ptr<const void> keep_alive) override;
  absl::StatusOr<std::shared_ptr<AppendableCodes>> CreateAppendableCodes(const AppendableCodesShape& shape) override;
  absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor() override;
  absl::Status Health() const override;

  Device* device() const { return device_.get(); }

 private:
  explicit CudaBackend(std::unique_ptr<Device> device);

  // Returns RESOURCE_EXHAUSTED, with the numbers, unless the arrays of `shape` fit in the device's free memory.
  absl::Status CheckRoom(const CudaDocuments::Shape& shape, size_t codebook_bytes) const;
  // Returns RESOURCE_EXHAUSTED, with the numbers, unless codes of this size fit in the device's free memory.
  absl::Status CheckCodeRoom(const CodeShape& shape, int planes, int64_t num_documents, int64_t num_tokens) const;
  absl::StatusOr<std::unique_ptr<Documents>> LoadResident(const DocumentsView& documents);
  absl::StatusOr<std::unique_ptr<Documents>> Upload(const DocumentsView& view);

  std::unique_ptr<Device> device_;
  BackendInfo info_;
};

}  // namespace maxsim::cuda
