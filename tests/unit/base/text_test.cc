// Tests the functions that make text: messages, sizes, UTF-8 and checksums.
#include "base/text.h"

#include <string>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

TEST(TextTest, QuotesOfUntrustedTextAreShortAndPrintable) {
  EXPECT_EQ(Quote("a\n\x1b[31mb"), "\"a??[31mb\"");
  EXPECT_LT(Quote(std::string(100000, 'x')).size(), 100);
  EXPECT_EQ(Quote("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(Quote("caf\xc3"), "\"caf?\"");
  // U+009B begins an escape sequence on some terminals, and U+007F is invisible, so both are replaced. Characters from
  // U+00A0 on are kept.
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "31mb\x7f\xc2\x80\xc2\x9f",
                      100),
            "a?31mb???");
  EXPECT_EQ(Printable("\xc2\xa0\xc3\x9b", 100), "\xc2\xa0\xc3\x9b");
  // A text is cut between characters.
  EXPECT_EQ(Printable("abc\xc3\xa9", 4), "abc...");
  EXPECT_EQ(Printable("abc\xc3\xa9", 5), "abc\xc3\xa9");
}

TEST(Utf8Test, AcceptsExactlyWellFormedText) {
  for (const char* text : {"", "abc", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xe1\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf1\x80\x80", "\xff", "ok\xfe"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(ChecksumTest, IsXxh3Of128BitsInCanonicalOrder) {
  // The expected value is from XXH3's own test vectors: XXH3_128bits of the empty input.
  Checksum checksum;
  EXPECT_EQ(checksum.Format(), "xxh3-128:99aa06d3014798d86001c324468d497f");
  EXPECT_TRUE(IsChecksum(checksum.Format()));
  Checksum parts;
  parts.Update("hello ", 6);
  parts.Update("world", 5);
  checksum.Update("hello world", 11);
  EXPECT_EQ(parts.Format(), checksum.Format());
  EXPECT_FALSE(IsChecksum("xxh3-128:99aa06d3014798d86001c324468d497"));
  EXPECT_FALSE(IsChecksum("xxh3-128:99AA06d3014798d86001c324468d497f"));
  EXPECT_FALSE(IsChecksum(""));
}

}  // namespace
}  // namespace maxsim
