// Tests writes to a live collection for which memory cannot be allocated.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

class NoMemoryTest : public LiveTest {
 protected:
  NoMemoryTest() : LiveTest(std::make_unique<test::FakeBackend>()) {
    Create();
    Open();
    MustWrite(List(Upsert("a", 1), Upsert("b", 2)));
    expected_ = {{"a", 1}, {"b", 2}};
  }
  test::FakeBackend& backend() { return static_cast<test::FakeBackend&>(*backend_); }
  // Returns a function that throws bad_alloc in its `number`-th call, counted from 1, and in no other.
  static std::function<void()> ThrowInCall(int number) {
    return [number, calls = std::make_shared<std::atomic<int>>(0)] {
      if (++*calls == number) throw std::bad_alloc();
    };
  }
  // Returns writes that need several segments. The first segment has 256 tokens, each later one as many as all before
  // it together.
  std::vector<store::Write> ManyWrites() {
    std::vector<store::Write> writes = List(Upsert("a", 7), Delete("b"));
    for (int64_t n = 0; n < 400; ++n) writes.push_back(Upsert(absl::StrCat("many", n % 350), n));
    writes.push_back(Delete("many3"));
    return writes;
  }
  void ExpectManyWrites() {
    expected_ = {{"a", 7}};
    for (int64_t n = 0; n < 400; ++n) expected_[absl::StrCat("many", n % 350)] = n;
    expected_.erase("many3");
  }

  Documents expected_;
};

TEST_F(NoMemoryTest, ForAPlanRefusesTheGroupAndWritesNothing) {
  backend().OnCreateAppendable([] { throw std::bad_alloc(); });
  const absl::Status status = Write(ManyWrites()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(client::RetryAfter(status).has_value());
  EXPECT_EQ(live().state().sequence, 2u);
  EXPECT_EQ(Now(), expected_);
  // A write that fits into the existing segments succeeds, although no new memory can be allocated.
  MustWrite(List(Upsert("c", 3)));
  expected_["c"] = 3;
  EXPECT_EQ(Now(), expected_);
  backend().OnCreateAppendable(nullptr);
  MustWrite(ManyWrites());
  ExpectManyWrites();
  expected_["c"] = 3;
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(NoMemoryTest, ForAnAppendIsRecoveredFromWhateverSegmentsHadBefore) {
  ExpectManyWrites();
  for (int failing = 1; failing <= 4; ++failing) {
    SCOPED_TRACE(failing);
    const uint64_t before = live().state().sequence;
    backend().OnAppend(ThrowInCall(failing));
    const absl::Status status = Write(ManyWrites()).status();
    backend().OnAppend(nullptr);
    if (failing <= 2) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(client::RetryAfter(status).has_value());
    }
    // The failed writes are in the log, so the collection must serve them after it has recovered.
    ASSERT_TRUE(Eventually([&] { return live().state().status.ok() && live().state().sequence > before + 400; }));
    EXPECT_EQ(Now(), expected_);
    MustWrite(List(Upsert("later", failing)));
    expected_["later"] = failing;
    EXPECT_EQ(Now(), expected_);
  }
  MustCompact();
  MustWrite(List(Upsert("later", 9)));
  expected_["later"] = 9;
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(NoMemoryTest, ForAnAppendIsNoLossForTheNextGeneration) {
  // A compaction runs before the failed append is tried again. It loads the next generation from the log, and from
  // segments that have only some of the call's documents. No write may be lost.
  MustWrite(List(Upsert("c", 3)));
  backend().OnAppend(ThrowInCall(2));
  EXPECT_FALSE(Write(ManyWrites()).ok());
  backend().OnAppend(nullptr);
  bool changed = false;
  EXPECT_TRUE(live().Compact(nullptr, &changed).ok());
  ASSERT_TRUE(Eventually([&] { return live().state().status.ok(); }));
  EXPECT_EQ(live().state().sequence, Find()->sequence());
  ExpectManyWrites();
  expected_["c"] = 3;
  EXPECT_EQ(Now(), expected_);
}

}  // namespace
}  // namespace maxsim::live
