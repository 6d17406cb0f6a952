// Tests the expected time of scans against the measured ones.
#include "kernels/codes/scan_cost.h"

#include <gtest/gtest.h>

#include <fstream>

#include "nlohmann/json.hpp"

namespace maxsim {
namespace {

// 10 million documents of 72 tokens.
constexpr ScanSize kSize = {.num_parts = 1, .num_documents = 10'000'000, .num_tokens = 720'000'000};

BackendInfo Gpu(const std::string& device, const std::string& isa) {
  BackendInfo info;
  info.name = "cuda";
  info.device = device;
  info.isa = isa;
  return info;
}

CodeShape Shape(int32_t dim, bool factors = false) {
  return {.dim = dim, .originals = ScalarType::kF16, .factors = factors};
}

TEST(ScanCostTest, TheMeasuredRowsAreWithinFourPercent) {
  std::ifstream file("docs/performance/codes.json");
  ASSERT_TRUE(file.is_open());
  const nlohmann::json measured = nlohmann::json::parse(file);
  int num_rows = 0;
  for (const nlohmann::json& row : measured["rows"]) {
    if (row["queries"] != 1) continue;
    ASSERT_EQ(row["query_tokens"], 32);
    ++num_rows;
    // Rows that are marked portable were measured on the same device, but with the kernels for GPUs before Hopper.
    const BackendInfo device = Gpu(measured["device"], row["portable"] ? "sm_80" : "sm_90");
    const int64_t documents = row["documents"];
    const std::optional<double> expected = ExpectedScanSeconds(
        device, Shape(row["dim"]), row["planes"],
        {.num_parts = 1, .num_documents = documents, .num_tokens = documents * row["tokens"].get<int64_t>()});
    ASSERT_TRUE(expected.has_value()) << row;
    const double call_ms = row["call_ms"];
    EXPECT_NEAR(*expected * 1e3, call_ms, 0.04 * call_ms) << row;
  }
  EXPECT_GE(num_rows, 8);
}

TEST(ScanCostTest, OtherGpusAreScaledByTheirMemory) {
  const double measured = *ExpectedScanSeconds(Gpu("NVIDIA H200", "sm_90"), Shape(128), 2, kSize);
  const double slower = *ExpectedScanSeconds(Gpu("NVIDIA H100 PCIe", "sm_90"), Shape(128), 2, kSize);
  EXPECT_NEAR(slower, 2.4 * measured, 0.01 * measured);
  const double portable = *ExpectedScanSeconds(Gpu("NVIDIA A100-SXM4-80GB", "sm_80"), Shape(128), 1, kSize);
  EXPECT_GT(portable, 4800.0 / 2039.0 * *ExpectedScanSeconds(Gpu("NVIDIA H200", "sm_90"), Shape(128), 1, kSize));
}

TEST(ScanCostTest, WhatWasNotMeasuredHasNoExpectedTime) {
  const BackendInfo h200 = Gpu("NVIDIA H200", "sm_90");
  EXPECT_TRUE(ExpectedScanSeconds(h200, Shape(96), 1, kSize).has_value());
  for (const int32_t dim : {8, 64, 129, 768}) EXPECT_FALSE(ExpectedScanSeconds(h200, Shape(dim), 1, kSize)) << dim;
  EXPECT_FALSE(ExpectedScanSeconds(h200, Shape(128, /*factors=*/true), 1, kSize));
  for (const int planes : {0, 3, 8}) EXPECT_FALSE(ExpectedScanSeconds(h200, Shape(128), planes, kSize)) << planes;
  // For GPUs before Hopper, only scans of one plane were measured.
  const BackendInfo ampere = Gpu("NVIDIA A10", "sm_86");
  EXPECT_TRUE(ExpectedScanSeconds(ampere, Shape(128), 1, kSize).has_value());
  for (const int planes : {2, 4}) EXPECT_FALSE(ExpectedScanSeconds(ampere, Shape(128), planes, kSize)) << planes;
  EXPECT_FALSE(ExpectedScanSeconds(Gpu("another GPU", "sm_90"), Shape(128), 1, kSize));
  BackendInfo cpu = h200;
  cpu.name = "cpu";
  EXPECT_FALSE(ExpectedScanSeconds(cpu, Shape(128), 1, kSize));
}

}  // namespace
}  // namespace maxsim
