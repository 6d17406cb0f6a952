#include "collection/codes/codes_verifier.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "base/text.h"
#include "kernels/codes/code_layout.h"
#include "kernels/codes/reference_codes.h"
#include "kernels/codes/rounding.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

constexpr std::array<int, 3> kPlaneCounts = {1, 2, 4};

// A stored bound may exceed the exact one by this factor, before it is rounded to F16. This is 16 times the margin that
// encoding adds (kernels/codes/encode.h), and small compared with a step of F16 (2^-10).
constexpr double kMaxInflation = 1 + 0x1p-36;
constexpr double kMaxResidualInflation = 0x1p-34;  // of the squared norm, added to the squared residual

using Mistake = std::optional<std::string>;

Mistake DifferentBit(int64_t token, int32_t column, int plane, bool stored) {
  return Cat("token ", token, ", column ", column, ": plane ", plane, " has the bit ", stored ? 1 : 0, ", expected ",
             stored ? 0 : 1);
}

// Describes the first bit of a token's stored code that differs from the expected one.
Mistake CompareCells(const CodesView& codes, const std::vector<CodeCell>& stored, const std::vector<CodeCell>& expected,
                     int64_t token) {
  for (size_t column = 0; column < expected.size(); ++column) {
    const auto at = static_cast<int32_t>(column);
    if (stored[column].positive != expected[column].positive) {
      return DifferentBit(token, at, 0, stored[column].positive);
    }
    for (int plane = 1; plane < codes.planes; ++plane) {
      const int bit = 3 - plane;  // of the magnitude cell
      const bool has = (stored[column].magnitude >> bit & 1) != 0;
      if (has != ((expected[column].magnitude >> bit & 1) != 0)) return DifferentBit(token, at, plane, has);
    }
  }
  return std::nullopt;
}

bool BitOf(const uint8_t* row, BitPlace place) { return (row[place.byte] >> place.bit & 1) != 0; }

// Returns the first bit after the vector's columns that is set.
Mistake ComparePadding(const CodesView& codes, int64_t row, int64_t token) {
  const int32_t dim = codes.shape.dim;
  const size_t place = static_cast<size_t>(row) * PlaneRowBytes(dim);
  for (int32_t column = dim; column < CodeColumns(dim); ++column) {
    if (BitOf(codes.plane0 + place, PlaneBit(dim, column))) return DifferentBit(token, column, 0, true);
    if (codes.planes >= 2 && BitOf(codes.plane1 + place, PlaneBit(dim, column))) {
      return DifferentBit(token, column, 1, true);
    }
    if (codes.planes < 4) continue;
    BitPlace field = FieldBit(dim, column);
    if (BitOf(codes.planes23 + 2 * place, field)) return DifferentBit(token, column, 3, true);
    ++field.bit;
    if (BitOf(codes.planes23 + 2 * place, field)) return DifferentBit(token, column, 2, true);
  }
  return std::nullopt;
}

// Describes the first stored scale or factor of a document that differs from the one computed again.
Mistake CompareLengths(const CodesView& codes, const DocumentsView& documents, int64_t document) {
  const int64_t begin = documents.offsets[document];
  const int64_t end = documents.offsets[document + 1];
  std::vector<double> norms;
  double squares = 0;
  double largest = 0;
  for (int64_t token = begin; token < end; ++token) {
    norms.push_back(ReferenceNorm(codes.shape, documents, document, token));
    squares += norms.back() * norms.back();
    largest = std::max(largest, norms.back());
  }
  const double root_dim = std::sqrt(static_cast<double>(codes.shape.dim));
  const double count = static_cast<double>(end - begin);
  auto scale = static_cast<float>(codes.shape.factors ? largest / root_dim / kMaxFactor
                                                      : std::sqrt(squares / count / codes.shape.dim));
  if (NominalNorm(codes.shape, scale) < kMinNominalNorm) scale = 0;
  if (codes.scales[document] != scale) return Cat("scale ", codes.scales[document], ", expected ", scale);
  if (codes.factors == nullptr) return std::nullopt;
  for (int64_t token = begin; token < end; ++token) {
    const double exact =
        scale == 0 ? 0 : std::nearbyint(norms[static_cast<size_t>(token - begin)] / (scale * root_dim));
    const int expected = static_cast<int>(std::min<double>(exact, kMaxFactor));
    if (codes.factors[token] != expected) {
      return Cat("token ", token - begin, ": factor ", static_cast<int>(codes.factors[token]), ", expected ", expected);
    }
  }
  return std::nullopt;
}

// The stored bound must be at least `exact` and at most `most`.
Mistake CompareBound(int planes, std::string_view name, uint16_t stored, double exact, double most) {
  const double value = F16ToF32(stored);
  if (value >= exact && value <= F16ToF32(RoundUpToF16(most))) return std::nullopt;
  return Cat("bound of ", planes, planes == 1 ? " plane: " : " planes: ", name, " ", value, ", expected ",
             F16ToF32(RoundUpToF16(exact)));
}

Mistake CompareBounds(const CodesView& codes, const DocumentsView& documents, int64_t document) {
  for (const int planes : kPlaneCounts) {
    if (planes > codes.planes) break;
    const ReferenceBound exact = ReferenceBoundOf(codes, documents, planes, document);
    const CodeBound& stored = codes.bounds[BoundIndex(planes)][document];
    const double residual =
        std::sqrt(exact.residual * exact.residual + exact.norm * exact.norm * kMaxResidualInflation);
    const std::pair<std::string_view, std::array<double, 2>> numbers[] = {
        {"slope", {exact.slope, exact.slope * kMaxInflation}},
        {"residual", {exact.residual, residual * kMaxInflation}},
        {"length", {exact.length, exact.length * kMaxInflation}},
        {"norm", {exact.norm, exact.norm * kMaxInflation}}};
    const uint16_t bits[] = {stored.slope, stored.residual, stored.length, stored.norm};
    for (size_t idx = 0; idx < std::size(bits); ++idx) {
      const auto& [name, range] = numbers[idx];
      if (Mistake found = CompareBound(planes, name, bits[idx], range[0], range[1])) return found;
    }
  }
  return std::nullopt;
}

Mistake CompareDocument(const CodesView& codes, const DocumentsView& documents, int64_t document) {
  const int64_t begin = documents.offsets[document];
  const int64_t end = documents.offsets[document + 1];
  const size_t row_bytes = static_cast<size_t>(documents.dim) * SizeOf(documents.type);
  const auto* const rows = static_cast<const std::byte*>(documents.tokens) + static_cast<size_t>(begin) * row_bytes;
  const auto num_values = static_cast<size_t>(end - begin) * static_cast<size_t>(documents.dim);
  if (FindUnusableElement(documents.type, rows, num_values).has_value()) return std::nullopt;
  for (int64_t token = begin; token < end; ++token) {
    const std::vector<CodeCell> expected = ReferenceCells(codes.shape, documents, token);
    if (Mistake found = CompareCells(codes, StoredCells(codes, token), expected, token - begin)) return found;
    if (Mistake found = ComparePadding(codes, token, token - begin)) return found;
  }
  if (Mistake found = CompareLengths(codes, documents, document)) return found;
  return CompareBounds(codes, documents, document);
}

}  // namespace

WrongCodes FindWrongCodes(const CodesView& codes, const DocumentsView& documents, size_t max_kept, ThreadPool& pool) {
  WrongCodes wrong;
  std::mutex mutex;
  std::atomic<int64_t> next{0};
  pool.Run([&](int) {
    for (int64_t document = next.fetch_add(1); document < documents.num_documents; document = next.fetch_add(1)) {
      Mistake found = CompareDocument(codes, documents, document);
      if (!found.has_value()) continue;
      const std::lock_guard lock(mutex);
      ++wrong.num_documents;
      // Threads find wrong documents almost in ascending order, so the insertion is near the end.
      const auto at = std::lower_bound(wrong.documents.begin(), wrong.documents.end(), document,
                                       [](const WrongCode& one, int64_t number) { return one.document < number; });
      wrong.documents.insert(at, {document, *std::move(found)});
      if (wrong.documents.size() > max_kept) wrong.documents.pop_back();
    }
  });
  return wrong;
}

}  // namespace maxsim::collection
