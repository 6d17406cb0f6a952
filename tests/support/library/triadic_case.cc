#include "tests/support/library/triadic_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/scalar_type.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

void FillWithOne(int32_t type, LibraryValues* values) {
  std::fill(values->values.begin(), values->values.end(), 1.0);
  const std::vector<float> ones(values->values.size(), 1.0f);
  ConvertElements(ScalarType::kF32, ones.data(), static_cast<ScalarType>(type), values->elements.data(), ones.size());
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const TriadicShape& shape) {
  return out << "type " << shape.type << ", dim " << shape.dim << ", " << shape.num_problems << " problems of "
             << shape.num_queries << " x " << shape.max_first << " x " << shape.max_second
             << (shape.lengths ? ", lengths" : "");
}

TriadicCase::TriadicCase(LibraryDevice& device, const TriadicShape& shape, uint64_t seed)
    : device_(device), shape_(shape) {
  const auto dim = static_cast<size_t>(shape.dim);
  const auto problems = static_cast<size_t>(shape.num_problems);
  const std::array<int64_t, 5> rows = {shape.num_queries, shape.max_first, shape.max_second, shape.max_first,
                                       shape.max_second};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i] = RandomLibraryValues(shape.type, problems * rows[i] * dim, false, seed + i);
  }
  output_gradients_ = RandomLibraryValues(shape.type, problems * shape.num_queries * dim, false, seed + 5);
  if (shape.values_are_one) {
    for (LibraryValues* values : {&inputs_[3], &inputs_[4], &output_gradients_}) FillWithOne(shape.type, values);
  }
  first_lengths_.assign(problems, static_cast<int32_t>(shape.max_first));
  second_lengths_.assign(problems, static_cast<int32_t>(shape.max_second));
  if (shape.lengths) {
    first_lengths_ = RandomLengths(problems, shape.max_first, seed + 6);
    second_lengths_ = RandomLengths(problems, shape.max_second, seed + 7);
    std::reverse(second_lengths_.begin(), second_lengths_.end());
    for (const size_t i : {1, 3}) PoisonPadding(shape.type, dim, shape.max_first, first_lengths_, &inputs_[i]);
    for (const size_t i : {2, 4}) PoisonPadding(shape.type, dim, shape.max_second, second_lengths_, &inputs_[i]);
  }
  call_.struct_size = sizeof(call_);
  call_.device = device.device();
  call_.type = shape.type;
  call_.dim = shape.dim;
  call_.index_type = MAXSIM_INT32;
  call_.num_problems = shape.num_problems;
  call_.num_queries = shape.num_queries;
  call_.max_first = shape.max_first;
  call_.max_second = shape.max_second;
  call_.queries = device.Upload(inputs_[0].elements);
  call_.first_keys = device.Upload(inputs_[1].elements);
  call_.second_keys = device.Upload(inputs_[2].elements);
  call_.first_values = device.Upload(inputs_[3].elements);
  call_.second_values = device.Upload(inputs_[4].elements);
  call_.first_lengths = shape.lengths ? device.Upload(first_lengths_) : nullptr;
  call_.second_lengths = shape.lengths ? device.Upload(second_lengths_) : nullptr;
  call_.scale = static_cast<float>(shape.logit_deviation / std::sqrt(shape.dim));
  call_.num_threads = shape.num_threads;
  call_.stream = device.stream();
  for (const int32_t pass : {MAXSIM_FORWARD, MAXSIM_BACKWARD}) {
    size_t bytes = 0;
    EXPECT_EQ(maxsim_triadic_workspace_bytes(&call_, pass, &bytes), MAXSIM_OK) << maxsim_last_error();
    call_.workspace_bytes = std::max(call_.workspace_bytes, bytes);
  }
  call_.workspace = device.Allocate(call_.workspace_bytes);
  output_ = device.Allocate(output_gradients_.elements.size());
  lse_ = static_cast<float*>(device.Allocate(problems * shape.num_queries * sizeof(float)));
  for (size_t i = 0; i < inputs_.size(); ++i) gradient_memory_[i] = device.Allocate(inputs_[i].elements.size());
  gradients_ = {.struct_size = sizeof(gradients_),
                .output = output_,
                .lse = lse_,
                .output_gradients = device.Upload(output_gradients_.elements),
                .query_gradients = gradient_memory_[0],
                .first_key_gradients = gradient_memory_[1],
                .second_key_gradients = gradient_memory_[2],
                .first_value_gradients = gradient_memory_[3],
                .second_value_gradients = gradient_memory_[4]};
}

