#include "kernels/codes/codes.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"

namespace maxsim {
namespace {

absl::Status ValidatePlane(absl::string_view field, const void* plane) {
  if (plane == nullptr) return absl::InvalidArgumentError(absl::StrCat("codes.", field, " is null"));
  if (reinterpret_cast<uintptr_t>(plane) % kPlaneAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes.", field, " is at an address that is not a multiple of ", kPlaneAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

double NominalNorm(const CodeShape& shape, float scale) {
  return static_cast<double>(scale) * std::sqrt(static_cast<double>(shape.dim)) * (shape.factors ? kMaxFactor : 1);
}

size_t CodeArrayBytes(const CodeShape& shape, int planes, int64_t num_documents, int64_t num_tokens) {
  const auto documents = static_cast<size_t>(num_documents);
  const auto tokens = static_cast<size_t>(num_tokens);
  const auto num_bounds = static_cast<size_t>(BoundIndex(planes)) + 1;
  return tokens * (CodeBytes(shape.dim, planes) + (shape.factors ? 1 : 0)) + (documents + 1) * sizeof(int64_t) +
         documents * (sizeof(float) + num_bounds * sizeof(CodeBound));
}

absl::Status ValidateCodeShape(const CodeShape& shape) {
  if (shape.dim < kMinDim || shape.dim > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("codes.dim is ", shape.dim, "; must be ", kMinDim, " to ", kMaxDim));
  }
  if (SizeOf(shape.originals) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes.originals is ", static_cast<int>(shape.originals), "; must be f32, f16, bf16 or i8"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCodes(const CodesView& codes) {
  if (absl::Status s = ValidateCodeShape(codes.shape); !s.ok()) return s;
  if (!IsPlaneCount(codes.planes)) {
    return absl::InvalidArgumentError(absl::StrCat("codes.planes is ", codes.planes, "; must be 1, 2 or 4"));
  }
  if (codes.num_documents < 0 || codes.num_documents > kMaxShardDocuments) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes.num_documents is ", codes.num_documents, "; must be 0 to ", kMaxShardDocuments));
  }
  if (codes.num_documents == 0) return absl::OkStatus();
  if (codes.offsets == nullptr) return absl::InvalidArgumentError("codes.offsets is null");
  if (codes.offsets[0] != 0) {
    return absl::InvalidArgumentError(absl::StrCat("codes.offsets[0] is ", codes.offsets[0], "; must be 0"));
  }
  for (int64_t document = 0; document < codes.num_documents; ++document) {
    const int64_t length = codes.offsets[document + 1] - codes.offsets[document];
    if (length < 1 || length > kMaxDocumentTokens) {
      return absl::InvalidArgumentError(absl::StrCat("codes.offsets: document ", document, " has ", length,
                                                     " tokens; must have 1 to ", kMaxDocumentTokens));
    }
  }
  if (absl::Status s = ValidatePlane("plane0", codes.plane0); !s.ok()) return s;
  if (codes.planes >= 2) {
    if (absl::Status s = ValidatePlane("plane1", codes.plane1); !s.ok()) return s;
  }
  if (codes.planes == 4) {
    if (absl::Status s = ValidatePlane("planes23", codes.planes23); !s.ok()) return s;
  }
  if (codes.shape.factors != (codes.factors != nullptr)) {
    return absl::InvalidArgumentError(codes.shape.factors ? "codes.factors is null, which codes with factors need"
                                                          : "codes.factors is given; codes without factors have none");
  }
  if (codes.scales == nullptr) return absl::InvalidArgumentError("codes.scales is null");
  for (int64_t document = 0; document < codes.num_documents; ++document) {
    if (!(codes.scales[document] >= 0) || !std::isfinite(codes.scales[document])) {
      return absl::InvalidArgumentError(absl::StrCat("codes.scales[", document, "] is ", codes.scales[document],
                                                     "; must be finite and not negative"));
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim
