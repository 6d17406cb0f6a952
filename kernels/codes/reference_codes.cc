#include "kernels/codes/reference_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/codes/code_levels.h"
#include "kernels/quantize.h"

namespace maxsim {
namespace {

// Returns a token's row as encoding uses it: rotated, in FP32. The elements of I8 rows are rotated already.
std::vector<float> RotatedRow(const CodeShape& shape, const DocumentsView& documents, int64_t token) {
  const auto dim = static_cast<size_t>(documents.dim);
  std::vector<float> row(dim);
  const char* const from =
      static_cast<const char*>(documents.tokens) + static_cast<size_t>(token) * dim * SizeOf(documents.type);
  if (documents.type == ScalarType::kI8) {
    std::copy_n(reinterpret_cast<const int8_t*>(from), dim, row.begin());
    return row;
  }
  ConvertElements(documents.type, from, ScalarType::kF32, row.data(), dim);
  Rotate(shape.rotation_seed, absl::MakeSpan(row));
  return row;
}

// Returns the sum of a row's squares, added in four lanes (kernels/codes/encode.h, step 2).
double SumOfSquaresInLanes(const std::vector<float>& row) {
  double lanes[4] = {};
  for (size_t column = 0; column < row.size(); ++column) {
    lanes[column % 4] += static_cast<double>(row[column]) * row[column];
  }
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

bool StoredBit(const uint8_t* row, BitPlace place) { return (row[place.byte] >> place.bit & 1) != 0; }

}  // namespace

std::vector<CodeCell> ReferenceCells(const CodeShape& shape, const DocumentsView& documents, int64_t token) {
  const std::vector<float> row = RotatedRow(shape, documents, token);
  const double rms = std::sqrt(SumOfSquaresInLanes(row) / shape.dim);
  std::vector<CodeCell> cells;
  for (const float value : row) {
    CodeCell cell = {.positive = !(value < 0)};
    while (cell.magnitude < 7 && std::fabs(value) > static_cast<float>(kCellCuts[cell.magnitude] * rms)) {
      ++cell.magnitude;
    }
    cells.push_back(cell);
  }
  return cells;
}

double ReferenceNorm(const CodeShape& shape, const DocumentsView& documents, int64_t document, int64_t token) {
  const double norm = std::sqrt(SumOfSquaresInLanes(RotatedRow(shape, documents, token)));
  return documents.type == ScalarType::kI8 ? norm * documents.scales[document] : norm;
}

std::vector<CodeCell> StoredCells(const CodesView& codes, int64_t token) {
  const int32_t dim = codes.shape.dim;
  const size_t place = static_cast<size_t>(token) * PlaneRowBytes(dim);
  std::vector<CodeCell> cells(dim);
  for (int32_t column = 0; column < dim; ++column) {
    CodeCell& cell = cells[column];
    cell.positive = StoredBit(codes.plane0 + place, PlaneBit(dim, column));
    if (codes.planes >= 2 && StoredBit(codes.plane1 + place, PlaneBit(dim, column))) cell.magnitude += 4;
    if (codes.planes < 4) continue;
    BitPlace field = FieldBit(dim, column);
    if (StoredBit(codes.planes23 + 2 * place, field)) cell.magnitude += 1;
    ++field.bit;
    if (StoredBit(codes.planes23 + 2 * place, field)) cell.magnitude += 2;
  }
  return cells;
}

ReferenceBound ReferenceBoundOf(const CodesView& codes, const DocumentsView& documents, int planes, int64_t document) {
  ReferenceBound bound;
  const double nominal = NominalNorm(codes.shape, codes.scales[document]);
  if (nominal == 0) return bound;
  const double original_scale = documents.type == ScalarType::kI8 ? documents.scales[document] : 1.0;
  for (int64_t token = codes.offsets[document]; token < codes.offsets[document + 1]; ++token) {
    const std::vector<float> row = RotatedRow(codes.shape, documents, token);
    const std::vector<CodeCell> cells = StoredCells(codes, token);
    const double factor = codes.factors == nullptr ? 1 : codes.factors[token];
    const double unit = codes.scales[document] * LevelUnit(planes) * factor;
    double product = 0;
    double squared_length = 0;
    double squared_norm = 0;
    for (size_t column = 0; column < row.size(); ++column) {
      const double value = original_scale * row[column];
      const double coded = unit * CodeLevel(planes, cells[column].positive, cells[column].magnitude);
      product += value * coded;
      squared_length += coded * coded;
      squared_norm += value * value;
    }
    const double slope = squared_length == 0 ? 0 : product / squared_length;
    double squared_residual = 0;
    for (size_t column = 0; column < row.size(); ++column) {
      const double coded = unit * CodeLevel(planes, cells[column].positive, cells[column].magnitude);
      const double left = original_scale * row[column] - slope * coded;
      squared_residual += left * left;
    }
    bound.slope = std::max(bound.slope, slope);
    bound.residual = std::max(bound.residual, std::sqrt(squared_residual) / nominal);
    bound.length = std::max(bound.length, std::sqrt(squared_length) / nominal);
    bound.norm = std::max(bound.norm, std::sqrt(squared_norm) / nominal);
  }
  return bound;
}

ReferenceSums ReferenceSumsOf(const CodesView& codes, const QueryCodes& query, int64_t document) {
  const int32_t dim = codes.shape.dim;
  std::vector<int64_t> maxima(query.num_tokens, std::numeric_limits<int64_t>::lowest());
  for (int64_t token = codes.offsets[document]; token < codes.offsets[document + 1]; ++token) {
    const std::vector<CodeCell> cells = StoredCells(codes, token);
    for (int32_t i = 0; i < query.num_tokens; ++i) {
      const size_t place = static_cast<size_t>(i) * static_cast<size_t>(CodeColumns(dim));
      int64_t product = 0;
      for (int32_t column = 0; column < dim; ++column) {
        const int64_t integer = query.planes == 1 ? query.weights[place + column] : query.elements[place + column];
        product += integer * CodeLevel(query.planes, cells[column].positive, cells[column].magnitude);
      }
      if (codes.factors != nullptr) product *= codes.factors[token];
      maxima[i] = std::max(maxima[i], product);
    }
  }
  ReferenceSums sums;
  for (int32_t i = 0; i < query.num_tokens; ++i) {
    const int64_t term = query.multipliers[i] * maxima[i];
    sums.sum += term;
    sums.positive += std::max<int64_t>(term, 0);
  }
  return sums;
}

}  // namespace maxsim
