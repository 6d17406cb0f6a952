// Tests the loops of every instruction set that this machine has. Each similarity must have the bits that the
// documented order of additions gives (docs/internals/correctness.md), for every width of a panel and every height of a
// tile.
#include "kernels/cpu/loops/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/loops/kernel_use.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/cpu/loops/row_block.h"
#include "kernels/cpu/loops/step_buffer.h"

namespace maxsim::cpu {
namespace {

// One row more than the largest row_multiple (24), and one vector more than two full panels of the widest (four
// vectors).
constexpr size_t kMaxRows = 25;
constexpr size_t kMaxVectors = 9;
constexpr size_t kBlockColumns = 128;

// Returns a matrix [rows, dim] of floats between -1 and 1, whose sums round at nearly every addition, or of integers
// from -127 to 127.
template <typename Element>
std::vector<Element> RandomMatrix(size_t rows, size_t dim, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Element> matrix(rows * dim);
  for (Element& element : matrix) {
    if constexpr (std::is_same_v<Element, float>) {
      element = std::uniform_real_distribution<float>(-1, 1)(random);
    } else {
      element = static_cast<int8_t>(std::uniform_int_distribution<int>(-127, 127)(random));
    }
  }
  return matrix;
}

float Similarity(const Isa& isa, const float* row, const float* query, size_t dim) {
  const bool fused = std::string(isa.name) != "portable";
  float total = 0;
  for (size_t begin = 0; begin < dim; begin += kBlockColumns) {
    float sum = 0;
    for (size_t column = begin; column < std::min(begin + kBlockColumns, dim); ++column) {
      sum = fused ? std::fma(row[column], query[column], sum) : row[column] * query[column] + sum;
    }
    total = begin == 0 ? sum : total + sum;
  }
  return total;
}

int32_t Similarity(const Isa& isa, const int8_t* row, const int8_t* query, size_t dim) {
  const int offset = isa.i8.feed.form == StepForm::kUnsignedI8Quads ? 128 : 0;
  int32_t sum = 0;
  for (size_t column = 0; column < dim; ++column) sum += (row[column] + offset) * query[column];
  return sum;
}

class IsaTest : public testing::TestWithParam<const Isa*> {
 protected:
  // Multiplies rows with query tokens, for several numbers of both, and compares the products with the expected ones.
  template <typename Element, typename Total>
  void Check(ScalarType type, const Kernels<Total>& kernels, size_t dim) {
    const Isa& isa = *GetParam();
    const size_t max_lanes = kMaxVectors * isa.lanes;
    const std::vector<Element> rows = RandomMatrix<Element>(kMaxRows, dim, 1000 + dim);
    const std::vector<Element> queries = RandomMatrix<Element>(max_lanes, dim, 2000 + dim);
    std::vector<Total> expected(kMaxRows * max_lanes);
    for (size_t row = 0; row < kMaxRows; ++row) {
      for (size_t lane = 0; lane < max_lanes; ++lane) {
        expected[row * max_lanes + lane] = Similarity(isa, &rows[row * dim], &queries[lane * dim], dim);
      }
    }
    const KernelUse<Total> use(kernels);
    const size_t num_steps = NumSteps(kernels.feed, dim);
    StepBuffer panels;
    StepBuffer block_rows;
    StepBuffer products;
    for (size_t num_vectors : {1, 2, 3, 4, 5, 9}) {
      const PanelLayout layout = {isa.lanes, isa.panel_vectors, num_vectors, num_steps};
      uint32_t* const packed = panels.Reserve(layout.size());
      std::vector<uint32_t> steps(num_steps);
      for (size_t lane = 0; lane < layout.num_lanes(); ++lane) {
        RowsToSteps(QueryForm(kernels.feed.form), type, &queries[lane * dim], 1, dim, num_steps, steps.data());
        PackQueryToken(layout, lane, steps, packed);
      }
      for (size_t num_rows : {1, 2, 5, 24, 25}) {
        const std::string where = std::to_string(dim) + " columns, " + std::to_string(num_vectors) + " vectors, " +
                                  std::to_string(num_rows) + " rows";
        const size_t multiple = kernels.feed.row_multiple;
        const size_t padded_rows = (num_rows + multiple - 1) / multiple * multiple;
        const RowBlock block =
            MakeRowBlock(kernels.feed, type, rows.data(), num_rows, dim, block_rows.Reserve(padded_rows * num_steps));
        auto* const similarities =
            products.ReserveAs<Total>(std::max(padded_rows * layout.num_lanes(), isa.PartialSize(padded_rows)));
        kernels.similarities(block, {packed, num_vectors}, similarities);
        std::vector<Total> best(layout.num_lanes(), std::numeric_limits<Total>::lowest());
        for (size_t row = 0; row < num_rows; ++row) {
          for (size_t lane = 0; lane < layout.num_lanes(); ++lane) {
            const Total similarity = expected[row * max_lanes + lane];
            ASSERT_EQ(similarities[row * layout.num_lanes() + lane], similarity)
                << where << ": row " << row << ", lane " << lane;
            best[lane] = std::max(best[lane], similarity);
          }
        }
        std::vector<Total> maxima(layout.num_lanes(), std::numeric_limits<Total>::lowest());
        kernels.update_maxima(block, {packed, num_vectors}, similarities, maxima.data());
        ASSERT_EQ(maxima, best) << where;
      }
    }
  }
};

constexpr size_t kDims[] = {1, 7, 8, 9, 127, 128, 129, 260};

TEST_P(IsaTest, FloatsAreAddedInTheDocumentedOrder) {
  for (size_t dim : kDims) Check<float, float>(ScalarType::kF32, GetParam()->f32, dim);
}

TEST_P(IsaTest, IntegersAreExact) {
  for (size_t dim : kDims) Check<int8_t, int32_t>(ScalarType::kI8, GetParam()->i8, dim);
}

INSTANTIATE_TEST_SUITE_P(Isas, IsaTest, testing::ValuesIn(AvailableIsas()),
                         [](const auto& param_info) { return std::string(param_info.param->name); });

}  // namespace
}  // namespace maxsim::cpu
