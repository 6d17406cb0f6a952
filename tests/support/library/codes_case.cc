#include "tests/support/library/codes_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/scalar_type.h"

namespace maxsim::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Rounds `value` to the type.
float RoundedTo(ScalarType type, float value) {
  char bytes[4];
  ConvertElements(ScalarType::kF32, &value, type, bytes, 1);
  ConvertElements(type, bytes, ScalarType::kF32, &value, 1);
  return value;
}

// Writes a bucket's bits one by one to their places in this bit order.
void PutBucket(int32_t bit_order, int nbits, int column, int bucket, uint8_t* row) {
  for (int bit = 0; bit < nbits; ++bit) {
    const int place = column * nbits + bit;
    const int shift = bit_order == MAXSIM_COLBERT_BITS ? 7 - place % 8 : place % 8;
    row[place / 8] = static_cast<uint8_t>(row[place / 8] | (bucket >> bit & 1) << shift);
  }
}

template <typename T>
void Put(T value, std::vector<char>* bytes) {
  const char* const begin = reinterpret_cast<const char*>(&value);
  bytes->insert(bytes->end(), begin, begin + sizeof(T));
}

std::vector<bool> CountingRowsOf(const LibraryTokens& documents) {
  std::vector<bool> counts(documents.tokens.num_rows, false);
  for (int64_t document = 0; document < documents.tokens.num_sequences; ++document) {
    for (int64_t token = 0; token < documents.Length(document); ++token) {
      const int64_t row = documents.Begin(document) + token;
      counts[row] = documents.Counts(row);
    }
  }
  return counts;
}

class CodesMaker {
 public:
  CodesMaker(const CodesShape& shape, uint64_t seed, CodesCase* target)
      : shape_(shape),
        random_(seed ^ 0x5eed),
        target_(target),
        type_(static_cast<ScalarType>(shape.library.type)),
        dim_(shape.library.dim) {}

  void Make() {
    MakeTables();
    maxsim_tokens& tokens = target_->library.documents.tokens;
    const std::vector<bool> counts = CountingRowsOf(target_->library.documents);
    const int64_t row_bytes = int64_t{dim_} * shape_.nbits / 8;
    target_->residuals.assign(tokens.num_rows * row_bytes, 0);
    for (int64_t row = 0; row < tokens.num_rows; ++row) {
      uint8_t* const residuals = target_->residuals.data() + row * row_bytes;
      double* const values = target_->library.documents.values.data() + row * dim_;
      if (counts[row]) {
        MakeRow(residuals, values);
      } else {
        PutNumber(row % 3 == 0 ? -1 : row % 3 == 1 ? shape_.num_centroids + 1'000'000 : shape_.num_centroids);
        std::fill_n(values, dim_, kNaN);
      }
    }
    tokens.rows = nullptr;
    target_->codes = {.struct_size = sizeof(maxsim_residual_codes),
                      .nbits = shape_.nbits,
                      .bit_order = shape_.bit_order,
                      .number_type = shape_.number_type,
                      .normalize = shape_.normalize ? 1 : 0,
                      .num_centroids = shape_.num_centroids + 1,
                      .centroid_numbers = target_->numbers.data(),
                      .residuals = target_->residuals.data(),
                      .centroids = target_->centroids.data(),
                      .bucket_weights = target_->bucket_weights.data()};
  }

 private:
  int Between(int smallest, int largest) { return std::uniform_int_distribution<int>(smallest, largest)(random_); }

  float Value(float scale) {
    return shape_.library.ties ? static_cast<float>(Between(-1, 1)) : scale * normal_(random_);
  }

  void MakeTables() {
    for (int64_t idx = 0; idx < shape_.num_centroids * dim_; ++idx) values_.push_back(RoundedTo(type_, Value(0.3f)));
    values_.resize(values_.size() + dim_, kNaN);
    target_->centroids.resize(values_.size() * SizeOf(type_));
    ConvertElements(ScalarType::kF32, values_.data(), type_, target_->centroids.data(), values_.size());
    for (int idx = 0; idx < 1 << shape_.nbits; ++idx) target_->bucket_weights.push_back(Value(0.1f));
  }

