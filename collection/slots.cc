#include "collection/slots.h"

#include <xxhash.h>

#include <bit>
#include <optional>

#include "absl/strings/numbers.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

static_assert(std::endian::native == std::endian::little, "integer ids are hashed as they lie in memory");

int32_t SlotOfHash(XXH64_hash_t hash) { return static_cast<int32_t>(hash % static_cast<XXH64_hash_t>(kNumSlots)); }

// Accepts only digits: no sign and no blanks.
std::optional<int32_t> ParseSlotNumber(std::string_view text) {
  int32_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(ForStrCat(text), &value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

int32_t SlotOf(std::string_view id) { return SlotOfHash(XXH3_64bits(id.data(), id.size())); }

int32_t SlotOf(int64_t id) { return SlotOfHash(XXH3_64bits(&id, sizeof(id))); }

SlotRange PartitionOf(int32_t index, int32_t count) { return PartitionOf(SlotRange{}, index, count); }

SlotRange PartitionOf(const SlotRange& range, int32_t index, int32_t count) {
  // The product is at most 2^24.
  return {range.first + index * range.size() / count, range.first + (index + 1) * range.size() / count};
}

absl::StatusOr<SlotRange> ParseSlotRange(std::string_view text) {
  const size_t separator = text.find_first_of("/-");
  std::optional<int32_t> left;
  std::optional<int32_t> right;
  if (separator != std::string_view::npos) {
    left = ParseSlotNumber(text.substr(0, separator));
    right = ParseSlotNumber(text.substr(separator + 1));
  }
  if (!left.has_value() || !right.has_value()) {
    return Invalid(Quote(text), " is neither I/N, such as 0/3, nor FIRST-LAST, such as 0-1364");
  }
  if (text[separator] == '/') {
    if (*right < 1 || *right > kNumSlots) {
      return Invalid(Quote(text), ": ", *right, " partitions; must be 1 to ", kNumSlots);
    }
    if (*left >= *right) {
      return Invalid(Quote(text), ": partition ", *left, "; must be 0 to ", *right - 1);
    }
    return PartitionOf(*left, *right);
  }
  if (*left > *right || *right >= kNumSlots) {
    return Invalid(Quote(text), ": slots ", *left, " .. ", *right, ", which are not a range in 0 .. ", kNumSlots - 1);
  }
  return SlotRange{*left, *right + 1};
}

std::string FormatSlotRange(const SlotRange& range) { return Cat(range.first, "-", range.end - 1); }

std::string DescribeSlots(const SlotRange& range) {
  return range.is_whole() ? std::string("all slots") : Cat("slots ", range.first, " .. ", range.end - 1);
}

}  // namespace maxsim::collection
