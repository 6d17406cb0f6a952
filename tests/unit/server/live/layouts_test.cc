// Layouts that several servers share through one key-value store.
#include "server/live/shared/layouts.h"

#include <atomic>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/live/shared/layout_value.h"
#include "server/observability/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/unit/server/live/fake_keys.h"
#include "tests/unit/server/live/streamed_fixture.h"

namespace maxsim::live {
namespace {

using collection::SlotOwner;
using testing::HasSubstr;

std::vector<SlotOwner> Halves(uint32_t middle = 2048) { return {{"g0", 0, middle}, {"g1", middle, 4096}}; }

class LayoutsTest : public testing::Test {
 protected:
  LayoutsTest() : logger_before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
    spdlog::default_logger()->set_formatter(log::TextFormatter());
    a_->Follow();
    b_->Follow();
  }
  ~LayoutsTest() override { spdlog::set_default_logger(logger_before_); }

  // Returns the revision of the layout that was set.
  uint64_t MustSet(Layouts& layouts, uint64_t expected_revision, uint32_t middle = 2048) {
    const auto layout = layouts.Set("docs", Halves(middle), expected_revision);
    EXPECT_TRUE(layout.ok()) << layout.status();
    return layout.ok() ? layout->revision : 0;
  }
  // Returns how often a text was logged.
  size_t NumLogged(const std::string& text) const {
    const std::string lines = lines_.str();
    size_t count = 0;
    for (size_t at = lines.find(text); at != std::string::npos; at = lines.find(text, at + 1)) ++count;
    return count;
  }

  const std::shared_ptr<spdlog::logger> logger_before_;
  std::ostringstream lines_;
  FakeKeyServer server_;
  const std::unique_ptr<Layouts> a_ = std::make_unique<Layouts>(server_.Connect());
  const std::unique_ptr<Layouts> b_ = std::make_unique<Layouts>(server_.Connect());
};

TEST_F(LayoutsTest, EveryServerSeesALayoutThatOneHasSet) {
  EXPECT_EQ(a_->Find("docs"), nullptr);
  const auto first = a_->Set("docs", Halves(), 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->owners, Halves());
  for (const Layouts* const layouts : {a_.get(), b_.get()}) {
    ASSERT_NE(layouts->Find("docs"), nullptr);
    EXPECT_EQ(*layouts->Find("docs"), *first);
  }
  EXPECT_EQ(a_->Find("docs.2"), nullptr);
  const uint64_t second = MustSet(*b_, first->revision, 1000);
  EXPECT_GT(second, first->revision);
  EXPECT_EQ(a_->Find("docs")->owners, Halves(1000));
  EXPECT_EQ(a_->Find("docs")->revision, second);
  Layouts later(server_.Connect());
  later.Follow();
  ASSERT_NE(later.Find("docs"), nullptr);
  EXPECT_EQ(later.Find("docs")->revision, second);
}

TEST_F(LayoutsTest, ASetWithAnotherRevisionIsAbortedAndNamesThePresentOne) {
  absl::Status status = a_->Set("docs", Halves(), 7).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected_revision: is 7, but collection docs has no layout; "));
  const uint64_t revision = MustSet(*a_, 0);
  for (const uint64_t other : {uint64_t{0}, revision - 1, revision + 1}) {
    if (other == revision) continue;
    status = b_->Set("docs", Halves(5), other).status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(client::FieldOf(status), "expected_revision");
    EXPECT_EQ(client::ReasonOf(status), client::kReasonOtherRevision);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("is ", other, ", but the layout of collection docs has revision ", revision)));
  }
  EXPECT_EQ(b_->Find("docs")->owners, Halves());
}

