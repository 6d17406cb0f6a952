#include "tests/support/library/library_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/scalar_type.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using Random = std::mt19937_64;

int64_t Between(Random& random, int64_t smallest, int64_t largest) {
  return std::uniform_int_distribution<int64_t>(smallest, largest)(random);
}

void PutIndex(int32_t index_type, int64_t value, std::vector<char>* indices) {
  const auto narrow = static_cast<int32_t>(value);
  const char* const bytes =
      index_type == MAXSIM_INT32 ? reinterpret_cast<const char*>(&narrow) : reinterpret_cast<const char*>(&value);
  indices->insert(indices->end(), bytes, bytes + (index_type == MAXSIM_INT32 ? sizeof(narrow) : sizeof(value)));
}

int64_t GetIndex(int32_t index_type, const std::vector<char>& indices, int64_t idx) {
  if (index_type == MAXSIM_INT32) {
    int32_t value;
    std::memcpy(&value, indices.data() + idx * static_cast<int64_t>(sizeof(value)), sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, indices.data() + idx * static_cast<int64_t>(sizeof(value)), sizeof(value));
  return value;
}

size_t ElementBytes(int32_t type) { return SizeOf(static_cast<ScalarType>(type)); }

void PutValue(int32_t type, float value, int64_t idx, std::vector<char>* rows) {
  char* const target = rows->data() + idx * static_cast<int64_t>(ElementBytes(type));
  if (type == MAXSIM_I8) {
    *reinterpret_cast<int8_t*>(target) = static_cast<int8_t>(std::isnan(value) ? 127 : value);
  } else {
    ConvertElements(ScalarType::kF32, &value, static_cast<ScalarType>(type), target, 1);
  }
}

// Returns the lengths of sequences: all max_tokens or, if `ragged`, random ones. Then the first length is max_tokens
// and the middle one is 0.
std::vector<int64_t> MakeLengths(Random& random, int64_t count, int64_t max_tokens, bool ragged) {
  std::vector<int64_t> lengths(count, max_tokens);
  if (!ragged) return lengths;
  for (int64_t& length : lengths) length = Between(random, 1, std::max<int64_t>(max_tokens, 1));
  if (count > 0) lengths[0] = max_tokens;
  if (count > 1) lengths[count / 2] = 0;
  return lengths;
}

struct TokensShape {
  int32_t layout;
  int64_t count;
  int64_t max_tokens;
  bool mask;
  int32_t scale_of;
  bool scales;
};

void MakeTokens(const LibraryShape& shape, const TokensShape& given, Random& random, LibraryTokens* target) {
  maxsim_tokens& tokens = target->tokens;
  const bool ragged = given.layout != MAXSIM_PADDED || shape.lengths;
  const std::vector<int64_t> lengths = MakeLengths(random, given.count, given.max_tokens, ragged);
  std::vector<int64_t> begins;
  int64_t next = given.layout == MAXSIM_PACKED ? 2 : 0;  // rows before the first sequence belong to none
  for (int64_t sequence = 0; sequence < given.count; ++sequence) {
    // In the layout MAXSIM_SCATTERED, each odd sequence begins where the sequence before it begins, so the two overlap.
    // Each even sequence begins at least 3 rows after the end of the sequence before it.
    begins.push_back(given.layout == MAXSIM_SCATTERED && sequence % 2 == 1 ? begins.back() : next);
    next += given.layout == MAXSIM_PADDED ? given.max_tokens
                                          : lengths[sequence] + (given.layout == MAXSIM_SCATTERED ? 3 : 0);
  }
  tokens = {.struct_size = sizeof(maxsim_tokens),
            .layout = given.layout,
            .type = shape.type,
            .dim = shape.dim,
            .index_type = shape.index_type,
            .num_sequences = given.count,
            .max_tokens = given.max_tokens,
            .num_rows = given.layout == MAXSIM_PADDED ? given.count * given.max_tokens : next + given.max_tokens + 3,
            .rows = nullptr,
            .offsets = nullptr,
            .lengths = nullptr,
            .mask = nullptr,
            .scales = nullptr,
            .scale_of = given.scale_of,
            .reserved = 0};
  if (given.layout != MAXSIM_PADDED) {
    for (const int64_t begin : begins) PutIndex(shape.index_type, begin, &target->offsets);
    if (given.layout == MAXSIM_PACKED) PutIndex(shape.index_type, next, &target->offsets);
    tokens.offsets = target->offsets.data();
  }
  if (given.layout == MAXSIM_SCATTERED || (given.layout == MAXSIM_PADDED && ragged)) {
    for (const int64_t length : lengths) PutIndex(shape.index_type, length, &target->lengths);
    tokens.lengths = target->lengths.data();
  }
  std::vector<bool> counts(tokens.num_rows, false);
  if (given.mask) target->mask.assign(tokens.num_rows, 0);
  for (int64_t sequence = 0; sequence < given.count; ++sequence) {
    const bool none = given.mask && sequence % 3 == 1;
    const bool prefix = sequence % 2 == 0;
    const int64_t cut = Between(random, 1, std::max<int64_t>(lengths[sequence], 1));
    for (int64_t token = 0; token < lengths[sequence]; ++token) {
      const bool drawn = prefix ? token < cut : Between(random, 0, 2) != 0;
      if (given.mask && (none || !drawn)) continue;
      counts[begins[sequence] + token] = true;
      if (given.mask) target->mask[begins[sequence] + token] = static_cast<uint8_t>(Between(random, 1, 255));
    }
  }
  if (given.mask) tokens.mask = target->mask.data();
  target->rows.resize(static_cast<size_t>(tokens.num_rows) * shape.dim * ElementBytes(shape.type));
  std::normal_distribution<float> normal;
  for (int64_t idx = 0; idx < tokens.num_rows * shape.dim; ++idx) {
    float value = std::numeric_limits<float>::quiet_NaN();
    if (counts[idx / shape.dim]) {
      const bool small = shape.ties;
      value = small                     ? static_cast<float>(Between(random, -1, 1))
              : shape.type == MAXSIM_I8 ? static_cast<float>(Between(random, -127, 127))
                                        : normal(random);
    }
    PutValue(shape.type, value, idx, &target->rows);
  }
  tokens.rows = target->rows.data();
  for (int64_t idx = 0; idx < tokens.num_rows * shape.dim; ++idx) {
    target->values.push_back(ElementOf(shape.type, target->rows, idx));
  }
  if (given.scales) {
    target->scales.resize(given.scale_of == MAXSIM_SCALE_PER_TOKEN ? tokens.num_rows : given.count);
    for (float& scale : target->scales) {
      scale = shape.ties ? 0.5f * static_cast<float>(Between(random, 1, 2))
                         : std::uniform_real_distribution<float>(0.001f, 0.02f)(random);
    }
    tokens.scales = target->scales.data();
  }
}

}  // namespace

