#include "server/gate/http2_scanner.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/connections/http2_client.h"

namespace maxsim::gate {
namespace {

using testing::HasSubstr;

// Gives `bytes` to an Http2Scanner in pieces of the sizes that `next_size` returns. Returns all units that the scanner
// finds, or its error.
template <typename NextSize>
absl::StatusOr<std::vector<Http2Unit>> Scan(const std::string& bytes, NextSize next_size) {
  Http2Scanner scanner;
  std::vector<Http2Unit> units;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t size = next_size();
    scanner.Append(bytes.substr(begin, size));
    begin += size;
    while (true) {
      auto unit = scanner.Next();
      if (!unit.ok()) return unit.status();
      if (!unit->has_value()) break;
      units.push_back(**std::move(unit));
    }
  }
  return units;
}

absl::StatusOr<std::vector<Http2Unit>> Scan(const std::string& bytes) {
  return Scan(bytes, [] { return size_t{1} << 30; });
}

std::string Begin() { return absl::StrCat(std::string(kClientPreface), Frame(FrameType::kSettings, 0, 0, "")); }

TEST(Http2ScannerTest, UnitsAreTheBytesThatCameHoweverTheyAreCut) {
  Packer packer;
  // The calls are packed in this order, because later ones refer to entries that earlier ones left in HPACK's table.
  const std::string first = Call(packer, 1, "/maxsim.v1.Reranker/Rerank", "Bearer secret");
  const std::string second = Call(packer, 3, "/maxsim.v1.Reranker/Rerank", "Bearer other");
  const std::string trailers =
      Frame(FrameType::kHeaders, kFlagEndHeaders | kFlagEndStream, 3, packer.Pack({{"a", "b"}}));
  const std::string bytes =
      absl::StrCat(Begin(), WindowUpdate(0, 1000), first, Message(1, std::string(3000, 'x')), second, trailers);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const auto units = Scan(bytes, [&] { return round == 0 ? size_t{1} : 1 + random() % 40; });
    ASSERT_TRUE(units.ok()) << units.status();
    std::string all;
    std::vector<std::string> calls;
    for (const Http2Unit& unit : *units) {
      all += unit.bytes;
      if (unit.kind == Http2Unit::Kind::kCall)
        calls.push_back(absl::StrCat(unit.stream_id, unit.path, " ", unit.authorization));
    }
    EXPECT_EQ(all, bytes);
    EXPECT_THAT(calls, testing::ElementsAre("1/maxsim.v1.Reranker/Rerank Bearer secret",
                                            "3/maxsim.v1.Reranker/Rerank Bearer other"));
  }
}

TEST(Http2ScannerTest, ABlockOfHeadersMayBePaddedHavePrioritiesAndContinuations) {
  Packer packer;
  const std::string block = packer.Pack(CallHeaders("/a/b", "Bearer t"));
  const std::string first = absl::StrCat(std::string(1, '\3'), std::string(5, '\0'), block.substr(0, 4), "pad");
  const auto units = Scan(absl::StrCat(Begin(), Frame(FrameType::kHeaders, kFlagPadded | kFlagPriority, 1, first),
                                       Frame(FrameType::kContinuation, 0, 1, block.substr(4, 3)),
                                       Frame(FrameType::kContinuation, kFlagEndHeaders, 1, block.substr(7))));
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->back().path, "/a/b");
  EXPECT_EQ(units->back().authorization, "Bearer t");
}

TEST(Http2ScannerTest, TheFirstAuthorizationCounts) {
  Packer packer;
  Fields fields = CallHeaders("/a/b", "Bearer first");
  fields.emplace_back("authorization", "Bearer second");
  const auto units = Scan(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 1, packer.Pack(fields)));
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->back().authorization, "Bearer first");
}

std::string ErrorOf(const std::string& bytes) { return Scan(bytes).status().ToString(); }

