#include "kernels/reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "kernels/quantize.h"
#include "kernels/rank_order.h"
#include "kernels/residual_codes.h"

namespace maxsim {
namespace {

// A thread with fewer multiply-adds costs more to start than it saves.
constexpr double kMinWorkPerThread = 5e6;

// Converts elements to FP64, exactly; those of I8 become integers.
void WidenToDouble(ScalarType type, const void* source, size_t count, double* target) {
  if (type == ScalarType::kI8) {
    std::copy_n(static_cast<const int8_t*>(source), count, target);
    return;
  }
  std::vector<float> floats(count);
  ConvertElements(type, source, ScalarType::kF32, floats.data(), count);
  std::copy(floats.begin(), floats.end(), target);
}

// The rows of documents in FP64.
class DocumentRows {
 public:
  explicit DocumentRows(const DocumentsView& documents) : documents_(documents) {
    if (IsResidual(documents.type) && documents.num_documents > 0) {
      decoder_.emplace(documents.type, documents.dim, documents.codebook);
    }
  }

  // Writes a token's row, [dim]. Thread-safe.
  void Read(int64_t token, double* target) const {
    const void* const row =
        static_cast<const char*>(documents_.tokens) + token * RowBytes(documents_.type, documents_.dim);
    if (decoder_.has_value()) {
      decoder_->DecodeRow(row, target);
    } else {
      WidenToDouble(documents_.type, row, static_cast<size_t>(documents_.dim), target);
    }
  }

 private:
  const DocumentsView& documents_;
  std::optional<ResidualDecoder> decoder_;
};

// A query in FP64, transposed to [dim, num_tokens], so that the inner loops run over query tokens. Every inner product
// then adds its columns one by one in order, and the compiler may still use vectors.
struct TransposedQuery {
  TransposedQuery(const DocumentsView& documents, const Query& query)
      : num_tokens(query.num_tokens), values(static_cast<size_t>(documents.dim) * query.num_tokens) {
    const std::vector<double> rows = Rows(documents, query);
    for (int32_t token = 0; token < num_tokens; ++token) {
      for (int32_t column = 0; column < documents.dim; ++column) {
        values[static_cast<size_t>(column) * num_tokens + token] =
            rows[static_cast<size_t>(token) * documents.dim + column];
      }
    }
  }

  int32_t num_tokens;
  std::vector<double> values;

 private:
  // Returns the query's rows, [num_tokens, dim], in the values that a backend multiplies: quantised for I8 documents.
  static std::vector<double> Rows(const DocumentsView& documents, const Query& query) {
    std::vector<double> rows(static_cast<size_t>(documents.dim) * query.num_tokens);
    if (documents.type != ScalarType::kI8) {
      WidenToDouble(QueryType(documents.type), query.tokens, rows.size(), rows.data());
      return rows;
    }
    std::vector<int8_t> elements(rows.size());
    std::vector<float> scales(query.num_tokens);
    QuantizeQuery(documents.rotation_seed, documents.dim, static_cast<const float*>(query.tokens), elements.data(),
                  absl::MakeSpan(scales));
    for (size_t idx = 0; idx < rows.size(); ++idx)
      rows[idx] = static_cast<double>(scales[idx / documents.dim]) * elements[idx];
    return rows;
  }
};

// Returns the factor that turns inner products with a document's elements into similarities.
double ScaleOf(const DocumentsView& documents, uint32_t ordinal) {
  return documents.type == ScalarType::kI8 ? documents.scales[ordinal] : 1.0;
}

// The similarities of one document token with every query token.
struct Similarities {
  explicit Similarities(const TransposedQuery& query) : products(query.num_tokens), magnitudes(query.num_tokens) {}

  void Compute(const TransposedQuery& query, absl::Span<const double> row) {
    std::fill(products.begin(), products.end(), 0.0);
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    const int32_t num_tokens = query.num_tokens;
    double* const __restrict product = products.data();
    double* const __restrict magnitude = magnitudes.data();
    for (size_t column = 0; column < row.size(); ++column) {
      const double value = row[column];
      const double* const __restrict query_column = query.values.data() + column * num_tokens;
      for (int32_t token = 0; token < num_tokens; ++token) {
        const double term = query_column[token] * value;
        product[token] += term;
        magnitude[token] += std::fabs(term);
      }
    }
  }