double ElementOf(int32_t type, const std::vector<char>& rows, int64_t idx) {
  const char* const source = rows.data() + idx * static_cast<int64_t>(ElementBytes(type));
  if (type == MAXSIM_I8) return *reinterpret_cast<const int8_t*>(source);
  float value;
  ConvertElements(static_cast<ScalarType>(type), source, ScalarType::kF32, &value, 1);
  return value;
}

std::ostream& operator<<(std::ostream& out, const LibraryShape& shape) {
  return out << "type " << shape.type << ", dim " << shape.dim << ", pairing " << shape.pairing << ", "
             << shape.num_queries << " queries of " << shape.max_query_tokens << " (layout " << shape.query_layout
             << "), " << shape.num_documents << " documents of " << shape.max_document_tokens << " (layout "
             << shape.document_layout << "), list " << shape.list_length << ", candidates " << shape.candidates
             << ", index type " << shape.index_type << ", lengths " << shape.lengths << ", masks " << shape.query_mask
             << shape.document_mask << ", weights " << shape.weights << ", scales of " << shape.query_scale_of
             << shape.document_scale_of << ", ties " << shape.ties;
}

double LibraryTokens::Scale(int64_t sequence, int64_t row) const {
  if (tokens.scales == nullptr) return 1;
  return scales[tokens.scale_of == MAXSIM_SCALE_PER_TOKEN ? row : sequence];
}

int64_t LibraryTokens::Begin(int64_t sequence) const {
  return tokens.layout == MAXSIM_PADDED ? sequence * tokens.max_tokens : GetIndex(tokens.index_type, offsets, sequence);
}

int64_t LibraryTokens::Length(int64_t sequence) const {
  if (tokens.layout == MAXSIM_PACKED) return GetIndex(tokens.index_type, offsets, sequence + 1) - Begin(sequence);
  return lengths.empty() ? tokens.max_tokens : GetIndex(tokens.index_type, lengths, sequence);
}

