// Scans codes on a GPU, by its fastest kernels and by the kernels for all GPUs, and compares the results with a scan on
// the CPU.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/codes/scan.h"
#include "kernels/cpu/codes/code_scanner.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cuda/codes/cuda_code_scanner.h"
#include "kernels/cuda/codes/cuda_codes.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

class GpuCodesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    scanner_.emplace(Scanner(Kernels::kFastest));
    portable_scanner_.emplace(Scanner(Kernels::kPortable));
  }

  using Kernels = cuda::CudaCodeScanner::Kernels;

  cuda::CudaCodeScanner Scanner(Kernels kernels, int64_t max_scores = cuda::kMaxPassScores) {
    return *cuda::CudaCodeScanner::Create(*backend().device(), max_scores, kernels);
  }

  std::unique_ptr<cuda::CudaCodes> Upload(const CodesView& codes, int planes) {
    return *cuda::CudaCodes::Upload(*backend().device(), codes, planes);
  }

  std::vector<std::vector<Scored>> OnGpu(cuda::CudaCodeScanner& scanner, const cuda::CudaCodes& codes,
                                         const std::vector<ScanQuery>& queries) {
    std::vector<std::vector<Scored>> results(queries.size());
    const absl::Status status = scanner.Scan(codes, queries, absl::MakeSpan(results));
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }

  std::vector<std::vector<Scored>> OnCpu(const CodesView& codes, const std::vector<ScanQuery>& queries) {
    std::vector<std::vector<Scored>> results(queries.size());
    const absl::Status status = cpu_scanner_.Scan(codes, queries, absl::MakeSpan(results));
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }

  void Compare(const CodesView& codes, const std::vector<ScanQuery>& queries) {
    const auto uploaded = Upload(codes, codes.planes);
    const std::vector<std::vector<Scored>> wanted = OnCpu(codes, queries);
    {
      SCOPED_TRACE("the fastest kernels");
      Compare(OnGpu(*scanner_, *uploaded, queries), wanted);
    }
    SCOPED_TRACE("portable kernels");
    Compare(OnGpu(*portable_scanner_, *uploaded, queries), wanted);
  }

  static void Compare(const std::vector<std::vector<Scored>>& found, const std::vector<std::vector<Scored>>& wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(found[i].size(), wanted[i].size()) << "query " << i;
      for (size_t rank = 0; rank < found[i].size(); ++rank) {
        ASSERT_TRUE(std::bit_cast<uint32_t>(found[i][rank].score) == std::bit_cast<uint32_t>(wanted[i][rank].score) &&
                    found[i][rank].position == wanted[i][rank].position)
            << "query " << i << ", rank " << rank << ": " << found[i][rank].score << " of " << found[i][rank].position
            << ", and not " << wanted[i][rank].score << " of " << wanted[i][rank].position;
      }
    }
  }

  const uint64_t seed_ = TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, SeedTrace(seed_)};
  ThreadPool pool_{4};
  CodeScanner cpu_scanner_{*cpu::AvailableIsas().front(), pool_};
  std::optional<cuda::CudaCodeScanner> scanner_, portable_scanner_;
};

}  // namespace maxsim::test