TEST_F(LayoutsTest, OfCompetingSetsOneWins) {
  uint64_t revision = 0;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_set{0};
    std::atomic<uint64_t> set{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const auto layout = (i % 2 == 0 ? a_ : b_)->Set("docs", Halves(i + 1), revision);
        if (layout.ok()) {
          ++num_set;
          set = layout->revision;
        } else {
          EXPECT_TRUE(absl::IsAborted(layout.status())) << layout.status();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(num_set, 1);
    ASSERT_GT(set, revision);
    revision = set;
    EXPECT_EQ(a_->Find("docs")->revision, revision);
    EXPECT_EQ(*a_->Find("docs"), *b_->Find("docs"));
  }
}

TEST_F(LayoutsTest, ALayoutThatAnOperatorRemovesIsGoneAndCanBeSetAgain) {
  const uint64_t revision = MustSet(*a_, 0);
  server_.Remove("layout.docs");
  EXPECT_EQ(a_->Find("docs"), nullptr);
  EXPECT_EQ(b_->Find("docs"), nullptr);
  EXPECT_EQ(NumLogged("layout_removed"), 2u);
  EXPECT_GT(MustSet(*b_, 0), revision);
  EXPECT_NE(a_->Find("docs"), nullptr);
}

TEST_F(LayoutsTest, AnIgnoredValueIsReportedUntilItIsCorrectedOrRemoved) {
  EXPECT_TRUE(a_->CheckReadable("docs").ok());
  const uint64_t revision = server_.Write("layout.docs", R"({"format_version": 2})");
  EXPECT_EQ(a_->Find("docs"), nullptr);
  const absl::Status status = a_->CheckReadable("docs");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(status.message(), absl::StrCat("its layout of revision ", revision,
                                           " is ignored (key layout.docs of fake keys): format_version: 2; this "
                                           "version reads 1"));
  MustSet(*b_, revision);
  EXPECT_TRUE(a_->CheckReadable("docs").ok());
  server_.Write("layout.docs", "{}");
  EXPECT_TRUE(absl::IsFailedPrecondition(a_->CheckReadable("docs"))) << "the server keeps the layout before it";
  EXPECT_NE(a_->Find("docs"), nullptr);
  server_.Remove("layout.docs");
  EXPECT_TRUE(a_->CheckReadable("docs").ok());
}

TEST_F(LayoutsTest, AWrongValueIsIgnoredAndLoggedOnceByEachServer) {
  MustSet(*a_, 0);
  const std::string wrong = R"({"owners": [{"group": "g0", "slots": {"first_slot": 0, "end_slot": 4095}}]})";
  const uint64_t revision = server_.Write("layout.docs", wrong);
  server_.TellAll();
  EXPECT_EQ(a_->Find("docs")->owners, Halves());
  EXPECT_EQ(NumLogged("layout_ignored"), 2u);
  EXPECT_THAT(lines_.str(), HasSubstr("layout.docs"));
  EXPECT_THAT(lines_.str(), HasSubstr(absl::StrCat("revision=", revision)));
  EXPECT_THAT(lines_.str(), HasSubstr("owners[0].slots.end_slot: is 4095; must be 4096"));
  // The key has the revision of the wrong value.
  EXPECT_TRUE(absl::IsAborted(a_->Set("docs", Halves(), revision - 1).status()));
  MustSet(*b_, revision, 7);
  EXPECT_EQ(a_->Find("docs")->owners, Halves(7));
  server_.Write("layout.docs", "{}");
  EXPECT_EQ(NumLogged("layout_ignored"), 4u) << "this is another wrong value";
}

TEST_F(LayoutsTest, KeysOfOtherThingsAreNoLayouts) {
  server_.Write("collections.docs", FormatLayoutValue(Halves()));
  server_.Write("layoutdocs", FormatLayoutValue(Halves()));
  EXPECT_EQ(a_->Find("docs"), nullptr);
  EXPECT_EQ(NumLogged("layout_ignored"), 0u);
  // No collection has such a key.
  server_.Write("layout.a.b", FormatLayoutValue(Halves()));
  server_.Write("layout.==", FormatLayoutValue(Halves()));
  EXPECT_EQ(a_->Find("a.b"), nullptr);
  EXPECT_EQ(NumLogged("layout_ignored"), 4u);
}

TEST_F(LayoutsTest, AKeyHasNoDotsOfTheName) {
  EXPECT_EQ(LayoutKeyOf("docs"), "layout.docs");
  EXPECT_EQ(LayoutKeyOf(".cor..pus_-2."), "layout.=cor==pus_-2=");
  ASSERT_TRUE(a_->Set("cor.pus", Halves(), 0).ok());
  EXPECT_NE(b_->Find("cor.pus"), nullptr);
  EXPECT_TRUE(server_.Read("layout.cor=pus").has_value());
}

TEST_F(LayoutsTest, WhatWasReadStaysWhileTheStoreIsAway) {
  const uint64_t revision = MustSet(*a_, 0);
  ASSERT_TRUE(a_->Set("news", Halves(), 0).ok());
  server_.SetStatus(absl::UnavailableError("the fake keys do not answer"));
  EXPECT_EQ(b_->Find("docs")->revision, revision);
  const absl::Status status = a_->Set("docs", Halves(7), revision).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(client::ReasonOf(status), client::kReasonNothingWritten);
  server_.Write("layout.docs", FormatLayoutValue(Halves(9)));
  server_.Remove("layout.news");
  EXPECT_EQ(b_->Find("docs")->revision, revision);
  EXPECT_NE(b_->Find("news"), nullptr);
  server_.SetStatus(absl::OkStatus());
  EXPECT_EQ(b_->Find("docs")->owners, Halves(9));
  EXPECT_EQ(b_->Find("news"), nullptr);
}

TEST_F(LayoutsTest, AStoreThatCannotBeFollowedIsLoggedOnceAndWhenItReturns) {
  EXPECT_EQ(NumLogged("layouts_"), 0u);
  for (int i = 0; i < 3; ++i) server_.SetStatus(absl::FailedPreconditionError("it is forbidden"));
  EXPECT_EQ(NumLogged("layouts_not_followed"), 2u);
  EXPECT_THAT(lines_.str(), HasSubstr("it is forbidden"));
  server_.SetStatus(absl::OkStatus());
  server_.SetStatus(absl::OkStatus());
  EXPECT_EQ(NumLogged("layouts_followed"), 2u);
}

TEST_F(LayoutsTest, AChangeIsLoggedButNotARepetition) {
  MustSet(*a_, 0);
  server_.TellAll();
  EXPECT_EQ(NumLogged("layout_changed"), 2u);
}

TEST(LayoutsBeginTest, NothingIsFollowedBeforeTheFirstCollection) {
  FakeKeyServer server;
  server.Write("layout.docs", FormatLayoutValue(Halves()));
  Layouts layouts(server.Connect());
  EXPECT_EQ(layouts.Find("docs"), nullptr);
  layouts.Follow();
  layouts.Follow();
  EXPECT_NE(layouts.Find("docs"), nullptr);
}

class CollectionLayoutTest : public StreamedTest {};

TEST_F(CollectionLayoutTest, ACollectionHasTheLayoutOfItsName) {
  FakeKeyServer server;
  Layouts layouts(server.Connect());
  a_.layouts_ = &layouts;
  a_.Open();
  EXPECT_EQ(a_.state().layout, nullptr);
  const auto set = a_.live().SetLayout(Halves(), 0);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_NE(a_.state().layout, nullptr);
  EXPECT_EQ(*a_.state().layout, *set);
  EXPECT_TRUE(server.Read("layout.c").has_value());
  a_.Close();
  EXPECT_TRUE(server.Read("layout.c").has_value()) << "an unload does not remove the layout";
}

TEST_F(CollectionLayoutTest, WithoutAStoreACollectionHasNoLayout) {
  a_.Open();
  EXPECT_EQ(a_.state().layout, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(a_.live().SetLayout(Halves(), 0).status()));
}

}  // namespace
}  // namespace maxsim::live
