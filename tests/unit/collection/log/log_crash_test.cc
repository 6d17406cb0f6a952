// Kills a process while it appends to a log. Every write that the log had acknowledged to the process must be in the
// log.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

// A child process that appends, and the read end of the pipe to which it writes acknowledged sequences.
struct Appender {
  pid_t pid = -1;
  int fd = -1;
};

Appender StartAppender(const std::string& folder, int num_tokens, int batch) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const std::string tokens = Cat(num_tokens);
  const std::string records = Cat(batch);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(MAXSIM_APPEND_FOREVER, MAXSIM_APPEND_FOREVER, folder.c_str(), tokens.c_str(), records.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

// Waits for the first acknowledged sequence on the pipe and then for `time`, and kills the process. Returns the last
// sequence that the process has written to the pipe.
uint64_t KillAfter(const Appender& appender, std::chrono::microseconds time) {
  pollfd ready{appender.fd, POLLIN, 0};
  poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(test::kTestLimit).count()));
  std::this_thread::sleep_for(time);
  kill(appender.pid, SIGKILL);
  int status = 0;
  waitpid(appender.pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself: " << status;
  std::string text;
  char block[4096];
  for (ssize_t count = 0; (count = read(appender.fd, block, sizeof(block))) > 0;) {
    text.append(block, static_cast<size_t>(count));
  }
  close(appender.fd);
  const size_t end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  const size_t before = text.rfind('\n', end - 1);
  return std::stoull(text.substr(before == std::string::npos ? 0 : before + 1));
}

TEST(LogCrash, LosesNoAcknowledgedWriteWhenTheProcessIsKilled) {
  std::mt19937 random(11);
  for (const int num_tokens : {10, 3000}) {
    TemporaryFolder folder;
    uint64_t before = 0;
    for (int round = 0; round < (test::kSanitized ? 4 : 7); ++round) {
      const Appender appender = StartAppender(folder.path(), num_tokens, 1 + round % 7);
      ASSERT_GT(appender.pid, 0);
      const uint64_t acknowledged = KillAfter(appender, std::chrono::microseconds(random() % 40'000));
      EXPECT_GT(acknowledged, before);
      // Every third round, this process checks the log itself. In the other rounds the next appender must open the log
      // that the killed one left.
      if (round % 3 != 0) continue;
      const auto log = CollectionLog::Open(folder.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
      ASSERT_TRUE(log.ok()) << log.status();
      EXPECT_GE((*log)->last_sequence(), acknowledged);
      const auto read = ReadMarked(**log, 0, num_tokens);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, (*log)->last_sequence());
      before = *read;
    }
  }
}

TEST(LogCrash, AnotherProcessThatHasTheLogOpenIsNamed) {
  TemporaryFolder folder;
  const Appender appender = StartAppender(folder.path(), 10, 1);
  ASSERT_GT(appender.pid, 0);
  pollfd ready{appender.fd, POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 10'000), 1);
  const auto log = CollectionLog::Open(folder.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  EXPECT_TRUE(absl::IsFailedPrecondition(log.status())) << log.status();
  EXPECT_THAT(std::string(log.status().message()),
              ::testing::HasSubstr(Cat("is open in another process (", appender.pid, ")")));
  KillAfter(appender, std::chrono::microseconds(0));
}

}  // namespace
}  // namespace maxsim::collection
