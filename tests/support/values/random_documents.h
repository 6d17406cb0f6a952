// Makes random documents and queries from a seed. The objects own their memory and return views of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim::test {

// Returns the seed for random data in tests: MAXSIM_TEST_SEED if it is set, otherwise a fixed one. Use
// SCOPED_TRACE(SeedTrace(seed)), so that a failure shows the seed.
uint64_t TestSeed();
std::string SeedTrace(uint64_t seed);

// Allocates exactly the requested size, at 64-byte boundaries, so that AddressSanitizer reports a read past the end.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  CacheLineAllocator() = default;
  template <typename U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}  // NOLINT(google-explicit-constructor): required of allocators
  T* allocate(size_t count) { return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* memory, size_t) { ::operator delete (memory, std::align_val_t{64}); }
  friend bool operator==(const CacheLineAllocator&, const CacheLineAllocator&) { return true; }
};

// A matrix of token vectors with its own memory. The values of an I8 matrix are its elements, without a scale. Do not
// call Row, SetRow and Set for residual codes, which have only bytes (RowBytes) and no values.
class TokenMatrix {
 public:
  TokenMatrix();

  // Makes a matrix of zeros. Its first element is `misalignment` bytes (an even number) after a 64-byte boundary.
  TokenMatrix(ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

  // Defined in the .cc file, which is optimised. In unoptimised tests, copies of a std::vector with its own allocator
  // would take one function call per byte.
  TokenMatrix(const TokenMatrix&);
  TokenMatrix(TokenMatrix&&) noexcept;
  TokenMatrix& operator=(const TokenMatrix&);
  TokenMatrix& operator=(TokenMatrix&&) noexcept;
  ~TokenMatrix();

  ScalarType type() const { return type_; }
  int32_t dim() const { return dim_; }
  int64_t num_tokens() const { return num_tokens_; }
  const void* data() const { return memory_.data() + start_; }
  void* data() { return memory_.data() + start_; }
  const void* row(int64_t token) const;

  // Returns the values of a row, widened exactly to FP32. SetRow and Set round values to the stored type.
  std::vector<float> Row(int64_t token) const;
  void SetRow(int64_t token, absl::Span<const float> values);
  void Set(int64_t token, int32_t column, float value);
  void CopyRow(const TokenMatrix& from, int64_t from_token, int64_t token);
  void* MutableRow(int64_t token);

  // Fills rows `begin` to `end` - 1 with values that the code under test must not read: NaN or, in I8, the largest
  // element, positive in even rows and negative in odd ones. Residual codes get the last centroid, which is NaN.
  void Poison(int64_t begin, int64_t end);

 private:
  ScalarType type_ = ScalarType::kF32;
  int32_t dim_ = 0;
  int64_t num_tokens_ = 0;
  size_t start_ = 0;
  std::vector<std::byte, CacheLineAllocator<std::byte>> memory_;
};

// A random number generator (SplitMix64) that is faster than those of the standard library.
class FastRandom {
 public:
  explicit FastRandom(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
  }

  // Returns a nearly normally distributed number with mean 0 and variance 1: the sum of four uniform numbers. It is
  // much faster than std::normal_distribution, which took a quarter of the time of the kernel tests.
  float Normal() {
    constexpr float kFactor = 1.7320508f / 65536;  // a uniform number below 65536 has the variance 65536 * 65536 / 12
    const uint64_t bits = Bits();
    const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return kFactor * static_cast<float>(static_cast<int64_t>(sum) - 2 * 65535);
  }

 private:
  uint64_t state_;
};

// Returns a matrix of L2-normalised rows of normally distributed values.
TokenMatrix RandomTokens(uint64_t seed, ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

struct RandomDocuments {
  TokenMatrix tokens;
  std::vector<int64_t> offsets;
  std::vector<float> scales = {};  // I8: [num_documents]; else empty
  // The seed of the rotation of I8 documents. For other types, the seed that Stored uses when it converts them to I8.
  uint64_t rotation_seed = 0;
  // For residual codes, otherwise empty. The last centroid is NaN, and only poisoned tokens use it.
  std::vector<uint16_t> centroids = {};  // F16 [num_centroids, dim]
  std::vector<float> bucket_weights = {};

  int64_t num_documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t length(int64_t document) const { return offsets[document + 1] - offsets[document]; }
  DocumentsView view() const;

  // Overwrites a document that the code under test must not read: its rows as TokenMatrix::Poison does, its scale with
  // NaN.
  void Poison(int64_t document);
};

// Returns whether vectors of `dim` columns can be stored as `type`. Only residual codes restrict `dim`.
constexpr bool TakesDim(ScalarType type, int32_t dim) { return !IsResidual(type) || TakesResidualDim(type, dim); }

// Makes one document for each of `lengths`, which are token counts. Values are normally distributed, then quantised for
// I8 or encoded for residual codes.
RandomDocuments MakeDocuments(uint64_t seed, ScalarType type, int32_t dim, absl::Span<const int64_t> lengths,
                              size_t misalignment = 0);

// Returns the F32 documents `values` in another type: rounded, rotated and quantised for I8, or as residual codes. The
// residual codes are coarse, with 7 centroids and bucket weights from -0.3 to 0.3.
RandomDocuments Stored(const RandomDocuments& values, ScalarType type, size_t misalignment = 0);

// Returns `count` lengths between `shortest` and `longest`.
std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count, int64_t shortest, int64_t longest);

struct RandomQuery {
  TokenMatrix tokens;          // in QueryType of the documents' type
  std::vector<float> weights;  // empty: none

  // Returns a query that points into the memory of this object and of `ordinals`. If `ordinals` is null, all documents
  // are candidates.
  Query view(int32_t top_k, const std::vector<uint32_t>* ordinals = nullptr) const;
};

// Returns a query for documents of a type.
RandomQuery MakeQuery(uint64_t seed, ScalarType type, int32_t dim, int32_t num_tokens, size_t misalignment = 0);

// Returns weights of every kind: zero, one, negative, fractions, large.
std::vector<float> MixedWeights(uint64_t seed, int32_t num_tokens);

}  // namespace maxsim::test
