// Copies the input of a slice (queries of a call that run together) to the device: the host writes the input to pinned
// memory, and a copy engine or a kernel copies it. If the documents are I8, a kernel rotates and rounds the queries.
// The slice's plan is workspace.input.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/call/launch/copy_input.h"
#include "kernels/cuda/call/launch/quantize_launch.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/call/planning/workspace.h"
#include "kernels/cuda/documents/cuda_documents.h"

namespace maxsim::cuda {

// Returns the offsets, in device memory, that kernels read before a candidate's tokens. Returns null if all documents
// are equally long, because the Hopper kernels then do not read offsets.
inline const int64_t* ListedOffsets(const CudaDocuments& documents) {
  return documents.document_tokens() > 0 ? nullptr : documents.device_offsets();
}

// Writes the slice's input to pinned memory. No kernel or copy that was started may still read this memory. Returns
// INTERNAL if the workspace has no room for the input, which would be a mistake in SliceCapacity.
absl::Status WriteInput(Workspace& workspace);

// Describes the copy of the input by a kernel. `offsets` is InputCopy::offsets.
InputCopy InputByKernel(const Workspace& workspace, const int64_t* offsets);

// Writes the input, records workspace.start, and starts the copy to the device. A kernel copies if
// tuning.stage_events is set, and the copy engine otherwise. `offsets` is InputCopy::offsets.
absl::Status CopyInput(const CallContext& context, const int64_t* offsets);

// Starts the kernel that writes the slice's list from its bitmap, which is on the device or on its way there. Does
// nothing if the slice has no bitmap.
absl::Status ExpandMask(const Workspace& workspace);

// Starts the rounding of the queries that are in device memory. Does nothing unless `documents` are I8.
absl::Status QuantizeQueries(const Workspace& workspace, const CudaDocuments& documents);

// Returns the parameters that round the queries of the input that begins at `input`, in device or in pinned memory.
// `times` is QuantizeParams::times.
QuantizeParams QuantizeParamsOf(const Workspace& workspace, const uint8_t* input, const CudaDocuments& documents,
                                CallTimes* times);

}  // namespace maxsim::cuda