LibraryCase::LibraryCase(const LibraryShape& given, uint64_t seed) : shape(given) {
  Random random(seed);
  if (shape.pairing == MAXSIM_PAIRS) shape.num_documents = shape.num_queries;
  if (shape.pairing == MAXSIM_LISTS && !shape.candidates) shape.num_documents = shape.num_queries * shape.list_length;
  MakeTokens(shape,
             {shape.query_layout, shape.num_queries, shape.max_query_tokens, shape.query_mask, shape.query_scale_of,
              shape.type == MAXSIM_I8},
             random, &queries);
  MakeTokens(shape,
             {shape.document_layout, shape.num_documents, shape.max_document_tokens, shape.document_mask,
              shape.scaled_tokens ? MAXSIM_SCALE_PER_TOKEN : shape.document_scale_of,
              shape.type == MAXSIM_I8 || shape.scaled_tokens},
             random, &documents);
  call = {.struct_size = sizeof(maxsim_call),
          .device = MAXSIM_CPU,
          .pairing = shape.pairing,
          .queries = &queries.tokens,
          .documents = &documents.tokens,
          .weights = nullptr,
          .candidates = nullptr,
          .list_length = shape.pairing == MAXSIM_LISTS ? shape.list_length : 0,
          .empty_score = -7.5f,
          .num_threads = 0,
          .stream = nullptr,
          .workspace = nullptr,
          .workspace_bytes = 0};
  if (shape.weights) {
    weights.resize(queries.tokens.num_rows);
    for (float& weight : weights) weight = 0.25f * static_cast<float>(Between(random, -4, 8));
    std::vector<bool> counts(weights.size(), false);
    for (int64_t query = 0; query < shape.num_queries; ++query) {
      const int64_t begin = queries.Begin(query);
      for (int64_t row = begin; row < begin + queries.Length(query); ++row) counts[row] = queries.Counts(row);
    }
    for (size_t row = 0; row < weights.size(); ++row) {
      if (!counts[row]) weights[row] = std::numeric_limits<float>::quiet_NaN();
    }
    call.weights = weights.data();
  }
  if (shape.candidates) {
    candidates.resize(num_pairs());
    for (int64_t& candidate : candidates) candidate = Between(random, 0, shape.num_documents - 1);
    call.candidates = candidates.data();
  }
  score_gradients.resize(num_pairs());
  for (float& gradient : score_gradients) gradient = 0.125f * static_cast<float>(Between(random, -8, 8));
}

int64_t LibraryCase::num_pairs() const {
  const int64_t length = shape.pairing == MAXSIM_ALL     ? shape.num_documents
                         : shape.pairing == MAXSIM_PAIRS ? 1
                                                         : shape.list_length;
  return shape.num_queries * length;
}

int64_t LibraryCase::QueryOf(int64_t pair) const { return pair / (num_pairs() / shape.num_queries); }

int64_t LibraryCase::DocumentOf(int64_t pair) const {
  if (shape.pairing == MAXSIM_ALL) return pair % shape.num_documents;
  return shape.candidates ? candidates[pair] : pair;
}

std::vector<LibraryShape> LibraryShapes() {
  std::vector<LibraryShape> shapes;
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16, MAXSIM_I8}) {
    for (const bool ties : {false, true}) {
      if ((ties || type == MAXSIM_BF16) && kSanitized) continue;  // reads the same memory as F16 without ties
      LibraryShape plain = {.type = type, .dim = 32, .ties = ties};
      shapes.push_back(plain);
      LibraryShape one_query = plain;
      one_query.num_queries = 1;
      one_query.num_documents = 40;
      one_query.max_query_tokens = 33;
      one_query.max_document_tokens = 70;
      one_query.dim = 128;
      shapes.push_back(one_query);
      LibraryShape ragged = plain;
      ragged.num_queries = 7;
      ragged.num_documents = 9;
      ragged.max_query_tokens = 17;
      ragged.max_document_tokens = 130;
      ragged.dim = 65;
      ragged.lengths = true;
      ragged.weights = true;
      ragged.index_type = MAXSIM_INT32;
      shapes.push_back(ragged);
      LibraryShape masked = ragged;
      masked.index_type = MAXSIM_INT64;
      masked.query_mask = true;
      masked.document_mask = true;
      masked.query_scale_of = MAXSIM_SCALE_PER_SEQUENCE;
      masked.document_scale_of = MAXSIM_SCALE_PER_TOKEN;
      shapes.push_back(masked);
      LibraryShape packed = masked;
      packed.query_layout = MAXSIM_PACKED;
      packed.document_layout = MAXSIM_PACKED;
      packed.lengths = false;
      shapes.push_back(packed);
      LibraryShape scattered = packed;
      scattered.document_layout = MAXSIM_SCATTERED;
      scattered.document_mask = false;
      scattered.index_type = MAXSIM_INT32;
      shapes.push_back(scattered);
      LibraryShape pairs = packed;
      pairs.pairing = MAXSIM_PAIRS;
      shapes.push_back(pairs);
      LibraryShape own_lists = masked;
      own_lists.pairing = MAXSIM_LISTS;
      own_lists.list_length = 5;
      shapes.push_back(own_lists);
      if (type == MAXSIM_F16 || type == MAXSIM_BF16) {
        for (LibraryShape scaled : {one_query, masked, scattered}) {
          scaled.scaled_tokens = true;
          shapes.push_back(scaled);
        }
      }
      LibraryShape lists = scattered;
      lists.pairing = MAXSIM_LISTS;
      lists.list_length = 12;
      lists.candidates = true;
      lists.query_mask = false;
      shapes.push_back(lists);
    }
  }
  return shapes;
}

}  // namespace maxsim::test
