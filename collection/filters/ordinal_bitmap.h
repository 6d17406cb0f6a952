// Sets of documents of a shard, as Roaring bitmaps of their ordinals (https://roaringbitmap.org).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

struct roaring_bitmap_s;

namespace maxsim::collection {

// A set of ordinals below 2^32. Reading is thread-safe. Throws std::bad_alloc if there is not enough memory.
class OrdinalBitmap {
 public:
  OrdinalBitmap();  // the empty set
  ~OrdinalBitmap();
  OrdinalBitmap(OrdinalBitmap&& other) noexcept;
  OrdinalBitmap& operator=(OrdinalBitmap&& other) noexcept;

  // Returns 0 .. num_ordinals - 1.
  static OrdinalBitmap All(int64_t num_ordinals);
  // Takes ordinals in ascending order.
  static OrdinalBitmap FromSorted(absl::Span<const uint32_t> ordinals);
  // Returns the set of a mask: it has ordinal 64 * w + i if bit i of word w is set.
  static OrdinalBitmap FromMask(absl::Span<const uint64_t> words);
  OrdinalBitmap Clone() const;

  void IntersectWith(const OrdinalBitmap& other);
  void UniteWith(const OrdinalBitmap& other);
  void Subtract(const OrdinalBitmap& other);
  // Replaces the set by those of the ordinals 0 .. num_ordinals - 1 that it does not have. All its ordinals must be
  // below `num_ordinals`.
  void Complement(int64_t num_ordinals);

  bool empty() const { return size() == 0; }
  int64_t size() const;
  bool Contains(uint32_t ordinal) const;
  std::vector<uint32_t> ToVector() const;  // ascending
  // Returns the set as a mask of `num_ordinals` bits (FromMask). Every ordinal must be below `num_ordinals`.
  std::vector<uint64_t> ToMask(int64_t num_ordinals) const;
  // Calls `take` with all ordinals in ascending order, some thousand at a time.
  void ForEachBlock(absl::FunctionRef<void(absl::Span<const uint32_t>)> take) const;

  // Reduces the memory that the set takes. Call it for sets that are kept for long.
  void Compress();

  // Returns about how many bytes of memory the set takes.
  int64_t memory_bytes() const;

  friend bool operator==(const OrdinalBitmap& a, const OrdinalBitmap& b) { return a.EqualTo(b); }

 private:
  explicit OrdinalBitmap(roaring_bitmap_s* bitmap);
  bool EqualTo(const OrdinalBitmap& other) const;

  struct Free {
    void operator()(roaring_bitmap_s* bitmap) const;
  };
  std::unique_ptr<roaring_bitmap_s, Free> bitmap_;
};

}  // namespace maxsim::collection