  std::vector<double> products;    // sum_k q_ik * d_jk
  std::vector<double> magnitudes;  // sum_k |q_ik * d_jk|
};

ReferenceScore ScoreDocument(const DocumentsView& documents, const DocumentRows& rows, const TransposedQuery& query,
                             const float* weights, uint32_t ordinal) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  std::vector<double> best_product(query.num_tokens, kLowest);
  std::vector<double> best_magnitude(query.num_tokens, 0.0);
  std::vector<double> row(documents.dim);
  Similarities similarities(query);
  for (int64_t token = documents.offsets[ordinal]; token < documents.offsets[ordinal + 1]; ++token) {
    rows.Read(token, row.data());
    similarities.Compute(query, row);
    for (int32_t i = 0; i < query.num_tokens; ++i) {
      best_product[i] = std::max(best_product[i], similarities.products[i]);
      best_magnitude[i] = std::max(best_magnitude[i], similarities.magnitudes[i]);
    }
  }
  ReferenceScore result;
  for (int32_t i = 0; i < query.num_tokens; ++i) {
    const double weight = weights == nullptr ? 1.0 : weights[i];
    result.score += weight * best_product[i];
    result.magnitude += std::fabs(weight) * best_magnitude[i];
  }
  const double scale = ScaleOf(documents, ordinal);
  result.score *= scale;
  result.magnitude *= scale;
  return result;
}

int NumThreads(double multiply_adds, size_t num_candidates) {
  const double useful = multiply_adds / kMinWorkPerThread;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(
      1, static_cast<int>(std::min({useful, static_cast<double>(cores), static_cast<double>(num_candidates)})));
}

}  // namespace

std::vector<ReferenceScore> ReferenceScores(const DocumentsView& documents, const Query& query) {
  const bool whole = query.ordinals == nullptr;
  const auto num_candidates = static_cast<size_t>(whole ? documents.num_documents : query.num_candidates);
  const auto ordinal_at = [&](size_t idx) { return whole ? static_cast<uint32_t>(idx) : query.ordinals[idx]; };
  const TransposedQuery transposed(documents, query);
  const DocumentRows rows(documents);

  double tokens = 0;
  for (size_t idx = 0; idx < num_candidates; ++idx) {
    const uint32_t ordinal = ordinal_at(idx);
    tokens += static_cast<double>(documents.offsets[ordinal + 1] - documents.offsets[ordinal]);
  }
  std::vector<ReferenceScore> scores(num_candidates);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t idx = next.fetch_add(1); idx < num_candidates; idx = next.fetch_add(1)) {
      scores[idx] = ScoreDocument(documents, rows, transposed, query.weights, ordinal_at(idx));
    }
  };
  std::vector<std::thread> threads;
  const int num_threads = NumThreads(tokens * query.num_tokens * documents.dim, num_candidates);
  for (int idx = 1; idx < num_threads; ++idx) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return scores;
}

std::vector<ReferenceMatch> ReferenceAlign(const DocumentsView& documents, const Query& query, uint32_t ordinal) {
  const TransposedQuery transposed(documents, query);
  const DocumentRows rows(documents);
  std::vector<ReferenceMatch> matches(query.num_tokens, {0, -std::numeric_limits<double>::infinity()});
  std::vector<double> row(documents.dim);
  Similarities similarities(transposed);
  const int64_t begin = documents.offsets[ordinal];
  for (int64_t token = begin; token < documents.offsets[ordinal + 1]; ++token) {
    rows.Read(token, row.data());
    similarities.Compute(transposed, row);
    for (int32_t i = 0; i < query.num_tokens; ++i) {
      // The comparison is strict, so that the first of equal tokens stays.
      if (similarities.products[i] > matches[i].similarity) {
        matches[i] = {static_cast<int32_t>(token - begin), similarities.products[i]};
      }
    }
  }
  for (ReferenceMatch& match : matches) match.similarity *= ScaleOf(documents, ordinal);
  return matches;
}

std::vector<double> ReferenceSimilarities(const DocumentsView& documents, const Query& query, uint32_t ordinal) {
  const TransposedQuery transposed(documents, query);
  const DocumentRows rows(documents);
  const int64_t begin = documents.offsets[ordinal];
  const int64_t num_tokens = documents.offsets[ordinal + 1] - begin;
  const double scale = ScaleOf(documents, ordinal);
  std::vector<double> result(static_cast<size_t>(query.num_tokens) * num_tokens);
  std::vector<double> row(documents.dim);
  Similarities similarities(transposed);
  for (int64_t token = 0; token < num_tokens; ++token) {
    rows.Read(begin + token, row.data());
    similarities.Compute(transposed, row);
    for (int64_t i = 0; i < query.num_tokens; ++i) {
      result[static_cast<size_t>(i * num_tokens + token)] = similarities.products[i] * scale;
    }
  }
  return result;
}

std::vector<ReferenceHit> ReferenceTopK(absl::Span<const ReferenceScore> scores, int32_t k) {
  std::vector<ReferenceHit> hits(scores.size());
  for (size_t idx = 0; idx < scores.size(); ++idx) hits[idx] = {scores[idx].score, static_cast<uint32_t>(idx)};
  const size_t wanted = std::min(hits.size(), static_cast<size_t>(std::max(k, 0)));
  std::partial_sort(hits.begin(), hits.begin() + wanted, hits.end(), RanksBefore);
  hits.resize(wanted);
  return hits;
}

}  // namespace maxsim
