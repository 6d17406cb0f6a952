#include "kernels/cuda/codes/cuda_appendable_codes.h"

#include <utility>
#include <vector>

#include "kernels/codes/code_layout.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<std::shared_ptr<CudaAppendableCodes>> CudaAppendableCodes::Create(Device* device,
                                                                                 const AppendableCodesShape& shape) {
  std::shared_ptr<CudaAppendableCodes> made(new CudaAppendableCodes(device, shape));
  MAXSIM_RETURN_IF_ERROR(made->Allocate());
  return made;
}

absl::Status CudaAppendableCodes::Allocate() {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  const auto allocate = [](size_t bytes, DeviceBuffer& buffer) -> absl::Status {
    MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, "appended codes"));
    return absl::OkStatus();
  };
  const auto max_documents = static_cast<size_t>(shape_.max_documents);
  const auto max_tokens = static_cast<size_t>(shape_.max_tokens);
  const size_t plane_bytes = max_tokens * PlaneRowBytes(shape_.codes.dim);
  MAXSIM_RETURN_IF_ERROR(allocate(plane_bytes, arrays_->plane0));
  if (shape_.planes >= 2) MAXSIM_RETURN_IF_ERROR(allocate(plane_bytes, arrays_->plane1));
  if (shape_.planes == 4) MAXSIM_RETURN_IF_ERROR(allocate(2 * plane_bytes, arrays_->planes23));
  if (shape_.codes.factors) MAXSIM_RETURN_IF_ERROR(allocate(max_tokens, arrays_->factors));
  MAXSIM_RETURN_IF_ERROR(allocate((max_documents + 1) * sizeof(int64_t), arrays_->offsets));
  MAXSIM_RETURN_IF_ERROR(allocate(max_documents * sizeof(float), arrays_->scales));
  for (size_t which = 0; which <= static_cast<size_t>(BoundIndex(shape_.planes)); ++which) {
    MAXSIM_RETURN_IF_ERROR(allocate(max_documents * sizeof(CodeBound), arrays_->bounds[which]));
  }
  MAXSIM_ASSIGN_OR_RETURN(copier_, AppendCopier::Create(device_->ordinal, "appending codes"));
  // Offset 0 is written once, here. Appends write only the offsets after it, so that they never touch an offset that a
  // scan may be reading.
  return copier_.Clear(arrays_->offsets.as(), sizeof(int64_t));
}

absl::Status CudaAppendableCodes::Append(const CodesView& codes) {
  const AppendedLength::Value before = length_.Get();
  MAXSIM_RETURN_IF_ERROR(ValidateCodesAppend(shape_, before.documents, before.tokens, codes));
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  if (codes.num_documents == 0) return absl::OkStatus();
  const int64_t num_documents = codes.num_documents;
  const int64_t num_tokens = codes.num_tokens();
  const auto first_document = static_cast<size_t>(before.documents);
  const auto first_token = static_cast<size_t>(before.tokens);
  const size_t row_bytes = PlaneRowBytes(shape_.codes.dim);
  std::vector<int64_t> ends(static_cast<size_t>(num_documents));
  WriteEnds(codes.offsets, num_documents, before.tokens, ends.data());
  std::vector<AppendCopier::Piece> pieces;
  // `width` is the bytes of one element.
  const auto add = [&pieces](const void* from, int64_t count, size_t width, const DeviceBuffer& to, size_t first) {
    pieces.push_back({from, count, width, to.as<uint8_t>() + first * width, width});
  };
  add(codes.plane0, num_tokens, row_bytes, arrays_->plane0, first_token);
  if (shape_.planes >= 2) add(codes.plane1, num_tokens, row_bytes, arrays_->plane1, first_token);
  if (shape_.planes == 4) add(codes.planes23, num_tokens, 2 * row_bytes, arrays_->planes23, first_token);
  if (shape_.codes.factors) add(codes.factors, num_tokens, 1, arrays_->factors, first_token);
  add(ends.data(), num_documents, sizeof(int64_t), arrays_->offsets, first_document + 1);
  add(codes.scales, num_documents, sizeof(float), arrays_->scales, first_document);
  for (size_t which = 0; which <= static_cast<size_t>(BoundIndex(shape_.planes)); ++which) {
    add(codes.bounds[which], num_documents, sizeof(CodeBound), arrays_->bounds[which], first_document);
  }
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(copier_.Copy(pieces)));
  length_.Add(num_documents, num_tokens);
  return absl::OkStatus();
}

std::shared_ptr<const LoadedCodes> CudaAppendableCodes::Snapshot() const {
  CudaCodes::Arrays arrays{.shape = shape_.codes,
                           .planes = shape_.planes,
                           .num_documents = length_.Get().documents,
                           .plane0 = arrays_->plane0.as<uint8_t>(),
                           .plane1 = arrays_->plane1.as<uint8_t>(),
                           .planes23 = arrays_->planes23.as<uint8_t>(),
                           .factors = arrays_->factors.as<uint8_t>(),
                           .offsets = arrays_->offsets.as<int64_t>(),
                           .scales = arrays_->scales.as<float>()};
  for (size_t which = 0; which < arrays.bounds.size(); ++which) {
    arrays.bounds[which] = arrays_->bounds[which].as<CodeBound>();
  }
  return CudaCodes::Borrow(*device_, arrays, arrays_);
}

}  // namespace maxsim::cuda
