// Nearest points on the CPU. A work item compares some points x of a set with all points y of the set, tile by tile.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/library/cpu/matches_by_row.h"
#include "kernels/library/cpu/padded_lengths.h"
#include "kernels/library/cpu/parallel.h"
#include "kernels/library/cpu/tile_loops.h"
#include "kernels/library/nearest/nearest_problem.h"

namespace maxsim::library {
namespace {

constexpr int64_t kItemPoints = 64;  // points x per work item, which share each filled tile
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kNearestColumns = 256;  // columns per tile: 64 KiB, which fit a core's L2 cache

// The points of a call in host memory.
struct HostPoints {
  explicit HostPoints(const NearestProblem& problem)
      : call(problem.call),
        row_bytes(problem.row_bytes()),
        x_lengths{call.x_lengths, call.index_type, call.max_x},
        y_lengths{call.y_lengths, call.index_type, call.max_y} {}

  Status Check() const {
    Status status = x_lengths.Check("x_lengths", call.num_sets);
    return status.ok() ? y_lengths.Check("y_lengths", call.num_sets) : status;
  }
  const char* X(int64_t row) const { return static_cast<const char*>(call.x) + row * static_cast<int64_t>(row_bytes); }
  const char* Y(int64_t row) const { return static_cast<const char*>(call.y) + row * static_cast<int64_t>(row_bytes); }

