#include "collection/log/record_chain.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/file.h"

namespace maxsim::collection {
namespace {

constexpr size_t kBlockBytes = 32768;
constexpr size_t kHeaderBytes = 7;  // masked CRC-32C of type and data (4 bytes), length (2), type (1)

enum : unsigned char { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, reflected
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < tables.size(); ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

// Handles eight bytes at a time, because a write-ahead log may have 256 MB.
uint32_t Crc32c(std::string_view bytes) {
  static constexpr Tables kTables = MakeTables();
  uint32_t crc = 0xffffffff;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    word ^= crc;
    crc = 0;
    for (size_t idx = 0; idx < 8; ++idx) crc ^= kTables[7 - idx][(word >> (8 * idx)) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*at)) & 0xff];
  return ~crc;
}

uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

// A record, or a part of one that continues in the next block.
struct Fragment {
  unsigned char type = 0;
  size_t num_bytes = 0;
};

// Returns the undamaged fragment that begins at `at`, or nullopt.
std::optional<Fragment> FragmentAt(std::string_view bytes, size_t at) {
  const size_t left_of_block = kBlockBytes - at % kBlockBytes;
  if (at >= bytes.size() || std::min(bytes.size() - at, left_of_block) < kHeaderBytes) return std::nullopt;
  uint32_t checksum = 0;
  uint16_t length = 0;
  std::memcpy(&checksum, bytes.data() + at, sizeof(checksum));
  std::memcpy(&length, bytes.data() + at + sizeof(checksum), sizeof(length));
  const auto type = static_cast<unsigned char>(bytes[at + 6]);
  const size_t num_bytes = kHeaderBytes + length;
  if (type < kFull || type > kLast || num_bytes > std::min(bytes.size() - at, left_of_block)) return std::nullopt;
  if (checksum != Mask(Crc32c(bytes.substr(at + 6, 1 + size_t{length})))) return std::nullopt;
  return Fragment{type, num_bytes};
}

// Returns whether an undamaged record begins anywhere after `at`.
bool BeginsBehind(std::string_view bytes, size_t at) {
  for (++at; at + kHeaderBytes <= bytes.size(); ++at) {
    const auto type = static_cast<unsigned char>(bytes[at + 6]);
    if ((type == kFull || type == kFirst) && FragmentAt(bytes, at).has_value()) return true;
  }
  return false;
}

}  // namespace

RecordChain FollowRecords(std::string_view bytes) {
  RecordChain chain{.num_bytes = bytes.size()};
  bool in_record = false;  // after a kFirst, before its kLast
  size_t at = 0;
  size_t record = 0;  // where the current record begins
  while (true) {
    const size_t left_of_block = kBlockBytes - at % kBlockBytes;
    if (left_of_block < kHeaderBytes) {
      const std::string_view padding = bytes.substr(std::min(at, bytes.size()), left_of_block);
      if (padding.find_first_not_of('\0') != std::string_view::npos) break;
      at += left_of_block;
    }
    if (!in_record) record = at;
    const std::optional<Fragment> fragment = FragmentAt(bytes, at);
    if (!fragment.has_value()) break;
    const bool begins = fragment->type == kFull || fragment->type == kFirst;
    if (begins == in_record) break;
    at += fragment->num_bytes;
    in_record = fragment->type == kFirst || fragment->type == kMiddle;
    if (!in_record) chain.intact_bytes = at;
  }
  chain.goes_on = BeginsBehind(bytes, record);
  return chain;
}

absl::StatusOr<RecordChain> FollowRecords(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<FileBytes> bytes = FileBytes::Map(*file);
  if (!bytes.ok()) return bytes.status();
  return FollowRecords(bytes->view());
}

}  // namespace maxsim::collection