void TriadicCase::Forward() { EXPECT_EQ(maxsim_triadic(&call_, output_, lse_), MAXSIM_OK) << maxsim_last_error(); }

void TriadicCase::Backward() {
  EXPECT_EQ(maxsim_triadic_backward(&call_, &gradients_), MAXSIM_OK) << maxsim_last_error();
}

TriadicResults TriadicCase::Results() {
  TriadicResults results;
  results.output = device_.Download<char>(output_, output_gradients_.elements.size());
  results.lse = device_.Download<float>(lse_, static_cast<size_t>(shape_.num_problems * shape_.num_queries));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    results.gradients[i] = device_.Download<char>(gradient_memory_[i], inputs_[i].elements.size());
  }
  return results;
}

// Adds the output of a query, and the query's contribution to every gradient.
void TriadicCase::AddQuery(int64_t problem, int64_t query_row, Expected* expected) const {
  const int64_t dim = shape_.dim;
  const int64_t num_first = first_lengths_[problem];
  const int64_t num_second = second_lengths_[problem];
  const double* const query = inputs_[0].values.data() + query_row * dim;
  const double* const gradient = output_gradients_.values.data() + query_row * dim;
  const auto row = [&](size_t input, int64_t max_rows, int64_t idx) {
    return inputs_[input].values.data() + (problem * max_rows + idx) * dim;
  };
  std::vector<double> weights(static_cast<size_t>(num_first * num_second));
  double maximum = -std::numeric_limits<double>::infinity();
  for (int64_t pair = 0; pair < num_first * num_second; ++pair) {
    const double* const first = row(1, shape_.max_first, pair / num_second);
    const double* const second = row(2, shape_.max_second, pair % num_second);
    double logit = 0;
    for (int64_t c = 0; c < dim; ++c) logit += query[c] * first[c] * second[c];
    weights[pair] = call_.scale * logit;
    maximum = std::max(maximum, weights[pair]);
  }
  double denominator = 0;
  for (double& weight : weights) denominator += weight = std::exp(weight - maximum);
  expected->lse[query_row] = weights.empty() ? maximum : maximum + std::log(denominator);
  double delta = 0;
  std::vector<double> weight_gradients(weights.size());
  for (int64_t pair = 0; pair < num_first * num_second; ++pair) {
    const double* const first = row(3, shape_.max_first, pair / num_second);
    const double* const second = row(4, shape_.max_second, pair % num_second);
    weights[pair] /= denominator;
    for (int64_t c = 0; c < dim; ++c) {
      const double term = weights[pair] * first[c] * second[c];
      expected->output[query_row * dim + c] += term;
      expected->output_magnitudes[query_row * dim + c] += std::fabs(term);
      weight_gradients[pair] += gradient[c] * first[c] * second[c];
    }
    delta += weights[pair] * weight_gradients[pair];
  }
  double delta_magnitude = 0;
  for (int64_t c = 0; c < dim; ++c) delta_magnitude += std::fabs(gradient[c] * expected->output[query_row * dim + c]);
  for (int64_t pair = 0; pair < num_first * num_second; ++pair) {
    const int64_t first_idx = pair / num_second;
    const int64_t second_idx = pair % num_second;
    const double logit_gradient = call_.scale * weights[pair] * (weight_gradients[pair] - delta);
    const double magnitude = call_.scale * weights[pair] * (std::fabs(weight_gradients[pair]) + delta_magnitude);
    for (int64_t c = 0; c < dim; ++c) {
      const double key[2] = {row(1, shape_.max_first, first_idx)[c], row(2, shape_.max_second, second_idx)[c]};
      const double value[2] = {row(3, shape_.max_first, first_idx)[c], row(4, shape_.max_second, second_idx)[c]};
      const int64_t at[5] = {query_row * dim + c, (problem * shape_.max_first + first_idx) * dim + c,
                             (problem * shape_.max_second + second_idx) * dim + c,
                             (problem * shape_.max_first + first_idx) * dim + c,
                             (problem * shape_.max_second + second_idx) * dim + c};
      const double factors[5] = {key[0] * key[1], query[c] * key[1], query[c] * key[0], gradient[c] * value[1],
                                 gradient[c] * value[0]};
      for (size_t i = 0; i < 5; ++i) {
        expected->gradients[i][at[i]] += (i < 3 ? logit_gradient : weights[pair]) * factors[i];
        expected->magnitudes[i][at[i]] += std::fabs((i < 3 ? magnitude : weights[pair]) * factors[i]);
      }
    }
  }
}

