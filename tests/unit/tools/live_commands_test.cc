// Tests the commands of maxsim-shard for live collections, as users run them.
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "collection/compact/create.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::shard_tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LiveCommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = collection::CreateLiveCollection(live(), {.name = "live", .dim = 8});
    ASSERT_TRUE(made.ok()) << made.status();
  }
  std::string live() { return folder_.Path("live"); }

  std::unique_ptr<collection::CollectionLog> OpenLog() {
    const auto manifest = collection::ReadManifest(live());
    auto log = collection::CollectionLog::Open(live(), collection::LogFormat::Of(*manifest),
                                               collection::CollectionLog::Mode::kMustExist);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }
  static absl::Status Write(collection::CollectionLog& log, const std::string& id, bool deletes) {
    const std::string rows(2 * 16, '\1');
    collection::LogRecord record;
    record.sequence = log.last_sequence() + 1;
    record.string_id = id;
    if (deletes) {
      record.kind = collection::LogRecord::Kind::kDelete;
    } else {
      record.num_tokens = 2;
      record.rows = rows;
      record.payload = "{\"t\":1}";
    }
    return log.Append({record});
  }
  // Writes a, b, c and deletes b.
  void WriteThree() {
    const auto log = OpenLog();
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Write(*log, id, false).ok());
    ASSERT_TRUE(Write(*log, "b", true).ok());
  }

  // Writes two documents of 2 and 1 tokens. Returns the arguments that build them into the live collection's folder.
  std::vector<std::string> BuildArguments() {
    const std::vector<float> values(24, 0.5F);
    collection::WriteBytes(folder_.Path("tokens.npy"),
                           collection::NpyBytes("<f4", "(3, 8)", collection::AsBytes(values)));
    collection::WriteBytes(folder_.Path("lengths.npy"),
                           collection::NpyBytes("<i8", "(2,)", collection::AsBytes<int64_t>({2, 1})));
    collection::WriteBytes(folder_.Path("docs.jsonl"), "{\"id\":\"a\",\"t\":1}\n{\"id\":\"x\",\"t\":2}\n");
    return {"build",
            "--tokens",
            folder_.Path("tokens.npy"),
            "--lengths",
            folder_.Path("lengths.npy"),
            "--ids",
            folder_.Path("docs.jsonl"),
            "--output",
            live()};
  }

  collection::TemporaryFolder folder_;
};

TEST_F(LiveCommandsTest, CompactBringsTheLogIntoShardsAndEmptiesIt) {
  WriteThree();
  Outcome compacted = RunShard({"compact", live()});
  EXPECT_EQ(compacted.code, 0) << compacted.err;
  EXPECT_THAT(compacted.out, AllOf(HasSubstr("generation 2"), HasSubstr("2 documents"), HasSubstr("1 written")));
  EXPECT_EQ(OpenLog()->first_sequence(), 4);
  compacted = RunShard({"compact", live()});
  EXPECT_EQ(compacted.code, 0) << compacted.err;
  EXPECT_THAT(compacted.out, HasSubstr("nothing had changed"));
}

TEST_F(LiveCommandsTest, CompactSaysWhoHasTheCollection) {
  const auto log = OpenLog();
  const Outcome compacted = RunShard({"compact", live()});
  EXPECT_EQ(compacted.code, 1);
  EXPECT_THAT(compacted.err, AllOf(HasSubstr("while no server has it loaded"), HasSubstr("is open in")));
}

TEST_F(LiveCommandsTest, InspectAndVerifySeeTheLogWhileItIsOpen) {
  const auto log = OpenLog();
  ASSERT_TRUE(Write(*log, "a", false).ok());
  ASSERT_TRUE(Write(*log, "a", true).ok());
  const Outcome shown = RunShard({"inspect", live()});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("2 writes, 1 .. 2, "));
  const Outcome json = RunShard({"inspect", live(), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["log"]["last_sequence"], 2);
  EXPECT_EQ(nlohmann::json::parse(json.out)["log_sequence"], 0);
  const Outcome verified = RunShard({"verify", live()});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, AllOf(HasSubstr("log  2 writes, 1 .. 2  ok"), HasSubstr("no problem found")));
}

