#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/library/triadic_case.h"

namespace maxsim::test {

std::ostream& operator<<(std::ostream& out, const TriadicMaxShape& shape) {
  return out << "type " << shape.type << ", dim " << shape.dim << ", " << shape.num_problems << " problems of "
             << shape.max_queries << " x " << shape.max_first << " x " << shape.max_second
             << (shape.lengths ? ", lengths" : "") << (shape.ties ? ", ties" : "");
}

TriadicMaxCase::TriadicMaxCase(LibraryDevice& device, const TriadicMaxShape& shape, uint64_t seed)
    : device_(device), shape_(shape), max_rows_({shape.max_queries, shape.max_first, shape.max_second}) {
  const auto dim = static_cast<size_t>(shape.dim);
  const auto problems = static_cast<size_t>(shape.num_problems);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i] = RandomLibraryValues(shape.type, problems * max_rows_[i] * dim, shape.ties, seed + i);
    lengths_[i].assign(problems, static_cast<int32_t>(max_rows_[i]));
    if (!shape.lengths) continue;
    lengths_[i] = RandomLengths(problems, max_rows_[i], seed + 3 + i);
    std::rotate(lengths_[i].begin(), lengths_[i].begin() + static_cast<std::ptrdiff_t>(i % problems),
                lengths_[i].end());
    PoisonPadding(shape.type, dim, max_rows_[i], lengths_[i], &inputs_[i]);
  }
  std::mt19937_64 random(seed + 6);
  std::uniform_int_distribution<int> eighths(-8, 8);
  maximum_gradients_.resize(problems * shape.max_queries);
  for (float& gradient : maximum_gradients_) gradient = static_cast<float>(eighths(random)) / 8;
  call_.struct_size = sizeof(call_);
  call_.device = device.device();
  call_.type = shape.type;
  call_.dim = shape.dim;
  call_.index_type = MAXSIM_INT32;
  call_.num_problems = shape.num_problems;
  call_.max_queries = shape.max_queries;
  call_.max_first = shape.max_first;
  call_.max_second = shape.max_second;
  call_.queries = device.Upload(inputs_[0].elements);
  call_.first = device.Upload(inputs_[1].elements);
  call_.second = device.Upload(inputs_[2].elements);
  call_.query_lengths = shape.lengths ? device.Upload(lengths_[0]) : nullptr;
  call_.first_lengths = shape.lengths ? device.Upload(lengths_[1]) : nullptr;
  call_.second_lengths = shape.lengths ? device.Upload(lengths_[2]) : nullptr;
  call_.num_threads = shape.num_threads;
  call_.stream = device.stream();
  for (const int32_t pass : {MAXSIM_FORWARD, MAXSIM_BACKWARD}) {
    size_t bytes = 0;
    EXPECT_EQ(maxsim_triadic_max_workspace_bytes(&call_, pass, &bytes), MAXSIM_OK) << maxsim_last_error();
    call_.workspace_bytes = std::max(call_.workspace_bytes, bytes);
  }
  call_.workspace = device.Allocate(call_.workspace_bytes);
  maxima_ = static_cast<float*>(device.Allocate(maximum_gradients_.size() * sizeof(float)));
  argmax_ = static_cast<int32_t*>(device.Allocate(2 * maximum_gradients_.size() * sizeof(int32_t)));
  for (size_t i = 0; i < inputs_.size(); ++i) gradient_memory_[i] = device.Allocate(inputs_[i].elements.size());
  gradients_ = {.struct_size = sizeof(gradients_),
                .argmax = argmax_,
                .maximum_gradients = device.Upload(maximum_gradients_),
                .query_gradients = gradient_memory_[0],
                .first_gradients = gradient_memory_[1],
                .second_gradients = gradient_memory_[2]};
}

void TriadicMaxCase::Forward() {
  EXPECT_EQ(maxsim_triadic_max(&call_, maxima_, argmax_), MAXSIM_OK) << maxsim_last_error();
}

void TriadicMaxCase::Backward() {
  EXPECT_EQ(maxsim_triadic_max_backward(&call_, &gradients_), MAXSIM_OK) << maxsim_last_error();
}

TriadicMaxResults TriadicMaxCase::Results() {
  TriadicMaxResults results;
  results.maxima = device_.Download<float>(maxima_, maximum_gradients_.size());
  results.argmax = device_.Download<int32_t>(argmax_, 2 * maximum_gradients_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    results.gradients[i] = device_.Download<char>(gradient_memory_[i], inputs_[i].elements.size());
  }
  return results;
}

void TriadicMaxCase::Expect() {
  Forward();
  Backward();
  const TriadicMaxResults results = Results();
  ExpectMaxima(results);
  ExpectGradients(results);
}

double TriadicMaxCase::Contract(int64_t query_row, int64_t first_row, int64_t second_row, bool magnitude) const {
  double sum = 0;
  for (int32_t column = 0; column < shape_.dim; ++column) {
    const double term = inputs_[0].values[query_row * shape_.dim + column] *
                        inputs_[1].values[first_row * shape_.dim + column] *
                        inputs_[2].values[second_row * shape_.dim + column];
    sum += magnitude ? std::fabs(term) : term;
  }
  return sum;
}