TriadicCase::Expected TriadicCase::Reference() const {
  Expected expected;
  expected.output.resize(output_gradients_.values.size());
  expected.output_magnitudes.resize(output_gradients_.values.size());
  expected.lse.resize(static_cast<size_t>(shape_.num_problems * shape_.num_queries));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    expected.gradients[i].resize(inputs_[i].values.size());
    expected.magnitudes[i].resize(inputs_[i].values.size());
  }
  for (int64_t row = 0; row < shape_.num_problems * shape_.num_queries; ++row) {
    AddQuery(row / shape_.num_queries, row, &expected);
  }
  return expected;
}

void TriadicCase::ExpectValues(const std::vector<char>& found, const std::vector<double>& expected,
                               const std::vector<double>& magnitudes, double tolerance, const char* name) const {
  const std::vector<double> values = WidenLibraryValues(shape_.type, found);
  for (size_t i = 0; i < values.size(); ++i) {
    // The error of an element is bounded by the largest magnitude in its row, because a wrong weight changes all
    // columns of the row.
    const size_t row = i / shape_.dim * shape_.dim;
    const double largest = *std::max_element(magnitudes.begin() + static_cast<std::ptrdiff_t>(row),
                                             magnitudes.begin() + static_cast<std::ptrdiff_t>(row) + shape_.dim);
    const double allowed = RoundingOf(shape_.type) * std::fabs(expected[i]) + tolerance * largest + 1e-7;
    ASSERT_NEAR(values[i], expected[i], allowed) << name << ", row " << i / shape_.dim << ", column " << i % shape_.dim;
  }
}

void TriadicCase::Expect(double tolerance) {
  Forward();
  Backward();
  const TriadicResults results = Results();
  const Expected expected = Reference();
  for (size_t row = 0; row < expected.lse.size(); ++row) {
    if (std::isinf(expected.lse[row])) {
      ASSERT_EQ(results.lse[row], expected.lse[row]) << "lse of row " << row;
    } else {
      ASSERT_NEAR(results.lse[row], expected.lse[row], 10 * tolerance) << "lse of row " << row;
    }
  }
  ExpectValues(results.output, expected.output, expected.output_magnitudes, tolerance, "output");
  constexpr const char* kNames[5] = {"queries", "first keys", "second keys", "first values", "second values"};
  for (size_t i = 0; i < 5; ++i) {
    // The gradients of queries and keys (i < 3) depend on the forward pass's output. The backward pass reads this
    // output rounded to 16 bits, but the reference uses the exact output. So the allowed error is larger.
    const double rounded = i < 3 ? 4 * RoundingOf(shape_.type) : 0;
    ExpectValues(results.gradients[i], expected.gradients[i], expected.magnitudes[i], tolerance + rounded, kNames[i]);
  }
}

