#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "client/error_details.h"
#include "server/live/stream/nats_keys.h"
#include "server/live/stream/nats_setup.h"
#include "server/live/stream/nats_stream.h"
#include "tests/support/values/eventually.h"

namespace maxsim::live {
namespace {

TEST(NatsNames, OfCollectionsAreThoseOfStreamsAndDifferAsTheCollectionsDo) {
  EXPECT_EQ(StreamNameOf("maxsim", "docs"), "maxsim-docs");
  EXPECT_EQ(StreamNameOf("maxsim", "docs.v1_a-b"), "maxsim-docs+v1_a-b");
  EXPECT_EQ(SubjectsOf("maxsim", "docs.v1"), "maxsim.docs+v1.*");
}

TEST(NatsNames, OfABucketAreThoseThatOtherClientsUse) {
  const nats::StreamNames names = nats::BucketNames("NATS", "maxsim");
  EXPECT_EQ(names.name, "KV_maxsim");
  EXPECT_EQ(names.subjects, "$KV.maxsim.>");
  NatsOptions options;
  options.stream_prefix = "team_a";
  EXPECT_EQ(MakeNatsKeys(options)->name(), "bucket team_a");
}

TEST(NatsNames, OfServersLoseTheirPasswords) {
  EXPECT_EQ(WithoutSecrets("nats://a:4222"), "nats://a:4222");
  EXPECT_EQ(WithoutSecrets("nats://me:p@ss@a:4222,tls://token@b"), "nats://a:4222,tls://b");
}

TEST(NatsStream, ThatCannotBeReachedIsUnavailableAndNamesTheKeyWithoutThePassword) {
  NatsOptions options;
  options.url = "nats://me:secret@127.0.0.1:1";
  options.timeout = absl::Milliseconds(300);
  const std::unique_ptr<OrderedStream> stream = MakeNatsStream(options, "docs");
  const absl::Status status = stream->Open(true).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("nats.url nats://127.0.0.1:1"), std::string::npos) << status;
  EXPECT_EQ(status.message().find("secret"), std::string::npos) << status;
  EXPECT_TRUE(absl::IsUnavailable(stream->Publish(1, "a-1", "data", absl::InfiniteFuture())));
}

TEST(NatsStream, WithCredentialsThatAreNotThereNamesTheKey) {
  NatsOptions options;
  options.url = "nats://127.0.0.1:1";
  options.credentials_file = "/nowhere/nats.creds";
  options.timeout = absl::Milliseconds(300);
  const absl::Status status = MakeNatsStream(options, "docs")->Open(true).status();
  EXPECT_FALSE(status.ok());
  options.credentials_file.clear();
  options.tls_ca_file = "/nowhere/ca.pem";
  const absl::Status of_ca = MakeNatsStream(options, "docs")->Open(true).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(of_ca)) << of_ca;
  EXPECT_NE(of_ca.message().find("nats.tls_ca_file"), std::string::npos) << of_ca;
}

TEST(NatsKeys, ThatCannotBeReachedAreUnavailableAndNameTheKeyWithoutThePassword) {
  NatsOptions options;
  options.url = "nats://me:secret@127.0.0.1:1";
  options.timeout = absl::Milliseconds(300);
  std::mutex mutex;
  std::vector<absl::Status> told;
  const std::unique_ptr<KeyValueStore> keys = MakeNatsKeys(options);
  keys->Add({.prefix = "a.",
             .on_change = [](const KeyValueStore::Change& change) { ADD_FAILURE() << change.key; },
             .on_status =
                 [&](const absl::Status& status) {
                   const std::lock_guard lock(mutex);
                   told.push_back(status);
                 }});
  ASSERT_TRUE(test::Eventually([&] {
    const std::lock_guard lock(mutex);
    return told.size() > 1;
  })) << "the store does not try again";
  const absl::Status put = keys->Put("a.b", "value", 0).status();
  EXPECT_EQ(client::ReasonOf(put), client::kReasonNothingWritten);
  std::vector<absl::Status> statuses = {put, keys->Get("a.b").status(), keys->Delete("a.b")};
  {
    const std::lock_guard lock(mutex);
    statuses.insert(statuses.end(), told.begin(), told.end());
  }
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_NE(status.message().find("nats.url nats://127.0.0.1:1"), std::string::npos) << status;
    EXPECT_EQ(status.message().find("secret"), std::string::npos) << status;
  }
}

TEST(NatsKeys, WithoutAWatchDoNotConnect) {
  NatsOptions options;
  options.url = "nats://127.0.0.1:1";
  EXPECT_TRUE(absl::IsUnavailable(MakeNatsKeys(options)->Put("a.b", "value", 0).status()));
}

}  // namespace
}  // namespace maxsim::live
