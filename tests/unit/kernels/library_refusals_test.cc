// Tests that the C library refuses wrong calls with errors that name the wrong member.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/library/include/maxsim/maxsim.h"
#include "tests/support/library/library_case.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {
namespace {

// Expects that the call is refused as invalid, with an error message that contains `member`.
void ExpectRefused(const maxsim_call& call, const char* member) {
  float score = 0;
  EXPECT_EQ(maxsim_forward(&call, &score, nullptr), MAXSIM_INVALID_ARGUMENT) << member;
  EXPECT_NE(std::string(maxsim_last_error()).find(member), std::string::npos) << maxsim_last_error();
}

TEST(LibraryRefusalsTest, AnErrorNamesTheMemberAndItsValue) {
  const LibraryCase library_case({.dim = 16, .query_layout = MAXSIM_PACKED, .document_layout = MAXSIM_PACKED},
                                 TestSeed());
  const auto with = [&](auto change, const char* member) {
    maxsim_tokens queries = library_case.queries.tokens;
    maxsim_tokens documents = library_case.documents.tokens;
    maxsim_call call = library_case.call;
    call.queries = &queries;
    call.documents = &documents;
    change(call, queries, documents);
    ExpectRefused(call, member);
  };
  using Call = maxsim_call&;
  using Tokens = maxsim_tokens&;
  with([](Call call, Tokens, Tokens) { call.struct_size = 8; }, "call.struct_size is 8");
  with([](Call call, Tokens, Tokens) { call.device = 7; }, "call.device is 7");
  with([](Call call, Tokens, Tokens) { call.pairing = -1; }, "call.pairing is -1");
  with([](Call call, Tokens, Tokens) { call.queries = nullptr; }, "queries is null");
  with([](Call call, Tokens, Tokens) { call.num_threads = -2; }, "call.num_threads is -2");
  with([](Call call, Tokens, Tokens) { call.empty_score = std::numeric_limits<float>::quiet_NaN(); }, "empty_score");
  with([](Call call, Tokens, Tokens) { call.pairing = MAXSIM_PAIRS; }, "documents.num_sequences is 4");
  with([](Call, Tokens queries, Tokens) { queries.struct_size = 0; }, "queries.struct_size is 0");
  with([](Call, Tokens queries, Tokens) { queries.layout = MAXSIM_SCATTERED; }, "queries.l");
  with([](Call, Tokens queries, Tokens) { queries.dim = 17; }, "17 columns");
  with([](Call, Tokens, Tokens documents) { documents.type = 9; }, "documents.type is 9");
  with([](Call, Tokens, Tokens documents) { documents.dim = 4097; }, "documents.dim is 4097; must be 1 to 4096");
  with([](Call, Tokens, Tokens documents) { documents.rows = nullptr; }, "documents.rows is null");
  with([](Call, Tokens, Tokens documents) { documents.offsets = nullptr; }, "documents.offsets is null");
  with([](Call, Tokens, Tokens documents) { documents.num_rows = 5; }, "of documents has 9 tokens from row 2 on");
  with([](Call, Tokens, Tokens documents) { documents.max_tokens = 8; }, "max_tokens = 8");
  with([](Call, Tokens, Tokens documents) { documents.layout = MAXSIM_PADDED; }, "documents.num_rows");
  with([](Call, Tokens queries, Tokens documents) { queries.type = documents.type = MAXSIM_I8; }, "scales is null");
  static constexpr float kScale = 1;
  with([](Call, Tokens, Tokens documents) { documents.scales = &kScale; }, "documents.scales is not null");
  with(
      [](Call, Tokens queries, Tokens) {
        queries.scales = &kScale;
        queries.scale_of = MAXSIM_SCALE_PER_TOKEN;
      },
      "queries.scales is not null");
}

TEST(LibraryRefusalsTest, GradientsOfTokensWithScalesAreRefused) {
  const LibraryCase library_case({.type = MAXSIM_F16, .scaled_tokens = true}, TestSeed());
  LibraryGradientMemory memory(library_case);
  const std::vector<int32_t> argmax(library_case.num_pairs() * library_case.shape.max_query_tokens, -1);
  const maxsim_gradients gradients = {.struct_size = sizeof(maxsim_gradients),
                                      .argmax = argmax.data(),
                                      .score_gradients = library_case.score_gradients.data(),
                                      .query_gradients = memory.queries.data(),
                                      .document_gradients = memory.documents.data(),
                                      .weight_gradients = memory.weights.data()};
  EXPECT_EQ(maxsim_backward(&library_case.call, &gradients), MAXSIM_UNSUPPORTED);
  EXPECT_NE(std::string(maxsim_last_error()).find("documents.scales is not null"), std::string::npos);
}

TEST(LibraryRefusalsTest, OffsetsWhoseDifferenceOverflowsAreRefused) {
  const LibraryCase library_case({.document_layout = MAXSIM_PACKED}, TestSeed());
  maxsim_tokens documents = library_case.documents.tokens;
  maxsim_call call = library_case.call;
  call.documents = &documents;
  const auto refuse = [&](std::vector<int64_t> offsets, const char* message) {
    offsets.resize(documents.num_sequences + 1, 0);
    documents.offsets = offsets.data();
    ExpectRefused(call, message);
  };
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  refuse({0, kLargest, -kLargest}, "of documents has 9223372036854775807 tokens from row 0 on");
  refuse({-2, kLargest}, "sequence 0 of documents is from row -2 to row 9223372036854775807");
  refuse({3, 2}, "sequence 0 of documents is from row 3 to row 2; offsets must be 0 or more, and must not decrease");
}

TEST(LibraryRefusalsTest, CandidatesOutOfRangeAreRefused) {
  LibraryShape shape = {.pairing = MAXSIM_LISTS, .list_length = 3, .candidates = true};
  LibraryCase library_case(shape, TestSeed());
  for (const int64_t wrong : {int64_t{-1}, shape.num_documents}) {
    library_case.candidates[4] = wrong;
    ExpectRefused(library_case.call, ("candidates[4] is " + std::to_string(wrong)).c_str());
  }
}

}  // namespace
}  // namespace maxsim::test
