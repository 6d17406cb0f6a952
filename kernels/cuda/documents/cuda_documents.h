// Resident documents: documents in device memory. Documents have rows that are padded to a multiple of 16 bytes, and
// 64-bit offsets; quantised documents also have scales, and residual codes also have a codebook.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/cuda/documents/cuda_codebook.h"
#include "kernels/cuda/documents/loaded_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/score/hopper_common/describe_maps.h"
#include "kernels/maxsim.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Immutable and thread-safe.
class CudaDocuments final : public LoadedDocuments {
 public:
  struct Shape {
    ScalarType type = ScalarType::kF16;
    int32_t dim = 0;
    int64_t num_documents = 0;
    int64_t num_tokens = 0;
    int64_t document_tokens = 0;  // tokens of every document; 0 if they differ or are unknown
    int64_t longest_tokens = 0;   // tokens of the longest document; 0 if unknown
    int64_t spread_tokens = 0;    // SpreadTokens (kernels/plan/shares.h); 0 if all are equal or unknown

    // Returns the shape of the view's documents. Reads all of its offsets.
    static Shape Of(const DocumentsView& view) {
      Shape shape{view.type, view.dim, view.num_documents, view.num_tokens()};
      if (view.num_documents == 0) return shape;
      int64_t shortest = view.num_tokens();
      for (int64_t n = 0; n < view.num_documents; ++n) {
        const int64_t tokens = view.offsets[n + 1] - view.offsets[n];
        shape.longest_tokens = std::max(shape.longest_tokens, tokens);
        shortest = std::min(shortest, tokens);
      }
      if (shortest == shape.longest_tokens) {
        shape.document_tokens = shortest;
      } else {
        shape.spread_tokens = SpreadTokens(view.offsets, view.num_documents);
      }
      return shape;
    }

    int64_t row_bytes() const { return DeviceRowBytes(type, dim); }
    // Return the bytes of the three arrays, and of all of them.
    size_t token_bytes() const { return static_cast<size_t>(num_tokens * row_bytes()); }
    size_t offset_bytes() const { return static_cast<size_t>(num_documents + 1) * sizeof(int64_t); }
    size_t scale_bytes() const {
      return type == ScalarType::kI8 ? static_cast<size_t>(num_documents) * sizeof(float) : 0;
    }
    size_t total_bytes() const { return token_bytes() + offset_bytes() + scale_bytes(); }
  };

  // Makes documents that own their memory, on `device`, which must outlive them. `scales` and `rotation_seed` are
  // only for I8 (DocumentsView), and `codebook` is only for residual codes.
  CudaDocuments(const Device* device, const Shape& shape, DeviceBuffer tokens, DeviceBuffer offsets,
                DeviceBuffer scales = {}, uint64_t rotation_seed = 0,
                std::unique_ptr<const CudaCodebook> codebook = nullptr)
      : LoadedDocuments(device),
        shape_(shape),
        codebook_(std::move(codebook)),
        owned_tokens_(std::move(tokens)),
        owned_offsets_(std::move(offsets)),
        owned_scales_(std::move(scales)),
        tokens_(owned_tokens_.as<uint8_t>()),
        offsets_(owned_offsets_.as<int64_t>()),
        scales_(owned_scales_.as<float>()),
        rotation_seed_(rotation_seed) {
    DescribeForHopper();
  }

  // Makes documents that do not own their memory. `keep_alive` owns it; if that is null, the caller must keep the
  // memory for as long as the documents exist.
  CudaDocuments(const Device* device, const Shape& shape, const void* tokens, const int64_t* offsets,
                const float* scales = nullptr, uint64_t rotation_seed = 0,
                std::shared_ptr<const void> keep_alive = nullptr)
      : LoadedDocuments(device),
        shape_(shape),
        keep_alive_(std::move(keep_alive)),
        tokens_(static_cast<const uint8_t*>(tokens)),
        offsets_(offsets),
        scales_(scales),
        rotation_seed_(rotation_seed) {
    DescribeForHopper();
  }

  ScalarType type() const override { return shape_.type; }
  int32_t dim() const override { return shape_.dim; }
  int64_t num_documents() const override { return shape_.num_documents; }
  int64_t num_tokens() const override { return shape_.num_tokens; }
  // Returns the tokens of every document if all have equally many; else 0.
  int64_t document_tokens() const { return shape_.document_tokens; }
  // Returns the tokens of the longest document; 0 if unknown.
  int64_t longest_tokens() const { return shape_.longest_tokens; }
  // Returns SpreadTokens (kernels/plan/shares.h); 0 if unknown.
  int64_t spread_tokens() const { return shape_.spread_tokens; }
  MemoryNeed memory() const override {
    return {.device_bytes = owned_tokens_.bytes() + owned_offsets_.bytes() + owned_scales_.bytes() +
                            (codebook_ == nullptr ? 0 : codebook_->bytes())};
  }
  const CudaDocuments* resident() const override { return this; }

  int64_t row_bytes() const { return shape_.row_bytes(); }
  const uint8_t* device_tokens() const { return tokens_; }    // [num_tokens, row_bytes]
  const int64_t* device_offsets() const { return offsets_; }  // [num_documents + 1]
  const float* device_scales() const { return scales_; }      // [num_documents] of I8; others: null
  uint64_t rotation_seed() const { return rotation_seed_; }   // of I8
  // Returns the codebook of residual codes; null for other types, and if another object owns it.
  const CudaCodebook* codebook() const { return codebook_.get(); }
  // Returns the tensor maps that the wide and deep kernels need, or null when those cannot score these documents on
  // this device.
  const sm90::DocumentMaps* maps() const { return maps_.has_value() ? &*maps_ : nullptr; }

 private:
  // Makes the tensor maps if the wide and deep kernels can score the documents.
  void DescribeForHopper() {
    if (!device()->limits.hopper || shape_.type == ScalarType::kF32 || IsResidual(shape_.type) ||
        shape_.num_tokens == 0 || shape_.num_tokens > kWideMaxTokens || shape_.row_bytes() > kDeepMaxRowBytes) {
      return;
    }
    maps_.emplace();
    const cudaError_t error =
        sm90::DescribeDocuments(shape_.type, tokens_, shape_.num_tokens, shape_.row_bytes(), *maps_);
    if (error != cudaSuccess) maps_.reset();  // The portable kernels score them then.
  }

  Shape shape_;
  std::unique_ptr<const CudaCodebook> codebook_;
  DeviceBuffer owned_tokens_;
  DeviceBuffer owned_offsets_;
  DeviceBuffer owned_scales_;
  std::shared_ptr<const void> keep_alive_;  // of borrowed memory
  const uint8_t* tokens_;
  const int64_t* offsets_;
  const float* scales_;
  uint64_t rotation_seed_;
  std::optional<sm90::DocumentMaps> maps_;
};

}  // namespace maxsim::cuda
