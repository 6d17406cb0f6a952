#include "collection/filters/ordinal_bitmap.h"

#include <roaring/roaring.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace maxsim::collection {
namespace {

// Estimated bytes of a Roaring container in addition to its values, including the allocator's overhead.
constexpr int64_t kContainerBytes = 64;

// The Roaring library cannot import or export masks. But its portable format stores dense containers as masks, so
// FromMask writes this format and ToMask reads it (https://github.com/RoaringBitmap/RoaringFormatSpec).
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr size_t kContainerWords = 1024;
constexpr int kMaxArray = 4096;                 // values of a container that is an array of 16-bit numbers
constexpr size_t kMinContainersForOffsets = 4;  // a file with runs has no offsets if it has fewer containers

// Sets the bits begin .. end - 1. There must be at least one.
void SetBits(size_t begin, size_t end, std::vector<uint64_t>& mask) {
  const uint64_t first = ~uint64_t{0} << (begin % 64);
  const uint64_t last = ~uint64_t{0} >> (63 - (end - 1) % 64);
  const size_t last_word = (end - 1) / 64;
  if (begin / 64 == last_word) {
    mask[last_word] |= first & last;
    return;
  }
  mask[begin / 64] |= first;
  std::fill(mask.begin() + static_cast<std::ptrdiff_t>(begin / 64) + 1,
            mask.begin() + static_cast<std::ptrdiff_t>(last_word), ~uint64_t{0});
  mask[last_word] |= last;
}

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

OrdinalBitmap OrdinalBitmap::FromMask(absl::Span<const uint64_t> words) {
  struct Container {
    uint16_t key;
    int size;
    absl::Span<const uint64_t> words;
    size_t num_bytes() const { return size <= kMaxArray ? 2 * static_cast<size_t>(size) : 8 * kContainerWords; }
  };
  std::vector<Container> containers;
  for (size_t begin = 0; begin < words.size(); begin += kContainerWords) {
    Container container{static_cast<uint16_t>(begin / kContainerWords), 0, words.subspan(begin, kContainerWords)};
    for (const uint64_t word : container.words) container.size += std::popcount(word);
    if (container.size > 0) containers.push_back(container);
  }

  std::vector<char> bytes;
  const auto append = [&bytes](const auto value) {
    const auto* const begin = reinterpret_cast<const char*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(value));
  };
  append(kCookieWithoutRuns);
  append(static_cast<uint32_t>(containers.size()));
  for (const Container& container : containers) {
    append(container.key);
    append(static_cast<uint16_t>(container.size - 1));
  }
  size_t offset = bytes.size() + containers.size() * sizeof(uint32_t);
  for (const Container& container : containers) {
    append(static_cast<uint32_t>(offset));
    offset += container.num_bytes();
  }
  bytes.reserve(offset);
  for (const Container& container : containers) {
    if (container.size > kMaxArray) {
      const auto* const begin = reinterpret_cast<const char*>(container.words.data());
      bytes.insert(bytes.end(), begin, begin + container.words.size() * sizeof(uint64_t));
      bytes.resize(bytes.size() + (kContainerWords - container.words.size()) * sizeof(uint64_t));
      continue;
    }
    for (size_t word = 0; word < container.words.size(); ++word) {
      for (uint64_t bits = container.words[word]; bits != 0; bits &= bits - 1) {
        append(static_cast<uint16_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits))));
      }
    }
  }
  return OrdinalBitmap(roaring_bitmap_portable_deserialize_safe(bytes.data(), bytes.size()));
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

std::vector<uint64_t> OrdinalBitmap::ToMask(int64_t num_ordinals) const {
  std::vector<uint64_t> mask((static_cast<size_t>(num_ordinals) + 63) / 64);
  std::vector<char> bytes(roaring_bitmap_portable_size_in_bytes(bitmap_.get()));
  roaring_bitmap_portable_serialize(bitmap_.get(), bytes.data());
  const auto read = [&bytes](size_t position, auto value) {
    std::memcpy(&value, bytes.data() + position, sizeof(value));
    return value;
  };
  const auto cookie = read(0, uint32_t{});
  const bool has_runs = cookie != kCookieWithoutRuns;
  size_t position = sizeof(cookie);
  const size_t num_containers = has_runs ? (cookie >> 16) + 1 : read(position, uint32_t{});
  const size_t run_flags = position;  // a bit for each container
  position += has_runs ? (num_containers + 7) / 8 : sizeof(uint32_t);
  const size_t headers = position;  // of each container its key and its size less 1
  position += num_containers * 2 * sizeof(uint16_t);
  if (!has_runs || num_containers >= kMinContainersForOffsets) position += num_containers * sizeof(uint32_t);
  for (size_t idx = 0; idx < num_containers; ++idx) {
    const size_t header = headers + idx * 2 * sizeof(uint16_t);
    const size_t first_word = size_t{read(header, uint16_t{})} * kContainerWords;
    const int size = read(header + sizeof(uint16_t), uint16_t{}) + 1;
    if (has_runs && (read(run_flags + idx / 8, uint8_t{}) >> (idx % 8) & 1) != 0) {
      const int num_runs = read(position, uint16_t{});
      position += sizeof(uint16_t);
      for (int run = 0; run < num_runs; ++run, position += 2 * sizeof(uint16_t)) {
        const size_t begin = first_word * 64 + read(position, uint16_t{});
        SetBits(begin, begin + read(position + sizeof(uint16_t), uint16_t{}) + 1, mask);
      }
    } else if (size > kMaxArray) {
      const size_t num_words = std::min(kContainerWords, mask.size() - first_word);
      std::memcpy(mask.data() + first_word, bytes.data() + position, num_words * sizeof(uint64_t));
      position += kContainerWords * sizeof(uint64_t);
    } else {
      for (int value = 0; value < size; ++value, position += sizeof(uint16_t)) {
        const auto low = read(position, uint16_t{});
        mask[first_word + low / 64] |= uint64_t{1} << (low % 64);
      }
    }
  }
  return mask;
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
