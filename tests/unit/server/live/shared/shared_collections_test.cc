// Settings of collections that several servers share through one key-value store.
#include "server/live/shared/shared_collections.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/live/shared/settings_value.h"
#include "server/observability/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/unit/server/live/fake_keys.h"

namespace maxsim::live {
namespace {

using store::SharedSettings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SharedSettings Settings(const std::string& name, int32_t dim = 96) {
  SharedSettings settings;
  settings.options = {.name = name, .dim = dim};
  return settings;
}

// A server with a connection of its own.
struct SharingServer {
  explicit SharingServer(FakeKeyServer& server, std::string group = "") : keys(server.Connect()) {
    shared = std::make_unique<SharedCollections>(
        keys.get(), SharedCollections::Options{.timeout = absl::Milliseconds(50), .group = std::move(group)});
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const SharedCollections::Shared& one : shared->All()) names.push_back(one.settings.options.name);
    return names;
  }

  // Declared in this order, so that the store is destroyed first.
  std::unique_ptr<SharedCollections> shared;
  std::unique_ptr<KeyValueStore> keys;
};

class SharedCollectionsTest : public testing::Test {
 protected:
  SharedCollectionsTest() : logger_before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
    spdlog::default_logger()->set_formatter(log::TextFormatter());
    a_.shared->Follow();
    b_.shared->Follow();
  }
  ~SharedCollectionsTest() override { spdlog::set_default_logger(logger_before_); }

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
  SharingServer a_{server_, "g0"};
  SharingServer b_{server_};
};

TEST_F(SharedCollectionsTest, EveryServerLearnsWhatOneHasClaimed) {
  EXPECT_THAT(b_.Names(), IsEmpty());
  const auto claimed = a_.shared->Claim(Settings("docs"));
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_TRUE(*claimed);
  EXPECT_THAT(a_.Names(), ElementsAre("docs"));
  ASSERT_THAT(b_.Names(), ElementsAre("docs"));
  EXPECT_EQ(b_.shared->All()[0].settings.options.dim, 96);
  EXPECT_EQ(b_.shared->All()[0].settings.group, "g0") << "the group of the server that claimed";
  SharingServer later(server_);
  EXPECT_THAT(later.Names(), IsEmpty());
  later.shared->Follow();
  EXPECT_THAT(later.Names(), ElementsAre("docs"));
}

TEST_F(SharedCollectionsTest, ASecondClaimMustHaveTheSameSettings) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  const auto again = b_.shared->Claim(Settings("docs"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(*again) << "the settings were there before";
  EXPECT_EQ(b_.shared->All()[0].settings.group, "g0");
  for (const absl::Status& status :
       {b_.shared->Claim(Settings("docs", 128)).status(), b_.shared->Check(Settings("docs", 128))}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(client::FieldOf(status), "dim");
    EXPECT_THAT(std::string(status.message()), HasSubstr("is \"128\", but collection docs of this cluster has \"96\""));
  }
  EXPECT_TRUE(b_.shared->Check(Settings("docs")).ok());
  EXPECT_TRUE(b_.shared->Check(Settings("news", 128)).ok());
  EXPECT_EQ(a_.shared->All()[0].settings.options.dim, 96);
}

TEST_F(SharedCollectionsTest, AClaimComparesWithTheStoreAndNotWithWhatTheServerHasRead) {
  SharingServer later(server_);
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  EXPECT_TRUE(later.shared->Check(Settings("docs", 128)).ok()) << "this server has read nothing";
  EXPECT_TRUE(absl::IsFailedPrecondition(later.shared->Claim(Settings("docs", 128)).status()));
}

TEST_F(SharedCollectionsTest, ARemovedCollectionCanBeClaimedWithOtherSettings) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  ASSERT_TRUE(b_.shared->Remove("docs").ok());
  ASSERT_TRUE(b_.shared->Remove("docs").ok()) << "it is no error if there is nothing";
  EXPECT_THAT(a_.Names(), IsEmpty());
  EXPECT_EQ(NumLogged("shared_collection_removed"), 2u);
  const auto claimed = b_.shared->Claim(Settings("docs", 128));
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_TRUE(*claimed);
  EXPECT_EQ(a_.shared->All()[0].settings.options.dim, 128);
}

TEST_F(SharedCollectionsTest, AnUnloadedCollectionIsLeftOutUntilItIsSharedAnew) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  ASSERT_TRUE(a_.shared->Claim(Settings("news")).ok());
  b_.shared->NoteUnloaded("docs");
  b_.shared->NoteUnloaded("unknown");
  server_.TellAll();
  EXPECT_THAT(b_.Names(), ElementsAre("news"));
  EXPECT_FALSE(b_.shared->MayCreate("docs"));
  EXPECT_FALSE(b_.shared->MayCreate("unknown"));
  EXPECT_TRUE(b_.shared->MayCreate("news"));
  EXPECT_THAT(a_.Names(), ElementsAre("docs", "news")) << "the other server has not unloaded it";
  ASSERT_TRUE(a_.shared->Remove("docs").ok());
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  EXPECT_THAT(b_.Names(), ElementsAre("docs", "news"));
  EXPECT_TRUE(b_.shared->MayCreate("docs"));
  ASSERT_TRUE(a_.shared->Remove("docs").ok());
  EXPECT_FALSE(b_.shared->MayCreate("docs"));
}

