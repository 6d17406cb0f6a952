// Tests the C library on the CPU, through the functions that programs call.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/cpu_forward.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/problem.h"
#include "kernels/maxsim.h"
#include "tests/support/library/library_case.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

struct ForwardResult {
  std::vector<float> scores;
  std::vector<int32_t> argmax;
  friend bool operator==(const ForwardResult&, const ForwardResult&) = default;
};

ForwardResult Poisoned(const LibraryCase& library_case) {
  const auto num_pairs = static_cast<size_t>(library_case.num_pairs());
  return {std::vector<float>(num_pairs, std::numeric_limits<float>::quiet_NaN()),
          std::vector<int32_t>(num_pairs * library_case.queries.tokens.max_tokens, -77)};
}

ForwardResult Forward(const LibraryCase& library_case) {
  ForwardResult result = Poisoned(library_case);
  EXPECT_EQ(maxsim_forward(&library_case.call, result.scores.data(), result.argmax.data()), MAXSIM_OK)
      << maxsim_last_error();
  return result;
}

LibraryGradientMemory Backward(const LibraryCase& library_case, const std::vector<int32_t>& argmax) {
  LibraryGradientMemory memory(library_case);
  const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                      .argmax = argmax.data(),
                                      .score_gradients = library_case.score_gradients.data(),
                                      .query_gradients = memory.queries.data(),
                                      .document_gradients = memory.documents.data(),
                                      .weight_gradients = memory.weights.data()};
  EXPECT_EQ(maxsim_backward(&library_case.call, &gradients), MAXSIM_OK) << maxsim_last_error();
  return memory;
}

TEST(LibraryTest, ScoresAndMatchesAreThoseOfFp64WithEveryInstructionSet) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const LibraryShape& shape : LibraryShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const LibraryCase library_case(shape, TestSeed());
    library::Problem problem;
    ASSERT_TRUE(library::ReadProblem(&library_case.call, &problem).ok());
    const LibraryScores expected = ReferenceScoresOf(library_case);
    for (const cpu::Isa* isa : cpu::AvailableIsas()) {
      SCOPED_TRACE(isa->name);
      ForwardResult result = Poisoned(library_case);
      ASSERT_TRUE(library::CpuForward(problem, *isa, result.scores.data(), result.argmax.data()).ok());
      ExpectScores(library_case, expected, result.scores, result.argmax);
      ForwardResult without = Poisoned(library_case);
      ASSERT_TRUE(library::CpuForward(problem, *isa, without.scores.data(), nullptr).ok());
      EXPECT_EQ(without.scores, result.scores) << "scores differ where the argmax is not asked for";
    }
  }
}

TEST(LibraryTest, GradientsAreThoseOfFp64) {
  const std::vector<LibraryShape> shapes = LibraryShapes();
  // Sanitized builds test every second shape. Each type has an odd number of shapes, so that every layout still occurs.
  for (size_t i = 0; i < shapes.size(); i += kSanitized ? 2 : 1) {
    const LibraryShape& shape = shapes[i];
    if (shape.type == MAXSIM_I8 || shape.scaled_tokens) continue;
    SCOPED_TRACE(testing::PrintToString(shape));
    const LibraryCase library_case(shape, TestSeed() + 1);
    const ForwardResult result = Forward(library_case);
    ExpectGradients(library_case, result.argmax, Backward(library_case, result.argmax));
  }
}

TEST(LibraryTest, APairWhoseGradientIsZeroAddsNothing) {
  const LibraryShape shape = {.dim = 1, .weights = true};
  LibraryCase library_case(shape, TestSeed());
  auto* const values = reinterpret_cast<float*>(library_case.documents.rows.data());
  std::fill(values, values + shape.max_document_tokens, std::numeric_limits<float>::infinity());
  for (int64_t pair = 0; pair < library_case.num_pairs(); ++pair) {
    library_case.score_gradients[pair] = library_case.DocumentOf(pair) == 0 ? 0.0f : 1.0f;
  }
  const LibraryGradientMemory gradients = Backward(library_case, Forward(library_case).argmax);
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto* const query_values = reinterpret_cast<const float*>(gradients.queries.data());
  EXPECT_TRUE(std::all_of(query_values, query_values + gradients.queries.size() / sizeof(float), finite));
  EXPECT_TRUE(std::all_of(gradients.weights.begin(), gradients.weights.end(), finite));
  const auto* const document_values = reinterpret_cast<const float*>(gradients.documents.data());
  EXPECT_EQ(std::count(document_values, document_values + shape.max_document_tokens, 0.0f), shape.max_document_tokens);
}

