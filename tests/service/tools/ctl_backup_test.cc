// Tests that `maxsimctl snapshot NAME URL` writes what the server sends, refuses wrong arguments and a URL that already
// has a backup, and leaves no manifest if the backup fails.
#include <xxhash.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_documents_fixture.h"
#include "tests/support/collection/shard_fixture.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CtlBackupTest : public CtlDocumentsTest {
 protected:
  void SetUp() override {
    CtlDocumentsTest::SetUp();
    const std::string text = "{}";
    std::vector<v1::ReadSnapshotResponse> messages(3);
    v1::SnapshotBegin& begin = *messages[0].mutable_begin();
    begin.set_sequence(41);
    begin.set_total_bytes(text.size());
    begin.mutable_collection()->set_name("notes");
    begin.mutable_stream()->set_name("maxsim-notes");
    begin.mutable_stream()->set_created_unix_ns(7);
    messages[1].mutable_file()->set_path("collection.json");
    messages[1].mutable_file()->set_bytes(text.size());
    messages[1].mutable_file()->set_xxh3(XXH3_64bits(text.data(), text.size()));
    messages[2].set_data(text);
    server_.snapshot_messages = messages;
  }

  std::string Url(const std::string& name) const { return "file://" + backups_.Path(name); }

  collection::TemporaryFolder backups_;
};

TEST_F(CtlBackupTest, ABackupIsWrittenOnce) {
  Outcome run = Run({"snapshot", "notes", Url("monday")});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, AllOf(StartsWith("backed up notes of 1 server to file://"), HasSubstr("position 41")));
  const json manifest = json::parse(collection::ReadBytes(backups_.Path("monday/manifest.json")));
  EXPECT_EQ(manifest["collection"], "notes");
  EXPECT_EQ(manifest["position"], 41);
  EXPECT_EQ(manifest["stream"], (json{{"name", "maxsim-notes"}, {"created_unix_ns", 7}}));
  EXPECT_EQ(collection::ReadBytes(
                backups_.Path("monday/data-" + manifest["id"].get<std::string>() + "/part-0/collection.json")),
            "{}");
  run = Run({"snapshot", "notes", Url("monday")});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("ALREADY_EXISTS"), HasSubstr("name a new prefix")));
  run = Run({"snapshot", "notes", Url("tuesday"), "--json"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.out)["complete_at"], 41);
  EXPECT_EQ(json::parse(run.out)["parts"][0]["end_slot"], 4096);
}

TEST_F(CtlBackupTest, ABackupThatFailsHasNoManifest) {
  server_.admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down");
  Outcome run = Run({"snapshot", "notes", Url("lost")});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("the server is shutting down"));
  EXPECT_FALSE(std::filesystem::exists(backups_.Path("lost/manifest.json")));
  server_.admin_status = grpc::Status::OK;
  server_.snapshot_messages[2].set_data("[]");
  run = Run({"snapshot", "notes", Url("damaged")});
  EXPECT_THAT(run.err, HasSubstr("DATA_LOSS"));
  EXPECT_FALSE(std::filesystem::exists(backups_.Path("damaged/manifest.json")));
}

TEST_F(CtlBackupTest, WrongUrlsAndFlagsAreRefused) {
  EXPECT_THAT(Run({"snapshot", "notes", "ftp://host/x"}).err, HasSubstr("s3://BUCKET/PREFIX or file:///FOLDER"));
  EXPECT_THAT(Run({"snapshot", "notes", "s3://backups/x"}).err, HasSubstr("AWS_ACCESS_KEY_ID: is not set"));
  EXPECT_EQ(Run({"snapshot", "notes", "/srv/copy", "--cluster"}).code, kExitUsage);
  EXPECT_EQ(Run({"snapshot", "notes", Url("x"), "--group-token-file", "/x"}).code, kExitUsage);
  EXPECT_THAT(Run({"snapshot", "notes", Url("x"), "--cluster"}).err, HasSubstr("not a router"));
  EXPECT_FALSE(std::filesystem::exists(backups_.Path("x")));
}

}  // namespace
}  // namespace maxsim::ctl
