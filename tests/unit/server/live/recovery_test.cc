// Tests writes to a live collection while the disk fails, and the recovery after that.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

// While this object lives, no file of this process can grow beyond `bytes`, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*const handler_)(int);
};

class RecoveryTest : public LiveTest {
 protected:
  RecoveryTest() {
    Create();
    Open();
  }
  std::vector<store::Write> ManyWrites() {
    std::vector<store::Write> writes;
    for (int64_t n = 0; n < 3000; ++n) writes.push_back(Upsert(absl::StrCat("many", n), n));
    return writes;
  }
};

TEST_F(RecoveryTest, OfAFullDiskMakesMemoryEqualTheLog) {
  MustWrite(List(Upsert("a", 1), Upsert("b", 2)));
  const Documents before = Now();
  {
    const FileSizeLimit limit(64 << 10);
    const auto results = Write(ManyWrites());
    ASSERT_FALSE(results.ok());
    EXPECT_TRUE(absl::IsResourceExhausted(results.status()) || absl::IsUnavailable(results.status()))
        << results.status();
    EXPECT_TRUE(client::RetryAfter(results.status()).has_value());
    EXPECT_FALSE(live().state().status.ok());
    EXPECT_EQ(Now(), before);
  }
  EXPECT_TRUE(Eventually([&] { return live().state().status.ok(); }));
  const Documents recovered = Now();
  EXPECT_TRUE(recovered == before || recovered.size() == before.size() + 3000);
  MustWrite(List(Upsert("c", 3)));
  Documents expected = recovered;
  expected["c"] = 3;
  EXPECT_EQ(Now(), expected);
  Reopen();
  EXPECT_EQ(Now(), expected);
}

TEST_F(RecoveryTest, IsFollowedByCompaction) {
  MustWrite(List(Upsert("a", 1)));
  {
    const FileSizeLimit limit(64 << 10);
    ASSERT_FALSE(Write(ManyWrites()).ok());
  }
  EXPECT_TRUE(Eventually([&] { return live().state().status.ok(); }));
  MustWrite(List(Upsert("b", 2)));
  const Documents expected = Now();
  MustCompact();
  EXPECT_EQ(Now(), expected);
}

}  // namespace
}  // namespace maxsim::live
