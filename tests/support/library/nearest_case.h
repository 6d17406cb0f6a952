// Random calls of the nearest-point operator (nearest.h) on any device, and their expected results, which FP64 loops
// compute.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/library/include/maxsim/nearest.h"
#include "tests/support/library/library_device.h"

namespace maxsim::test {

struct NearestShape {
  int32_t type = MAXSIM_F32;
  int32_t dim = 3;
  int64_t num_sets = 1;
  int64_t max_x = 5;
  int64_t max_y = 7;
  bool lengths = false;
  bool ties = false;
  int32_t num_threads = 0;

  friend std::ostream& operator<<(std::ostream& out, const NearestShape& shape);
};

// The results of both passes, as bytes.
struct NearestResults {
  std::vector<float> distances;
  std::vector<int32_t> argmin;
  std::vector<char> x_gradients;
  std::vector<char> y_gradients;
  friend bool operator==(const NearestResults&, const NearestResults&) = default;
};

// A call with its memory on a device. Points beyond a set's length are NaN, so that a test fails if a call uses them.
class NearestCase {
 public:
  NearestCase(LibraryDevice& device, const NearestShape& shape, uint64_t seed);

  maxsim_nearest_call& call() { return call_; }

  // These functions launch one pass on the device's stream. They first fill the memory that the pass writes with
  // garbage.
  void Forward();
  void Backward();
  NearestResults Results();

  // Runs both passes and compares them with FP64.
  void Expect();

 private:
  void ExpectDistances(const NearestResults& results) const;
  void ExpectGradients(const NearestResults& results) const;
  double Distance(int64_t x_row, int64_t y_row) const;

  LibraryDevice& device_;
  NearestShape shape_;
  LibraryValues x_;
  LibraryValues y_;
  std::vector<int32_t> x_lengths_;  // always set; passed to the library only if the shape has lengths
  std::vector<int32_t> y_lengths_;
  std::vector<float> distance_gradients_;
  maxsim_nearest_call call_ = {};
  maxsim_nearest_gradients gradients_ = {};
  float* distances_;
  int32_t* argmin_;
};

// Returns the shapes that are tested on every device.
std::vector<NearestShape> NearestShapes();

}  // namespace maxsim::test
