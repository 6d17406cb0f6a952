// Random calls of the C library (kernels/library), and their expected results, which FP64 loops compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::test {

// The shape of a call. Lengths, masks, weights and values are random.
struct LibraryShape {
  int32_t type = MAXSIM_F32;
  int32_t dim = 16;
  int32_t pairing = MAXSIM_ALL;
  int64_t num_queries = 3;
  int64_t num_documents = 4;  // MAXSIM_PAIRS: as many as queries; MAXSIM_LISTS: see `candidates`
  int64_t list_length = 0;    // MAXSIM_LISTS
  // MAXSIM_LISTS: if true, lists name documents by number, some repeatedly. If false, each list has documents of its
  // own.
  bool candidates = false;
  int64_t max_query_tokens = 5;
  int64_t max_document_tokens = 9;
  int32_t query_layout = MAXSIM_PADDED;
  int32_t document_layout = MAXSIM_PADDED;
  int32_t index_type = MAXSIM_INT64;
  bool lengths = false;        // MAXSIM_PADDED: some sequences are shorter than max_tokens, some are empty
  bool query_mask = false;     // a mask leaves out some query tokens, of some queries all
  bool document_mask = false;  // a mask leaves out some document tokens, of some documents all
  bool weights = false;
  int32_t query_scale_of = MAXSIM_SCALE_PER_TOKEN;
  int32_t document_scale_of = MAXSIM_SCALE_PER_SEQUENCE;
  bool scaled_tokens = false;  // document tokens of half precision have scales, too; there are no gradients then
  bool ties = false;           // values are small integers, so that sums are exact and many similarities are equal

  friend std::ostream& operator<<(std::ostream& out, const LibraryShape& shape);
};

// Returns element `idx` of rows of a type (MAXSIM_F32, ...).
double ElementOf(int32_t type, const std::vector<char>& rows, int64_t idx);

// One of the matrices of a call in host memory. Rows outside of all sequences and masked rows are NaN (I8: the largest
// element), so that a test fails if a call uses them.
struct LibraryTokens {
  std::vector<char> rows;
  std::vector<double> values;  // those of the rows, without scales
  std::vector<char> offsets;
  std::vector<char> lengths;
  std::vector<uint8_t> mask;
  std::vector<float> scales;
  maxsim_tokens tokens = {};  // points to the members above

  // Returns the value of an element, without a scale.
  double Value(int64_t row, int32_t column) const { return values[row * tokens.dim + column]; }
  double Scale(int64_t sequence, int64_t row) const;
  int64_t Begin(int64_t sequence) const;
  int64_t Length(int64_t sequence) const;
  bool Counts(int64_t row) const { return tokens.mask == nullptr || mask[row] != 0; }
};

// A call with its memory, and an incoming gradient for each score. The weights of masked tokens are NaN.
struct LibraryCase {
  LibraryCase(const LibraryShape& shape, uint64_t seed);
  LibraryCase(const LibraryCase&) = delete;
  LibraryCase& operator=(const LibraryCase&) = delete;

  int64_t num_pairs() const;
  int64_t QueryOf(int64_t pair) const;
  int64_t DocumentOf(int64_t pair) const;

  LibraryShape shape;
  LibraryTokens queries;
  LibraryTokens documents;
  std::vector<float> weights;
  std::vector<int64_t> candidates;
  std::vector<float> score_gradients;
  maxsim_call call = {};  // on the CPU
};

// The expected results of a call.
struct LibraryScores {
  std::vector<double> scores;      // [pairs]
  std::vector<double> magnitudes;  // [pairs]: rounding errors are relative to these
  std::vector<int32_t> argmax;     // [pairs, max_query_tokens]
};
LibraryScores ReferenceScoresOf(const LibraryCase& library_case);

// Returns the similarity of a query token and a document token, with their scales.
double SimilarityOf(const LibraryCase& library_case, int64_t pair, int64_t query_token, int64_t document_token);

struct LibraryGradients {
  std::vector<double> queries;    // [num_rows, dim]
  std::vector<double> documents;  // [num_rows, dim]
  std::vector<double> weights;    // [num_rows]
  // The sums of the magnitudes of the added terms, in arrays of the same sizes.
  std::vector<double> query_magnitudes;
  std::vector<double> document_magnitudes;
  std::vector<double> weight_magnitudes;
};
LibraryGradients ReferenceGradientsOf(const LibraryCase& library_case, const std::vector<int32_t>& argmax);

// Memory into which the library writes gradients. It is filled with garbage that each pass must overwrite.
struct LibraryGradientMemory {
  explicit LibraryGradientMemory(const LibraryCase& library_case);
  std::vector<char> queries;
  std::vector<char> documents;
  std::vector<float> weights;
  friend bool operator==(const LibraryGradientMemory&, const LibraryGradientMemory&) = default;
};

// Fails the test if scores or argmax differ from `expected` (of ReferenceScoresOf) by more than the contract allows.
void ExpectScores(const LibraryCase& library_case, const LibraryScores& expected, const std::vector<float>& scores,
                  const std::vector<int32_t>& argmax);

// Fails the test if gradients differ from the reference by more than the rounding errors of FP32 sums and of the
// gradients' type.
void ExpectGradients(const LibraryCase& library_case, const std::vector<int32_t>& argmax,
                     const LibraryGradientMemory& gradients);

// Returns shapes that together cover every layout, pairing, type, mask, scale, ragged lengths, weights and ties.
std::vector<LibraryShape> LibraryShapes();

}  // namespace maxsim::test
