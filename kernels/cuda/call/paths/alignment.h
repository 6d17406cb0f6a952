// Finds which document token each query token matches (Executor::Align), in parts that fit the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/launch/score_pass.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Borrows the query. For one call of Align.
class Alignment {
 public:
  Alignment(const CallContext& context, const Query& query) : context_(context), query_(query) {}

  // Returns how many documents the workspace has room for at a time: at least 1.
  size_t DocumentsOfPart() const;

  // Finds the matches in documents in device memory and waits for them. `matches` is [ordinals.size(),
  // query.num_tokens].
  absl::Status RunResident(const CudaDocuments& documents, absl::Span<const uint32_t> ordinals,
                           absl::Span<TokenMatch> matches) const;

  // Finds the matches in at most DocumentsOfPart() documents and waits for them. `ordinals` are indices into the
  // offsets of the pass.
  absl::Status RunPart(const ScorePass& pass, absl::Span<const uint32_t> ordinals,
                       absl::Span<TokenMatch> matches) const;

 private:
  const CallContext context_;
  const Query& query_;
};

}  // namespace maxsim::cuda
