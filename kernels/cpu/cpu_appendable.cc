#include "kernels/cpu/cpu_appendable.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/appendable_array.h"
#include "kernels/cpu/cpu_documents.h"
#include "kernels/cpu/machine.h"
#include "kernels/validate.h"

namespace maxsim::cpu {

struct AppendableSizes {
  explicit AppendableSizes(const AppendableShape& shape)
      : row_bytes(static_cast<size_t>(shape.dim) * SizeOf(shape.type)),
        token_bytes(static_cast<size_t>(shape.max_tokens) * row_bytes),
        num_offsets(static_cast<size_t>(shape.max_documents) + 1),
        num_scales(shape.type == ScalarType::kI8 ? static_cast<size_t>(shape.max_documents) : 0) {}

  size_t total_bytes() const { return token_bytes + num_offsets * sizeof(int64_t) + num_scales * sizeof(float); }

  size_t row_bytes;
  size_t token_bytes;
  size_t num_offsets;
  size_t num_scales;
};

struct CpuAppendable::Arrays {
  explicit Arrays(const AppendableSizes& sizes)
      : row_bytes(sizes.row_bytes), tokens(sizes.token_bytes), offsets(sizes.num_offsets), scales(sizes.num_scales) {}

  std::byte* row(int64_t token) const { return tokens.data() + static_cast<size_t>(token) * row_bytes; }

  const size_t row_bytes;
  const AppendableArray<std::byte> tokens;
  const AppendableArray<int64_t> offsets;
  const AppendableArray<float> scales;
};

absl::StatusOr<std::shared_ptr<CpuAppendable>> CpuAppendable::Create(const AppendableShape& shape) {
  const AppendableSizes sizes(shape);
  const size_t available = AvailableMemoryBytes();
  if (sizes.total_bytes() <= available) {
    auto arrays = std::make_shared<Arrays>(sizes);
    if (arrays->tokens.is_there() && arrays->offsets.is_there() && arrays->scales.is_there()) {
      arrays->offsets.data()[0] = 0;
      return std::shared_ptr<CpuAppendable>(new CpuAppendable(shape, std::move(arrays)));
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("room for ", shape.max_documents, " documents of ", shape.max_tokens,
                                                   " tokens takes ", sizes.total_bytes(), " bytes of host memory; ",
                                                   available, " are available"));
}

CpuAppendable::CpuAppendable(const AppendableShape& shape, std::shared_ptr<Arrays> arrays)
    : shape_(shape), arrays_(std::move(arrays)) {}

absl::Status CpuAppendable::Append(const DocumentsView& documents) {
  const AppendedLength::Value before = length_.Get();
  absl::Status status = ValidateAppend(shape_, before.documents, before.tokens, documents);
  if (!status.ok() || documents.num_documents == 0) return status;
  const int64_t num_tokens = documents.num_tokens();
  std::memcpy(arrays_->row(before.tokens), documents.tokens, static_cast<size_t>(num_tokens) * arrays_->row_bytes);
  WriteEnds(documents.offsets, documents.num_documents, before.tokens, arrays_->offsets.data() + before.documents + 1);
  if (shape_.type == ScalarType::kI8) {
    std::memcpy(arrays_->scales.data() + before.documents, documents.scales,
                static_cast<size_t>(documents.num_documents) * sizeof(float));
  }
  length_.Add(documents.num_documents, num_tokens);
  return absl::OkStatus();
}

std::shared_ptr<const Documents> CpuAppendable::Snapshot() const {
  const DocumentsView view = {.type = shape_.type,
                              .dim = shape_.dim,
                              .num_documents = length_.Get().documents,
                              .tokens = arrays_->tokens.data(),
                              .offsets = arrays_->offsets.data(),
                              .scales = arrays_->scales.data(),
                              .rotation_seed = shape_.rotation_seed};
  return std::make_shared<CpuDocuments>(view, arrays_);
}

absl::Status CpuAppendable::ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const {
  absl::Status status = ValidateReadRows(length_.Get().tokens, first_token, num_tokens, rows);
  if (!status.ok() || num_tokens == 0) return status;
  std::memcpy(rows, arrays_->row(first_token), static_cast<size_t>(num_tokens) * arrays_->row_bytes);
  return absl::OkStatus();
}

}  // namespace maxsim::cpu
