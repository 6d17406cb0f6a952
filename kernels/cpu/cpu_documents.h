// Documents in host memory that the CPU backend scores without copying them.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "kernels/maxsim.h"
#include "kernels/residual_codes.h"

namespace maxsim::cpu {

class CpuDocuments final : public Documents {
 public:
  // `view` must be valid. `keep_alive` owns the view's memory, or is null if the caller keeps it valid.
  CpuDocuments(const DocumentsView& view, std::shared_ptr<const void> keep_alive)
      : view_(view), keep_alive_(std::move(keep_alive)) {
    if (view.codebook.num_centroids > 0) decoder_.emplace(view.type, view.dim, view.codebook);
  }

  const DocumentsView& view() const { return view_; }
  // Returns the decoder of the rows of residual codes; null for other types.
  const ResidualDecoder* decoder() const { return decoder_.has_value() ? &*decoder_ : nullptr; }

  ScalarType type() const override { return view_.type; }
  int32_t dim() const override { return view_.dim; }
  int64_t num_documents() const override { return view_.num_documents; }
  int64_t num_tokens() const override { return view_.num_tokens(); }
  MemoryNeed memory() const override { return {}; }

 private:
  DocumentsView view_;
  std::optional<ResidualDecoder> decoder_;
  std::shared_ptr<const void> keep_alive_;
};

}  // namespace maxsim::cpu
