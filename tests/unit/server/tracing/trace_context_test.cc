#include "server/tracing/trace_context.h"

#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace maxsim::tracing {
namespace {

// The example in section 3.2.3 of the W3C Trace Context standard.
constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TraceContext ExampleContext() {
  return {.trace_id_high = 0x4bf92f3577b34da6,
          .trace_id_low = 0xa3ce929d0e0e4736,
          .span_id = 0x00f067aa0ba902b7,
          .is_sampled = true};
}

std::string WithVersion(const std::string& version, const std::string& end = "") {
  return version + std::string(kExample).substr(2) + end;
}

TEST(TraceparentTest, TheStandardsExampleIsRead) { EXPECT_EQ(ParseTraceparent(kExample), ExampleContext()); }

TEST(TraceparentTest, TheStandardsUnsampledExampleIsRead) {
  TraceContext unsampled = ExampleContext();
  unsampled.is_sampled = false;
  EXPECT_EQ(ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"), unsampled);
}

TEST(TraceparentTest, WhatIsWrittenIsReadAgain) {
  EXPECT_EQ(FormatTraceparent(ExampleContext()), kExample);
  TraceContext context = {.trace_id_high = 0, .trace_id_low = 1, .span_id = ~uint64_t{0}, .is_sampled = false};
  EXPECT_EQ(FormatTraceparent(context), "00-00000000000000000000000000000001-ffffffffffffffff-00");
  EXPECT_EQ(ParseTraceparent(FormatTraceparent(context)), context);
}

TEST(TraceparentTest, OfTheFlagsOnlySampledCounts) {
  const std::string ids = std::string(kExample).substr(0, 53);
  for (const char* flags : {"01", "03", "09", "ff"}) EXPECT_TRUE(ParseTraceparent(ids + flags)->is_sampled) << flags;
  for (const char* flags : {"00", "02", "08", "fe"}) EXPECT_FALSE(ParseTraceparent(ids + flags)->is_sampled) << flags;
}

TEST(TraceparentTest, ALaterVersionIsReadAsFarAsItIsKnown) {
  for (const std::string& value : {WithVersion("01"), WithVersion("cc"), WithVersion("fe"), WithVersion("01", "-"),
                                   WithVersion("cc", "-what-the-future-will-be-like")}) {
    EXPECT_EQ(ParseTraceparent(value), ExampleContext()) << value;
  }
}

TEST(TraceparentTest, ALaterVersionMustGoOnBehindADash) {
  EXPECT_EQ(ParseTraceparent(WithVersion("01", ".what")), std::nullopt);
  EXPECT_EQ(ParseTraceparent(WithVersion("01", "0")), std::nullopt);
}

TEST(TraceparentTest, Version00HasNothingBehindItsFlags) {
  EXPECT_EQ(ParseTraceparent(WithVersion("00", "-")), std::nullopt);
  EXPECT_EQ(ParseTraceparent(WithVersion("00", "-00")), std::nullopt);
  EXPECT_EQ(ParseTraceparent(WithVersion("00", " ")), std::nullopt);
}

TEST(TraceparentTest, VersionFfIsNone) {
  EXPECT_EQ(ParseTraceparent(WithVersion("ff")), std::nullopt);
  EXPECT_EQ(ParseTraceparent(WithVersion("ff", "-00")), std::nullopt);
}

TEST(TraceparentTest, IdsOfZerosAloneNameNothing) {
  EXPECT_EQ(ParseTraceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), std::nullopt);
  EXPECT_EQ(ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"), std::nullopt);
  EXPECT_TRUE(ParseTraceparent("00-00000000000000010000000000000000-00f067aa0ba902b7-01").has_value());
}

TEST(TraceparentTest, EveryCutIsRefused) {
  const std::string whole = kExample;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ParseTraceparent(whole.substr(0, size)), std::nullopt) << size;
  }
}

TEST(TraceparentTest, EveryPlaceRefusesWhatMayNotStandThere) {
  const std::string whole = kExample;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char wrong : {'A', 'F', 'g', ' ', '_', '/', ':', '`', '\0', '\n', '\x80'}) {
      std::string value = whole;
      value[at] = wrong;
      EXPECT_EQ(ParseTraceparent(value), std::nullopt) << at << " " << static_cast<int>(wrong);
    }
    std::string moved = whole;
    moved[at] = whole[at] == '-' ? '0' : '-';
    EXPECT_EQ(ParseTraceparent(moved), std::nullopt) << at;
  }
}

TEST(TracestateTest, UpToTheBoundItPassesUnchanged) {
  for (const std::string& value : {std::string("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"), std::string("a=1, \tb=2"),
                                   std::string(kMaxTracestateBytes, 'x')}) {
    EXPECT_EQ(BoundTracestate(value), value);
  }
}

TEST(TracestateTest, BeyondTheBoundTheFirstWholeEntriesStay) {
  const std::string first(kMaxTracestateBytes - 1, 'x');
  EXPECT_EQ(BoundTracestate(first + ",b"), first);
  EXPECT_EQ(BoundTracestate(first + "x,b"), first + "x");
  EXPECT_EQ(BoundTracestate(first + "xx,b"), "");
  EXPECT_EQ(BoundTracestate("a=1," + first), "a=1");
  EXPECT_EQ(BoundTracestate("a=1,b=2," + first), "a=1,b=2");
}

TEST(TracestateTest, WhatNoHeaderMayHoldIsNotPassedOn) {
  for (const char wrong : {'\0', '\n', '\r', '\x1f', '\x7f', '\x80'}) {
    EXPECT_EQ(BoundTracestate(std::string("a=1") + wrong), "") << static_cast<int>(wrong);
  }
}

TEST(ReadParentTest, ATracestateNeedsATraceparent) {
  EXPECT_EQ(*ReadParent(kExample, "rojo=1").tracestate, "rojo=1");
  EXPECT_EQ(ReadParent(kExample, "").tracestate, nullptr);
  for (const char* wrong : {"", "00-wrong"}) {
    const RemoteParent parent = ReadParent(wrong, "rojo=1");
    EXPECT_FALSE(parent.context.is_valid());
    EXPECT_EQ(parent.tracestate, nullptr);
  }
}

TEST(RandomIdTest, ThreadsHaveIdsOfTheirOwn) {
  constexpr int kNumThreads = 4;
  constexpr int kNumIds = 10'000;
  std::vector<std::vector<uint64_t>> of_threads(kNumThreads);
  std::vector<std::thread> threads;
  for (std::vector<uint64_t>& ids : of_threads) {
    threads.emplace_back([&ids] {
      for (int i = 0; i < kNumIds; ++i) ids.push_back(RandomId());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  uint64_t in_all = ~uint64_t{0};
  uint64_t in_any = 0;
  for (const std::vector<uint64_t>& ids : of_threads) {
    for (const uint64_t id : ids) {
      all.insert(id);
      in_all &= id;
      in_any |= id;
    }
  }
  EXPECT_EQ(all.size(), size_t{kNumThreads} * kNumIds);
  EXPECT_EQ(all.count(0), 0u);
  EXPECT_EQ(in_all, 0u) << "a bit is always set";
  EXPECT_EQ(in_any, ~uint64_t{0}) << "a bit is never set";
}

}  // namespace
}  // namespace maxsim::tracing