void TriadicCase::ExpectWeightsToSumToOne() {
  Forward();
  Backward();
  const TriadicResults results = Results();
  const double expected = static_cast<double>(shape_.num_queries);
  // Tensor cores round the weights, and gradients are rounded when they are written.
  const double tolerance = expected * (4 * RoundingOf(shape_.type) + 1e-4);
  for (const size_t i : {3, 4}) {
    const std::vector<double> values = WidenLibraryValues(shape_.type, results.gradients[i]);
    const int64_t problem_values = (i == 3 ? shape_.max_first : shape_.max_second) * shape_.dim;
    for (int64_t problem = 0; problem < shape_.num_problems; ++problem) {
      for (int64_t column = 0; column < shape_.dim; ++column) {
        double sum = 0;
        for (int64_t at = column; at < problem_values; at += shape_.dim) sum += values[problem * problem_values + at];
        ASSERT_NEAR(sum, expected, tolerance) << (i == 3 ? "first" : "second") << " values, column " << column;
      }
    }
  }
}

double TriadicTolerance(int32_t type, bool rounded_products) {
  // A logit is a sum of up to 128 products with magnitudes up to tens. An absolute error of a logit is a relative error
  // of its weight. The error of the sum by which weights are divided is as large. With products rounded to BF16, each
  // of the two errors is up to 3e-2.
  if (type == MAXSIM_F32 || !rounded_products) return 5e-5;
  return type == MAXSIM_F16 ? 7.5e-3 : 6e-2;
}

std::vector<TriadicShape> TriadicShapesOfLargeLogits() {
  std::vector<TriadicShape> shapes;
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    if (type == MAXSIM_BF16 && kSanitized) continue;  // reads the same memory as F16
    for (const int32_t dim : {1, 8, 20, 32, 33, 64, 65, 128}) {
      TriadicShape shape = {.type = type, .dim = dim, .num_problems = 2, .num_queries = 4, .max_first = 18};
      shape.max_second = 35;
      shape.logit_deviation = 15;
      shape.values_are_one = true;
      shapes.push_back(shape);
      shape.max_first = 130;
      shape.max_second = 70;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<TriadicShape> TriadicShapes() {
  std::vector<TriadicShape> shapes;
  for (const int32_t type : {MAXSIM_F32, MAXSIM_F16, MAXSIM_BF16}) {
    if (type == MAXSIM_BF16 && kSanitized) continue;  // reads the same memory as F16
    for (const int32_t dim : {1, 7, 8, 15, 16, 20, 31, 32, 33, 63, 64, 65, 72, 96, 127, 128}) {
      TriadicShape shape = {.type = type, .dim = dim, .num_problems = 2, .num_queries = 3};
      shape.max_first = 18;
      shape.max_second = 35;
      shapes.push_back(shape);
      shape.num_problems = 4;
      shape.lengths = true;
      shapes.push_back(shape);
    }
    for (const int64_t size : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130, 193}) {
      shapes.push_back({.type = type, .dim = 8, .num_queries = 2, .max_first = size, .max_second = 9});
      shapes.push_back({.type = type, .dim = 40, .num_queries = 2, .max_first = 9, .max_second = size});
      shapes.push_back({.type = type, .dim = 16, .num_queries = size, .max_first = 3, .max_second = 5});
    }
    shapes.push_back({.type = type, .dim = 64, .num_queries = 20, .max_first = 70, .max_second = 66});
  }
  // Shapes without problems, and shapes whose problems have no queries or no keys.
  shapes.push_back({.num_problems = 0});
  shapes.push_back({.num_queries = 0});
  shapes.push_back({.max_first = 0});
  shapes.push_back({.type = MAXSIM_BF16, .max_second = 0});
  return shapes;
}

}  // namespace maxsim::test