TEST(LibraryTest, EveryDimensionAndTileEdgeIsScored) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16, MAXSIM_I8}) {
    for (const int32_t dim : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 1024, 4096}) {
      LibraryShape shape = {.type = type, .dim = dim, .max_query_tokens = 3, .ties = true};
      SCOPED_TRACE(testing::PrintToString(shape));
      const LibraryCase library_case(shape, TestSeed() + dim);
      const ForwardResult result = Forward(library_case);
      ExpectScores(library_case, ReferenceScoresOf(library_case), result.scores, result.argmax);
    }
    for (const int64_t tokens : {1, 2, 11, 12, 13, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 97}) {
      LibraryShape shape = {
          .type = type, .dim = 8, .max_query_tokens = tokens, .max_document_tokens = tokens, .ties = true};
      SCOPED_TRACE(testing::PrintToString(shape));
      const LibraryCase library_case(shape, TestSeed() + tokens);
      const ForwardResult result = Forward(library_case);
      ExpectScores(library_case, ReferenceScoresOf(library_case), result.scores, result.argmax);
    }
  }
}

TEST(LibraryTest, ResultsHaveTheSameBitsInEveryRunAndWithAnyNumberOfThreads) {
  LibraryShape shape = {.type = MAXSIM_BF16,
                        .dim = 64,
                        .num_queries = 9,
                        .num_documents = 60,
                        .max_query_tokens = 33,
                        .max_document_tokens = 50,
                        .lengths = true,
                        .query_mask = true,
                        .document_mask = true,
                        .weights = true};
  LibraryCase library_case(shape, TestSeed());
  const ForwardResult first = Forward(library_case);
  const LibraryGradientMemory first_gradients = Backward(library_case, first.argmax);
  for (int run = 0; run < (kSanitized ? 8 : 20); ++run) {
    library_case.call.num_threads = run % 4;
    EXPECT_EQ(Forward(library_case), first);
    EXPECT_EQ(Backward(library_case, first.argmax), first_gradients);
  }
}

// The register that controls the floating-point instructions of this thread, and the bits of it that replace denormal
// operands and results by zero.
#if defined(__x86_64__)
constexpr uint64_t kFlushDenormals = 0x8040;
uint64_t ReadFloatControl() { return _mm_getcsr(); }
void WriteFloatControl(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushDenormals = uint64_t{1} << 24;
uint64_t ReadFloatControl() {
  uint64_t bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void WriteFloatControl(uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits) : "memory"); }
#endif

TEST(LibraryTest, ACallerThatFlushesDenormalsGetsTheSameBits) {
  for (const int32_t num_threads : {1, 0}) {
    LibraryCase library_case({.dim = 128, .num_documents = 200, .max_document_tokens = 60}, TestSeed());
    library_case.call.num_threads = num_threads;
    for (std::vector<char>* rows : {&library_case.queries.rows, &library_case.documents.rows}) {
      auto* const values = reinterpret_cast<float*>(rows->data());
      std::for_each(values, values + rows->size() / sizeof(float), [](float& value) { value *= 1e-20f; });
    }
    std::fill(library_case.score_gradients.begin(), library_case.score_gradients.end(), 1e-20f);
    const ForwardResult expected = Forward(library_case);
    ASSERT_TRUE(std::any_of(expected.scores.begin(), expected.scores.end(), [](float score) {
      return score != 0 && std::fabs(score) < std::numeric_limits<float>::min();
    })) << "the test has no denormals";
    const LibraryGradientMemory expected_gradients = Backward(library_case, expected.argmax);
    const uint64_t before = ReadFloatControl();
    WriteFloatControl(before | kFlushDenormals);
    const ForwardResult result = Forward(library_case);
    const LibraryGradientMemory gradients = Backward(library_case, expected.argmax);
    const uint64_t after = ReadFloatControl();
    WriteFloatControl(before);
    EXPECT_EQ(after & kFlushDenormals, kFlushDenormals) << "the caller's environment is changed";
    EXPECT_EQ(std::memcmp(result.scores.data(), expected.scores.data(), expected.scores.size() * sizeof(float)), 0);
    EXPECT_EQ(result.argmax, expected.argmax);
    EXPECT_EQ(gradients.queries, expected_gradients.queries);
    EXPECT_EQ(gradients.documents, expected_gradients.documents);
    EXPECT_EQ(std::memcmp(gradients.weights.data(), expected_gradients.weights.data(),
                          gradients.weights.size() * sizeof(float)),
              0);
  }
}

