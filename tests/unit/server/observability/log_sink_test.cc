#include "server/observability/log_sink.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/observability/log_limit.h"
#include "server/observability/logging.h"
#include "spdlog/details/os.h"
#include "spdlog/spdlog.h"
#include "tests/support/values/eventually.h"

namespace maxsim::log {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::EndsWith;
using testing::HasSubstr;

// A pipe of the smallest possible size, which fills up because it is read only when a test says so.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0);
    fcntl(fds_[1], F_SETPIPE_SZ, 4096);
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~Pipe() {
    CloseReader();
    close(fds_[1]);
  }
  void CloseReader() {
    if (fds_[0] >= 0) close(std::exchange(fds_[0], -1));
  }
  // Reads until `end` has arrived. Gives up after kTestLimit without new bytes.
  std::string Read(const std::string& end) {
    std::string text;
    Clock::time_point last = Clock::now();
    fcntl(fds_[0], F_SETFL, O_NONBLOCK);
    while (text.find(end) == std::string::npos && Clock::now() - last < test::kTestLimit) {
      char buffer[65536];
      const ssize_t size = read(fds_[0], buffer, sizeof(buffer));
      if (size > 0) {
        text.append(buffer, static_cast<size_t>(size));
        last = Clock::now();
      } else {
        std::this_thread::sleep_for(1ms);
      }
    }
    return text;
  }
  int writer() const { return fds_[1]; }

 private:
  int fds_[2] = {-1, -1};
};

std::unique_ptr<spdlog::logger> LoggerOf(std::shared_ptr<DescriptorSink> sink) {
  auto logger = std::make_unique<spdlog::logger>("test", std::move(sink));
  logger->set_pattern("%v");
  return logger;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(LogSinkTest, WhileNobodyReadsLoggingGoesOnAndTheOldestLinesAreCounted) {
  Pipe pipe;
  auto sink = std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options{.max_queued_bytes = 50'000});
  const auto logger = LoggerOf(sink);
  const uint64_t before = DroppedLines(DropReason::kReader);
  constexpr int kLines = 1000;
  for (int i = 0; i < kLines; ++i) logger->info("line {} {}", i, std::string(1000, 'x'));
  const uint64_t dropped = DroppedLines(DropReason::kReader) - before;
  EXPECT_GT(dropped, 900u);

  logger->info("the end");
  const std::vector<std::string> lines = Lines(pipe.Read("the end\n"));
  uint64_t said = 0;
  uint64_t seen = 0;
  int next = 0;
  for (const std::string& line : lines) {
    if (line.rfind("log_lines_dropped", 0) == 0) {
      const uint64_t count = std::stoull(line.substr(line.rfind(kUnitSeparator) + 1));
      said += count;
      next += static_cast<int>(count);
    } else if (line != "the end") {
      ++seen;
      EXPECT_EQ(line, "line " + std::to_string(next++) + " " + std::string(1000, 'x'));
    }
  }
  EXPECT_EQ(lines.back(), "the end");
  EXPECT_GE(said, dropped);
  EXPECT_EQ(said + seen, static_cast<uint64_t>(kLines)) << "a line went without being counted";
}

TEST(LogSinkTest, FlushAndDestructionGiveUpOnAReaderThatDoesNotRead) {
  Pipe pipe;
  auto sink = std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options{.flush_time = 200ms});
  auto logger = LoggerOf(sink);
  for (int i = 0; i < 100; ++i) logger->info("{}", std::string(1000, 'x'));
  const auto begin = Clock::now();
  logger->flush();
  EXPECT_GE(Clock::now() - begin, 200ms);
  logger.reset();
  sink.reset();
}

TEST(LogSinkTest, WhatWasLoggedBeforeDestructionIsThereWhenTheReaderReads) {
  Pipe pipe;
  auto logger = LoggerOf(
      std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options{.flush_time = test::kTestLimit}));
  std::thread reader([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_THAT(pipe.Read("stopped\n"), EndsWith("stopped\n"));
  });
  for (int i = 0; i < 100; ++i) logger->info("{}", std::string(1000, 'x'));
  logger->info("stopped");
  logger.reset();
  reader.join();
}

