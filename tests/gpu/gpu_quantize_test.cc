// Tests that the device quantises queries to the same bits as the host (kernels/quantize.h).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>

#include "kernels/cuda/call/launch/quantize_launch.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/quantize.h"
#include "tests/gpu/gpu_fixture.h"

namespace maxsim::test {
namespace {

class GpuQuantizeTest : public GpuTest {
 protected:
  static void Check(int32_t dim, uint64_t seed, int32_t num_rows = 32, bool operand_order = false) {
    SCOPED_TRACE(testing::Message() << "d " << dim << ", " << num_rows << " rows"
                                    << (operand_order ? " in operand order" : ""));
    TokenMatrix values = RandomTokens(seed, ScalarType::kF32, dim, num_rows);
    const auto fill = [&](int64_t row, float value) { values.SetRow(row, std::vector<float>(dim, value)); };
    fill(0, 0.0f);
    fill(1, 1e-31f);  // values too small to be quantised
    fill(2, 1e12f);
    fill(3, -2.5e-30f);
    fill(4, 0.0f);
    values.Set(4, dim - 1, 3.0f);
    std::vector<float> ends(dim, 127.0f);  // values that end in .5 and are rounded to even
    for (int32_t column = 1; column < dim; ++column) ends[column] = static_cast<float>(column % 9) + 0.5f;
    Unrotate(seed, absl::MakeSpan(ends));
    values.SetRow(5, ends);
    const std::vector<float> weights = MixedWeights(seed, num_rows);

    const int64_t row_bytes = DeviceRowBytes(ScalarType::kI8, dim);
    // The kernel writes this many bytes per row.
    const int64_t written = operand_order ? StreamQueryPitch(row_bytes) : row_bytes;
    const int64_t pitch = DeviceRowBytes(ScalarType::kF32, dim) / 4;
    std::vector<float> padded(static_cast<size_t>(num_rows * pitch), 7.0f);  // a row's padding must not be read
    for (int64_t row = 0; row < num_rows; ++row) {
      const std::vector<float> one = values.Row(row);
      std::copy(one.begin(), one.end(), padded.begin() + row * pitch);
    }
    const cuda::DeviceBuffer device_values = Upload(padded), device_weights = Upload(weights);
    const cuda::DeviceBuffer rows = *cuda::DeviceBuffer::Allocate(static_cast<size_t>(num_rows * written), "test");
    const cuda::DeviceBuffer factors =
        *cuda::DeviceBuffer::Allocate(static_cast<size_t>(num_rows) * sizeof(float), "test");
    ASSERT_EQ(cudaMemset(rows.as(), 0x55, rows.bytes()), cudaSuccess);
    cuda::QuantizeParams params{};
    params.values = device_values.as<float>();
    params.weights = device_weights.as<float>();
    params.rows = rows.as<int8_t>();
    params.factors = factors.as<float>();
    params.rotation_seed = seed;
    params.value_pitch = pitch;
    params.num_rows = num_rows;
    params.dim = dim;
    params.row_bytes = static_cast<int32_t>(row_bytes);
    params.operand_order = operand_order ? 1 : 0;
    params.rotation_factor = RotationFactor(dim);
    ASSERT_EQ(cuda::LaunchQuantizeQueries(params, nullptr), cudaSuccess);
    std::vector<int8_t> actual(rows.bytes());
    std::vector<float> actual_factors(num_rows);
    ASSERT_EQ(cudaMemcpy(actual.data(), rows.as(), rows.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(actual_factors.data(), factors.as(), factors.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);

    std::vector<int8_t> expected(static_cast<size_t>(num_rows) * dim);
    std::vector<float> scales(num_rows);
    QuantizeQuery(seed, dim, static_cast<const float*>(values.data()), expected.data(), absl::MakeSpan(scales));
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t column = 0; column < written; ++column) {
        const int64_t place = operand_order ? row / kQueryTileTokens * kQueryTileTokens * written +
                                                  StreamQueryOffset(static_cast<int32_t>(row % kQueryTileTokens),
                                                                    static_cast<int32_t>(column))
                                            : row * written + column;
        ASSERT_EQ(actual[place], column < dim ? expected[row * dim + column] : 0)
            << "row " << row << ", column " << column;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(actual_factors[row]), std::bit_cast<uint32_t>(weights[row] * scales[row]))
          << "row " << row;
    }
  }

 private:
  static cuda::DeviceBuffer Upload(const std::vector<float>& values) {
    cuda::DeviceBuffer buffer = *cuda::DeviceBuffer::Allocate(values.size() * sizeof(float), "test");
    EXPECT_EQ(cudaMemcpy(buffer.as(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice), cudaSuccess);
    return buffer;
  }
};

TEST_F(GpuQuantizeTest, EveryWidthHasTheHostsBits) {
  for (int32_t dim :
       {8,   9,   15,  16,  17,  31,  32,  33,  48,  50,   63,   64,   65,   96,   100,  127,  128,  129,  191,
        200, 255, 256, 257, 300, 511, 512, 513, 768, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 3000, 4095, 4096}) {
    Check(dim, TestSeed() + dim);
  }
}

// Checks rows in plain order, and rows in the order in which the stream kernels read their operands.
TEST_F(GpuQuantizeTest, EveryRowHasTheHostsBits) {
  for (int32_t num_rows : {6, 127, 128, 255, 256, 257, 1000, 1029, 3000}) {
    for (int32_t dim : {48, 128, 256, 257}) Check(dim, TestSeed() + dim, num_rows);
  }
  for (int32_t num_rows : {32, 256, 1024}) {  // whole query tiles
    for (int32_t dim : {16, 48, 128, 250, 300}) Check(dim, TestSeed() + dim, num_rows, /*operand_order=*/true);
  }
}

}  // namespace
}  // namespace maxsim::test