TEST(LibraryTest, APairHasTheSameBitsInEveryCall) {
  const LibraryShape shape = {.type = MAXSIM_F16,
                              .dim = 48,
                              .num_queries = 40,
                              .num_documents = 3,
                              .max_query_tokens = 33,
                              .max_document_tokens = 21};
  const LibraryCase together(shape, TestSeed());
  const ForwardResult all = Forward(together);
  for (int64_t query = 0; query < shape.num_queries; ++query) {
    maxsim_tokens one = together.queries.tokens;
    one.num_sequences = 1;
    one.num_rows = one.max_tokens;
    one.rows = together.queries.rows.data() + query * one.max_tokens * one.dim * 2;
    maxsim_call call = together.call;
    call.queries = &one;
    std::vector<float> scores(shape.num_documents);
    ASSERT_EQ(maxsim_forward(&call, scores.data(), nullptr), MAXSIM_OK);
    EXPECT_EQ(std::memcmp(scores.data(), all.scores.data() + query * shape.num_documents, scores.size() * 4), 0);
  }
}

TEST(LibraryTest, ScoresHaveTheBitsOfTheService) {
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    const LibraryShape shape = {.type = type,
                                .dim = 96,
                                .num_queries = 1,
                                .num_documents = 30,
                                .max_query_tokens = 33,
                                .max_document_tokens = 40,
                                .weights = true};
    const LibraryCase library_case(shape, TestSeed());
    const ForwardResult result = Forward(library_case);
    std::vector<int64_t> offsets;
    for (int64_t document = 0; document <= shape.num_documents; ++document) {
      offsets.push_back(document * shape.max_document_tokens);
    }
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
    ASSERT_TRUE(backend.ok());
    absl::StatusOr<std::unique_ptr<Documents>> documents =
        (*backend)->Load({.type = static_cast<ScalarType>(type),
                          .dim = shape.dim,
                          .num_documents = shape.num_documents,
                          .tokens = library_case.documents.rows.data(),
                          .offsets = offsets.data()},
                         Tier::kDevice, nullptr);
    ASSERT_TRUE(documents.ok());
    absl::StatusOr<std::unique_ptr<Executor>> executor = (*backend)->CreateExecutor({});
    ASSERT_TRUE(executor.ok());
    const Query query = {.tokens = library_case.queries.rows.data(),
                         .weights = library_case.weights.data(),
                         .num_tokens = static_cast<int32_t>(shape.max_query_tokens),
                         .top_k = static_cast<int32_t>(shape.num_documents)};
    std::vector<std::vector<Scored>> ranked(1);
    ASSERT_TRUE((*executor)->TopK(**documents, {&query, 1}, absl::MakeSpan(ranked), nullptr).ok());
    ASSERT_EQ(ranked[0].size(), result.scores.size());
    for (const Scored& scored : ranked[0]) EXPECT_EQ(scored.score, result.scores[scored.position]);
  }
}

