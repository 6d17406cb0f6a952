// Checks that a call is within the sizes that an executor was made for (ExecutorOptions). This code makes no CUDA
// calls.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Returns INVALID_ARGUMENT if `options` has a size that no executor can be made for.
absl::Status CheckOptions(const ExecutorOptions& options);

// Return RESOURCE_EXHAUSTED, naming the size and the limit, if a call of TopK, Align or Stage exceeds `options`.
absl::Status CheckTopKLimits(const ExecutorOptions& options, const Documents& documents,
                             absl::Span<const Query> queries);
absl::Status CheckAlignLimits(const ExecutorOptions& options, const Documents& documents, const Query& query);
absl::Status CheckStageLimits(const ExecutorOptions& options, const CudaDocuments::Shape& shape);

}  // namespace maxsim::cuda
