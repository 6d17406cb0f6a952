// Three-way MaxSim on the CPU. A thread handles one query token and walks through all pairs of first and second tokens,
// tile by tile.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/library/cpu/matches_by_row.h"
#include "kernels/library/cpu/padded_lengths.h"
#include "kernels/library/cpu/parallel.h"
#include "kernels/library/cpu/tile_loops.h"
#include "kernels/library/triadic/triadic_problem.h"

namespace maxsim::library {
namespace {

constexpr size_t kMaxColumns = 256;  // columns per tile: 64 KiB, which fit a core's L2 cache
constexpr int64_t kMaxFirst = 64;    // first tokens that share each filled tile

struct TriadicLengths {
  explicit TriadicLengths(const maxsim_triadic_max_call& call)
      : queries{call.query_lengths, call.index_type, call.max_queries},
        first{call.first_lengths, call.index_type, call.max_first},
        second{call.second_lengths, call.index_type, call.max_second} {}

  Status Check(int64_t num_problems) const {
    Status status = queries.Check("query_lengths", num_problems);
    if (status.ok()) status = first.Check("first_lengths", num_problems);
    return status.ok() ? second.Check("second_lengths", num_problems) : status;
  }

  PaddedLengths queries;
  PaddedLengths first;
  PaddedLengths second;
};

// Scratch memory of one thread.
struct TriadicMaxSlot {
  std::vector<float> query;  // [dim], widened
  std::vector<float> first;  // [dim], widened; times the query
  std::vector<float> tile;   // [kMaxColumns, kTileRows]
  std::vector<float> sums;   // [kMaxFirst, kTileRows]
};

// The best pair so far.
struct BestPair {
  float maximum = -std::numeric_limits<float>::infinity();
  int32_t first = 0;
  int32_t second = 0;

  void Take(float value, int32_t new_first, int32_t new_second) {
    if (value < maximum) return;
    if (value == maximum && (new_first > first || (new_first == first && new_second >= second))) return;
    *this = {value, new_first, new_second};
  }
};

// Returns the best pair for the query in slot.query. The problem must have at least one pair.
BestPair FindBestPair(const TriadicMaxProblem& problem, int64_t idx, int64_t num_first, int64_t num_second,
                      TriadicMaxSlot& slot) {
  const maxsim_triadic_max_call& call = problem.call;
  const TileLoops& loops = BestTileLoops();
  const auto dim = static_cast<size_t>(call.dim);
  const auto row_bytes = static_cast<int64_t>(problem.row_bytes());
  const size_t element = SizeOf(problem.type());
  const char* const first_rows = static_cast<const char*>(call.first) + idx * call.max_first * row_bytes;
  const char* const second_rows = static_cast<const char*>(call.second) + idx * call.max_second * row_bytes;
  BestPair best;
  for (int64_t first = 0; first < num_first; first += kMaxFirst) {
    const int64_t first_count = std::min(num_first - first, kMaxFirst);
    for (int64_t second = 0; second < num_second; second += kTileRows) {
      const auto count = static_cast<size_t>(std::min<int64_t>(num_second - second, kTileRows));
      std::fill(slot.sums.begin(), slot.sums.end(), 0.0f);
      for (size_t column = 0; column < dim; column += kMaxColumns) {
        const size_t num_columns = std::min(dim - column, kMaxColumns);
        FillTile(problem.type(), second_rows + second * row_bytes, count, dim, column, num_columns, 0,
                 slot.tile.data());
        for (int64_t i = 0; i < first_count; ++i) {
          const char* const row = first_rows + (first + i) * row_bytes;
          ConvertElements(problem.type(), row + column * element, ScalarType::kF32, slot.first.data(), num_columns);
          for (size_t c = 0; c < num_columns; ++c) slot.first[c] *= slot.query[column + c];
          loops.add_products(slot.first.data(), slot.tile.data(), num_columns, slot.sums.data() + i * kTileRows);
        }
      }
      for (int64_t i = 0; i < first_count; ++i) {
        const float* const sums = slot.sums.data() + i * kTileRows;
        const float* const largest = std::max_element(sums, sums + count);  // the first of equals
        best.Take(*largest, static_cast<int32_t>(first + i), static_cast<int32_t>(second + (largest - sums)));
      }
    }
  }
  return best;
}

class TriadicMaxGradientPass {
 public:
  TriadicMaxGradientPass(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients& gradients)
      : problem_(problem),
        call_(problem.call),
        gradients_(gradients),
        lengths_(problem.call),
        dim_(static_cast<size_t>(problem.call.dim)) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (gradients_.query_gradients != nullptr) {
      // Each query token has one entry: its own.
      Status status = WriteRows(problem_.num_query_rows(), gradients_.query_gradients, call_.first, call_.second,
                                [&](int64_t row, auto add) {
                                  if (FirstRow(row) >= 0) add(row, FirstRow(row), SecondRow(row));
                                });
      if (!status.ok()) return status;
    }
    if (gradients_.first_gradients != nullptr) {
      const MatchesByRow matches = SortByRow(problem_.num_query_rows(), problem_.num_first_rows(),
                                             [&](int64_t entry) { return FirstRow(entry); });
      Status status = WriteRows(problem_.num_first_rows(), gradients_.first_gradients, call_.queries, call_.second,
                                [&](int64_t row, auto add) {
                                  for (int64_t i = matches.first[row]; i < matches.first[row + 1]; ++i) {
                                    add(matches.entries[i], matches.entries[i], SecondRow(matches.entries[i]));
                                  }
                                });
      if (!status.ok()) return status;
    }
    if (gradients_.second_gradients == nullptr) return {};
    const MatchesByRow matches = SortByRow(problem_.num_query_rows(), problem_.num_second_rows(),
                                           [&](int64_t entry) { return SecondRow(entry); });
    return WriteRows(problem_.num_second_rows(), gradients_.second_gradients, call_.queries, call_.first,
                     [&](int64_t row, auto add) {
                       for (int64_t i = matches.first[row]; i < matches.first[row + 1]; ++i) {
                         add(matches.entries[i], matches.entries[i], FirstRow(matches.entries[i]));
                       }
                     });
  }

