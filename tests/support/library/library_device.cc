#include "tests/support/library/library_device.h"

#include <random>

#include "kernels/scalar_type.h"

namespace maxsim::test {

LibraryValues RandomLibraryValues(int32_t type, size_t count, bool ties, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> small(-2, 2);
  std::vector<float> values(count);
  for (float& value : values) value = ties ? static_cast<float>(small(random)) : normal(random);
  LibraryValues result;
  result.elements.resize(count * SizeOf(static_cast<ScalarType>(type)));
  ConvertElements(ScalarType::kF32, values.data(), static_cast<ScalarType>(type), result.elements.data(), count);
  result.values = WidenLibraryValues(type, result.elements);
  return result;
}

void PoisonPadding(int32_t type, size_t dim, int64_t max_rows, const std::vector<int32_t>& lengths,
                   LibraryValues* values) {
  const size_t row_bytes = dim * SizeOf(static_cast<ScalarType>(type));
  for (size_t set = 0; set < lengths.size(); ++set) {
    const auto begin = static_cast<size_t>(static_cast<int64_t>(set) * max_rows + lengths[set]) * row_bytes;
    std::memset(values->elements.data() + begin, 0xff, static_cast<size_t>(max_rows - lengths[set]) * row_bytes);
  }
}

std::vector<double> WidenLibraryValues(int32_t type, const std::vector<char>& elements) {
  std::vector<float> values(elements.size() / SizeOf(static_cast<ScalarType>(type)));
  ConvertElements(static_cast<ScalarType>(type), elements.data(), ScalarType::kF32, values.data(), values.size());
  return {values.begin(), values.end()};
}

std::vector<int32_t> RandomLengths(size_t count, int64_t max_length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int32_t> length(0, static_cast<int32_t>(max_length));
  std::vector<int32_t> lengths(count);
  for (int32_t& value : lengths) value = length(random);
  if (count > 0) lengths[0] = static_cast<int32_t>(max_length);
  if (count > 1) lengths[1] = 0;
  return lengths;
}

double RoundingOf(int32_t type) { return type == MAXSIM_F32 ? 0 : type == MAXSIM_F16 ? 1.0 / 2048 : 1.0 / 256; }

}  // namespace maxsim::test
