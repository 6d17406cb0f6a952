// Tests that a time limit that passes while a collector's answer is arriving loses that batch of spans and no other.
#include <memory>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/connections/slow_proxy.h"
#include "tests/unit/server/tracing/collector_fixture.h"

namespace maxsim::tracing {
namespace {

using Manner = test::SlowProxy::Manner;

// The proxy passes on one of these numbers of an answer's bytes. A later answer of a connection has about 50 bytes, of
// which 9 are the first frame's header.
constexpr int64_t kFirstBytes[] = {0, 1, 9, 12, 20};

class OtlpSlowAnswersTest : public OtlpExporterTest {
 protected:
  // Opens an exporter that reaches the collector through a slow proxy.
  void OpenByProxy(absl::Duration timeout) {
    if (proxy_ == nullptr) {
      proxy_ = std::make_unique<test::SlowProxy>(collector_.Open());
      port_ = proxy_->port();
    }
    proxy_->PassOn();
    observer_ = std::make_shared<CountingObserver>();
    ExporterOptions options = Quick();
    options.timeout = timeout;
    options.max_attempts = 1;
    Open(options);
  }
  // Records spans until one is exported. On a busy machine, some spans miss the time limit.
  void ExpectWorks() {
    const uint64_t before = observer_->num_exported();
    ASSERT_TRUE(test::Eventually([&] {
      const uint64_t done = observer_->num_exported() + observer_->num_dropped(DropReason::kTimeout);
      Record(1);
      return observer_->WaitFor(done + 1) && observer_->num_exported() > before;
    }));
  }

  std::unique_ptr<test::SlowProxy> proxy_;
};

TEST_F(OtlpSlowAnswersTest, ATimeoutWhileAnAnswerArrivesLosesTheBatchAlone) {
  for (const Manner manner : {Manner::kStop, Manner::kDrip}) {
    for (const int64_t count : kFirstBytes) {
      SCOPED_TRACE(absl::StrCat(count, manner == Manner::kStop ? " and stops" : " and drips"));
      OpenByProxy(absl::Milliseconds(40));
      ExpectWorks();
      const uint64_t timeouts = observer_->num_dropped(DropReason::kTimeout);
      const uint64_t done = observer_->num_exported() + timeouts;
      proxy_->PassOnAtMost(count, manner);
      Record(1);
      ASSERT_TRUE(observer_->WaitFor(done + 1));
      // If the proxy does not stop the answer but passes it on slowly, the answer may still arrive in time.
      if (manner == Manner::kStop) {
        EXPECT_EQ(observer_->num_dropped(DropReason::kTimeout), timeouts + 1);
      }
      proxy_->PassOn();
      ExpectWorks();
    }
  }
}

TEST_F(OtlpSlowAnswersTest, ShuttingDownWhileAnAnswerArrivesEndsTheAttempt) {
  for (const int64_t count : kFirstBytes) {
    SCOPED_TRACE(count);
    OpenByProxy(absl::Hours(1));
    ExpectWorks();
    proxy_->PassOnAtMost(count, Manner::kStop);
    Record(1);
    ASSERT_TRUE(test::Eventually([&] { return proxy_->has_held(); }));
    tracer_->Shutdown(MonotonicNow() + absl::Milliseconds(20));
    EXPECT_EQ(observer_->num_dropped(DropReason::kShutdown), 1u);
  }
}

}  // namespace
}  // namespace maxsim::tracing
