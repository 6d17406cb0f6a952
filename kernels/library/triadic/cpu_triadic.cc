// Three-way attention on the CPU. A thread handles one row of the owner axis (TriadicRoles), and walks through all
// pairs of rows of the other two axes, one tile of the inner axis at a time.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/library/cpu/padded_lengths.h"
#include "kernels/library/cpu/parallel.h"
#include "kernels/library/cpu/tile_loops.h"
#include "kernels/library/triadic/triadic_problem.h"

namespace maxsim::library {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Status CheckTriadicLengths(const maxsim_triadic_call& call) {
  const PaddedLengths first{call.first_lengths, call.index_type, call.max_first};
  const PaddedLengths second{call.second_lengths, call.index_type, call.max_second};
  Status status = first.Check("first_lengths", call.num_problems);
  return status.ok() ? second.Check("second_lengths", call.num_problems) : status;
}

// Scratch memory of one thread.
struct TriadicSlot {
  explicit TriadicSlot(size_t dim)
      : owner_keys(dim),
        owner_values(dim),
        row_keys(dim),
        row_values(dim),
        key_product(dim),
        value_product(dim),
        inner_sum(dim),
        sum(dim),
        key_tile(dim * kTileRows),
        value_tile(dim * kTileRows),
        inner_rows(dim * kTileRows) {}

  std::vector<float> owner_keys, owner_values, row_keys, row_values;  // widened
  std::vector<float> key_product, value_product;                      // of the owner and the row
  std::vector<float> inner_sum, sum;
  std::vector<float> key_tile, value_tile;  // of the inner axis, column by column
  std::vector<float> inner_rows;            // the inner rows that are added up: keys or values, row by row
};

class TriadicPass {
 public:
  // `lse` and `delta` belong to queries; both are null for kOutput.
  TriadicPass(const TriadicProblem& problem, const TriadicRoles& roles, TriadicMode mode, const float* lse,
              const float* delta)
      : call_(problem.call),
        roles_(roles),
        mode_(mode),
        lse_(lse),
        delta_(delta),
        type_(problem.type()),
        dim_(static_cast<size_t>(problem.call.dim)),
        row_bytes_(static_cast<int64_t>(problem.row_bytes())) {}

  // Writes the result [num_problems, owner's max_rows, dim]. For kOutput, also writes the lse (log of the sum of
  // exponentials).
  Status Run(void* result, float* lse) {
    const int64_t num_items = call_.num_problems * roles_.owner.max_rows;
    const int num_threads = num_items < 2 ? 1 : NumThreads(call_.num_threads);
    std::vector<TriadicSlot> slots(num_threads, TriadicSlot(dim_));
    return ForEachItem(num_threads, num_items, [&](int slot, int64_t item) {
      const int64_t problem = item / roles_.owner.max_rows;
      TriadicSlot& memory = slots[slot];
      std::fill(memory.sum.begin(), memory.sum.end(), 0.0f);
      const float owner_lse = item % roles_.owner.max_rows < Length(roles_.owner, problem)
                                  ? SumPairs(memory, problem, item)
                                  : kMinusInfinity;
      ConvertElements(ScalarType::kF32, memory.sum.data(), type_, static_cast<char*>(result) + item * row_bytes_, dim_);
      if (lse != nullptr) lse[item] = owner_lse;
    });
  }

 private:
  int64_t Length(const TriadicAxis& axis, int64_t problem) const {
    return PaddedLengths{axis.lengths, call_.index_type, axis.max_rows}[problem];
  }
  const char* Row(const void* rows, int64_t row) const { return static_cast<const char*>(rows) + row * row_bytes_; }
  void Widen(const void* rows, int64_t row, std::vector<float>* target) const {
    if (rows != nullptr) ConvertElements(type_, Row(rows, row), ScalarType::kF32, target->data(), dim_);
  }

  // Adds up all pairs for the owner's row in slot.sum. For kOutput, returns the log of the sum of exponentials.
  float SumPairs(TriadicSlot& slot, int64_t problem, int64_t owner) {
    float maximum = kMinusInfinity;
    float denominator = 0;
    Widen(roles_.owner.keys, owner, &slot.owner_keys);
    Widen(roles_.owner.values, owner, &slot.owner_values);
    const int64_t num_rows = Length(roles_.rows, problem);
    const int64_t num_inner = Length(roles_.inner, problem);
    for (int64_t inner = 0; inner < num_inner; inner += kTileRows) {
      const auto count = static_cast<size_t>(std::min<int64_t>(num_inner - inner, kTileRows));
      const int64_t inner_row = problem * roles_.inner.max_rows + inner;
      FillTile(type_, Row(roles_.inner.keys, inner_row), count, dim_, 0, dim_, 0, slot.key_tile.data());
      if (mode_ == TriadicMode::kKeys) {
        FillTile(type_, Row(roles_.inner.values, inner_row), count, dim_, 0, dim_, 0, slot.value_tile.data());
      }
      const void* const added = mode_ == TriadicMode::kKeys ? roles_.inner.keys : roles_.inner.values;
      ConvertElements(type_, Row(added, inner_row), ScalarType::kF32, slot.inner_rows.data(), count * dim_);
      for (int64_t idx = 0; idx < num_rows; ++idx) {
        const int64_t row = problem * roles_.rows.max_rows + idx;
        Widen(roles_.rows.keys, row, &slot.row_keys);
        Widen(roles_.rows.values, row, &slot.row_values);
        AddRow(slot, roles_.owner_is_query ? owner : row, count, &maximum, &denominator);
      }
    }
    if (mode_ == TriadicMode::kKeys) {
      for (float& value : slot.sum) value *= call_.scale;
    }
    if (mode_ != TriadicMode::kOutput || !(denominator > 0)) return kMinusInfinity;
    for (float& value : slot.sum) value /= denominator;
    return maximum + std::log(denominator);
  }

