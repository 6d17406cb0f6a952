// The CUDA backend's executor (kernels/maxsim.h has the contract): checks a call and hands it to the path that runs it.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/call/planning/call_trace.h"
#include "kernels/cuda/call/planning/executor_tuning.h"
#include "kernels/cuda/call/planning/staged_documents.h"
#include "kernels/cuda/call/planning/workspace.h"
#include "kernels/cuda/documents/loaded_documents.h"
#include "kernels/cuda/host_documents/host_document_calls.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Owns a CUDA stream and the workspace for one call, and allocates both when it is created. Not thread-safe.
class CudaExecutor final : public Executor {
 public:
  // `device` must outlive the executor. Returns INVALID_ARGUMENT for options out of range, and RESOURCE_EXHAUSTED if
  // there is too little memory for the workspace.
  static absl::StatusOr<std::unique_ptr<CudaExecutor>> Create(Device* device, const ExecutorOptions& options);

  // Waits until the device no longer uses the workspace.
  ~CudaExecutor() override;

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override;
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override;
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override;

  // Gives access to the knobs, for tests and measurements, between calls.
  ExecutorTuning& tuning() { return tuning_; }

  // Returns the record of the last call of TopK or Align that passed its checks.
  const CallTrace& trace() const { return trace_; }

  // For measurements: starts the kernels of the last call on the device once more, and does not wait for them. If the
  // CUDA stream is being captured, they become part of the graph. The last call must have been over `documents`, and
  // trace() must say that its path was kZeroCopy or kSingleLaunch. Returns FAILED_PRECONDITION after any other call.
  absl::Status StartAgain(const Documents& documents);

  // Returns the CUDA stream that calls run on, for measurements. Work that is started there before a call runs before
  // it.
  cudaStream_t stream() const { return workspace_.stream.get(); }

 private:
  CudaExecutor(Device* device, const ExecutorOptions& options);

  absl::Status Allocate();
  CallContext Context() { return {*device_, workspace_, tuning_, trace_}; }
  absl::StatusOr<const LoadedDocuments*> LoadedHere(const Documents& documents) const;
  absl::StatusOr<HostDocumentCalls*> CallsOfHostDocuments() const;
  absl::Status RunTopK(const LoadedDocuments& documents, absl::Span<const Query> queries,
                       absl::Span<std::vector<Scored>> results);
  absl::Status RunAlign(const LoadedDocuments& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                        absl::Span<TokenMatch> matches);

  Device* const device_;
  const ExecutorOptions options_;
  ExecutorTuning tuning_;
  CallTrace trace_;
  Workspace workspace_;
  StagedDocuments staged_;
  std::unique_ptr<HostDocumentCalls> host_document_calls_;  // null where the backend has no document batches
};

}  // namespace maxsim::cuda