void TriadicMaxCase::ExpectMaxima(const TriadicMaxResults& results) const {
  for (int64_t row = 0; row < shape_.num_problems * shape_.max_queries; ++row) {
    SCOPED_TRACE("row " + std::to_string(row));
    const int64_t problem = row / shape_.max_queries;
    const int32_t* const found = results.argmax.data() + 2 * row;
    const bool counts = row % shape_.max_queries < lengths_[0][problem];
    const int32_t num_first = lengths_[1][problem];
    const int32_t num_second = lengths_[2][problem];
    if (!counts || num_first == 0 || num_second == 0) {
      ASSERT_EQ(results.maxima[row], counts ? -std::numeric_limits<float>::infinity() : 0.0f);
      ASSERT_EQ(found[0], -1);
      ASSERT_EQ(found[1], -1);
      continue;
    }
    double largest = -std::numeric_limits<double>::infinity();
    int32_t best[2] = {-1, -1};
    for (int32_t first = 0; first < num_first; ++first) {
      for (int32_t second = 0; second < num_second; ++second) {
        const double value =
            Contract(row, problem * shape_.max_first + first, problem * shape_.max_second + second, false);
        if (value <= largest) continue;
        largest = value;
        best[0] = first;
        best[1] = second;
      }
    }
    ASSERT_TRUE(found[0] >= 0 && found[0] < num_first && found[1] >= 0 && found[1] < num_second);
    const int64_t first_row = problem * shape_.max_first + found[0];
    const int64_t second_row = problem * shape_.max_second + found[1];
    const double allowed = 1e-6 * (4 + std::sqrt(shape_.dim)) * Contract(row, first_row, second_row, true) + 1e-9;
    ASSERT_NEAR(results.maxima[row], largest, allowed);
    // With ties, all sums are exact, so the first of equal pairs must be found. Otherwise rounding may choose another
    // one.
    if (shape_.ties) {
      ASSERT_EQ(found[0], best[0]);
      ASSERT_EQ(found[1], best[1]);
    } else {
      ASSERT_NEAR(Contract(row, first_row, second_row, false), largest, allowed);
    }
  }
}

void TriadicMaxCase::ExpectGradients(const TriadicMaxResults& results) const {
  std::array<std::vector<double>, 3> expected;
  std::array<std::vector<double>, 3> magnitudes;
  for (size_t i = 0; i < 3; ++i) {
    expected[i].resize(inputs_[i].values.size());
    magnitudes[i].resize(inputs_[i].values.size());
  }
  for (int64_t row = 0; row < shape_.num_problems * shape_.max_queries; ++row) {
    if (results.argmax[2 * row] < 0) continue;
    const int64_t problem = row / shape_.max_queries;
    const int64_t rows[3] = {row, problem * shape_.max_first + results.argmax[2 * row],
                             problem * shape_.max_second + results.argmax[2 * row + 1]};
    for (int32_t column = 0; column < shape_.dim; ++column) {
      double values[3];
      for (size_t i = 0; i < 3; ++i) values[i] = inputs_[i].values[rows[i] * shape_.dim + column];
      for (size_t i = 0; i < 3; ++i) {
        const double term = maximum_gradients_[row] * values[(i + 1) % 3] * values[(i + 2) % 3];
        expected[i][rows[i] * shape_.dim + column] += term;
        magnitudes[i][rows[i] * shape_.dim + column] += std::fabs(term);
      }
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<double> found = WidenLibraryValues(shape_.type, results.gradients[i]);
    for (size_t at = 0; at < found.size(); ++at) {
      const double allowed =
          RoundingOf(shape_.type) * std::fabs(expected[i][at]) + 1e-6 * magnitudes[i][at] * 10 + 1e-7;
      ASSERT_NEAR(found[at], expected[i][at], allowed) << "gradient " << i << ", element " << at;
    }
  }
}

std::vector<TriadicMaxShape> TriadicMaxShapes() {
  std::vector<TriadicMaxShape> shapes;
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    for (const int32_t dim : {1, 3, 8, 31, 32, 33, 64, 128, 257, 1024, 4096}) {
      const int64_t size = dim > 1000 ? 9 : 20;
      shapes.push_back({.type = type,
                        .dim = dim,
                        .num_problems = 4,
                        .max_queries = 3,
                        .max_first = size,
                        .max_second = size + 3,
                        .lengths = true});
      shapes.push_back({.type = type, .dim = dim, .max_queries = 2, .max_first = 7, .max_second = 12, .ties = true});
    }
  }
  for (const int64_t size : {1, 3, 4, 7, 8, 9, 31, 32, 63, 64, 65, 127, 128, 129, 200, 260}) {
    shapes.push_back(
        {.dim = 5, .num_problems = 2, .max_queries = 3, .max_first = size, .max_second = 10, .ties = true});
    shapes.push_back(
        {.dim = 5, .num_problems = 2, .max_queries = 3, .max_first = 10, .max_second = size, .ties = true});
    shapes.push_back({.dim = 5, .max_queries = size, .max_first = 3, .max_second = 4});
  }
  shapes.push_back({.num_problems = 0});
  shapes.push_back({.max_queries = 0});
  shapes.push_back({.max_first = 0});
  shapes.push_back({.max_second = 0});
  return shapes;
}

}  // namespace maxsim::test