  // Adds the pairs of a row with the inner rows of the tile.
  void AddRow(TriadicSlot& slot, int64_t query, size_t count, float* maximum, float* denominator) {
    for (size_t column = 0; column < dim_; ++column) {
      slot.key_product[column] = call_.scale * (slot.owner_keys[column] * slot.row_keys[column]);
    }
    float weights[kTileRows] = {};
    loops_.add_products(slot.key_product.data(), slot.key_tile.data(), dim_, weights);
    if (mode_ == TriadicMode::kOutput) {
      for (size_t i = count; i < kTileRows; ++i) weights[i] = kMinusInfinity;
      const float largest = std::max(*maximum, loops_.largest(weights));
      if (largest > *maximum) {
        const float factor = std::exp(*maximum - largest);
        *denominator *= factor;
        for (float& value : slot.sum) value *= factor;
        *maximum = largest;
      }
      for (size_t i = 0; i < count; ++i) {
        weights[i] = std::exp(weights[i] - *maximum);
        *denominator += weights[i];
      }
    } else {
      for (size_t i = 0; i < count; ++i) weights[i] = std::exp(weights[i] - lse_[query]);
    }
    if (mode_ == TriadicMode::kKeys) {
      for (size_t column = 0; column < dim_; ++column) {
        slot.value_product[column] = slot.owner_values[column] * slot.row_values[column];
      }
      float gradients[kTileRows] = {};
      loops_.add_products(slot.value_product.data(), slot.value_tile.data(), dim_, gradients);
      for (size_t i = 0; i < count; ++i) weights[i] *= gradients[i] - delta_[query];
    }
    std::fill(slot.inner_sum.begin(), slot.inner_sum.end(), 0.0f);
    loops_.add_rows(weights, slot.inner_rows.data(), count, dim_, slot.inner_sum.data());
    const std::vector<float>& factors = mode_ == TriadicMode::kKeys ? slot.row_keys : slot.row_values;
    for (size_t column = 0; column < dim_; ++column) slot.sum[column] += factors[column] * slot.inner_sum[column];
  }

  const maxsim_triadic_call& call_;
  const TriadicRoles roles_;
  const TriadicMode mode_;
  const float* const lse_;
  const float* const delta_;
  const ScalarType type_;
  const size_t dim_;
  const int64_t row_bytes_;
  const TileLoops& loops_ = BestTileLoops();
};

// Returns <output, gradient of the output> of each query.
std::vector<float> Deltas(const TriadicProblem& problem, const maxsim_triadic_gradients& gradients) {
  const auto dim = static_cast<size_t>(problem.call.dim);
  std::vector<float> output(dim);
  std::vector<float> gradient(dim);
  std::vector<float> deltas(static_cast<size_t>(problem.call.num_problems * problem.call.num_queries));
  for (size_t row = 0; row < deltas.size(); ++row) {
    const size_t offset = row * problem.row_bytes();
    ConvertElements(problem.type(), static_cast<const char*>(gradients.output) + offset, ScalarType::kF32,
                    output.data(), dim);
    ConvertElements(problem.type(), static_cast<const char*>(gradients.output_gradients) + offset, ScalarType::kF32,
                    gradient.data(), dim);
    for (size_t column = 0; column < dim; ++column) deltas[row] += output[column] * gradient[column];
  }
  return deltas;
}

}  // namespace

Status CpuTriadic(const TriadicProblem& problem, void* output, float* lse) {
  if (Status status = CheckTriadicLengths(problem.call); !status.ok()) return status;
  return TriadicPass(problem, QueriesOwn(problem.call, nullptr), TriadicMode::kOutput, nullptr, nullptr)
      .Run(output, lse);
}

Status CpuTriadicBackward(const TriadicProblem& problem, const maxsim_triadic_gradients& gradients) {
  if (Status status = CheckTriadicLengths(problem.call); !status.ok()) return status;
  const std::vector<float> deltas = Deltas(problem, gradients);
  const auto run = [&](const TriadicRoles& roles, TriadicMode mode, void* result) -> Status {
    if (result == nullptr) return {};
    return TriadicPass(problem, roles, mode, gradients.lse, deltas.data()).Run(result, nullptr);
  };
  const TriadicRoles queries = QueriesOwn(problem.call, gradients.output_gradients);
  const TriadicRoles first = FirstOwn(problem.call, gradients.output_gradients);
  const TriadicRoles second = SecondOwn(problem.call, gradients.output_gradients);
  if (Status status = run(queries, TriadicMode::kKeys, gradients.query_gradients); !status.ok()) return status;
  if (Status status = run(first, TriadicMode::kKeys, gradients.first_key_gradients); !status.ok()) return status;
  if (Status status = run(second, TriadicMode::kKeys, gradients.second_key_gradients); !status.ok()) return status;
  if (Status status = run(first, TriadicMode::kValues, gradients.first_value_gradients); !status.ok()) return status;
  return run(second, TriadicMode::kValues, gradients.second_value_gradients);
}

}  // namespace maxsim::library
