#include "tests/support/library/nearest_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/scalar_type.h"

namespace maxsim::test {

std::ostream& operator<<(std::ostream& out, const NearestShape& shape) {
  return out << "type " << shape.type << ", dim " << shape.dim << ", " << shape.num_sets << " sets of " << shape.max_x
             << " x " << shape.max_y << (shape.lengths ? ", lengths" : "") << (shape.ties ? ", ties" : "");
}

NearestCase::NearestCase(LibraryDevice& device, const NearestShape& shape, uint64_t seed)
    : device_(device), shape_(shape) {
  const auto num_x = static_cast<size_t>(shape.num_sets * shape.max_x);
  const auto num_y = static_cast<size_t>(shape.num_sets * shape.max_y);
  const auto dim = static_cast<size_t>(shape.dim);
  x_ = RandomLibraryValues(shape.type, num_x * dim, shape.ties, seed);
  y_ = RandomLibraryValues(shape.type, num_y * dim, shape.ties, seed + 1);
  x_lengths_.assign(shape.num_sets, static_cast<int32_t>(shape.max_x));
  y_lengths_.assign(shape.num_sets, static_cast<int32_t>(shape.max_y));
  if (shape.lengths) {
    x_lengths_ = RandomLengths(x_lengths_.size(), shape.max_x, seed + 2);
    y_lengths_ = RandomLengths(y_lengths_.size(), shape.max_y, seed + 3);
    std::reverse(y_lengths_.begin(), y_lengths_.end());
    PoisonPadding(shape.type, dim, shape.max_x, x_lengths_, &x_);
    PoisonPadding(shape.type, dim, shape.max_y, y_lengths_, &y_);
  }
  std::mt19937_64 random(seed + 4);
  std::uniform_int_distribution<int> eighths(-8, 8);
  distance_gradients_.resize(num_x);
  for (float& gradient : distance_gradients_) gradient = static_cast<float>(eighths(random)) / 8;

  call_.struct_size = sizeof(call_);
  call_.device = device.device();
  call_.type = shape.type;
  call_.dim = shape.dim;
  call_.index_type = MAXSIM_INT32;
  call_.num_sets = shape.num_sets;
  call_.max_x = shape.max_x;
  call_.max_y = shape.max_y;
  call_.x = device.Upload(x_.elements);
  call_.y = device.Upload(y_.elements);
  call_.x_lengths = shape.lengths ? device.Upload(x_lengths_) : nullptr;
  call_.y_lengths = shape.lengths ? device.Upload(y_lengths_) : nullptr;
  call_.num_threads = shape.num_threads;
  call_.stream = device.stream();
  for (const int32_t pass : {MAXSIM_FORWARD, MAXSIM_BACKWARD}) {
    size_t bytes = 0;
    EXPECT_EQ(maxsim_nearest_workspace_bytes(&call_, pass, &bytes), MAXSIM_OK) << maxsim_last_error();
    call_.workspace_bytes = std::max(call_.workspace_bytes, bytes);
  }
  call_.workspace = device.Allocate(call_.workspace_bytes);
  distances_ = static_cast<float*>(device.Allocate(num_x * sizeof(float)));
  argmin_ = static_cast<int32_t*>(device.Allocate(num_x * sizeof(int32_t)));
  gradients_.struct_size = sizeof(gradients_);
  gradients_.argmin = argmin_;
  gradients_.distance_gradients = device.Upload(distance_gradients_);
  gradients_.x_gradients = device.Allocate(x_.elements.size());
  gradients_.y_gradients = device.Allocate(y_.elements.size());
}

void NearestCase::Forward() {
  EXPECT_EQ(maxsim_nearest(&call_, distances_, argmin_), MAXSIM_OK) << maxsim_last_error();
}

void NearestCase::Backward() {
  EXPECT_EQ(maxsim_nearest_backward(&call_, &gradients_), MAXSIM_OK) << maxsim_last_error();
}

NearestResults NearestCase::Results() {
  NearestResults results;
  results.distances = device_.Download<float>(distances_, distance_gradients_.size());
  results.argmin = device_.Download<int32_t>(argmin_, distance_gradients_.size());
  results.x_gradients = device_.Download<char>(gradients_.x_gradients, x_.elements.size());
  results.y_gradients = device_.Download<char>(gradients_.y_gradients, y_.elements.size());
  return results;
}

void NearestCase::Expect() {
  Forward();
  Backward();
  const NearestResults results = Results();
  ExpectDistances(results);
  ExpectGradients(results);
}

double NearestCase::Distance(int64_t x_row, int64_t y_row) const {
  double distance = 0;
  for (int32_t column = 0; column < shape_.dim; ++column) {
    const double difference = x_.values[x_row * shape_.dim + column] - y_.values[y_row * shape_.dim + column];
    distance += difference * difference;
  }
  return distance;
}

void NearestCase::ExpectDistances(const NearestResults& results) const {
  for (int64_t row = 0; row < shape_.num_sets * shape_.max_x; ++row) {
    const int64_t set = row / shape_.max_x;
    const int64_t num_y = y_lengths_[set];
    SCOPED_TRACE("row " + std::to_string(row));
    if (row % shape_.max_x >= x_lengths_[set]) {
      ASSERT_EQ(results.distances[row], 0);
      ASSERT_EQ(results.argmin[row], -1);
      continue;
    }
    double smallest = std::numeric_limits<double>::infinity();
    int64_t first = -1;
    for (int64_t y = 0; y < num_y; ++y) {
      const double distance = Distance(row, set * shape_.max_y + y);
      if (distance < smallest) {
        smallest = distance;
        first = y;
      }
    }
    const int32_t found = results.argmin[row];
    if (num_y == 0) {
      ASSERT_EQ(found, -1);
      ASSERT_EQ(results.distances[row], std::numeric_limits<float>::infinity());
      continue;
    }
    ASSERT_GE(found, 0);
    ASSERT_LT(found, num_y);
    const double allowed = 1e-6 * (smallest + 1e-30) * (4 + std::sqrt(shape_.dim));
    ASSERT_NEAR(results.distances[row], smallest, allowed);
    // With ties, all sums are exact, so the first of equally near points must be found. Otherwise rounding may choose
    // another one.
    if (shape_.ties) {
      ASSERT_EQ(found, first);
    } else {
      ASSERT_NEAR(Distance(row, set * shape_.max_y + found), smallest, allowed);
    }
  }
}

void NearestCase::ExpectGradients(const NearestResults& results) const {
  std::vector<double> x_expected(x_.values.size());
  std::vector<double> y_expected(y_.values.size());
  std::vector<double> y_magnitudes(y_.values.size());
  for (int64_t row = 0; row < shape_.num_sets * shape_.max_x; ++row) {
    const int64_t set = row / shape_.max_x;
    if (results.argmin[row] < 0) continue;
    const int64_t y_row = set * shape_.max_y + results.argmin[row];
    for (int32_t column = 0; column < shape_.dim; ++column) {
      const double difference = x_.values[row * shape_.dim + column] - y_.values[y_row * shape_.dim + column];
      const double term = 2 * distance_gradients_[row] * difference;
      x_expected[row * shape_.dim + column] = term;
      y_expected[y_row * shape_.dim + column] -= term;
      y_magnitudes[y_row * shape_.dim + column] += std::fabs(term);
    }
  }
  const double rounding = RoundingOf(shape_.type);
  const std::vector<double> x_found = WidenLibraryValues(shape_.type, results.x_gradients);
  for (size_t i = 0; i < x_found.size(); ++i) {
    ASSERT_NEAR(x_found[i], x_expected[i], (rounding + 1e-6) * std::fabs(x_expected[i]) + 1e-7) << "x gradient " << i;
  }
  const std::vector<double> y_found = WidenLibraryValues(shape_.type, results.y_gradients);
  for (size_t i = 0; i < y_found.size(); ++i) {
    const double allowed = rounding * std::fabs(y_expected[i]) + 1e-5 * y_magnitudes[i] + 1e-7;
    ASSERT_NEAR(y_found[i], y_expected[i], allowed) << "y gradient " << i;
  }
}

std::vector<NearestShape> NearestShapes() {
  std::vector<NearestShape> shapes;
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    for (const int32_t dim : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 300, 1025, 4096}) {
      const int64_t size = dim > 1000 ? 70 : 140;
      shapes.push_back({.type = type, .dim = dim, .num_sets = 3, .max_x = size, .max_y = size + 9, .lengths = true});
      shapes.push_back({.type = type, .dim = dim, .num_sets = 1, .max_x = 65, .max_y = 65, .ties = true});
    }
  }
  for (const int64_t size : {1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1025}) {
    for (const int32_t dim : {3, 8}) {
      shapes.push_back({.dim = dim, .num_sets = 2, .max_x = size, .max_y = 40, .ties = true});
      shapes.push_back({.dim = dim, .num_sets = 2, .max_x = 40, .max_y = size, .lengths = true, .ties = true});
    }
  }
  // Shapes without sets, shapes whose sets have no points, and many sets.
  shapes.push_back({.num_sets = 0});
  shapes.push_back({.num_sets = 2, .max_x = 0});
  shapes.push_back({.num_sets = 2, .max_y = 0});
  shapes.push_back({.num_sets = 300, .max_x = 17, .max_y = 19, .lengths = true});
  // With a single y, which is nearest to every x, the gradient of y is a long sum.
  shapes.push_back({.dim = 3, .max_x = 2000, .max_y = 1});
  shapes.push_back({.dim = 20, .max_x = 500, .max_y = 1});
  return shapes;
}

}  // namespace maxsim::test