TEST(LibraryTest, CallsOfSeveralThreadsRunSideBySide) {
  const LibraryCase library_case({.dim = 64, .num_queries = 4, .num_documents = 50, .max_document_tokens = 60},
                                 TestSeed());
  const ForwardResult expected = Forward(library_case);
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&] {
      for (int run = 0; run < 10; ++run) EXPECT_EQ(Forward(library_case), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LibraryTest, AForkedProcessScores) {
  if (kSanitized) GTEST_SKIP() << "not with a sanitizer: ThreadSanitizer does not know threads that begin after a fork";
  const LibraryCase library_case({.dim = 128, .num_documents = 200, .max_document_tokens = 60}, TestSeed());
  const ForwardResult expected = Forward(library_case);
  const pid_t child = fork();
  if (child == 0) _exit(Forward(library_case) == expected ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LibraryTest, NothingToScoreIsNoError) {
  for (const int64_t num_queries : {0, 2}) {
    for (const int64_t num_documents : {0, 2}) {
      const LibraryCase library_case({.num_queries = std::max<int64_t>(num_queries, 1), .num_documents = num_documents},
                                     TestSeed());
      maxsim_tokens queries = library_case.queries.tokens;
      queries.num_sequences = num_queries;
      queries.num_rows = num_queries * queries.max_tokens;
      maxsim_call call = library_case.call;
      call.queries = &queries;
      std::vector<float> scores(4);
      EXPECT_EQ(maxsim_forward(&call, scores.data(), nullptr), MAXSIM_OK) << maxsim_last_error();
    }
  }
}

TEST(LibraryTest, AnArgmaxThatPointsOutsideOfItsDocumentIsRefused) {
  const LibraryCase library_case({}, TestSeed());
  ForwardResult result = Forward(library_case);
  const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                      .argmax = result.argmax.data(),
                                      .score_gradients = library_case.score_gradients.data(),
                                      .query_gradients = nullptr,
                                      .document_gradients = nullptr,
                                      .weight_gradients = nullptr};
  EXPECT_EQ(maxsim_backward(&library_case.call, &gradients), MAXSIM_OK);
  result.argmax[7] = 9;
  EXPECT_EQ(maxsim_backward(&library_case.call, &gradients), MAXSIM_INVALID_ARGUMENT);
  EXPECT_STREQ(maxsim_last_error(), "argmax of pair 1, query token 2 is 9; its document has 9 tokens");
}

TEST(LibraryTest, QuantisedGradientsAreUnsupported) {
  const LibraryCase library_case({.type = MAXSIM_I8}, TestSeed());
  const ForwardResult result = Forward(library_case);
  const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                      .argmax = result.argmax.data(),
                                      .score_gradients = library_case.score_gradients.data(),
                                      .query_gradients = nullptr,
                                      .document_gradients = nullptr,
                                      .weight_gradients = nullptr};
  EXPECT_EQ(maxsim_backward(&library_case.call, &gradients), MAXSIM_UNSUPPORTED);
}

TEST(LibraryTest, AStructureOfALaterVersionIsTakenWhereItsNewMembersAreZero) {
  const LibraryCase library_case({}, TestSeed());
  struct {
    maxsim_call call;
    int64_t new_member;
  } later = {library_case.call, 0};
  later.call.struct_size = sizeof(later);
  std::vector<float> scores(library_case.num_pairs());
  EXPECT_EQ(maxsim_forward(&later.call, scores.data(), nullptr), MAXSIM_OK) << maxsim_last_error();
  EXPECT_EQ(scores, Forward(library_case).scores);
  later.new_member = 1;
  EXPECT_EQ(maxsim_forward(&later.call, scores.data(), nullptr), MAXSIM_UNSUPPORTED);
}

TEST(LibraryTest, TheCpuIsThereAndNeedsNoWorkspace) {
  int32_t available = 0;
  EXPECT_EQ(maxsim_device_available(MAXSIM_CPU, &available), MAXSIM_OK);
  EXPECT_EQ(available, 1);
  EXPECT_EQ(maxsim_device_available(5, &available), MAXSIM_INVALID_ARGUMENT);
  const LibraryCase library_case({}, TestSeed());
  size_t bytes = 1;
  EXPECT_EQ(maxsim_workspace_bytes(&library_case.call, MAXSIM_BACKWARD, &bytes), MAXSIM_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(maxsim_workspace_bytes(&library_case.call, 2, &bytes), MAXSIM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace maxsim::test