TEST_F(LiveCommandsTest, VerifyFindsThatTheLogHasDroppedWhatTheShardsLack) {
  WriteThree();
  ASSERT_TRUE(OpenLog()->Truncate(4, 0).ok());
  const Outcome verified = RunShard({"verify", live()});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.err, HasSubstr("has dropped the writes up to 4, but the shards hold those up to 0"));
  EXPECT_THAT(verified.out, HasSubstr("log  no writes after 4  1 PROBLEM"));
}

TEST_F(LiveCommandsTest, VerifyFindsValuesThatNoDocumentMayHave) {
  {
    const auto log = OpenLog();
    const std::string infinity("\x00\x7c", 2);
    std::string rows(16, '\1');
    rows.replace(4, 2, infinity);
    collection::LogRecord record;
    record.sequence = 1;
    record.string_id = "a";
    record.num_tokens = 1;
    record.rows = rows;
    record.payload = "{\"t\":";
    ASSERT_TRUE(log->Append({record}).ok());
  }
  const Outcome verified = RunShard({"verify", live()});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.err, HasSubstr("sequence 1: token 0, column 2"));
}

TEST_F(LiveCommandsTest, ACollectionWithWritesThatItsShardsLackIsNoInput) {
  WriteThree();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"build", "--input", live(), "--output", folder_.Path("out")},
                                             {"quantize", live(), folder_.Path("out"), "--no-comparison"}}) {
    const Outcome refused = RunShard(arguments);
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("up to sequence 4"), HasSubstr("maxsim-shard compact")));
  }
  ASSERT_EQ(RunShard({"compact", live()}).code, 0);
  const Outcome built = RunShard({"build", "--input", live(), "--output", folder_.Path("out")});
  EXPECT_EQ(built.code, 0) << built.err;
}

TEST_F(LiveCommandsTest, BuildingBesideALogNeedsItsSequence) {
  WriteThree();
  std::vector<std::string> arguments = BuildArguments();
  Outcome built = RunShard(arguments);
  EXPECT_EQ(built.code, 1);
  EXPECT_THAT(built.err, AllOf(HasSubstr("up to sequence 4"), HasSubstr("--log-sequence")));
  arguments.insert(arguments.end(), {"--log-sequence", "5"});
  EXPECT_THAT(RunShard(arguments).err, HasSubstr("--log-sequence 5, but the last write of its log has sequence 4"));
  arguments.back() = "3";
  built = RunShard(arguments);
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_EQ(collection::ReadManifest(live())->log_sequence, 3);
  // The fourth write deletes "b", which the input does not contain. So both documents of the input must be left.
  ASSERT_EQ(RunShard({"compact", live()}).code, 0);
  EXPECT_EQ(collection::ReadManifest(live())->num_documents, 2);
  EXPECT_THAT(RunShard(arguments).err, HasSubstr("its log holds only the writes after sequence 4"));
}

TEST_F(LiveCommandsTest, BuildingIntoALiveCollectionKeepsItsFormat) {
  std::vector<std::string> arguments = BuildArguments();
  arguments.insert(arguments.end(), {"--storage", "i8"});
  const Outcome built = RunShard(arguments);
  EXPECT_EQ(built.code, 1);
  EXPECT_THAT(built.err, AllOf(HasSubstr("is a live collection of string ids, f16, dimension 8"),
                               HasSubstr("the build has string ids, i8, dimension 8, rotation seed")));
  EXPECT_EQ(collection::ReadManifest(live())->generation, 1);
}

TEST_F(LiveCommandsTest, BuildingBesideAnEmptyLogHoldsNoWriteOfIt) {
  ASSERT_EQ(RunShard(BuildArguments()).code, 0);
  EXPECT_EQ(collection::ReadManifest(live())->log_sequence, 0);
}

}  // namespace
}  // namespace maxsim::shard_tool
