#include "tests/support/values/clustered_documents.h"

#include <cmath>
#include <utility>

namespace maxsim::test {

ClusteredDocuments::ClusteredDocuments(uint64_t seed, int64_t num_documents, int32_t dim, ScalarType type)
    : generator(seed), values(MakeDocuments(seed, ScalarType::kF32, dim, RandomLengths(seed, num_documents, 4, 20))) {
  const TokenMatrix centres = RandomTokens(seed, ScalarType::kF32, dim, kCentres);
  for (int64_t document = 0; document < num_documents; ++document) {
    const uint64_t topic = generator() % (kCentres - kTopicCentres);
    for (int64_t token = values.offsets[document]; token < values.offsets[document + 1]; ++token) {
      const auto centre = static_cast<int64_t>(topic + generator() % kTopicCentres);
      values.tokens.SetRow(token, Near(centres.Row(centre), 0.5f));
    }
  }
  values.rotation_seed = kRotationSeed;
  documents = Stored(values, type);
}

RandomQuery ClusteredDocuments::Query() {
  const auto document = static_cast<int64_t>(generator() % static_cast<uint64_t>(values.num_documents()));
  RandomQuery query = MakeQuery(1, documents.tokens.type(), values.tokens.dim(), 8);
  for (int64_t token = 0; token < 8; ++token) {
    const auto in_document = static_cast<int64_t>(generator() % static_cast<uint64_t>(values.length(document)));
    query.tokens.SetRow(token, Near(values.tokens.Row(values.offsets[document] + in_document), 0.4f));
  }
  return query;
}

std::vector<float> ClusteredDocuments::Near(std::vector<float> row, float distance) {
  FastRandom random(generator());
  const float deviation = distance / std::sqrt(static_cast<float>(row.size()));
  double squares = 0;
  for (float& value : row) {
    value += deviation * random.Normal();
    squares += value * value;
  }
  for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
  return row;
}

}  // namespace maxsim::test
