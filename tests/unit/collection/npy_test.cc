#include "collection/formats/npy.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<NpyHeader> Parse(const std::string& bytes) {
  return ParseNpyHeader(bytes, static_cast<int64_t>(bytes.size()));
}

// Returns a .npy file of version 1 with this dictionary in its header.
std::string WithDictionary(const std::string& text, const std::string& data = "") {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size() & 0xff) +
         static_cast<char>(text.size() >> 8) + text + data;
}

TEST(NpyTest, ReadsTheThreeVersions) {
  for (const int version : {1, 2, 3}) {
    const auto header = Parse(NpyBytes("<f2", "(3, 4)", std::string(24, 'x'), version));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, ElementType::kF16);
    EXPECT_THAT(header->shape, ElementsAre(3, 4));
    EXPECT_EQ(header->data_begin % 64, 0);
    EXPECT_EQ(header->num_bytes(), 24);
  }
}

TEST(NpyTest, ReadsWhatOtherWritersOfTheFormatWrite) {
  EXPECT_THAT(Parse(WithDictionary("{\"shape\":(2,),\"descr\":\"|u1\",\"fortran_order\":True}", "ab"))->shape,
              ElementsAre(2));
  EXPECT_THAT(Parse(WithDictionary("{'descr': '<i8', 'fortran_order': False, 'shape': (1L, 0L)}\n"))->shape,
              ElementsAre(1, 0));
  EXPECT_THAT(Parse(WithDictionary("{'descr': '=f4', 'fortran_order': False, 'shape': ()}", "1234"))->shape,
              ElementsAre());
}

TEST(NpyTest, HostileHeadersAreRefusedWithAReason) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "not a .npy"},
      {"\x93NUMPX\x01 abcdef", "not a .npy"},
      {std::string("\x93NUMPY\x04\x00", 8) + "abcdef", "version 4"},
      {std::string("\x93NUMPY\x02\x00\xff\xff", 10), "ends inside its header"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "the limit is 65536"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "ends inside its header"},
      {NpyBytes(">f4", "(1,)", "1234"), "big-endian"},
      {NpyBytes("|O", "(1,)", "12345678"), "\"|O\" is not supported"},
      {NpyBytes("<U3", "(1,)", "123456789012"), "\"<U3\" is not supported"},
      {NpyBytes("<f4", "(2,)", "1234"), "makes"},
      {NpyBytes("<f4", "(1,)", "12345"), "makes"},
      {NpyBytes("<f4", "(4611686018427387904, 4)", ""), "it has more than 2^63 bytes"},
      {NpyBytes("<f4", "(2305843009213693952,)", ""), "it has more than 2^63 bytes"},
      {NpyBytes("<f4", "(99999999999999999999,)", ""), "beyond 2^63"},
      {NpyBytes("<f4", "(-1,)", ""), "a number expected"},
      {NpyBytes("<f4", "(1", ""), "expected"},
      {NpyBytes("<f4", "5", ""), "a tuple expected"},
      {WithDictionary("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), "structured"},
      {WithDictionary("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "1234"), "Fortran"},
      {WithDictionary("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "1234"), "True or False"},
      {WithDictionary("{'descr': '<f4', 'fortran_order': False}", "1234"), "descr, fortran_order and shape"},
      {WithDictionary("{'descr': '<f4', 'descr': '<f4'}", "1234"), "twice"},
      {WithDictionary("{'x': 1}", "1234"), "unknown key"},
      {WithDictionary("{'descr': '<f4", "1234"), "structured"},
      {WithDictionary("__import__('os')", ""), "'{' expected"},
      {WithDictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "1234"), "the end expected"},
  };
  for (const auto& [bytes, message] : cases) {
    SCOPED_TRACE(message);
    const auto header = Parse(bytes);
    ASSERT_FALSE(header.ok());
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(message));
  }
  std::string many = "(";
  for (int idx = 0; idx < 40; ++idx) many += "1,";
  EXPECT_THAT(std::string(Parse(NpyBytes("<f4", many + ")", "1234")).status().message()), HasSubstr("more than 32"));
}

TEST(NpyTest, TruncatedAndFlippedFilesNeverCrash) {
  const std::string good = NpyBytes("<i4", "(2, 3)", std::string(24, 'x'));
  for (size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(Parse(good.substr(0, length)).ok()) << length;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      const auto header = Parse(bad);
      if (header.ok()) {
        EXPECT_EQ(header->data_begin + header->num_bytes(), static_cast<int64_t>(bad.size()));
      }
    }
  }
}

TEST(NpyTest, OpensAFileAndReadsItsIntegers) {
  TemporaryFolder folder;
  const std::string path = folder.Path("a.npy");
  WriteBytes(path, NpyBytes("<u2", "(3,)", AsBytes<uint16_t>({1, 65535, 7})));
  auto file = NpyFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->Integers(), ElementsAre(1, 65535, 7));
  WriteBytes(path, NpyBytes("<u8", "(2,)", AsBytes<uint64_t>({1, uint64_t{1} << 63})));
  EXPECT_THAT(std::string(NpyFile::Open(path)->Integers().status().message()), HasSubstr("element 1 is beyond"));
  WriteBytes(path, NpyBytes("<f4", "(1,)", "1234"));
  EXPECT_THAT(std::string(NpyFile::Open(path)->Integers().status().message()), HasSubstr("f32 [1]"));
  EXPECT_EQ(NpyFile::Open(folder.Path("none.npy")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(NpyFile::Open(folder.path()).status().message()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace maxsim::collection
