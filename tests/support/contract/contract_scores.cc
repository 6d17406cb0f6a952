// Compares scores with the FP64 reference. The shapes have sizes one below, at and one above every tile edge.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/reference.h"
#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

// Scores the whole set and compares it with the reference.
void CheckWholeSet(ContractRunner& runner, const RandomDocuments& documents, const RandomQuery& query) {
  SCOPED_TRACE(testing::Message() << Name(documents.tokens.type()) << " d " << documents.tokens.dim()
                                  << ", query tokens " << query.tokens.num_tokens());
  runner.Load(documents);
  const Query call = query.view(kMaxTopK);
  ExpectMatchesReference(documents, call, runner.TopK(call));
}

void EveryDimension(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : {8, 9, 15, 16, 17, 31, 33, 48, 50, 64, 65, 96, 100, 127, 128, 129, 256, 768, 1023, 4096}) {
      if (!TakesDim(type, dim)) continue;
      const bool few = kSanitized && dim > 129;
      const RandomDocuments documents =
          MakeDocuments(TestSeed() + dim, type, dim, few ? std::vector<int64_t>{1, 17, 33} : BoundaryLengths());
      CheckWholeSet(runner, documents, MakeQuery(TestSeed() + dim + 1, type, dim, 33));
    }
  }
}

void EveryQueryLength(Backend& backend) {
  ContractRunner runner(backend);
  const int32_t dim = kSanitized ? 40 : 96;
  for (ScalarType type : kStorageTypes) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, BoundaryLengths());
    for (int32_t num_tokens : {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 65, 128, 300}) {
      CheckWholeSet(runner, documents, MakeQuery(TestSeed() + num_tokens, type, dim, num_tokens));
    }
    const int32_t few_dim = kSanitized ? 8 : 128;
    const RandomDocuments few = MakeDocuments(TestSeed(), type, few_dim, {1, 17, 65});
    CheckWholeSet(runner, few, MakeQuery(TestSeed(), type, few_dim, kMaxQueryTokens));
  }
}

void LongestDocument(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    const int32_t dim = kSanitized ? 8 : 48;
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, {3, kMaxDocumentTokens, 1});
    CheckWholeSet(runner, documents, MakeQuery(TestSeed() + 1, type, dim, kSanitized ? 5 : 17));
  }
}

void Weights(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t num_tokens : {1, 2, 31, 32, 33, 100}) {
      if (kSanitized && num_tokens != 1 && num_tokens != 33) continue;
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, 64, BoundaryLengths());
      RandomQuery query = MakeQuery(TestSeed() + num_tokens, type, 64, num_tokens);
      query.weights = MixedWeights(TestSeed(), num_tokens);
      CheckWholeSet(runner, documents, query);
      query.weights.assign(num_tokens, 0.0f);
      CheckWholeSet(runner, documents, query);
      query.weights.assign(num_tokens, -3.0f);
      CheckWholeSet(runner, documents, query);
    }
  }
}

// Tests rounding errors that all have the same sign, because all values are equal. Such errors add up: the error of a
// sum grows with its length, and not with the square root of its length.
void OneSidedRoundings(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : {128, 768, 4096}) {
      if (!TakesDim(type, dim)) continue;
      RandomDocuments values = MakeDocuments(TestSeed(), ScalarType::kF32, dim, {1, 5, 33});
      RandomQuery query = MakeQuery(TestSeed(), type, dim, kSanitized ? 9 : 65);
      std::vector<float> row(dim, 0.0703f);
      // Chooses rows that consist of the largest I8 element after the rotation. No FP32 number holds their sums
      // exactly.
      if (type == ScalarType::kI8) Unrotate(values.rotation_seed, absl::MakeSpan(row));
      for (TokenMatrix* matrix : {&values.tokens, &query.tokens}) {
        for (int64_t token = 0; token < matrix->num_tokens(); ++token) matrix->SetRow(token, row);
      }
      CheckWholeSet(runner, Stored(values, type), query);
    }
  }
}

// Tests documents with only negative similarities: a maximum must not start at zero or include zero padding.
void NegativeSimilarities(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kStorageTypes) {
    for (int32_t dim : {9, 50, 128}) {
      if (!TakesDim(type, dim)) continue;
      RandomDocuments values = MakeDocuments(TestSeed(), ScalarType::kF32, dim, BoundaryLengths());
      RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 35);
      for (int64_t token = 0; token < values.tokens.num_tokens(); ++token) {
        std::vector<float> row = values.tokens.Row(token);
        for (float& value : row) value = std::fabs(value) + 0.01f;
        values.tokens.SetRow(token, row);
      }
      for (int64_t token = 0; token < query.tokens.num_tokens(); ++token) {
        std::vector<float> row = query.tokens.Row(token);
        for (float& value : row) value = -std::fabs(value) - 0.01f;
        query.tokens.SetRow(token, row);
      }
      CheckWholeSet(runner, Stored(values, type), query);
    }
  }
}

