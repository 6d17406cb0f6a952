#include "tools/command_line/terminal.h"

#include <limits>
#include <sstream>

#include "gtest/gtest.h"

namespace maxsim::command_line {
namespace {

TEST(WithoutControlsTest, NothingReachesTheTerminalAsAControl) {
  EXPECT_EQ(WithoutControls("a\033[2Jb\r\n\tc\x7f"), "a [2Jb   c ");
  EXPECT_EQ(WithoutControls("caf\xc3\xa9 \xe2\x86\x92"), "caf\xc3\xa9 \xe2\x86\x92");
  EXPECT_EQ(WithoutControls("x\xc2\x9bJ"), "x J");  // CSI as one C1 character
  EXPECT_EQ(WithoutControls("\xff\xc3/\xe2\x86"),
            "?"
            "?/?"
            "?");                                                    // not UTF-8
  EXPECT_EQ(WithoutControls("\xc0\x8a\xf5\x80\x80\x80"), "??????");  // an overlong newline, and beyond Unicode
}

TEST(WidthTest, CountsCodePoints) {
  EXPECT_EQ(Width(""), 0);
  EXPECT_EQ(Width("caf\xc3\xa9"), 4);
}

TEST(ShortenTest, CutsAtCodePoints) {
  EXPECT_EQ(Shorten("abc", 3), "abc");
  EXPECT_EQ(Shorten("abcd", 3), "ab…");
  EXPECT_EQ(Shorten("éèê", 2), "é…");
  EXPECT_EQ(Shorten("abc", 1), "…");
  EXPECT_EQ(Shorten("abc", 0), "");
}

TEST(TableTest, AlignsAndShortensTheLastColumn) {
  Table table({{"rank", Align::kRight}, {"id"}, {"title"}});
  table.AddRow({"1", "é", "a title that is far too long for this"});
  table.AddRow({"10", "abc"});
  std::ostringstream out;
  table.Print(out, 26);
  EXPECT_EQ(out.str(),
            "rank  id   title\n"
            "   1  é    a title that i…\n"
            "  10  abc\n");
}

TEST(FixedTest, KeepsDecimals) {
  EXPECT_EQ(Fixed(0.52176, 4), "0.5218");
  EXPECT_EQ(Fixed(-1, 2), "-1.00");
  EXPECT_EQ(Fixed(std::numeric_limits<double>::max(), 1).size(), 311);
  EXPECT_EQ(Scientific(1e-5), "1.0e-05");
}

TEST(HeatedTest, ClampsAndSurvivesNan) {
  EXPECT_EQ(Heated("x", 1), Heated("x", 7));
  EXPECT_EQ(Heated("x", 0), Heated("x", std::numeric_limits<double>::quiet_NaN()));
  EXPECT_NE(Heated("x", 0), Heated("x", 1));
}

}  // namespace
}  // namespace maxsim::command_line
