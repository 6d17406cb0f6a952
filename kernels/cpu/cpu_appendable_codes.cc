#include "kernels/cpu/cpu_appendable_codes.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/codes/code_layout.h"
#include "kernels/cpu/appendable_array.h"
#include "kernels/cpu/cpu_codes.h"
#include "kernels/cpu/machine.h"

namespace maxsim::cpu {

struct CpuAppendableCodes::Arrays {
  explicit Arrays(const AppendableCodesShape& shape)
      : row_bytes(PlaneRowBytes(shape.codes.dim)),
        plane0(Tokens(shape) * row_bytes),
        plane1(shape.planes >= 2 ? Tokens(shape) * row_bytes : 0),
        planes23(shape.planes == 4 ? Tokens(shape) * 2 * row_bytes : 0),
        factors(shape.codes.factors ? Tokens(shape) : 0),
        offsets(Documents(shape) + 1),
        scales(Documents(shape)),
        bounds{Bounds(shape, 1), Bounds(shape, 2), Bounds(shape, 4)} {}

  bool are_there() const {
    return plane0.is_there() && plane1.is_there() && planes23.is_there() && factors.is_there() && offsets.is_there() &&
           scales.is_there() && bounds[0].is_there() && bounds[1].is_there() && bounds[2].is_there();
  }

  const size_t row_bytes;  // of plane 0
  const AppendableArray<uint8_t> plane0;
  const AppendableArray<uint8_t> plane1;
  const AppendableArray<uint8_t> planes23;
  const AppendableArray<uint8_t> factors;
  const AppendableArray<int64_t> offsets;
  const AppendableArray<float> scales;
  const std::array<AppendableArray<CodeBound>, 3> bounds;

 private:
  static size_t Tokens(const AppendableCodesShape& shape) { return static_cast<size_t>(shape.max_tokens); }
  static size_t Documents(const AppendableCodesShape& shape) { return static_cast<size_t>(shape.max_documents); }
  static AppendableArray<CodeBound> Bounds(const AppendableCodesShape& shape, int planes) {
    return AppendableArray<CodeBound>(planes <= shape.planes ? Documents(shape) : 0);
  }
};

absl::StatusOr<std::shared_ptr<CpuAppendableCodes>> CpuAppendableCodes::Create(const AppendableCodesShape& shape) {
  const size_t needed = CodeArrayBytes(shape.codes, shape.planes, shape.max_documents, shape.max_tokens);
  const size_t available = AvailableMemoryBytes();
  if (needed <= available) {
    auto arrays = std::make_shared<Arrays>(shape);
    if (arrays->are_there()) {
      arrays->offsets.data()[0] = 0;
      return std::shared_ptr<CpuAppendableCodes>(new CpuAppendableCodes(shape, std::move(arrays)));
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("room for codes of ", shape.max_documents, " documents of ",
                                                   shape.max_tokens, " tokens takes ", needed,
                                                   " bytes of host memory; ", available, " are available"));
}

CpuAppendableCodes::CpuAppendableCodes(const AppendableCodesShape& shape, std::shared_ptr<Arrays> arrays)
    : shape_(shape), arrays_(std::move(arrays)) {}

absl::Status CpuAppendableCodes::Append(const CodesView& codes) {
  const AppendedLength::Value before = length_.Get();
  absl::Status status = ValidateCodesAppend(shape_, before.documents, before.tokens, codes);
  if (!status.ok() || codes.num_documents == 0) return status;
  const auto num_documents = static_cast<size_t>(codes.num_documents);
  const auto num_tokens = static_cast<size_t>(codes.num_tokens());
  const auto first_token = static_cast<size_t>(before.tokens);
  const size_t row_bytes = arrays_->row_bytes;
  std::memcpy(arrays_->plane0.data() + first_token * row_bytes, codes.plane0, num_tokens * row_bytes);
  if (shape_.planes >= 2) {
    std::memcpy(arrays_->plane1.data() + first_token * row_bytes, codes.plane1, num_tokens * row_bytes);
  }
  if (shape_.planes == 4) {
    std::memcpy(arrays_->planes23.data() + first_token * 2 * row_bytes, codes.planes23, num_tokens * 2 * row_bytes);
  }
  if (shape_.codes.factors) std::memcpy(arrays_->factors.data() + first_token, codes.factors, num_tokens);
  WriteEnds(codes.offsets, codes.num_documents, before.tokens, arrays_->offsets.data() + before.documents + 1);
  std::memcpy(arrays_->scales.data() + before.documents, codes.scales, num_documents * sizeof(float));
  for (int which = 0; which <= BoundIndex(shape_.planes); ++which) {
    std::memcpy(arrays_->bounds[static_cast<size_t>(which)].data() + before.documents, codes.bounds[which],
                num_documents * sizeof(CodeBound));
  }
  length_.Add(codes.num_documents, codes.num_tokens());
  return absl::OkStatus();
}

std::shared_ptr<const LoadedCodes> CpuAppendableCodes::Snapshot() const {
  CodesView view{.shape = shape_.codes,
                 .planes = shape_.planes,
                 .num_documents = length_.Get().documents,
                 .offsets = arrays_->offsets.data(),
                 .plane0 = arrays_->plane0.data(),
                 .plane1 = arrays_->plane1.data(),
                 .planes23 = arrays_->planes23.data(),
                 .factors = arrays_->factors.data(),
                 .scales = arrays_->scales.data()};
  for (size_t which = 0; which < arrays_->bounds.size(); ++which) view.bounds[which] = arrays_->bounds[which].data();
  return CpuCodes::Borrow(view, arrays_);
}

}  // namespace maxsim::cpu
