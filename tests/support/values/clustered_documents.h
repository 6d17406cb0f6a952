// Makes documents and queries whose vectors have near neighbours, as those of texts have.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// A document's tokens lie near the few centres of its topic. Topics of different documents share centres.
struct ClusteredDocuments {
  static constexpr uint64_t kCentres = 300;
  static constexpr uint64_t kTopicCentres = 12;
  static constexpr uint64_t kRotationSeed = 20261128;

  ClusteredDocuments(uint64_t seed, int64_t num_documents, int32_t dim, ScalarType type)
      : generator(seed), values(MakeDocuments(seed, ScalarType::kF32, dim, RandomLengths(seed, num_documents, 4, 20))) {
    const TokenMatrix centres = RandomTokens(seed, ScalarType::kF32, dim, kCentres);
    for (int64_t document = 0; document < num_documents; ++document) {
      const uint64_t topic = generator() % (kCentres - kTopicCentres);
      for (int64_t token = values.offsets[document]; token < values.offsets[document + 1]; ++token) {
        const auto centre = static_cast<int64_t>(topic + generator() % kTopicCentres);
        values.tokens.SetRow(token, Near(centres.Row(centre), 0.5));
      }
    }
    values.rotation_seed = kRotationSeed;
    documents = Stored(values, type);
  }

  // Returns a query of eight tokens near those of a document.
  RandomQuery Query() {
    const auto document = static_cast<int64_t>(generator() % static_cast<uint64_t>(values.num_documents()));
    RandomQuery query = MakeQuery(1, documents.tokens.type(), values.tokens.dim(), 8);
    for (int64_t token = 0; token < 8; ++token) {
      const auto in_document = static_cast<int64_t>(generator() % static_cast<uint64_t>(values.length(document)));
      query.tokens.SetRow(token, Near(values.tokens.Row(values.offsets[document] + in_document), 0.4));
    }
    return query;
  }

  std::vector<float> Near(std::vector<float> row, double distance) {
    std::normal_distribution<double> gaussian(0, distance / std::sqrt(static_cast<double>(row.size())));
    double squares = 0;
    for (float& value : row) {
      value += static_cast<float>(gaussian(generator));
      squares += value * value;
    }
    for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
    return row;
  }

  std::mt19937_64 generator;
  RandomDocuments values;     // F32
  RandomDocuments documents;  // the same in the stored type
};

}  // namespace maxsim::test