  void MakeRow(uint8_t* residuals, double* values) {
    const auto number = std::uniform_int_distribution<int64_t>(0, shape_.num_centroids - 1)(random_);
    PutNumber(number);
    double squares = 0;
    for (int32_t column = 0; column < dim_; ++column) {
      const int bucket = Between(0, (1 << shape_.nbits) - 1);
      PutBucket(shape_.bit_order, shape_.nbits, column, bucket, residuals);
      const float weight = RoundedTo(type_, target_->bucket_weights[bucket]);
      values[column] = RoundedTo(type_, values_[number * dim_ + column] + weight);
      squares += values[column] * values[column];
    }
    if (!shape_.normalize) return;
    const double norm = std::max(std::sqrt(squares), 1e-12);
    for (int32_t column = 0; column < dim_; ++column) values[column] /= norm;
  }

  void PutNumber(int64_t number) {
    if (shape_.number_type == MAXSIM_INT32) {
      Put(static_cast<int32_t>(number), &target_->numbers);
    } else {
      Put(number, &target_->numbers);
    }
  }

  const CodesShape& shape_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  CodesCase* const target_;
  const ScalarType type_;
  const int32_t dim_;
  std::vector<float> values_;  // of centroids
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const CodesShape& shape) {
  return out << shape.library << "; " << shape.nbits << " bits, order " << shape.bit_order << ", numbers of type "
             << shape.number_type << ", normalised " << shape.normalize << ", " << shape.num_centroids << " centroids";
}

CodesCase::CodesCase(const CodesShape& shape, uint64_t seed) : library(shape.library, seed) {
  CodesMaker(shape, seed, this).Make();
}

std::vector<CodesShape> CodesShapes() {
  std::vector<CodesShape> shapes;
  int idx = 0;
  for (LibraryShape library : LibraryShapes()) {
    if (library.type == MAXSIM_I8 || library.scaled_tokens) continue;
    for (const int32_t nbits : {1, 2, 4, 8}) {
      // The codes of a vector must fill whole bytes. So the dimension 65 becomes 72, 36, 18 or 9, depending on `nbits`.
      library.dim = library.dim == 65 ? 8 / nbits * 9 : library.dim;
      for (const bool normalize : {false, true}) {
        if (normalize && library.ties) continue;
        shapes.push_back({.library = library,
                          .nbits = nbits,
                          .bit_order = idx % 3 == 0 ? MAXSIM_LOW_BITS_FIRST : MAXSIM_COLBERT_BITS,
                          .number_type = idx % 2 == 0 ? MAXSIM_INT64 : MAXSIM_INT32,
                          .normalize = normalize});
        ++idx;
      }
    }
  }
  return shapes;
}

std::vector<CodesShape> CodesEdgeShapes(int32_t type) {
  std::vector<CodesShape> shapes;
  for (const int32_t nbits : {1, 2, 4, 8}) {
    for (const int32_t dim : {8, 16, 24, 32, 40, 64, 96, 128, 130, 136, 256, 1024, 4096, 8 / nbits, 24 / nbits}) {
      if (dim * nbits % 8 != 0) continue;
      shapes.push_back(
          {.library = {.type = type, .dim = dim, .max_query_tokens = 3}, .nbits = nbits, .normalize = dim % 16 == 0});
    }
    for (const int64_t tokens : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97}) {
      shapes.push_back({.library = {.type = type,
                                    .dim = 32,
                                    .max_query_tokens = tokens,
                                    .max_document_tokens = tokens,
                                    .ties = tokens % 2 == 0},
                        .nbits = nbits,
                        .number_type = MAXSIM_INT32});
    }
  }
  return shapes;
}

void ExpectQueryGradients(const CodesCase& codes_case, const std::vector<int32_t>& argmax,
                          LibraryGradientMemory gradients) {
  // This call computes only the gradients of queries, but ExpectGradients also compares those of documents. So the
  // reference's document gradients are copied into the result.
  const LibraryGradients expected = ReferenceGradientsOf(codes_case.library, argmax);
  std::vector<float> documents(expected.documents.begin(), expected.documents.end());
  ConvertElements(ScalarType::kF32, documents.data(), static_cast<ScalarType>(codes_case.library.shape.type),
                  gradients.documents.data(), documents.size());
  ExpectGradients(codes_case.library, argmax, gradients);
}

}  // namespace maxsim::test
