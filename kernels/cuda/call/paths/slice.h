// A slice is a number of whole queries of a call that fit the workspace together. A call that does not fit is cut into
// several slices, which run one after the other.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Says whether a slice's plan may use tensor maps and may join lists. That depends on the slice's documents and path.
struct SliceOptions {
  bool tensor_maps = false;  // whether there are tensor maps of the documents (CudaDocuments::maps)
  bool join = false;         // whether candidate lists may be joined
};

// The documents that a slice is planned over. Queries without a list have all of them as candidates.
struct PlannedDocuments {
  ScalarType type = ScalarType::kF16;
  int32_t dim = 0;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;

  static PlannedDocuments Of(const Documents& documents) {
    return {documents.type(), documents.dim(), documents.num_documents(), documents.num_tokens()};
  }
};

// Plans one slice: `queries`, which must fit the workspace together, over `documents`. Writes the plan to
// workspace.input and to the trace.
absl::Status PlanSlice(const CallContext& context, const PlannedDocuments& documents, absl::Span<const Query> queries,
                       const SliceOptions& options);

// Cuts `queries` into slices, and runs the slices one after another over documents in device memory, each on the path
// that it fits. `results` has one element per query and gets the best candidates of each. Records in the trace what was
// done.
absl::Status RunSlices(const CallContext& context, const CudaDocuments& documents, absl::Span<const Query> queries,
                       absl::Span<std::vector<Scored>> results);

// Starts the kernels of the last slice on the device once more, with the same plan, and does not wait for them. `path`
// is the path of that slice. Returns FAILED_PRECONDITION if the slice was neither a zero-copy nor a single-launch call.
absl::Status LaunchAgain(const CallContext& context, CallPath path, const CudaDocuments& documents);

}  // namespace maxsim::cuda
