// Tests residual codes on the CPU, through the functions of maxsim/residual_codes.h.
#include "kernels/library/include/maxsim/residual_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/cpu_forward.h"
#include "kernels/library/residual_codes/coded_problem.h"
#include "kernels/library/residual_codes/residual_decoder.h"
#include "tests/support/library/codes_case.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

struct CodesResult {
  std::vector<float> scores;
  std::vector<int32_t> argmax;
  friend bool operator==(const CodesResult&, const CodesResult&) = default;
};

CodesResult PoisonedCodes(const CodesCase& codes_case) {
  const auto num_pairs = static_cast<size_t>(codes_case.library.num_pairs());
  return {std::vector<float>(num_pairs, std::numeric_limits<float>::quiet_NaN()),
          std::vector<int32_t>(num_pairs * codes_case.library.queries.tokens.max_tokens, -77)};
}

CodesResult ForwardCodes(const CodesCase& codes_case) {
  CodesResult result = PoisonedCodes(codes_case);
  EXPECT_EQ(maxsim_residual_codes_forward(&codes_case.library.call, &codes_case.codes, result.scores.data(),
                                          result.argmax.data()),
            MAXSIM_OK)
      << maxsim_last_error();
  return result;
}

void ExpectCodes(const CodesCase& codes_case) {
  const CodesResult result = ForwardCodes(codes_case);
  ExpectScores(codes_case.library, ReferenceScoresOf(codes_case.library), result.scores, result.argmax);
  CodesResult without = PoisonedCodes(codes_case);
  ASSERT_EQ(maxsim_residual_codes_forward(&codes_case.library.call, &codes_case.codes, without.scores.data(), nullptr),
            MAXSIM_OK);
  EXPECT_EQ(without.scores, result.scores) << "scores differ where the argmax is not asked for";
}

// Expects that the call is refused as invalid, with an error that mentions `text`.
void ExpectCodesRefused(const CodesCase& codes_case, const maxsim_residual_codes& codes, const std::string& text) {
  CodesResult result = PoisonedCodes(codes_case);
  EXPECT_EQ(maxsim_residual_codes_forward(&codes_case.library.call, &codes, result.scores.data(), nullptr),
            MAXSIM_INVALID_ARGUMENT)
      << text;
  EXPECT_NE(std::string(maxsim_last_error()).find(text), std::string::npos) << maxsim_last_error();
}

TEST(ResidualCodesTest, ScoresMatchesAndGradientsAreThoseOfDecodedVectorsInFp64) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  const std::vector<CodesShape> shapes = CodesShapes();
  // Sanitized builds test every 11th shape. 11 is a prime, so every layout, width and pairing still occurs.
  const size_t stride = kSanitized ? 11 : 1;
  for (size_t i = 0; i < shapes.size(); i += stride) {
    SCOPED_TRACE(testing::PrintToString(shapes[i]));
    const CodesCase codes_case(shapes[i], TestSeed());
    ExpectCodes(codes_case);
    const std::vector<int32_t> argmax = ForwardCodes(codes_case).argmax;
    LibraryGradientMemory memory(codes_case.library);
    const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                        .argmax = argmax.data(),
                                        .score_gradients = codes_case.library.score_gradients.data(),
                                        .query_gradients = memory.queries.data(),
                                        .document_gradients = nullptr,
                                        .weight_gradients = memory.weights.data()};
    ASSERT_EQ(maxsim_residual_codes_backward(&codes_case.library.call, &codes_case.codes, &gradients), MAXSIM_OK)
        << maxsim_last_error();
    ExpectQueryGradients(codes_case, argmax, memory);
  }
}

TEST(ResidualCodesTest, EveryDimensionAndTileEdgeIsScored) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    if (type == MAXSIM_BF16 && kSanitized) continue;  // reads the same memory as F16
    const std::vector<CodesShape> shapes = CodesEdgeShapes(type);
    // Sanitized builds test every third shape, and begin at the third one for F16. So every dimension and tile edge
    // still occurs.
    for (size_t i = kSanitized && type == MAXSIM_F16 ? 2 : 0; i < shapes.size(); i += kSanitized ? 3 : 1) {
      SCOPED_TRACE(testing::PrintToString(shapes[i]));
      ExpectCodes(CodesCase(shapes[i], TestSeed() + shapes[i].library.dim));
    }
  }
}

