#include "tests/support/random_documents.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace maxsim::test {
uint64_t TestSeed() {
  const char* const text = std::getenv("MAXSIM_TEST_SEED");
  uint64_t seed = 0;
  return text != nullptr && absl::SimpleAtoi(text, &seed) ? seed : 20240611;
}

std::string SeedTrace(uint64_t seed) { return absl::StrCat("seed ", seed, " (repeat with MAXSIM_TEST_SEED)"); }

TokenMatrix::TokenMatrix(ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment)
    : type_(type),
      dim_(dim),
      num_tokens_(num_tokens),
      start_(misalignment),
      memory_(misalignment + static_cast<size_t>(num_tokens) * dim * SizeOf(type)) {}

const void* TokenMatrix::row(int64_t token) const {
  return static_cast<const std::byte*>(data()) + static_cast<size_t>(token) * dim_ * SizeOf(type_);
}

void* TokenMatrix::MutableRow(int64_t token) {
  return static_cast<std::byte*>(data()) + static_cast<size_t>(token) * dim_ * SizeOf(type_);
}

std::vector<float> TokenMatrix::Row(int64_t token) const {
  std::vector<float> values(dim_);
  ConvertElements(type_, row(token), ScalarType::kF32, values.data(), values.size());
  return values;
}

void TokenMatrix::SetRow(int64_t token, absl::Span<const float> values) {
  ConvertElements(ScalarType::kF32, values.data(), type_, MutableRow(token), static_cast<size_t>(dim_));
}

void TokenMatrix::Set(int64_t token, int32_t column, float value) {
  std::byte* const element = static_cast<std::byte*>(MutableRow(token)) + column * SizeOf(type_);
  ConvertElements(ScalarType::kF32, &value, type_, element, 1);
}

void TokenMatrix::CopyRow(const TokenMatrix& from, int64_t from_token, int64_t token) {
  std::memcpy(MutableRow(token), from.row(from_token), dim_ * SizeOf(type_));
}

void TokenMatrix::Poison(int64_t begin, int64_t end) {
  const std::vector<float> nans(dim_, std::numeric_limits<float>::quiet_NaN());
  for (int64_t token = begin; token < end; ++token) SetRow(token, nans);
}

TokenMatrix RandomTokens(uint64_t seed, ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment) {
  TokenMatrix matrix(type, dim, num_tokens, misalignment);
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> gaussian;
  std::vector<float> row(dim);
  for (int64_t token = 0; token < num_tokens; ++token) {
    double squares = 0;
    for (float& value : row) {
      value = gaussian(generator);
      squares += static_cast<double>(value) * value;
    }
    const auto scale = static_cast<float>(1 / std::sqrt(squares));
    for (float& value : row) value *= scale;
    matrix.SetRow(token, row);
  }
  return matrix;
}

DocumentsView RandomDocuments::view() const {
  return {.type = tokens.type(),
          .dim = tokens.dim(),
          .num_documents = num_documents(),
          .tokens = tokens.data(),
          .offsets = offsets.data()};
}

RandomDocuments MakeDocuments(uint64_t seed, ScalarType type, int32_t dim, absl::Span<const int64_t> lengths,
                              size_t misalignment) {
  RandomDocuments documents;
  documents.offsets.push_back(0);
  for (int64_t length : lengths) documents.offsets.push_back(documents.offsets.back() + length);
  documents.tokens = RandomTokens(seed, type, dim, documents.offsets.back(), misalignment);
  return documents;
}

std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count, int64_t shortest, int64_t longest) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<int64_t> length(shortest, longest);
  std::vector<int64_t> lengths(count);
  for (int64_t& value : lengths) value = length(generator);
  return lengths;
}

Query RandomQuery::view(int32_t top_k, const std::vector<uint32_t>* ordinals) const {
  // A pointer that is not null for an empty list too: null would mean every document.
  static constexpr uint32_t kNoOrdinals[1] = {0};
  Query query;
  query.tokens = tokens.data();
  query.weights = weights.empty() ? nullptr : weights.data();
  query.num_tokens = static_cast<int32_t>(tokens.num_tokens());
  if (ordinals != nullptr) {
    query.ordinals = ordinals->empty() ? kNoOrdinals : ordinals->data();
    query.num_candidates = static_cast<int64_t>(ordinals->size());
  }
  query.top_k = top_k;
  return query;
}

RandomQuery MakeQuery(uint64_t seed, ScalarType type, int32_t dim, int32_t num_tokens, size_t misalignment) {
  return {.tokens = RandomTokens(seed, type, dim, num_tokens, misalignment), .weights = {}};
}

std::vector<float> MixedWeights(uint64_t seed, int32_t num_tokens) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> fraction(-2, 2);
  std::vector<float> weights(num_tokens);
  for (int32_t idx = 0; idx < num_tokens; ++idx) {
    switch (idx % 5) {
      case 0:
        weights[idx] = 1;
        break;
      case 1:
        weights[idx] = 0;
        break;
      case 2:
        weights[idx] = -0.5f;
        break;
      default:
        weights[idx] = fraction(generator);
    }
  }
  return weights;
}

}  // namespace maxsim::test