TEST_F(SharedCollectionsTest, AnUnloadCountsAlsoBeforeTheStoreWasRead) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  ASSERT_TRUE(a_.shared->Claim(Settings("news")).ok());
  server_.SetStatus(absl::UnavailableError("the fake keys do not answer"));
  SharingServer later(server_);
  later.shared->Follow();
  later.shared->NoteUnloaded("docs");
  later.shared->NoteUnloaded("unknown");
  EXPECT_FALSE(later.shared->IsUnused("unknown")) << "the server has read nothing";
  server_.SetStatus(absl::OkStatus());
  server_.TellAll();
  EXPECT_THAT(later.Names(), ElementsAre("news"));
  EXPECT_FALSE(later.shared->MayCreate("docs"));
  EXPECT_FALSE(later.shared->IsUnused("docs"));
  EXPECT_TRUE(later.shared->IsUnused("unknown"));
  server_.Write("collections.wrong", "{}");
  EXPECT_FALSE(later.shared->IsUnused("wrong")) << "its value is ignored";
  EXPECT_TRUE(later.shared->MayCreate("news"));
  // Settings that are shared after the read are new to the server.
  ASSERT_TRUE(a_.shared->Claim(Settings("unknown")).ok());
  ASSERT_TRUE(a_.shared->Remove("docs").ok());
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  EXPECT_THAT(later.Names(), ElementsAre("docs", "news", "unknown"));
}

TEST_F(SharedCollectionsTest, AKeyHasNoDotsOfTheName) {
  EXPECT_EQ(SettingsKeyOf("docs"), "collections.docs");
  EXPECT_EQ(SettingsKeyOf(".cor..pus_-2."), "collections.=cor==pus_-2=");
  ASSERT_TRUE(a_.shared->Claim(Settings("cor.pus")).ok());
  EXPECT_THAT(b_.Names(), ElementsAre("cor.pus"));
  EXPECT_TRUE(server_.Read("collections.cor=pus").has_value());
}

TEST_F(SharedCollectionsTest, AWrongValueIsIgnoredAndLoggedOnceByEachServer) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  server_.Write("collections.docs", R"({"dim": 7})");
  server_.TellAll();
  EXPECT_EQ(NumLogged("shared_collection_ignored"), 2u);
  EXPECT_THAT(lines_.str(), HasSubstr("dim is 7; must be a whole number from 8 to 4096"));
  EXPECT_EQ(a_.shared->All()[0].settings.options.dim, 96) << "the server keeps the last right value";
  const absl::Status status = b_.shared->Claim(Settings("docs")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("key collections.docs"));
  server_.Write("collections.a.b", FormatSettingsValue(Settings("a")));  // no collection has such a key
  EXPECT_EQ(NumLogged("shared_collection_ignored"), 4u);
  EXPECT_THAT(a_.Names(), ElementsAre("docs"));
}

TEST_F(SharedCollectionsTest, WhatWasReadStaysWhileTheStoreIsAway) {
  ASSERT_TRUE(a_.shared->Claim(Settings("docs")).ok());
  server_.SetStatus(absl::UnavailableError("the fake keys do not answer"));
  EXPECT_THAT(b_.Names(), ElementsAre("docs"));
  const absl::Status status = b_.shared->Claim(Settings("news")).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(client::ReasonOf(status), client::kReasonNothingWritten);
  EXPECT_TRUE(absl::IsUnavailable(b_.shared->Remove("docs")));
  server_.SetStatus(absl::OkStatus());
  EXPECT_TRUE(b_.shared->Claim(Settings("news")).ok());
  EXPECT_EQ(NumLogged("shared_collections_not_followed"), 2u);
}

TEST_F(SharedCollectionsTest, AServerThatNeverReachedTheStoreKnowsNothing) {
  server_.SetStatus(absl::UnavailableError("the fake keys do not answer"));
  SharingServer later(server_);
  EXPECT_TRUE(absl::IsUnavailable(later.shared->Claim(Settings("docs")).status()));
  EXPECT_THAT(later.Names(), IsEmpty());
  server_.SetStatus(absl::FailedPreconditionError("it is forbidden"));
  const absl::Status status = later.shared->Claim(Settings("docs")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is forbidden"));
}

}  // namespace
}  // namespace maxsim::live
