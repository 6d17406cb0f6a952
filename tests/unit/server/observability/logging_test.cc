#include "server/observability/logging.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"

#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#endif

namespace maxsim::log {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// While this object lives, the default logger writes to a string.
class Captured {
 public:
  explicit Captured(std::unique_ptr<spdlog::formatter> formatter) : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_));
    logger->set_formatter(std::move(formatter));
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(logger);
  }
  ~Captured() { spdlog::set_default_logger(before_); }
  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(LoggingTest, JsonLinesAreOneObjectEachWhateverTheFieldsHold) {
  Captured captured(JsonFormatter());
  const std::string hostile = "quote \" backslash \\ newline \n null " + std::string(1, '\0') + " bytes \xff\xfe";
  Write(spdlog::level::info, "loaded", {{"collection", hostile}, {"generation", "3"}});
  spdlog::warn("plain {}", "line\n");
  std::istringstream lines(captured.text());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["message"], "loaded");
  EXPECT_EQ(first["level"], "info");
  EXPECT_EQ(first["generation"], "3");
  EXPECT_THAT(first["collection"].get<std::string>(), HasSubstr("quote \" backslash \\ newline \n null "));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["message"], "plain line\n");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(LoggingTest, NumbersAreNumbersInJsonAndTextsThatLookLikeThemAreNot) {
  const auto write = [] {
    Write(spdlog::level::info, "loaded",
          {{"collection", "12"},
           {"generation", int64_t{-3}},
           {"bytes", UINT64_MAX},
           {"share", 0.25},
           {"seconds", Value::Number("1.500")},
           {"rate", std::numeric_limits<double>::infinity()},
           {"ratio", std::numeric_limits<double>::quiet_NaN()},
           {"port", Value::Number("08")}});
  };
  {
    Captured captured(JsonFormatter());
    write();
    EXPECT_THAT(captured.text(), HasSubstr(R"("collection":"12","generation":-3,"bytes":18446744073709551615,)"
                                           R"("share":0.25,"seconds":1.500,"rate":"inf","ratio":"nan","port":"08"})"));
    EXPECT_TRUE(nlohmann::json::accept(captured.text()));
  }
  Captured captured(TextFormatter());
  write();
  EXPECT_THAT(captured.text(), EndsWith("loaded collection=12 generation=-3 bytes=18446744073709551615 share=0.25 "
                                        "seconds=1.500 rate=inf ratio=nan port=08\n"));
}

TEST(LoggingTest, TextLinesCannotBeBrokenByAField) {
  Captured captured(TextFormatter());
  Write(spdlog::level::info, "request", {{"code", "OK"}, {"error", "two words\nand \"more\""}, {"empty", ""}});
  EXPECT_THAT(captured.text(), EndsWith("request code=OK error=\"two words and \\\"more\\\"\" empty=\"\"\n"));
}

#if __has_include("google/protobuf/stubs/logging.h")
TEST(LoggingTest, OnlyWhatIsFatalToProtobufIsShownAtEveryLevel) {
  Initialize("warn", "text");
  Captured captured(TextFormatter());
  spdlog::set_level(spdlog::level::err);
  GOOGLE_LOG(ERROR) << "malformed";
  EXPECT_ANY_THROW(GOOGLE_LOG(FATAL) << "gone");
  EXPECT_THAT(captured.text(), EndsWith("C gone from=protobuf\n"));
  EXPECT_THAT(captured.text(), testing::Not(HasSubstr("malformed")));
}
#endif

TEST(LoggingTest, ATableFollowsItsEventAsTextAndIsAMemberAsJson) {
  const auto write = [] {
    WriteTable(spdlog::level::info, "memory_plan", {{"collection", "docs"}, {"fits", true}},
               "shard  bytes\na\x1b  1\n");
  };
  {
    Captured captured(TextFormatter());
    write();
    EXPECT_THAT(captured.text(), EndsWith("memory_plan collection=docs fits=true\n    shard  bytes\n    a   1\n"));
  }
  Captured captured(JsonFormatter());
  write();
  const auto line = nlohmann::json::parse(captured.text());
  EXPECT_EQ(line["message"], "memory_plan");
  EXPECT_EQ(line["fits"], true);
  EXPECT_EQ(line["table"], "shard  bytes\na\x1b  1\n");
}

TEST(LoggingTest, AValueCannotAddAFieldOfItsOwn) {
  Captured captured(JsonFormatter());
  Write(spdlog::level::info, "request",
        {{"id",
          "a\x1elevel\x1f"
          "b\x1dtable"},
         {"number", "\x1f 1"}});
  const auto line = nlohmann::json::parse(captured.text());
  EXPECT_EQ(line["id"], "a level b table");
  EXPECT_EQ(line["number"], "  1");
  EXPECT_EQ(line["level"], "info");
  EXPECT_FALSE(line.contains("table"));
}

TEST(LoggingTest, ABackslashIsEscapedSoThatAValueReadsBackAndDeleteIsNotWritten) {
  Captured captured(TextFormatter());
  Write(spdlog::level::info, "request \x7f",
        {{"path", "a\\"}, {"id", "x\\\" y"}, {"del", "a\x7f\tb"}, {"plain", "a/b"}});
  EXPECT_THAT(captured.text(), EndsWith("request   path=\"a\\\\\" id=\"x\\\\\\\" y\" del=a  b plain=a/b\n"));
}

TEST(LoggingTest, MessagesBelowTheLevelAreNotWritten) {
  Captured captured(TextFormatter());
  Write(spdlog::level::trace, "unseen", {});
  EXPECT_EQ(captured.text(), "");
}

}  // namespace
}  // namespace maxsim::log