 private:
  bool Counts(int64_t entry) const { return entry % call_.max_queries < lengths_.queries[entry / call_.max_queries]; }

  Status Check() const {
    if (Status status = lengths_.Check(call_.num_problems); !status.ok()) return status;
    for (int64_t entry = 0; entry < problem_.num_query_rows(); ++entry) {
      const int32_t* const pair = gradients_.argmax + 2 * entry;
      const int64_t problem = entry / call_.max_queries;
      if (!Counts(entry) || (pair[0] == -1 && pair[1] == -1)) continue;
      if (pair[0] >= 0 && pair[0] < lengths_.first[problem] && pair[1] >= 0 && pair[1] < lengths_.second[problem]) {
        continue;
      }
      return InvalidArgument("argmax[" + std::to_string(entry) + "] is (" + std::to_string(pair[0]) + ", " +
                             std::to_string(pair[1]) + "); its problem has " + std::to_string(lengths_.first[problem]) +
                             " x " + std::to_string(lengths_.second[problem]) + " pairs");
    }
    return {};
  }

  // Return the row of the first or second token in a query token's best pair; -1 if it adds nothing to any gradient.
  int64_t FirstRow(int64_t entry) const { return PairRow(entry, 0, call_.max_first); }
  int64_t SecondRow(int64_t entry) const { return PairRow(entry, 1, call_.max_second); }
  int64_t PairRow(int64_t entry, int side, int64_t max_rows) const {
    const int32_t idx = gradients_.argmax[2 * entry + side];
    if (!Counts(entry) || idx < 0 || gradients_.maximum_gradients[entry] == 0) return -1;
    return entry / call_.max_queries * max_rows + idx;
  }

