#include "collection/log/record_chain.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

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

constexpr Tables kTables = MakeTables();

// Handles eight bytes at a time for speed: a write-ahead log may have 256 MB.
uint32_t Crc32c(std::string_view bytes) {
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

// Computes the checksum of any part of a block, after one pass over the block, in a time that hardly depends on the
// part's length.
class BlockChecksums {
 public:
  // `block` may have at most kBlockBytes, and must outlive this object.
  explicit BlockChecksums(std::string_view block) : states_(block.size() + 1) {
    for (size_t idx = 0; idx < block.size(); ++idx) {
      const uint32_t state = states_[idx];
      states_[idx + 1] = (state >> 8) ^ kTables[0][(state ^ static_cast<unsigned char>(block[idx])) & 0xff];
    }
  }

  // Returns the CRC-32C of the bytes begin .. end - 1. A CRC is linear, so the contribution of the bytes before `begin`
  // to the state at `end` is the state at `begin`, advanced by end - begin zero bytes.
  uint32_t Of(size_t begin, size_t end) const {
    return ~(states_[end] ^ AfterZeros(states_[begin] ^ 0xffffffff, end - begin));
  }

 private:
  // A linear map of CRC states: its results for each value of each of the state's four bytes.
  using Map = std::array<std::array<uint32_t, 256>, 4>;
  static uint32_t Apply(const Map& map, uint32_t state) {
    return map[0][state & 0xff] ^ map[1][(state >> 8) & 0xff] ^ map[2][(state >> 16) & 0xff] ^ map[3][state >> 24];
  }

  // Map i advances a state by 2^i zero bytes.
  using Maps = std::array<Map, 16>;
  static Maps MakeMaps() {
    Maps maps{};
    for (size_t power = 0; power < maps.size(); ++power) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        for (uint32_t value = 0; value < 256; ++value) {
          const uint32_t state = value << (8 * byte);
          maps[power][byte][value] = power == 0 ? (state >> 8) ^ kTables[0][state & 0xff]
                                                : Apply(maps[power - 1], Apply(maps[power - 1], state));
        }
      }
    }
    return maps;
  }
  static uint32_t AfterZeros(uint32_t state, size_t count) {
    static const Maps* const maps = new Maps(MakeMaps());
    for (size_t power = 0; count > 0; ++power, count >>= 1) {
      if ((count & 1) != 0) state = Apply((*maps)[power], state);
    }
    return state;
  }

  std::vector<uint32_t> states_;  // [n]: the CRC state after the block's first n bytes, starting from 0
};

uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

// A record, or the part of a record that is in one block.
struct Fragment {
  unsigned char type = 0;
  size_t num_bytes = 0;
};

// The header of a fragment.
struct Header {
  uint32_t checksum = 0;
  uint16_t length = 0;
  unsigned char type = 0;
};

// Returns the header at `at`; nullopt if its type or length is impossible there. Does not check the checksum.
std::optional<Header> HeaderAt(std::string_view bytes, size_t at) {
  const size_t left_of_block = kBlockBytes - at % kBlockBytes;
  if (at >= bytes.size() || std::min(bytes.size() - at, left_of_block) < kHeaderBytes) return std::nullopt;
  Header header;
  std::memcpy(&header.checksum, bytes.data() + at, sizeof(header.checksum));
  std::memcpy(&header.length, bytes.data() + at + sizeof(header.checksum), sizeof(header.length));
  header.type = static_cast<unsigned char>(bytes[at + 6]);
  const size_t num_bytes = kHeaderBytes + header.length;
  if (header.type < kFull || header.type > kLast || num_bytes > std::min(bytes.size() - at, left_of_block)) {
    return std::nullopt;
  }
  return header;
}

// Returns the undamaged fragment that begins at `at`, or nullopt.
std::optional<Fragment> FragmentAt(std::string_view bytes, size_t at) {
  const std::optional<Header> header = HeaderAt(bytes, at);
  if (!header.has_value()) return std::nullopt;
  if (header->checksum != Mask(Crc32c(bytes.substr(at + 6, 1 + size_t{header->length})))) return std::nullopt;
  return Fragment{header->type, kHeaderBytes + header->length};
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
  chain.torn_at = record;
  return chain;
}

// A damaged record may contain bytes that look like a header at every offset. BlockChecksums keeps the time per offset
// small even if all of these headers claim long records.
bool HasRecordBehind(std::string_view bytes, size_t at) {
  for (++at; at + kHeaderBytes <= bytes.size();) {
    const size_t block = at - at % kBlockBytes;
    const std::string_view of_block = bytes.substr(block, kBlockBytes);
    const BlockChecksums checksums(of_block);
    for (; at < block + of_block.size(); ++at) {
      const std::optional<Header> header = HeaderAt(bytes, at);
      if (!header.has_value() || (header->type != kFull && header->type != kFirst)) continue;
      const size_t begin = at - block + 6;
      if (header->checksum == Mask(checksums.Of(begin, begin + 1 + header->length))) return true;
    }
  }
  return false;
}

absl::StatusOr<RecordChain> FollowRecords(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<FileBytes> bytes = FileBytes::Map(*file);
  if (!bytes.ok()) return bytes.status();
  return FollowRecords(bytes->view());
}

}  // namespace maxsim::collection
