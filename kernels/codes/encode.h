// Encodes documents as codes.
//
// The codes of the same documents and shape have the same bits on every machine and with every compiler. For each
// token:
//
//  1. The row is widened to FP32 and rotated (Rotate in kernels/quantize.h). I8 rows are already rotated, so their
//     integer elements are used as they are.
//  2. S is the sum of the squares in FP64. Sums have four lanes: lane l adds columns l, l + 4, l + 8, ... in order,
//     starting from zero, and the sum is (lane 0 + lane 1) + (lane 2 + lane 3). Products of FP32 numbers are exact in
//     FP64, so that a fused multiply-add gives the same bits.
//  3. cut_i = the product of kCellCuts[i] and sqrt(S / dim), both FP64, rounded to FP32. A coordinate's magnitude cell
//     is the number of cuts that are below its magnitude; its sign bit is set unless the coordinate is below 0.
//  4. With the levels' magnitudes L_p of 1, 2 and 4 planes, B_p = sum of |y_k| L_p,k in FP64, in lanes like S, and the
//     integer N_p = sum of L_p,k^2.
//
// The norm of a token is sqrt(S), for I8 times the document's I8 scale (FP64). The scale of a document's code is
// sqrt(sum of the tokens' squared norms / tokens / dim), rounded to FP32, where the sum is taken in the order of the
// tokens. With factors, the scale is (largest norm / sqrt(dim)) / kMaxFactor, rounded to FP32, and the factor of a
// token is norm / (scale * sqrt(dim)), rounded to an integer (ties to even), at most kMaxFactor. Scale and factors are
// 0 if NominalNorm would be below kMinNominalNorm. The bounds (CodeBound) are computed from these numbers, and
// increased by a relative 2^-40 or more, which covers the rounding of these steps, before they are rounded up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

// The arrays to which codes of all documents of a view are written, in the layout of CodesView. Pointers to planes 1, 2
// and 3 and to bounds may be null; then these are not written.
struct CodesOutput {
  uint8_t* plane0 = nullptr;
  uint8_t* plane1 = nullptr;
  uint8_t* planes23 = nullptr;
  uint8_t* factors = nullptr;  // with shape.factors
  float* scales = nullptr;
  CodeBound* bounds[3] = {};
};

// Returns the shape of codes of these documents.
CodeShape CodeShapeOf(const DocumentsView& documents, uint64_t rotation_seed, bool factors);

// Encodes documents `begin` .. `end` - 1 of a valid view (ValidateDocuments) into their places in `output`. For I8
// documents shape.rotation_seed must be the documents' seed. Returns INVALID_ARGUMENT if the type or dimension is not
// the shape's, or for a value that a token must not have (FindUnusableElement), with document, token and column. After
// an error the output of these documents is unspecified. Several threads may encode different ranges.
absl::Status EncodeRange(const CodeShape& shape, const DocumentsView& documents, int64_t begin, int64_t end,
                         const CodesOutput& output);

// Encodes documents and owns the codes: 4 planes with all bounds.
class EncodedDocuments {
 public:
  EncodedDocuments() = default;

  // Validates the view, and then encodes all of its documents.
  static absl::StatusOr<EncodedDocuments> Encode(const CodeShape& shape, const DocumentsView& documents);

  // Returns a view of 1, 2 or 4 planes of this object's memory.
  CodesView view(int planes = 4) const;

 private:
  // The unit of memory of a plane, which aligns the plane to kPlaneAlignment.
  struct Line {
    alignas(kPlaneAlignment) uint8_t bytes[kPlaneAlignment];
  };
  static std::vector<Line> Lines(size_t num_bytes) {
    return std::vector<Line>((num_bytes + kPlaneAlignment - 1) / kPlaneAlignment);
  }

  CodeShape shape_;
  std::vector<int64_t> offsets_;
  std::vector<Line> plane0_;
  std::vector<Line> plane1_;
  std::vector<Line> planes23_;
  std::vector<uint8_t> factors_;
  std::vector<float> scales_;
  std::array<std::vector<CodeBound>, 3> bounds_;
};

// Returns how much the norms of the tokens in a document differ: the root mean square, over all tokens, of (token's
// norm / root mean square of its document's norms) - 1. Above kMaxNormSpread, codes need factors: without them, the
// differences of norms would add more to the error of an estimate than the rounding to 4 planes does (sqrt(0.0096) =
// 0.098 of a norm).
double NormSpread(const DocumentsView& documents);
inline constexpr double kMaxNormSpread = 0.05;

}  // namespace maxsim