// Tests that I8 scores have the same bits as QuantizedScores. The maxima are exact integers, and the contract
// prescribes all later operations.
void QuantizedBits(Backend& backend) {
  ContractRunner runner(backend);
  for (int32_t dim : {8, 9, 48, 96, 127, 128, 130, 256, 300, 1025}) {
    const RandomDocuments documents = MakeDocuments(TestSeed() + dim, ScalarType::kI8, dim, BoundaryLengths());
    runner.Load(documents);
    for (int32_t num_tokens : {1, 31, 32, 33, 64, 100}) {
      if (kSanitized && dim > 130 && num_tokens > 33) continue;
      SCOPED_TRACE(testing::Message() << "d " << dim << ", query tokens " << num_tokens);
      RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kI8, dim, num_tokens);
      if (num_tokens % 32 != 0) query.weights = MixedWeights(TestSeed(), num_tokens);
      const Query call = query.view(kMaxTopK);
      const std::vector<float> expected = QuantizedScores(documents, call);
      const std::vector<Scored> results = runner.TopK(call);
      ASSERT_EQ(results.size(), expected.size());
      for (const Scored& scored : results) {
        ASSERT_EQ(std::bit_cast<uint32_t>(scored.score), std::bit_cast<uint32_t>(expected[scored.position]))
            << "position " << scored.position << ": " << scored.score << " instead of " << expected[scored.position];
      }
    }
  }
}

void LargestMagnitudes(Backend& backend) {
  ContractRunner runner(backend);
  // The values are just below the limits, also after they are rounded to BF16.
  for (ScalarType type : {ScalarType::kF32, ScalarType::kBF16, ScalarType::kI8}) {
    RandomDocuments values = MakeDocuments(TestSeed(), ScalarType::kF32, kMaxDim, {1, 3});
    RandomQuery query = MakeQuery(TestSeed(), type, kMaxDim, 64);
    for (TokenMatrix* matrix : {&values.tokens, &query.tokens}) {
      for (int64_t token = 0; token < matrix->num_tokens(); ++token) {
        matrix->SetRow(token, std::vector<float>(kMaxDim, 0.99f * kMaxAbsValue));
      }
    }
    query.weights.assign(64, kMaxAbsWeight);
    CheckWholeSet(runner, Stored(values, type), query);
  }
  // FP16 has its own limit.
  RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, {4});
  RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, 128, 5);
  for (TokenMatrix* matrix : {&documents.tokens, &query.tokens}) {
    for (int64_t token = 0; token < matrix->num_tokens(); ++token) {
      matrix->SetRow(token, std::vector<float>(128, token % 2 == 0 ? 65504.0f : -65504.0f));
    }
  }
  CheckWholeSet(runner, documents, query);
}

// Tests that FP16 values below 2^-14 (subnormal ones) are not flushed to zero.
void SubnormalHalves(Backend& backend) {
  ContractRunner runner(backend);
  RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 50, {2, 9});
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, 50, 4);
  for (int64_t token = 0; token < documents.tokens.num_tokens(); ++token) {
    std::vector<float> row = documents.tokens.Row(token);
    for (float& value : row) value *= 0x1p-18f;
    documents.tokens.SetRow(token, row);
  }
  CheckWholeSet(runner, documents, query);
}

}  // namespace

std::vector<ContractCase> ScoreCases() {
  return {
      {"ScoresMatchFp64ForEveryDimension", &EveryDimension},
      {"ScoresMatchFp64ForEveryQueryLength", &EveryQueryLength},
      {"ScoresMatchFp64ForTheLongestDocument", &LongestDocument},
      {"ScoresMatchFp64WithWeights", &Weights},
      {"ScoresMatchFp64WhenRoundingsAddUp", &OneSidedRoundings},
      {"ScoresMatchFp64WhenEverySimilarityIsNegative", &NegativeSimilarities},
      {"QuantizedScoresHaveTheContractsBits", &QuantizedBits},
      {"ScoresStayFiniteAtTheLargestMagnitudes", &LargestMagnitudes},
      {"SubnormalHalvesKeepTheirValue", &SubnormalHalves},
  };
}

}  // namespace maxsim::test
