// Tests AppendableCodes on the CPU backend: arrays of codes to which the codes of further documents can be appended.
#include "kernels/codes/appendable_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/values/sanitized.h"
#include "tests/unit/kernels/codes/appendable_codes_case.h"

namespace maxsim {
namespace {

using test::RandomDocuments;
using ::testing::HasSubstr;

class AppendableCodesTest : public testing::Test {
 protected:
  RandomDocuments Documents(int32_t dim, int64_t count) const {
    return test::MakeDocuments(seed_, ScalarType::kF16, dim, test::RandomLengths(seed_, count, 1, 20));
  }

  const uint64_t seed_ = test::TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, test::SeedTrace(seed_)};
  const std::unique_ptr<Backend> backend_ = *CreateCpuBackend({.num_threads = 2, .isa = ""});
};

TEST_F(AppendableCodesTest, SnapshotsAreScannedAsLoadedCodes) {
  for (const int32_t dim : {8, 33, 96, 128}) {
    for (const bool factors : {false, true}) {
      RandomDocuments documents = Documents(dim, test::kSanitized ? 20 : 60);
      if (factors) test::SpreadNorms(seed_, 7, &documents);
      test::ExpectSnapshotsAreScannedAsLoaded(*backend_, seed_, documents, factors);
    }
  }
}

TEST_F(AppendableCodesTest, I8DocumentsKeepTheirOwnRotation) {
  const RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kI8, 48, test::RandomLengths(seed_, 20, 1, 9));
  test::ExpectSnapshotsAreScannedAsLoaded(*backend_, seed_, documents, false);
}

TEST_F(AppendableCodesTest, ConcurrentScansOfSnapshotsSeeNoAppend) {
  const RandomDocuments documents = Documents(96, 400);
  const DocumentsView view = documents.view();
  const CodeShape shape = test::ShapeFor(view, false);
  const auto appendable = *backend_->CreateAppendableCodes(
      {.codes = shape, .planes = 4, .max_documents = view.num_documents, .max_tokens = view.num_tokens()});
  ASSERT_TRUE(test::AppendCodes(*appendable, shape, view, 0, 7).ok());
  const QueryCodes query = test::EncodedQuery(shape, 4, test::MakeQuery(seed_ + 1, ScalarType::kF16, 96, 8));
  std::thread writer([&] {
    for (int64_t n = 7; n < view.num_documents; ++n) {
      EXPECT_TRUE(test::AppendCodes(*appendable, shape, view, n, n + 1).ok());
    }
  });
  const auto executor = *backend_->CreateScanExecutor();
  const auto first = appendable->Snapshot();
  const std::vector<std::vector<Scored>> expected = test::ScanBothWays(*executor, *first, query);
  for (int64_t count = 0; count < view.num_documents; count = appendable->Snapshot()->num_documents()) {
    EXPECT_EQ(test::ScanBothWays(*executor, *first, query), expected);
    const auto latest = appendable->Snapshot();
    EXPECT_EQ(test::ScanBothWays(*executor, *latest, query)[0].size(), static_cast<size_t>(latest->num_documents()));
  }
  writer.join();
}

TEST_F(AppendableCodesTest, WhatDoesNotFitIsRefusedAndNothingIsAppended) {
  const RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, 32, {3, 4, 5});
  const DocumentsView view = documents.view();
  const CodeShape shape = test::ShapeFor(view, false);
  const auto appendable =
      *backend_->CreateAppendableCodes({.codes = shape, .planes = 2, .max_documents = 2, .max_tokens = 8});
  ASSERT_TRUE(test::AppendCodes(*appendable, shape, view, 0, 1).ok());
  const EncodedDocuments encoded = test::Encoded(view, false);
  const auto refused = [&](const CodesView& codes, absl::StatusCode code, const std::string& message) {
    const absl::Status status = appendable->Append(codes);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_EQ(appendable->Snapshot()->num_documents(), 1);
  };
  refused(encoded.view(), absl::StatusCode::kResourceExhausted, "3 documents after 1: max_documents is 2");
  CodesView two = encoded.view();
  two.num_documents = 1;
  const std::vector<int64_t> long_offsets = {0, 6};
  two.offsets = long_offsets.data();
  refused(two, absl::StatusCode::kResourceExhausted, "6 tokens after 3: max_tokens is 8");
  refused(encoded.view(1), absl::StatusCode::kInvalidArgument, "codes.planes is 1; must be at least 2");
  CodesView other = encoded.view();
  other.shape.rotation_seed += 1;
  refused(other, absl::StatusCode::kInvalidArgument, "codes.shape differs");
  CodesView unbounded = encoded.view();
  unbounded.bounds[1] = nullptr;
  refused(unbounded, absl::StatusCode::kInvalidArgument, "codes.bounds[1] is null");
}

TEST_F(AppendableCodesTest, ShapesThatNoCodesHaveAreRefused) {
  const AppendableCodesShape good = {
      .codes = {.dim = 32, .originals = ScalarType::kF16}, .planes = 2, .max_documents = 3, .max_tokens = 5};
  EXPECT_TRUE(backend_->CreateAppendableCodes(good).ok());
  const auto refused = [&](AppendableCodesShape shape, const std::string& message) {
    const absl::Status status = backend_->CreateAppendableCodes(shape).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  AppendableCodesShape shape = good;
  shape.planes = 3;
  refused(shape, "shape.planes is 3; must be 1, 2 or 4");
  shape = good;
  shape.codes.dim = 0;
  refused(shape, "codes.dim is 0");
  shape = good;
  shape.max_documents = 0;
  refused(shape, "shape.max_documents is 0");
  shape = good;
  shape.max_tokens = 0;
  refused(shape, "shape.max_tokens is 0");
}

TEST_F(AppendableCodesTest, RoomBeyondTheMachinesMemoryIsRefusedWithTheNumbers) {
  const absl::Status status = backend_
                                  ->CreateAppendableCodes({.codes = {.dim = 4096, .originals = ScalarType::kF16},
                                                           .planes = 4,
                                                           .max_documents = int64_t{1} << 24,
                                                           .max_tokens = int64_t{1} << 34})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes of host memory"));
}

}  // namespace
}  // namespace maxsim
