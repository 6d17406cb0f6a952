// Random calls of three-way attention (triadic.h) on any device, and their expected results, which FP64 loops compute.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/library/include/maxsim/triadic.h"
#include "tests/support/library/library_device.h"

namespace maxsim::test {

struct TriadicShape {
  int32_t type = MAXSIM_F32;
  int32_t dim = 16;
  int64_t num_problems = 1;
  int64_t num_queries = 3;
  int64_t max_first = 5;
  int64_t max_second = 7;
  bool lengths = false;
  int32_t num_threads = 0;
  double logit_deviation = 3;
  bool values_are_one = false;  // all values are 1, and so are the gradients of the output

  friend std::ostream& operator<<(std::ostream& out, const TriadicShape& shape);
};

// The output, the log-sum-exp (lse), and the gradients of queries, first keys, second keys, first values and second
// values, in this order and as bytes.
struct TriadicResults {
  std::vector<char> output;
  std::vector<float> lse;
  std::array<std::vector<char>, 5> gradients;
  friend bool operator==(const TriadicResults&, const TriadicResults&) = default;
};

// A call with its memory on a device. Rows beyond the lengths are NaN. By default, logits have a standard deviation of
// 3. Then a few pairs have most of the weight, so that a test fails if pairs are mixed up.
class TriadicCase {
 public:
  TriadicCase(LibraryDevice& device, const TriadicShape& shape, uint64_t seed);

  maxsim_triadic_call& call() { return call_; }

  // Put the passes on the device's stream.
  void Forward();
  void Backward();
  TriadicResults Results();

  // Runs both passes and compares them with FP64. `tolerance` is relative to the sum of the magnitudes of the terms.
  void Expect(double tolerance);

  // Runs both passes of a shape with values_are_one and without lengths, where the weights of each query add up to 1.
  // So each column of a gradient of values must add up to the number of queries.
  void ExpectWeightsToSumToOne();

 private:
  struct Expected {
    std::vector<double> output;
    std::vector<double> lse;
    std::array<std::vector<double>, 5> gradients;
    std::vector<double> output_magnitudes;
    std::array<std::vector<double>, 5> magnitudes;
  };
  Expected Reference() const;
  void AddQuery(int64_t problem, int64_t query_row, Expected* expected) const;
  void ExpectValues(const std::vector<char>& found, const std::vector<double>& expected,
                    const std::vector<double>& magnitudes, double tolerance, const char* name) const;

  LibraryDevice& device_;
  TriadicShape shape_;
  std::array<LibraryValues, 5> inputs_;  // in the order of TriadicResults::gradients
  LibraryValues output_gradients_;
  std::vector<int32_t> first_lengths_;
  std::vector<int32_t> second_lengths_;
  maxsim_triadic_call call_ = {};
  maxsim_triadic_gradients gradients_ = {};
  std::array<void*, 5> gradient_memory_ = {};
  void* output_;
  float* lse_;
};

// Returns the tolerance for a type. `rounded_products` says that products are rounded to the type, as on tensor cores.
double TriadicTolerance(int32_t type, bool rounded_products);

// Shapes that every device is tested with.
std::vector<TriadicShape> TriadicShapes();

// Shapes for ExpectWeightsToSumToOne, with logits of up to 50.
std::vector<TriadicShape> TriadicShapesOfLargeLogits();

// Random calls of three-way MaxSim.
struct TriadicMaxShape {
  int32_t type = MAXSIM_F32;
  int32_t dim = 16;
  int64_t num_problems = 1;
  int64_t max_queries = 3;
  int64_t max_first = 5;
  int64_t max_second = 7;
  bool lengths = false;
  bool ties = false;
  int32_t num_threads = 0;

  friend std::ostream& operator<<(std::ostream& out, const TriadicMaxShape& shape);
};

// The results of both passes. The gradients, as bytes, are those of queries, first keys and second keys, in this order.
struct TriadicMaxResults {
  std::vector<float> maxima;
  std::vector<int32_t> argmax;
  std::array<std::vector<char>, 3> gradients;
  friend bool operator==(const TriadicMaxResults&, const TriadicMaxResults&) = default;
};

// A call with its memory on a device. Rows beyond the lengths are NaN, so that a test fails if a call uses them.
class TriadicMaxCase {
 public:
  TriadicMaxCase(LibraryDevice& device, const TriadicMaxShape& shape, uint64_t seed);

  maxsim_triadic_max_call& call() { return call_; }

  // Put the passes on the device's stream.
  void Forward();
  void Backward();
  TriadicMaxResults Results();

  // Runs both passes and compares them with FP64.
  void Expect();

 private:
  double Contract(int64_t query_row, int64_t first_row, int64_t second_row, bool magnitude) const;
  void ExpectMaxima(const TriadicMaxResults& results) const;
  void ExpectGradients(const TriadicMaxResults& results) const;

  LibraryDevice& device_;
  TriadicMaxShape shape_;
  std::array<LibraryValues, 3> inputs_;
  std::array<std::vector<int32_t>, 3> lengths_;
  std::array<int64_t, 3> max_rows_;
  std::vector<float> maximum_gradients_;
  maxsim_triadic_max_call call_ = {};
  maxsim_triadic_max_gradients gradients_ = {};
  std::array<void*, 3> gradient_memory_ = {};
  float* maxima_;
  int32_t* argmax_;
};

// Shapes that every device is tested with.
std::vector<TriadicMaxShape> TriadicMaxShapes();

}  // namespace maxsim::test
