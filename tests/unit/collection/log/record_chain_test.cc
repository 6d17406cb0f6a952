// Tests the search for records in a write-ahead log. The records are written by hand in RocksDB's format, between
// bytes that only look like records.
#include "collection/log/record_chain.h"

#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

constexpr size_t kBlockBytes = 32768;

// Computes the checksum bit by bit, so that it does not repeat a mistake in the tables of record_chain.cc.
uint32_t MaskedCrc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

// Returns a fragment of RocksDB's log format. Type 1 is a whole record, type 2 the first part of a record.
std::string Fragment(char type, const std::string& data) {
  const uint32_t crc = MaskedCrc32c(type + data);
  std::string bytes;
  for (int idx = 0; idx < 4; ++idx) bytes += static_cast<char>(crc >> (8 * idx));
  bytes += static_cast<char>(data.size() & 0xff);
  bytes += static_cast<char>(data.size() >> 8);
  return bytes + type + data;
}

TEST(RecordChainTest, FollowsWholeRecordsUpToTheFirstDamagedOne) {
  const std::string one = Fragment(1, "one");
  const std::string two = Fragment(1, std::string(1000, 'b'));
  std::string bytes = one + two;
  EXPECT_EQ(FollowRecords(std::string_view(bytes)).intact_bytes, bytes.size());
  bytes.back() = 'x';
  const RecordChain chain = FollowRecords(std::string_view(bytes));
  EXPECT_EQ(chain.num_bytes, bytes.size());
  EXPECT_EQ(chain.intact_bytes, one.size());
  EXPECT_EQ(chain.torn_at, one.size());
  EXPECT_FALSE(HasRecordBehind(bytes, chain.torn_at));
  EXPECT_TRUE(HasRecordBehind(bytes + one, chain.torn_at));
}

// Puts one record between random bytes, with lengths and places around the border of a block. HasRecordBehind must
// find the record, except if it crosses the border (RocksDB writes none that does) or if one of its bytes is wrong or
// missing.
TEST(RecordChainTest, FindsARecordWhereverItBeginsBehindADamagedOne) {
  std::mt19937 random(1);
  const auto noise = [&](size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  for (int round = 0; round < (test::kSanitized ? 20 : 100); ++round) {
    const size_t before = random() % (3 * kBlockBytes);
    const size_t room = kBlockBytes - (before + 1) % kBlockBytes;
    const std::string data = noise(random() % (round % 2 == 0 ? 64 : kBlockBytes));
    const std::string record = Fragment(static_cast<char>(1 + round % 2), data);
    const bool fits = record.size() <= room;
    const std::string bytes = "x" + noise(before) + record + noise(random() % 100);
    EXPECT_EQ(HasRecordBehind(bytes, 0), fits)
        << "round " << round << ": " << record.size() << " bytes at " << before + 1;
    EXPECT_FALSE(HasRecordBehind(bytes.substr(0, 1 + before) + record.substr(0, record.size() - 1), 0));
    std::string damaged = bytes;
    damaged[1 + before + random() % record.size()] ^= 1;
    EXPECT_FALSE(HasRecordBehind(damaged, 0)) << "round " << round;
  }
  EXPECT_FALSE(HasRecordBehind(Fragment(3, "x") + Fragment(4, "y"), 0)) << "the middle of a record begins none";
  EXPECT_FALSE(HasRecordBehind("", 0));
  EXPECT_FALSE(HasRecordBehind(Fragment(1, "x"), 0)) << "it begins at `at`, not behind it";
}

// In these bytes, every second byte looks like the beginning of a record of 16,129 bytes. A client could send a
// document like this. The search must not compute each checksum from the start, which would take several minutes.
TEST(RecordChainTest, BytesThatAllLookLikeHeadersAreReadInTimePerByte) {
  std::string bytes(size_t{test::kSanitized ? 2 : 64} << 20, '\1');
  for (size_t at = 1; at < bytes.size(); at += 2) bytes[at] = 0x3f;
  EXPECT_FALSE(HasRecordBehind(bytes, 0));
  bytes += Fragment(1, "end");
  EXPECT_TRUE(HasRecordBehind(bytes, bytes.size() - 20));
}

}  // namespace
}  // namespace maxsim::collection