TEST(ResidualCodesTest, EveryInstructionSetGivesTheScoresOfFp64) {
  const CodesShape shape = {
      .library = {.dim = 72, .max_query_tokens = 33, .max_document_tokens = 70, .lengths = true, .document_mask = true},
      .normalize = true};
  const CodesCase codes_case(shape, TestSeed());
  library::CodedProblem problem;
  ASSERT_TRUE(library::ReadCodedProblem(&codes_case.library.call, &codes_case.codes, &problem).ok());
  const library::CodedRowDecoder decoder(problem);
  for (const cpu::Isa* isa : cpu::AvailableIsas()) {
    SCOPED_TRACE(isa->name);
    CodesResult result = PoisonedCodes(codes_case);
    ASSERT_TRUE(library::CpuForward(problem.problem, *isa, result.scores.data(), result.argmax.data(), &decoder).ok());
    ExpectScores(codes_case.library, ReferenceScoresOf(codes_case.library), result.scores, result.argmax);
  }
}

// ColBERT stores the lowest bit of the first column's bucket in the highest bit of a byte.
TEST(ResidualCodesTest, BitsAreInTheOrderOfColbert) {
  const float query[8] = {1, 10, 100, 1000, 0, 0, 0, 0};
  const float centroids[8] = {};
  const int64_t number = 0;
  const float weights[4] = {0, 1, 2, 3};
  // The buckets are 1, 2, 3 and 0. The bits of each, lowest first, are 1 0, then 0 1, then 1 1, then 0 0.
  const uint8_t residuals[2] = {0b10011100, 0};
  maxsim_tokens tokens = {};
  tokens.struct_size = sizeof(maxsim_tokens);
  tokens.type = MAXSIM_F32;
  tokens.dim = 8;
  tokens.num_sequences = tokens.max_tokens = tokens.num_rows = 1;
  maxsim_tokens queries = tokens;
  queries.rows = query;
  maxsim_call call = {};
  call.struct_size = sizeof(maxsim_call);
  call.queries = &queries;
  call.documents = &tokens;
  maxsim_residual_codes codes = {};
  codes.struct_size = sizeof(maxsim_residual_codes);
  codes.nbits = 2;
  codes.num_centroids = 1;
  codes.centroid_numbers = &number;
  codes.residuals = residuals;
  codes.centroids = centroids;
  codes.bucket_weights = weights;
  float score = 0;
  ASSERT_EQ(maxsim_residual_codes_forward(&call, &codes, &score, nullptr), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(score, 1 + 20 + 300);
  codes.bit_order = MAXSIM_LOW_BITS_FIRST;  // buckets 0, 3, 1, 2
  ASSERT_EQ(maxsim_residual_codes_forward(&call, &codes, &score, nullptr), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(score, 30 + 100 + 2000);
}

TEST(ResidualCodesTest, ResultsHaveTheSameBitsInEveryRunAndWithAnyNumberOfThreads) {
  CodesCase codes_case({.library = {.type = MAXSIM_BF16,
                                    .dim = 128,
                                    .num_queries = 3,
                                    .num_documents = 200,
                                    .max_query_tokens = 33,
                                    .max_document_tokens = 60,
                                    .lengths = true},
                        .normalize = true},
                       TestSeed());
  const CodesResult first = ForwardCodes(codes_case);
  for (int run = 0; run < (kSanitized ? 8 : 20); ++run) {
    codes_case.library.call.num_threads = run % 4;
    EXPECT_EQ(ForwardCodes(codes_case), first);
  }
}

TEST(ResidualCodesTest, ACentroidNumberOutOfRangeIsRefused) {
  for (const int32_t number_type : {MAXSIM_INT64, MAXSIM_INT32}) {
    for (const int64_t number : {int64_t{-1}, int64_t{38}, int64_t{1} << 30}) {
      CodesCase codes_case({.library = {.dim = 8}, .number_type = number_type}, TestSeed());
      const auto narrow = static_cast<int32_t>(number);
      const size_t size = number_type == MAXSIM_INT32 ? sizeof(narrow) : sizeof(number);
      const void* const source = number_type == MAXSIM_INT32 ? static_cast<const void*>(&narrow) : &number;
      std::memcpy(codes_case.numbers.data() + 20 * size, source, size);  // document 2 of 9 tokens each
      ExpectCodesRefused(
          codes_case, codes_case.codes,
          "centroid number of document 2, token 2 is " + std::to_string(number) + "; there are 38 centroids");
    }
  }
}

TEST(ResidualCodesTest, AnErrorNamesTheMemberAndItsValue) {
  const CodesCase codes_case({.library = {.dim = 130}, .nbits = 8}, TestSeed());
  const auto refuse = [&](auto change, const char* text) {
    maxsim_residual_codes codes = codes_case.codes;
    change(codes);
    ExpectCodesRefused(codes_case, codes, text);
  };
  refuse([](maxsim_residual_codes& codes) { codes.nbits = 3; }, "codes.nbits is 3; must be 1, 2, 4 or 8");
  refuse([](maxsim_residual_codes& codes) { codes.nbits = 2; },
         "documents.dim is 130; buckets of codes.nbits = 2 bits fill bytes where it is a multiple of 4");
  refuse([](maxsim_residual_codes& codes) { codes.bit_order = 2; }, "codes.bit_order is 2");
  refuse([](maxsim_residual_codes& codes) { codes.number_type = -1; }, "codes.number_type is -1");
  refuse([](maxsim_residual_codes& codes) { codes.normalize = 2; }, "codes.normalize is 2");
  refuse([](maxsim_residual_codes& codes) { codes.num_centroids = 0; }, "codes.num_centroids is 0");
  refuse([](maxsim_residual_codes& codes) { codes.num_centroids = int64_t{1} << 31; },
         "codes.num_centroids is 21474836");
  refuse([](maxsim_residual_codes& codes) { codes.centroid_numbers = nullptr; }, "codes.centroid_numbers is null");
  refuse([](maxsim_residual_codes& codes) { codes.residuals = nullptr; }, "codes.residuals is null");
  refuse([](maxsim_residual_codes& codes) { codes.centroids = nullptr; }, "codes.centroids is null");
  refuse([](maxsim_residual_codes& codes) { codes.bucket_weights = nullptr; }, "codes.bucket_weights is null");
  refuse([](maxsim_residual_codes& codes) { codes.struct_size = 8; }, "codes.struct_size is 8");
}

TEST(ResidualCodesTest, RowsAndGradientsOfDocumentsAreRefused) {
  CodesCase codes_case({.library = {.dim = 8}}, TestSeed());
  const CodesResult result = ForwardCodes(codes_case);
  std::vector<float> gradients(codes_case.library.documents.tokens.num_rows * 8);
  const maxsim_gradients asked = {.struct_size = sizeof(maxsim_gradients),
                                  .argmax = result.argmax.data(),
                                  .score_gradients = codes_case.library.score_gradients.data(),
                                  .query_gradients = nullptr,
                                  .document_gradients = gradients.data(),
                                  .weight_gradients = nullptr};
  EXPECT_EQ(maxsim_residual_codes_backward(&codes_case.library.call, &codes_case.codes, &asked),
            MAXSIM_INVALID_ARGUMENT);
  codes_case.library.documents.tokens.rows = codes_case.library.documents.rows.data();
  ExpectCodesRefused(codes_case, codes_case.codes, "documents.rows is not null");
}

TEST(ResidualCodesTest, NothingToScoreIsNoError) {
  CodesCase codes_case({.library = {.dim = 8, .num_documents = 1}}, TestSeed());
  maxsim_tokens none = codes_case.library.documents.tokens;
  none.num_sequences = none.num_rows = 0;
  codes_case.library.call.documents = &none;
  maxsim_residual_codes codes = {};
  codes.struct_size = sizeof(maxsim_residual_codes);
  codes.nbits = 2;
  EXPECT_EQ(maxsim_residual_codes_forward(&codes_case.library.call, &codes, nullptr, nullptr), MAXSIM_OK)
      << maxsim_last_error();
  size_t bytes = 77;
  EXPECT_EQ(maxsim_residual_codes_workspace_bytes(&codes_case.library.call, &codes, &bytes), MAXSIM_OK);
  EXPECT_EQ(bytes, 0u);
}

}  // namespace
}  // namespace maxsim::test