TEST(LogSinkTest, LinesLongerThanAPipeComeOutWholeInEachThreadsOrderWithItsNumber) {
  Pipe pipe;
  const auto logger = LoggerOf(
      std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options{.max_queued_bytes = size_t{64} << 20}));
  logger->set_pattern("%t %v");
  std::string text;
  std::thread reader([&] { text = pipe.Read("the end\n"); });
  std::vector<std::thread> threads;
  std::vector<size_t> ids(4);
  for (size_t t = 0; t < ids.size(); ++t) {
    threads.emplace_back([&, t] {
      ids[t] = spdlog::details::os::thread_id();
      for (int i = 0; i < 50; ++i) logger->info("{} {} {}", t, i, std::string(10'000, static_cast<char>('a' + t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  logger->info("the end");
  reader.join();
  std::vector<int> next(ids.size());
  const std::vector<std::string> lines = Lines(text);
  ASSERT_EQ(lines.size(), 4u * 50 + 1);
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const size_t t = static_cast<size_t>(lines[i].back() - 'a');
    ASSERT_LT(t, ids.size());
    EXPECT_EQ(lines[i], std::to_string(ids[t]) + " " + std::to_string(t) + " " + std::to_string(next[t]++) + " " +
                            std::string(10'000, static_cast<char>('a' + t)));
  }
}

TEST(LogSinkTest, LinesThatCannotBeWrittenAreDroppedAndCounted) {
  Pipe pipe;
  pipe.CloseReader();
  const uint64_t before = DroppedLines(DropReason::kReader);
  auto logger = LoggerOf(std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options()));
  logger->info("one");
  logger->flush();
  EXPECT_EQ(DroppedLines(DropReason::kReader) - before, 1u);
}

TEST(LogSinkTest, ACrashWaitsForTheWriter) {
  Pipe pipe;
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGABRT, SIGSEGV}) std::signal(number, SIG_DFL);
    auto sink =
        std::make_shared<DescriptorSink>(pipe.writer(), DescriptorSink::Options{.flush_time = test::kTestLimit});
    sink->FlushOnCrash();
    const auto logger = LoggerOf(sink);
    for (int i = 0; i < 20; ++i) logger->info("{}", std::string(1000, 'x'));
    logger->info("last words");
    std::abort();
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(pipe.Read("last words\n"), HasSubstr("last words\n"));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
}

TEST(LogLimitTest, TextsAreCutBetweenCharactersAndSaySo) {
  EXPECT_EQ(Truncate("12345", 5), "12345");
  EXPECT_EQ(Truncate("123456", 5), "12345... (1 bytes more)");
  EXPECT_EQ(Truncate("1234\u00e9", 5), "1234... (2 bytes more)");
  EXPECT_EQ(Truncate("\U0001F600", 3), "... (4 bytes more)");
  EXPECT_EQ(Truncate(std::string(10, '\x80'), 5), "\x80\x80... (8 bytes more)") << "no UTF-8 at all";
}

TEST(LogLimitTest, NoMoreLinesThanTheLimitPassInASecondAndTheNextOneCountsTheOthers) {
  LogRateLimiter limit(2);
  const uint64_t before = DroppedLines(DropReason::kRate);
  const LogRateLimiter::Clock::time_point start{1h};
  EXPECT_EQ(limit.Admit(start), 0u);
  EXPECT_EQ(limit.Admit(start + 1ms), 0u);
  EXPECT_EQ(limit.Admit(start + 999ms), std::nullopt);
  EXPECT_EQ(limit.Admit(start + 999ms), std::nullopt);
  EXPECT_EQ(limit.Admit(start + 1000ms), 2u);
  EXPECT_EQ(limit.Admit(start + 1001ms), 0u);
  EXPECT_EQ(limit.Admit(start + 1002ms), std::nullopt);
  EXPECT_EQ(DroppedLines(DropReason::kRate) - before, 3u);
}

}  // namespace
}  // namespace maxsim::log
