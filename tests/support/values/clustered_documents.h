// Makes documents and queries whose vectors have near neighbours, as the vectors of texts do.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// Each document has a topic: a few cluster centres near which its tokens lie. Topics of different documents share
// centres.
struct ClusteredDocuments {
  static constexpr uint64_t kCentres = 300;
  static constexpr uint64_t kTopicCentres = 12;
  static constexpr uint64_t kRotationSeed = 20261128;

  ClusteredDocuments(uint64_t seed, int64_t num_documents, int32_t dim, ScalarType type);

  // Returns a query of eight tokens near those of a document.
  RandomQuery Query();

  std::vector<float> Near(std::vector<float> row, float distance);

  std::mt19937_64 generator;
  RandomDocuments values;     // F32
  RandomDocuments documents;  // the same in the stored type
};

}  // namespace maxsim::test
