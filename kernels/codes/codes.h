// Codes: approximations of the documents' token vectors in 1, 2 or 4 bits per value. A scan reads them instead of the
// vectors. docs/internals/codes.md explains codes and proves the bounds of their scores.
//
// Let y_j be the rotated vector of token j of a document, L_j the integer levels of its code in 1, 2 or 4 planes
// (kernels/codes/code_levels.h), and g_j its factor. The code stands for the vector
//
//   z_j = scale * LevelUnit(planes) * g_j * L_j.
//
// Without factors every g_j is 1, and `scale` is the root mean square of the document's coordinates. With factors,
// `scale` * kMaxFactor is the root mean square of the coordinates of the document's longest token, and g_j is an
// integer 0 .. kMaxFactor: the length of token j, where the longest token has kMaxFactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/codes/code_layout.h"
#include "kernels/maxsim.h"
#include "kernels/scalar_type.h"

namespace maxsim {

inline constexpr int32_t kMaxFactor = 255;

// A document whose NominalNorm would be below this gets scale 0.
inline constexpr double kMinNominalNorm = 1e-28;

// Bounds by how much a document's score can exceed the score of its code. There is one for each number of planes. Each
// member is the maximum, over the document's tokens, of the expression in its comment, as the bits of an F16 number
// that is rounded up. `residual`, `length` and `norm` are in multiples of NominalNorm.
struct CodeBound {
  uint16_t slope = 0;     // <y_j, z_j> / |z_j|^2: the factor of z_j in the projection of y_j on z_j
  uint16_t residual = 0;  // the length of y_j minus its projection on z_j
  uint16_t length = 0;    // |z_j|
  uint16_t norm = 0;      // |y_j|, the same for any number of planes

  friend bool operator==(const CodeBound&, const CodeBound&) = default;
};
static_assert(sizeof(CodeBound) == 8);

// Properties that all codes of a collection share.
struct CodeShape {
  int32_t dim = 0;                          // kMinDim .. kMaxDim
  ScalarType originals = ScalarType::kF16;  // the type of the vectors that the codes were made of
  uint64_t rotation_seed = 0;               // of the rotation (kernels/quantize.h); I8 originals are already rotated
  bool factors = false;                     // whether tokens have factors

  friend bool operator==(const CodeShape&, const CodeShape&) = default;
};

// The codes of some documents. Document n has the tokens offsets[n] .. offsets[n + 1] - 1. The view does not own its
// arrays.
struct CodesView {
  CodeShape shape;
  int planes = 1;                     // number of planes in the view: 1, 2 or 4. A scan may read fewer
  int64_t num_documents = 0;          // 0 .. kMaxShardDocuments
  const int64_t* offsets = nullptr;   // [num_documents + 1], offsets[0] == 0, strictly increasing
  const uint8_t* plane0 = nullptr;    // [num_tokens, PlaneRowBytes(dim)], aligned to kPlaneAlignment, as all planes
  const uint8_t* plane1 = nullptr;    // [num_tokens, PlaneRowBytes(dim)], with 2 and 4 planes
  const uint8_t* planes23 = nullptr;  // [num_tokens, FieldRowBytes(dim)], with 4 planes
  const uint8_t* factors = nullptr;   // [num_tokens], with shape.factors; otherwise null
  const float* scales = nullptr;      // [num_documents], finite, 0 or more
  const CodeBound* bounds[3] = {};    // for 1, 2 and 4 planes: [num_documents], or null if the view has none

  int64_t num_tokens() const { return num_documents == 0 ? 0 : offsets[num_documents]; }
};

// Returns the index in CodesView::bounds of the bounds for 1, 2 or 4 planes.
constexpr int BoundIndex(int planes) { return planes / 2; }

// Returns the norm that a document's scale stands for: scale * sqrt(dim), and with factors also * kMaxFactor.
double NominalNorm(const CodeShape& shape, float scale);

// Returns the size in bytes of all arrays of a CodesView with the first 1, 2 or 4 planes.
size_t CodeArrayBytes(const CodeShape& shape, int planes, int64_t num_documents, int64_t num_tokens);

// Checks dimension and type. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status ValidateCodeShape(const CodeShape& shape);

// Checks a view except for the bits of its planes: the dimension, the number of planes, the pointers and their
// alignment, the scales, and that offsets start at 0 and grow by 1 .. kMaxDocumentTokens.
absl::Status ValidateCodes(const CodesView& codes);

}  // namespace maxsim
