// Makes seeded random documents and queries for tests. They own their memory and have views to hand to the code under
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim::test {

// Returns the seed that tests start from: MAXSIM_TEST_SEED where it is set, otherwise a fixed one. Put SeedTrace in a
// SCOPED_TRACE, so that a failure says how to repeat it.
uint64_t TestSeed();
std::string SeedTrace(uint64_t seed);

// Allocates at 64-byte boundaries, and exactly as much as asked, so that AddressSanitizer sees a read past the end.
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

// Holds a matrix of token vectors in its own memory. The values of an I8 matrix are its elements, without any scale.
// Rows of residual codes are bytes (RowBytes) without values: Row, SetRow and Set are not for them.
class TokenMatrix {
 public:
  TokenMatrix() = default;

  // Makes a matrix of zeros. Its first element lies `misalignment` bytes (an even number) past a 64-byte boundary.
  TokenMatrix(ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

  ScalarType type() const { return type_; }
  int32_t dim() const { return dim_; }
  int64_t num_tokens() const { return num_tokens_; }
  const void* data() const { return memory_.data() + start_; }
  void* data() { return memory_.data() + start_; }
  const void* row(int64_t token) const;

  // Returns the values of a row, widened exactly to FP32. What is set below is rounded to the stored type.
  std::vector<float> Row(int64_t token) const;
  void SetRow(int64_t token, absl::Span<const float> values);
  void Set(int64_t token, int32_t column, float value);
  void CopyRow(const TokenMatrix& from, int64_t from_token, int64_t token);
  void* MutableRow(int64_t token);

  // Makes every value of rows `begin` .. `end` one that must not be read: NaN, or in I8 the largest element, of one
  // sign in even rows and of the other in odd ones. Residual codes get the last centroid, which is NaN in tests.
  void Poison(int64_t begin, int64_t end);

 private:
  ScalarType type_ = ScalarType::kF32;
  int32_t dim_ = 0;
  int64_t num_tokens_ = 0;
  size_t start_ = 0;
  std::vector<std::byte, CacheLineAllocator<std::byte>> memory_;
};

// Returns a matrix of L2-normalised gaussian rows.
TokenMatrix RandomTokens(uint64_t seed, ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

struct RandomDocuments {
  TokenMatrix tokens;
  std::vector<int64_t> offsets;
  std::vector<float> scales = {};  // I8: [num_documents]; else empty
  uint64_t rotation_seed = 0;      // of the rotation that I8 documents have, or would get
  // These are of residual codes; else empty. The last centroid is NaN and of no token that is not poisoned.
  std::vector<uint16_t> centroids = {};  // F16 [num_centroids, dim]
  std::vector<float> bucket_weights = {};

  int64_t num_documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t length(int64_t document) const { return offsets[document + 1] - offsets[document]; }
  DocumentsView view() const;

  // Makes a document one that must not be read: its rows by TokenMatrix::Poison, its scale NaN.
  void Poison(int64_t document);
};

// Returns whether `type` can store vectors of `dim` columns (residual codes: TakesResidualDim).
constexpr bool TakesDim(ScalarType type, int32_t dim) { return !IsResidual(type) || TakesResidualDim(type, dim); }

// Makes one document for each of `lengths`, which are token counts. I8 documents are gaussian rows that are quantised,
// residual codes are those of gaussian rows.
RandomDocuments MakeDocuments(uint64_t seed, ScalarType type, int32_t dim, absl::Span<const int64_t> lengths,
                              size_t misalignment = 0);

// Returns the F32 documents `values` in another type: rounded, rotated and quantised for I8, or as residual codes,
// which are coarse: 7 centroids and weights in -0.3 .. 0.3.
RandomDocuments Stored(const RandomDocuments& values, ScalarType type, size_t misalignment = 0);

// Returns `count` lengths between `shortest` and `longest`.
std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count, int64_t shortest, int64_t longest);

struct RandomQuery {
  TokenMatrix tokens;          // in QueryType of the documents' type
  std::vector<float> weights;  // empty: none

  // Borrows this object's memory, and that of `ordinals`. Asks for the whole set when `ordinals` is null.
  Query view(int32_t top_k, const std::vector<uint32_t>* ordinals = nullptr) const;
};

// Returns a query for documents of a type.
RandomQuery MakeQuery(uint64_t seed, ScalarType type, int32_t dim, int32_t num_tokens, size_t misalignment = 0);

// Returns weights of every kind: zero, one, negative, fractions, large.
std::vector<float> MixedWeights(uint64_t seed, int32_t num_tokens);

}  // namespace maxsim::test
