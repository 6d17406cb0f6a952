// Fuzzes a file of a shard's codes. All bytes of an accepted file must be readable, and scales and bounds in range.
//
// The first bytes are the values of the manifest: file, dimension, type of the vectors, factors, documents, tokens.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

#include "collection/codes/code_file.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "tests/fuzz/formats/aligned_copy.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr size_t kLayoutBytes = 6;

collection::CodeFileLayout LayoutOf(std::string_view bytes) {
  constexpr std::array kTypes = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};
  const auto at = [&](size_t idx) { return static_cast<uint8_t>(bytes[idx]); };
  collection::CodeFileLayout layout;
  layout.file = at(0) % 3U;
  layout.shape.dim = std::max<int32_t>(at(1), kMinDim);
  layout.shape.originals = kTypes[at(2) % kTypes.size()];
  layout.shape.factors = at(3) % 2 == 1;
  layout.num_documents = at(4) % 16 + 1;
  layout.num_tokens = layout.num_documents + at(5);
  return layout;
}

void FuzzCodeFile(std::string_view input) {
  if (input.size() < kLayoutBytes) return;
  const collection::CodeFileLayout layout = LayoutOf(input);
  const std::string_view file = input.substr(kLayoutBytes);
  const std::unique_ptr<char, FreeMemory> bytes = AlignedCopy(file, kPlaneAlignment);
  const auto contents = collection::ParseCodeFile({bytes.get(), file.size()}, layout);
  if (!contents.ok()) return RequireRefusal(contents.status());
  uint64_t sum = 0;
  const int64_t plane_bytes = layout.num_tokens * collection::PlaneFileRowBytes(layout.file, layout.shape.dim);
  Require(reinterpret_cast<uintptr_t>(contents->plane) % kPlaneAlignment == 0, "a plane is aligned");
  for (int64_t idx = 0; idx < plane_bytes; ++idx) sum += contents->plane[idx];
  Require((contents->factors != nullptr) == layout.has_factors(), "factors are there where they belong");
  for (int64_t idx = 0; idx < layout.num_tokens && contents->factors != nullptr; ++idx) sum += contents->factors[idx];
  for (int64_t idx = 0; idx < layout.num_documents; ++idx) {
    if (layout.has_scales()) {
      Require(contents->scales[idx] >= 0 && std::isfinite(contents->scales[idx]), "a scale is in range");
    }
    const CodeBound bound = contents->bounds.data()[idx];
    for (const uint16_t number : {bound.slope, bound.residual, bound.length, bound.norm}) {
      Require(F16ToF32(number) >= 0 && std::isfinite(F16ToF32(number)), "a bound is in range");
    }
  }
  volatile uint64_t sink = sum;
  static_cast<void>(sink);
}

const Registration kCodeFileTarget("code_file", &FuzzCodeFile);

}  // namespace
}  // namespace maxsim::fuzz
