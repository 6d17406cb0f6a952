#include "collection/filters/ordinal_bitmap.h"

#include <roaring/roaring.h>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace maxsim::collection {
namespace {

// Bytes of a container besides its values: its struct, its entry in the arrays of containers, and the allocator's
// overhead for both.
constexpr int64_t kContainerBytes = 64;

}  // namespace

void OrdinalBitmap::Free::operator()(roaring_bitmap_s* bitmap) const { roaring_bitmap_free(bitmap); }

OrdinalBitmap::OrdinalBitmap(roaring_bitmap_s* bitmap) : bitmap_(bitmap) {
  if (bitmap_ == nullptr) throw std::bad_alloc();
}
OrdinalBitmap::OrdinalBitmap() : OrdinalBitmap(roaring_bitmap_create()) {}
OrdinalBitmap::~OrdinalBitmap() = default;
OrdinalBitmap::OrdinalBitmap(OrdinalBitmap&& other) noexcept = default;
OrdinalBitmap& OrdinalBitmap::operator=(OrdinalBitmap&& other) noexcept = default;

OrdinalBitmap OrdinalBitmap::All(int64_t num_ordinals) {
  if (num_ordinals == 0) return OrdinalBitmap();
  return OrdinalBitmap(roaring_bitmap_from_range(0, static_cast<uint64_t>(num_ordinals), 1));
}

OrdinalBitmap OrdinalBitmap::FromSorted(absl::Span<const uint32_t> ordinals) {
  return OrdinalBitmap(roaring_bitmap_of_ptr(ordinals.size(), ordinals.data()));
}

OrdinalBitmap OrdinalBitmap::Clone() const { return OrdinalBitmap(roaring_bitmap_copy(bitmap_.get())); }

void OrdinalBitmap::IntersectWith(const OrdinalBitmap& other) {
  roaring_bitmap_and_inplace(bitmap_.get(), other.bitmap_.get());
}

void OrdinalBitmap::UniteWith(const OrdinalBitmap& other) {
  roaring_bitmap_or_inplace(bitmap_.get(), other.bitmap_.get());
}

void OrdinalBitmap::Subtract(const OrdinalBitmap& other) {
  roaring_bitmap_andnot_inplace(bitmap_.get(), other.bitmap_.get());
}

void OrdinalBitmap::Complement(int64_t num_ordinals) {
  roaring_bitmap_flip_inplace(bitmap_.get(), 0, static_cast<uint64_t>(num_ordinals));
}

int64_t OrdinalBitmap::size() const { return static_cast<int64_t>(roaring_bitmap_get_cardinality(bitmap_.get())); }

bool OrdinalBitmap::Contains(uint32_t ordinal) const { return roaring_bitmap_contains(bitmap_.get(), ordinal); }

std::vector<uint32_t> OrdinalBitmap::ToVector() const {
  std::vector<uint32_t> ordinals(static_cast<size_t>(size()));
  roaring_bitmap_to_uint32_array(bitmap_.get(), ordinals.data());
  return ordinals;
}

void OrdinalBitmap::ForEachBlock(absl::FunctionRef<void(absl::Span<const uint32_t>)> take) const {
  roaring_uint32_iterator_t iterator;
  roaring_init_iterator(bitmap_.get(), &iterator);
  std::array<uint32_t, 4096> block;
  while (iterator.has_value) {
    const uint32_t count = roaring_read_uint32_iterator(&iterator, block.data(), block.size());
    take(absl::MakeConstSpan(block).first(count));
  }
}

void OrdinalBitmap::Compress() {
  roaring_bitmap_run_optimize(bitmap_.get());
  roaring_bitmap_shrink_to_fit(bitmap_.get());
}

int64_t OrdinalBitmap::memory_bytes() const {
  roaring_statistics_t statistics = {};
  roaring_bitmap_statistics(bitmap_.get(), &statistics);
  return static_cast<int64_t>(sizeof(roaring_bitmap_t)) + int64_t{statistics.n_bytes_array_containers} +
         int64_t{statistics.n_bytes_run_containers} + int64_t{statistics.n_bytes_bitset_containers} +
         int64_t{statistics.n_containers} * kContainerBytes;
}

bool OrdinalBitmap::EqualTo(const OrdinalBitmap& other) const {
  return roaring_bitmap_equals(bitmap_.get(), other.bitmap_.get());
}

}  // namespace maxsim::collection