  const maxsim_nearest_call& call;
  size_t row_bytes;
  PaddedLengths x_lengths;
  PaddedLengths y_lengths;
};

// Scratch memory of one thread.
struct NearestSlot {
  std::vector<float> x;     // [kItemPoints, dim], widened
  std::vector<float> tile;  // [kNearestColumns, kTileRows]
  std::vector<float> sums;  // [kItemPoints, kTileRows]
};

// Writes the results of points x `begin` .. `end` of a set.
void FindNearest(const HostPoints& points, int64_t set, int64_t begin, int64_t end, NearestSlot& slot, float* distances,
                 int32_t* argmin) {
  const TileLoops& loops = BestTileLoops();
  const auto dim = static_cast<size_t>(points.call.dim);
  const auto type = static_cast<ScalarType>(points.call.type);
  const int64_t num_y = points.y_lengths[set];
  const auto count = static_cast<size_t>(end - begin);
  ConvertElements(type, points.X(set * points.call.max_x + begin), ScalarType::kF32, slot.x.data(), count * dim);
  std::fill_n(distances, count, kInfinity);
  std::fill_n(argmin, count, num_y > 0 ? 0 : -1);
  for (int64_t y = 0; y < num_y; y += kTileRows) {
    const auto num_rows = static_cast<size_t>(std::min<int64_t>(num_y - y, kTileRows));
    std::fill(slot.sums.begin(), slot.sums.end(), 0.0f);
    for (size_t column = 0; column < dim; column += kNearestColumns) {
      const size_t num_columns = std::min(dim - column, kNearestColumns);
      FillTile(type, points.Y(set * points.call.max_y + y), num_rows, dim, column, num_columns, kInfinity,
               slot.tile.data());
      for (size_t i = 0; i < count; ++i) {
        loops.add_squares(slot.x.data() + i * dim + column, slot.tile.data(), num_columns,
                          slot.sums.data() + i * kTileRows);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const float* const sums = slot.sums.data() + i * kTileRows;
      const float smallest = loops.smallest(sums);
      if (!(smallest < distances[i])) continue;
      distances[i] = smallest;
      argmin[i] = static_cast<int32_t>(y + (std::find(sums, sums + kTileRows, smallest) - sums));
    }
  }
}

// Returns the number of threads for `num_items` items that together take `work` multiply-adds.
int NumNearestThreads(const HostPoints& points, int64_t num_items, double work) {
  return num_items < 2 || work < 1e5 ? 1 : NumThreads(points.call.num_threads);
}

// Scratch memory of one thread in the backward pass.
struct GradientSlot {
  std::vector<float> row;
  std::vector<float> other;
  std::vector<float> sum;
};

class NearestGradientPass {
 public:
  NearestGradientPass(const NearestProblem& problem, const maxsim_nearest_gradients& gradients)
      : problem_(problem), gradients_(gradients), points_(problem), dim_(static_cast<size_t>(problem.call.dim)) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (gradients_.x_gradients != nullptr) {
      if (Status status = WriteX(); !status.ok()) return status;
    }
    return gradients_.y_gradients == nullptr ? Status{} : WriteY();
  }

 private:
  Status Check() const {
    if (Status status = points_.Check(); !status.ok()) return status;
    for (int64_t row = 0; row < problem_.num_x(); ++row) {
      const int64_t set = row / problem_.call.max_x;
      const int32_t match = gradients_.argmin[row];
      if (row % problem_.call.max_x >= points_.x_lengths[set] || (match >= -1 && match < points_.y_lengths[set])) {
        continue;
      }
      return InvalidArgument("argmin[" + std::to_string(row) + "] is " + std::to_string(match) + "; its set has " +
                             std::to_string(points_.y_lengths[set]) + " points y");
    }
    return {};
  }

  // Returns the row of y that is nearest to a row of x; -1 if the row of x adds nothing to any gradient.
  int64_t MatchOf(int64_t row) const {
    const int64_t set = row / problem_.call.max_x;
    if (row % problem_.call.max_x >= points_.x_lengths[set]) return -1;
    const int32_t match = gradients_.argmin[row];
    return match < 0 || gradients_.distance_gradients[row] == 0 ? -1 : set * problem_.call.max_y + match;
  }

  void Widen(const char* row, std::vector<float>* target) const {
    ConvertElements(problem_.type(), row, ScalarType::kF32, target->data(), dim_);
  }
  void Narrow(const std::vector<float>& row, void* gradients, int64_t idx) const {
    ConvertElements(ScalarType::kF32, row.data(), problem_.type(),
                    static_cast<char*>(gradients) + idx * static_cast<int64_t>(problem_.row_bytes()), dim_);
  }

  // sum += factor * (row - other).
  void AddDifference(float factor, GradientSlot& slot) const {
    for (size_t column = 0; column < dim_; ++column) {
      slot.sum[column] += factor * (slot.row[column] - slot.other[column]);
    }
  }

  // Calls work(slot, row) for every row below num_rows, on several threads.
  template <typename Work>
  Status ForEachRow(int64_t num_rows, Work work) {
    constexpr int64_t kRows = 256;
    const int64_t num_items = (num_rows + kRows - 1) / kRows;
    const double all = static_cast<double>(num_rows + problem_.num_x()) * static_cast<double>(dim_);
    const int num_threads = NumNearestThreads(points_, num_items, all);
    std::vector<GradientSlot> slots(num_threads, {std::vector<float>(dim_), std::vector<float>(dim_), {}});
    return ForEachItem(num_threads, num_items, [&](int slot, int64_t item) {
      const int64_t end = std::min(num_rows, (item + 1) * kRows);
      for (int64_t row = item * kRows; row < end; ++row) {
        slots[slot].sum.assign(dim_, 0.0f);
        work(slots[slot], row);
      }
    });
  }

  Status WriteX() {
    return ForEachRow(problem_.num_x(), [&](GradientSlot& slot, int64_t row) {
      if (const int64_t match = MatchOf(row); match >= 0) {
        Widen(points_.X(row), &slot.row);
        Widen(points_.Y(match), &slot.other);
        AddDifference(2 * gradients_.distance_gradients[row], slot);
      }
      Narrow(slot.sum, gradients_.x_gradients, row);
    });
  }

  Status WriteY() {
    const MatchesByRow matches =
        SortByRow(problem_.num_x(), problem_.num_y(), [&](int64_t row) { return MatchOf(row); });
    return ForEachRow(problem_.num_y(), [&](GradientSlot& slot, int64_t row) {
      if (matches.first[row] < matches.first[row + 1]) Widen(points_.Y(row), &slot.row);
      for (int64_t idx = matches.first[row]; idx < matches.first[row + 1]; ++idx) {
        const int64_t entry = matches.entries[idx];
        Widen(points_.X(entry), &slot.other);
        AddDifference(2 * gradients_.distance_gradients[entry], slot);
      }
      Narrow(slot.sum, gradients_.y_gradients, row);
    });
  }

  const NearestProblem& problem_;
  const maxsim_nearest_gradients& gradients_;
  const HostPoints points_;
  const size_t dim_;
};

}  // namespace

Status CpuNearest(const NearestProblem& problem, float* distances, int32_t* argmin) {
  const HostPoints points(problem);
  if (Status status = points.Check(); !status.ok()) return status;
  const maxsim_nearest_call& call = problem.call;
  const int64_t items_a_set = (call.max_x + kItemPoints - 1) / kItemPoints;
  const int64_t num_items = call.num_sets * items_a_set;
  const double work = static_cast<double>(problem.num_x()) * static_cast<double>(call.max_y) * call.dim;
  const int num_threads = NumNearestThreads(points, num_items, work);
  std::vector<NearestSlot> slots(num_threads);
  for (NearestSlot& slot : slots) {
    slot.x.resize(kItemPoints * static_cast<size_t>(call.dim));
    slot.tile.resize(std::min(kNearestColumns, static_cast<size_t>(call.dim)) * kTileRows);
    slot.sums.resize(kItemPoints * kTileRows);
  }
  return ForEachItem(num_threads, num_items, [&](int slot, int64_t item) {
    const int64_t set = item / items_a_set;
    const int64_t begin = item % items_a_set * kItemPoints;
    const int64_t end = std::min(begin + kItemPoints, call.max_x);
    const int64_t counting = std::clamp(points.x_lengths[set], begin, end);
    const int64_t row = set * call.max_x + begin;
    if (counting > begin) FindNearest(points, set, begin, counting, slots[slot], distances + row, argmin + row);
    std::fill(distances + row + (counting - begin), distances + row + (end - begin), 0.0f);
    std::fill(argmin + row + (counting - begin), argmin + row + (end - begin), -1);
  });
}

Status CpuNearestBackward(const NearestProblem& problem, const maxsim_nearest_gradients& gradients) {
  return NearestGradientPass(problem, gradients).Run();
}

}  // namespace maxsim::library
