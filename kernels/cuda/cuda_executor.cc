#include "kernels/cuda/cuda_executor.h"

#include "kernels/cuda/call/paths/alignment.h"
#include "kernels/cuda/call/paths/slice.h"
#include "kernels/cuda/call/planning/executor_limits.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/validate.h"

namespace maxsim::cuda {

absl::StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(Device* device, const ExecutorOptions& options) {
  MAXSIM_RETURN_IF_ERROR(CheckOptions(options));
  const CurrentDevice current(device->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device, options));
  MAXSIM_RETURN_IF_ERROR(executor->Allocate());
  return executor;
}

CudaExecutor::CudaExecutor(Device* device, const ExecutorOptions& options)
    : device_(device), options_(options), workspace_(options) {}

CudaExecutor::~CudaExecutor() { workspace_.Finish(); }

absl::Status CudaExecutor::Allocate() {
  MAXSIM_RETURN_IF_ERROR(workspace_.Allocate(*device_));
  MAXSIM_RETURN_IF_ERROR(staged_.Allocate(options_));
  if (device_->stream_block_bytes > 0) {
    MAXSIM_ASSIGN_OR_RETURN(host_document_calls_, HostDocumentCalls::Create(device_));
  }
  return absl::OkStatus();
}

// Returns the documents as the LoadedDocuments of this backend, or INVALID_ARGUMENT if this executor's device does not
// have them.
absl::StatusOr<const LoadedDocuments*> CudaExecutor::LoadedHere(const Documents& documents) const {
  const LoadedDocuments* const loaded = LoadedDocuments::From(documents);
  if (loaded != nullptr && loaded->device() == device_) return loaded;
  return absl::InvalidArgumentError("the documents were loaded by a backend other than this executor's");
}

// Returns FAILED_PRECONDITION if the backend was created without document batches (CudaOptions::stream_block_bytes is
// 0). Such a backend loads documents into Tier::kHost and kDisk only if there are none (CudaBackend::Load).
absl::StatusOr<HostDocumentCalls*> CudaExecutor::CallsOfHostDocuments() const {
  if (host_document_calls_ != nullptr) return host_document_calls_.get();
  return absl::FailedPreconditionError("this backend was made without room for documents outside of device memory");
}

absl::Status CudaExecutor::TopK(const Documents& documents, absl::Span<const Query> queries,
                                absl::Span<std::vector<Scored>> results, CallTimings* timings) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const LoadedDocuments* loaded = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(loaded, LoadedHere(documents));
  // Documents outside of device memory are always found by lists.
  MAXSIM_RETURN_IF_ERROR(
      ValidateTopKCall(queries, results.size(), documents.num_documents(),
                       loaded->host() == nullptr ? CandidateForm::kSharedMask : CandidateForm::kList));
  MAXSIM_RETURN_IF_ERROR(CheckTopKLimits(options_, documents, queries));
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));

  trace_ = {};
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(RunTopK(*loaded, queries, results)));
  const TransferCounts counts = host_document_calls_ == nullptr ? TransferCounts{} : host_document_calls_->TakeCounts();
  if (timings != nullptr) {
    timings->copy_seconds = trace_.seconds.copy_in + trace_.seconds.copy_out;
    timings->kernel_seconds = trace_.seconds.score + trace_.seconds.select;
    timings->streamed_bytes = counts.bytes;
    timings->cache_hits = counts.hits;
    timings->cache_misses = counts.misses;
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::RunTopK(const LoadedDocuments& documents, absl::Span<const Query> queries,
                                   absl::Span<std::vector<Scored>> results) {
  if (documents.host() == nullptr) return RunSlices(Context(), *documents.resident(), queries, results);
  HostDocumentCalls* calls = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(calls, CallsOfHostDocuments());
  return calls->TopK(Context(), *documents.host(), queries, results);
}

absl::Status CudaExecutor::Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                                 absl::Span<TokenMatch> matches) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const LoadedDocuments* loaded = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(loaded, LoadedHere(documents));
  MAXSIM_RETURN_IF_ERROR(ValidateAlignCall(query, ordinals, matches.size(), documents.num_documents()));
  MAXSIM_RETURN_IF_ERROR(CheckAlignLimits(options_, documents, query));
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));

  trace_ = {};
  trace_.path = CallPath::kAlignment;
  return device_->health.Note(RunAlign(*loaded, query, ordinals, matches));
}

absl::Status CudaExecutor::RunAlign(const LoadedDocuments& documents, const Query& query,
                                    absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches) {
  const Alignment alignment(Context(), query);
  if (documents.host() == nullptr) return alignment.RunResident(*documents.resident(), ordinals, matches);
  HostDocumentCalls* calls = nullptr;
  MAXSIM_ASSIGN_OR_RETURN(calls, CallsOfHostDocuments());
  return calls->Align(Context(), alignment, *documents.host(), query, ordinals, matches);
}

absl::StatusOr<const Documents*> CudaExecutor::Stage(const DocumentsView& documents) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  MAXSIM_RETURN_IF_ERROR(ValidateStaged(documents));
  const CudaDocuments::Shape shape = CudaDocuments::Shape::Of(documents);
  MAXSIM_RETURN_IF_ERROR(CheckStageLimits(options_, shape));
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));
  absl::StatusOr<const CudaDocuments*> staged = staged_.Stage(device_, documents, shape, workspace_.stream.get());
  if (!staged.ok()) return device_->health.Note(staged.status());
  return *staged;
}

absl::Status CudaExecutor::StartAgain(const Documents& documents) {
  const LoadedDocuments* const loaded = LoadedDocuments::From(documents);
  if (loaded == nullptr || loaded->resident() == nullptr) {
    return absl::FailedPreconditionError("the documents are not in device memory");
  }
  return LaunchAgain(Context(), trace_.path, *loaded->resident());
}

}  // namespace maxsim::cuda