  // Writes each row of a gradient. visit(row, add) must call add(entry, left_row, right_row) for every term: the row is
  // the sum of g_entry * (left_row * right_row), where g_entry is the gradient of the entry's maximum.
  template <typename Visit>
  Status WriteRows(int64_t num_rows, void* target, const void* left, const void* right, Visit visit) {
    struct Slot {
      std::vector<float> left, right, sum;
    };
    constexpr int64_t kRows = 64;
    const int64_t num_items = (num_rows + kRows - 1) / kRows;
    const int num_threads = num_items < 2 ? 1 : NumThreads(call_.num_threads);
    const auto row_bytes = static_cast<int64_t>(problem_.row_bytes());
    const std::vector<float> zeros(dim_);
    std::vector<Slot> slots(num_threads, {zeros, zeros, zeros});
    return ForEachItem(num_threads, num_items, [&](int slot_idx, int64_t item) {
      Slot& slot = slots[slot_idx];
      for (int64_t row = item * kRows; row < std::min(num_rows, (item + 1) * kRows); ++row) {
        std::fill(slot.sum.begin(), slot.sum.end(), 0.0f);
        visit(row, [&](int64_t entry, int64_t left_row, int64_t right_row) {
          ConvertElements(problem_.type(), static_cast<const char*>(left) + left_row * row_bytes, ScalarType::kF32,
                          slot.left.data(), dim_);
          ConvertElements(problem_.type(), static_cast<const char*>(right) + right_row * row_bytes, ScalarType::kF32,
                          slot.right.data(), dim_);
          const float gradient = gradients_.maximum_gradients[entry];
          for (size_t column = 0; column < dim_; ++column) {
            slot.sum[column] += gradient * (slot.left[column] * slot.right[column]);
          }
        });
        ConvertElements(ScalarType::kF32, slot.sum.data(), problem_.type(),
                        static_cast<char*>(target) + row * row_bytes, dim_);
      }
    });
  }

  const TriadicMaxProblem& problem_;
  const maxsim_triadic_max_call& call_;
  const maxsim_triadic_max_gradients& gradients_;
  const TriadicLengths lengths_;
  const size_t dim_;
};

}  // namespace

Status CpuTriadicMax(const TriadicMaxProblem& problem, float* maxima, int32_t* argmax) {
  const maxsim_triadic_max_call& call = problem.call;
  const TriadicLengths lengths(call);
  if (Status status = lengths.Check(call.num_problems); !status.ok()) return status;
  const auto dim = static_cast<size_t>(call.dim);
  const int64_t num_items = problem.num_query_rows();
  const int num_threads = num_items < 2 ? 1 : NumThreads(call.num_threads);
  std::vector<TriadicMaxSlot> slots(num_threads);
  for (TriadicMaxSlot& slot : slots) {
    slot.query.resize(dim);
    slot.first.resize(std::min(dim, kMaxColumns));
    slot.tile.resize(std::min(dim, kMaxColumns) * kTileRows);
    slot.sums.resize(kMaxFirst * kTileRows);
  }
  return ForEachItem(num_threads, num_items, [&](int slot, int64_t item) {
    const int64_t idx = item / call.max_queries;
    const int64_t num_first = lengths.first[idx];
    const int64_t num_second = lengths.second[idx];
    BestPair best = {.maximum = 0, .first = -1, .second = -1};
    if (item % call.max_queries < lengths.queries[idx]) {
      best.maximum = -std::numeric_limits<float>::infinity();
      if (num_first > 0 && num_second > 0) {
        const char* const row =
            static_cast<const char*>(call.queries) + item * static_cast<int64_t>(problem.row_bytes());
        ConvertElements(problem.type(), row, ScalarType::kF32, slots[slot].query.data(), dim);
        best = FindBestPair(problem, idx, num_first, num_second, slots[slot]);
      }
    }
    maxima[item] = best.maximum;
    argmax[2 * item] = best.first;
    argmax[2 * item + 1] = best.second;
  });
}

Status CpuTriadicMaxBackward(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients& gradients) {
  return TriadicMaxGradientPass(problem, gradients).Run();
}

}  // namespace maxsim::library
