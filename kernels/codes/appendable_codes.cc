#include "kernels/codes/appendable_codes.h"

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"

namespace maxsim {
namespace {

absl::Status ValidateCount(absl::string_view field, int64_t count, int64_t most) {
  if (count >= 1 && count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shape.", field, " is ", count, "; must be 1 to ", most));
}

absl::Status ValidateRoom(absl::string_view what, int64_t present, int64_t more, int64_t limit) {
  if (more <= limit - present) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("there is no room for codes of ", more, " ", what, " after ",
                                                   present, ": max_", what, " is ", limit));
}

}  // namespace

absl::Status ValidateAppendableCodesShape(const AppendableCodesShape& shape) {
  if (absl::Status s = ValidateCodeShape(shape.codes); !s.ok()) return s;
  if (!IsPlaneCount(shape.planes)) {
    return absl::InvalidArgumentError(absl::StrCat("shape.planes is ", shape.planes, "; must be 1, 2 or 4"));
  }
  if (absl::Status s = ValidateCount("max_documents", shape.max_documents, kMaxShardDocuments); !s.ok()) return s;
  return ValidateCount("max_tokens", shape.max_tokens, shape.max_documents * kMaxDocumentTokens);
}

absl::Status ValidateCodesAppend(const AppendableCodesShape& shape, int64_t num_documents, int64_t num_tokens,
                                 const CodesView& codes) {
  if (absl::Status s = ValidateCodes(codes); !s.ok()) return s;
  if (codes.shape != shape.codes) {
    return absl::InvalidArgumentError("codes.shape differs from that of the codes they are appended to");
  }
  if (codes.planes < shape.planes) {
    return absl::InvalidArgumentError(absl::StrCat("codes.planes is ", codes.planes, "; must be at least ",
                                                   shape.planes, ", the planes of the codes they are appended to"));
  }
  for (int which = 0; which <= BoundIndex(shape.planes) && codes.num_documents > 0; ++which) {
    if (codes.bounds[which] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("codes.bounds[", which, "] is null"));
    }
  }
  if (absl::Status s = ValidateRoom("documents", num_documents, codes.num_documents, shape.max_documents); !s.ok()) {
    return s;
  }
  return ValidateRoom("tokens", num_tokens, codes.num_tokens(), shape.max_tokens);
}

}  // namespace maxsim
