#include "tests/support/values/random_documents.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/quantize.h"

namespace maxsim::test {
namespace {

int8_t RoundToI8(float value) {
  constexpr float kLargest = kMaxInt8;
  return static_cast<int8_t>(std::nearbyint(std::clamp(value, -kLargest, kLargest)));
}

}  // namespace

uint64_t TestSeed() {
  const char* const text = std::getenv("MAXSIM_TEST_SEED");
  uint64_t seed = 0;
  return text != nullptr && absl::SimpleAtoi(text, &seed) ? seed : 20240611;
}

std::string SeedTrace(uint64_t seed) { return absl::StrCat("seed ", seed, " (repeat with MAXSIM_TEST_SEED)"); }

TokenMatrix::TokenMatrix() = default;
TokenMatrix::TokenMatrix(const TokenMatrix&) = default;
TokenMatrix::TokenMatrix(TokenMatrix&&) noexcept = default;
TokenMatrix& TokenMatrix::operator=(const TokenMatrix&) = default;
TokenMatrix& TokenMatrix::operator=(TokenMatrix&&) noexcept = default;
TokenMatrix::~TokenMatrix() = default;

TokenMatrix::TokenMatrix(ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment)
    : type_(type),
      dim_(dim),
      num_tokens_(num_tokens),
      start_(misalignment),
      memory_(misalignment + static_cast<size_t>(num_tokens * RowBytes(type, dim))) {}

const void* TokenMatrix::row(int64_t token) const {
  return static_cast<const std::byte*>(data()) + token * RowBytes(type_, dim_);
}

void* TokenMatrix::MutableRow(int64_t token) { return static_cast<std::byte*>(data()) + token * RowBytes(type_, dim_); }

std::vector<float> TokenMatrix::Row(int64_t token) const {
  std::vector<float> values(dim_);
  if (type_ == ScalarType::kI8) {
    const auto* const elements = static_cast<const int8_t*>(row(token));
    std::copy_n(elements, dim_, values.begin());
    return values;
  }
  ConvertElements(type_, row(token), ScalarType::kF32, values.data(), values.size());
  return values;
}

void TokenMatrix::SetRow(int64_t token, absl::Span<const float> values) {
  if (type_ == ScalarType::kI8) {
    std::transform(values.begin(), values.end(), static_cast<int8_t*>(MutableRow(token)), &RoundToI8);
    return;
  }
  ConvertElements(ScalarType::kF32, values.data(), type_, MutableRow(token), static_cast<size_t>(dim_));
}

void TokenMatrix::Set(int64_t token, int32_t column, float value) {
  std::vector<float> values = Row(token);
  values[column] = value;
  SetRow(token, values);
}

void TokenMatrix::CopyRow(const TokenMatrix& from, int64_t from_token, int64_t token) {
  std::memcpy(MutableRow(token), from.row(from_token), static_cast<size_t>(RowBytes(type_, dim_)));
}

void TokenMatrix::Poison(int64_t begin, int64_t end) {
  if (IsResidual(type_)) {
    // All bytes 0xff are an invalid centroid number, which is decoded as the last centroid. That centroid is NaN.
    for (int64_t token = begin; token < end; ++token) {
      std::memset(MutableRow(token), 0xff, static_cast<size_t>(RowBytes(type_, dim_)));
    }
    return;
  }
  for (int64_t token = begin; token < end; ++token) {
    const float extreme = token % 2 == 0 ? kMaxInt8 : -kMaxInt8;
    const float value = type_ == ScalarType::kI8 ? extreme : std::numeric_limits<float>::quiet_NaN();
    SetRow(token, std::vector<float>(dim_, value));
  }
}

TokenMatrix RandomTokens(uint64_t seed, ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment) {
  TokenMatrix matrix(type, dim, num_tokens, misalignment);
  FastRandom random(seed);
  std::vector<float> row(dim);
  for (int64_t token = 0; token < num_tokens; ++token) {
    double squares = 0;
    for (float& value : row) {
      value = random.Normal();
      squares += static_cast<double>(value) * value;
    }
    const auto scale = static_cast<float>(1 / std::sqrt(squares));
    for (float& value : row) value *= scale;
    matrix.SetRow(token, row);
  }
  return matrix;
}

DocumentsView RandomDocuments::view() const {
  const bool quantized = tokens.type() == ScalarType::kI8;
  return {.type = tokens.type(),
          .dim = tokens.dim(),
          .num_documents = num_documents(),
          .tokens = tokens.data(),
          .offsets = offsets.data(),
          .scales = quantized ? scales.data() : nullptr,
          .rotation_seed = quantized ? rotation_seed : 0,
          .codebook = {.num_centroids = static_cast<int64_t>(centroids.size()) / std::max(tokens.dim(), 1),
                       .centroids = centroids.empty() ? nullptr : centroids.data(),
                       .bucket_weights = bucket_weights.empty() ? nullptr : bucket_weights.data()}};
}

void RandomDocuments::Poison(int64_t document) {
  tokens.Poison(offsets[document], offsets[document + 1]);
  if (!scales.empty()) scales[document] = std::numeric_limits<float>::quiet_NaN();
}

RandomDocuments MakeDocuments(uint64_t seed, ScalarType type, int32_t dim, absl::Span<const int64_t> lengths,
                              size_t misalignment) {
  if (type == ScalarType::kI8 || IsResidual(type))
    return Stored(MakeDocuments(seed, ScalarType::kF32, dim, lengths), type, misalignment);
  RandomDocuments documents;
  documents.rotation_seed = seed * 3 + 1;
  documents.offsets.push_back(0);
  for (int64_t length : lengths) documents.offsets.push_back(documents.offsets.back() + length);
  documents.tokens = RandomTokens(seed, type, dim, documents.offsets.back(), misalignment);
  return documents;
}

namespace {

// Writes the residual codes of `values`, and their codebook, into `stored`. Each column gets the bucket whose weight is
// nearest to the residual.
void StoreResidualCodes(const RandomDocuments& values, RandomDocuments& stored) {
  constexpr int64_t kCentroids = 7;
  const ScalarType type = stored.tokens.type();
  const int32_t dim = values.tokens.dim();
  const int nbits = ResidualBits(type);
  const TokenMatrix centroids = RandomTokens(values.rotation_seed, ScalarType::kF16, dim, kCentroids);
  const auto* const elements = static_cast<const uint16_t*>(centroids.data());
  stored.centroids.assign(elements, elements + kCentroids * dim);
  stored.centroids.insert(stored.centroids.end(), static_cast<size_t>(dim), uint16_t{0x7e00});
  const int num_buckets = 1 << nbits;
  for (int bucket = 0; bucket < num_buckets; ++bucket) {
    stored.bucket_weights.push_back(0.6f * (static_cast<float>(bucket) + 0.5f) / static_cast<float>(num_buckets) -
                                    0.3f);
  }
  for (int64_t token = 0; token < values.tokens.num_tokens(); ++token) {
    const std::vector<float> row = values.tokens.Row(token);
    const auto number = static_cast<uint32_t>(token % kCentroids);
    const std::vector<float> centroid = centroids.Row(number);
    auto* const codes = static_cast<uint8_t*>(stored.tokens.MutableRow(token));
    const int64_t num_bytes = RowBytes(type, dim) - static_cast<int64_t>(sizeof(number));
    std::memset(codes, 0, static_cast<size_t>(num_bytes));
    for (int32_t column = 0; column < dim; ++column) {
      const float share = (row[column] - centroid[column] + 0.3f) / 0.6f * static_cast<float>(num_buckets);
      const int bucket = std::clamp(static_cast<int>(share), 0, num_buckets - 1);
      for (int bit = 0; bit < nbits; ++bit) {
        const int place = column * nbits + bit;  // the number of this bit in the row; a byte's highest bit comes first
        codes[place / 8] = static_cast<uint8_t>(codes[place / 8] | (bucket >> bit & 1) << (7 - place % 8));
      }
    }
    std::memcpy(codes + num_bytes, &number, sizeof(number));
  }
}

}  // namespace

RandomDocuments Stored(const RandomDocuments& values, ScalarType type, size_t misalignment) {
  const int32_t dim = values.tokens.dim();
  RandomDocuments stored;
  stored.tokens = TokenMatrix(type, dim, values.tokens.num_tokens(), misalignment);
  stored.offsets = values.offsets;
  stored.rotation_seed = values.rotation_seed;
  if (IsResidual(type)) {
    StoreResidualCodes(values, stored);
    return stored;
  }
  const auto* rows = static_cast<const float*>(values.tokens.data());
  if (type != ScalarType::kI8) {
    ConvertElements(ScalarType::kF32, rows, type, stored.tokens.data(),
                    static_cast<size_t>(values.tokens.num_tokens()) * dim);
    return stored;
  }
  auto* elements = static_cast<int8_t*>(stored.tokens.data());
  std::vector<float> copy;
  for (int64_t document = 0; document < values.num_documents(); ++document) {
    copy.assign(rows, rows + values.length(document) * dim);
    stored.scales.push_back(QuantizeDocument(stored.rotation_seed, dim, absl::MakeSpan(copy), elements));
    rows += copy.size();
    elements += copy.size();
  }
  return stored;
}

std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count, int64_t shortest, int64_t longest) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<int64_t> length(shortest, longest);
  std::vector<int64_t> lengths(count);
  for (int64_t& value : lengths) value = length(generator);
  return lengths;
}

Query RandomQuery::view(int32_t top_k, const std::vector<uint32_t>* ordinals) const {
  // For an empty list, `ordinals` must not be null, because null means that all documents are candidates.
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
  return {.tokens = RandomTokens(seed, QueryType(type), dim, num_tokens, misalignment), .weights = {}};
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
