// Seeded random documents and queries for tests, owned, with views to hand to the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim::test {

// The seed tests start from: MAXSIM_TEST_SEED where it is set, otherwise a fixed one. Put SeedTrace in a SCOPED_TRACE,
// so that a failure says how to repeat it.
uint64_t TestSeed();
std::string SeedTrace(uint64_t seed);

// Allocates at 64-byte boundaries, and exactly as much as asked: AddressSanitizer sees a read past the end.
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

// A matrix of token vectors with its own memory. Values of I8 are its elements, without any scale.
class TokenMatrix {
 public:
  TokenMatrix() = default;

  // Zeros. The first element lies `misalignment` bytes (even) past a 64-byte boundary.
  TokenMatrix(ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

  ScalarType type() const { return type_; }
  int32_t dim() const { return dim_; }
  int64_t num_tokens() const { return num_tokens_; }
  const void* data() const { return memory_.data() + start_; }
  void* data() { return memory_.data() + start_; }
  const void* row(int64_t token) const;

  // Values as FP32, widened exactly; the others round to the stored type.
  std::vector<float> Row(int64_t token) const;
  void SetRow(int64_t token, absl::Span<const float> values);
  void Set(int64_t token, int32_t column, float value);
  void CopyRow(const TokenMatrix& from, int64_t from_token, int64_t token);

  // Every value of rows `begin` .. `end` becomes one that must not be read: NaN, or in I8 the largest element, of one
  // sign in even rows and of the other in odd ones.
  void Poison(int64_t begin, int64_t end);

 private:
  void* MutableRow(int64_t token);

  ScalarType type_ = ScalarType::kF32;
  int32_t dim_ = 0;
  int64_t num_tokens_ = 0;
  size_t start_ = 0;
  std::vector<std::byte, CacheLineAllocator<std::byte>> memory_;
};

// A matrix of L2-normalised gaussian rows.
TokenMatrix RandomTokens(uint64_t seed, ScalarType type, int32_t dim, int64_t num_tokens, size_t misalignment = 0);

struct RandomDocuments {
  TokenMatrix tokens;
  std::vector<int64_t> offsets;
  std::vector<float> scales = {};  // I8 alone: a scale a document
  uint64_t rotation_seed = 0;      // of the rotation that I8 documents have, or would get

  int64_t num_documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t length(int64_t document) const { return offsets[document + 1] - offsets[document]; }
  DocumentsView view() const;

  // A document that must not be read: its rows as TokenMatrix::Poison says, its scale NaN.
  void Poison(int64_t document);
};

// One document for each of `lengths`, which are token counts. I8: gaussian rows, quantised.
RandomDocuments MakeDocuments(uint64_t seed, ScalarType type, int32_t dim, absl::Span<const int64_t> lengths,
                              size_t misalignment = 0);

// The F32 documents `values` in another type: rounded, or rotated and quantised for I8.
RandomDocuments Stored(const RandomDocuments& values, ScalarType type, size_t misalignment = 0);

// `count` lengths between `shortest` and `longest`.
std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count, int64_t shortest, int64_t longest);

struct RandomQuery {
  TokenMatrix tokens;          // in QueryType of the documents' type
  std::vector<float> weights;  // empty: none

  // Borrows this object's memory, and that of `ordinals`. Scores the whole set when `ordinals` is null.
  Query view(int32_t top_k, const std::vector<uint32_t>* ordinals = nullptr) const;
};

// A query for documents of a type.
RandomQuery MakeQuery(uint64_t seed, ScalarType type, int32_t dim, int32_t num_tokens, size_t misalignment = 0);

// Weights of every kind: zero, one, negative, fractions, large.
std::vector<float> MixedWeights(uint64_t seed, int32_t num_tokens);

}  // namespace maxsim::test