TEST(Http2ScannerTest, WhatIsNotHttp2IsAnError) {
  EXPECT_THAT(ErrorOf("GET / HTTP/1.1\r\n\r\n"), HasSubstr("preface"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kContinuation, 0, 1, "")), HasSubstr("without its HEADERS"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kPushPromise, 0, 1, "")), HasSubstr("PUSH_PROMISE"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kPing, 0, 0, "1234567")), HasSubstr("8 bytes"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, 0, 1, "") + Frame(FrameType::kData, 0, 1, "")),
              HasSubstr("interrupts"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 2, "\x82")), HasSubstr("even"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 1, "\xff\xff\xff\xff\xff\xff")),
              HasSubstr("HPACK"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 1,
                                      std::string("\x40\x05"
                                                  "ab"))),
              HasSubstr("HPACK"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders | kFlagPadded, 1,
                                      "\x09"
                                      "abc")),
              HasSubstr("padding"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders | kFlagPadded, 1, "")),
              HasSubstr("padding"));
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders | kFlagPriority, 1, "abcd")),
              HasSubstr("priority"));
}

TEST(Http2ScannerTest, AFrameThatIsAnnouncedLargerThanTheLimitIsRefusedBeforeItComes) {
  const std::string largest = Frame(FrameType::kData, 0, 1, std::string(kMaxFrameBytes, 'x'));
  EXPECT_TRUE(Scan(Begin() + largest).ok());
  const std::string header = {'\0', '\x40', '\x01', '\0', '\0', '\0', '\0', '\0', '\x01'};
  EXPECT_THAT(ErrorOf(Begin() + header), HasSubstr("a frame of 16385 bytes; the limit is 16384"));
}

TEST(Http2ScannerTest, ContinuationsWithoutEndAreRefused) {
  std::string bytes = Begin() + Frame(FrameType::kHeaders, 0, 1, std::string(kMaxFrameBytes, '\x82'));
  EXPECT_TRUE(Scan(bytes).ok());
  EXPECT_THAT(ErrorOf(bytes + Frame(FrameType::kContinuation, 0, 1, "\x82")), HasSubstr("more than 16384 bytes"));
  bytes = Begin() + Frame(FrameType::kHeaders, 0, 1, "");
  for (int i = 0; i < kMaxContinuations; ++i) bytes += Frame(FrameType::kContinuation, 0, 1, "");
  EXPECT_TRUE(Scan(bytes).ok());
  EXPECT_THAT(ErrorOf(bytes + Frame(FrameType::kContinuation, 0, 1, "")), HasSubstr("16 CONTINUATION frames"));
}

// One byte can refer to an entry of HPACK's header table, here one of more than 3 KiB. So a few bytes can unpack to
// more than the limit.
TEST(Http2ScannerTest, HeadersThatUnpackToMoreThanTheLimitAreRefused) {
  Packer packer;
  const std::string entry = packer.Pack({{"x", std::string(3000, 'y')}});
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 1, entry + std::string(4, '\xbe'))), "OK");
  EXPECT_THAT(ErrorOf(Begin() + Frame(FrameType::kHeaders, kFlagEndHeaders, 1, entry + std::string(5, '\xbe'))),
              HasSubstr("more than 16384 bytes once unpacked"));
}

TEST(Http2ScannerTest, WhatHasNotComeOutIsGivenAway) {
  Http2Scanner scanner;
  scanner.Append(Begin() + "abc");
  ASSERT_TRUE(scanner.Next().ok());
  ASSERT_TRUE(scanner.Next().ok());
  EXPECT_EQ(scanner.TakeRest(), "abc");
  EXPECT_EQ(scanner.TakeRest(), "");
}

TEST(Http2ScannerTest, AnyBytesAreAnErrorOrUnitsThatMakeUpTheBytes) {
  std::mt19937 random(11);
  Packer packer;
  const std::string valid = Begin() + Call(packer, 1, "/a/b", "Bearer t") + Message(1, "abc") + WindowUpdate(1, 5);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = valid;
    for (int i = 0; i < 3; ++i)
      bytes[kClientPreface.size() + random() % (bytes.size() - kClientPreface.size())] = static_cast<char>(random());
    const auto units = Scan(bytes, [&] { return 1 + random() % 64; });
    if (!units.ok()) continue;
    std::string all;
    for (const Http2Unit& unit : *units) all += unit.bytes;
    EXPECT_EQ(all, bytes.substr(0, all.size()));
  }
}

}  // namespace
}  // namespace maxsim::gate
