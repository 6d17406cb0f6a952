#include "collection/inspection/verifier.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "collection/formats/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Damages the files of a collection of two shards and corrects the manifest to match, so that only the verifier's own
// checks can find the damage.
class VerifierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    collection_.lengths = {60, 60, 60, 60};
    collection_.dim = 64;
    collection_.payloads = {"{\"t\":\"a\"}", "{\"t\":\"b\"}", "", "{\"t\":\"d\"}"};
    const auto built = BuildSmall(collection_, {.folder = folder_.path(), .name = "x", .max_shard_bytes = 20'000});
    ASSERT_TRUE(built.ok()) << built.status();
    manifest_ = *built;
    ASSERT_EQ(manifest_.shards.size(), 2);
  }

  std::string ShardPath(size_t shard) { return folder_.Path(manifest_.shards[shard].file); }

  // Overwrites bytes of a tensor. If `agree`, also writes the new checksum into the manifest.
  void Patch(size_t shard, const char* tensor_name, int64_t at, std::string_view bytes, bool agree = true) {
    std::string file = ReadBytes(ShardPath(shard));
    const auto header = ParseSafetensorsHeader(file, static_cast<int64_t>(file.size()));
    ASSERT_TRUE(header.ok());
    const SafetensorsTensor* tensor = header->Find(tensor_name);
    ASSERT_NE(tensor, nullptr);
    file.replace(static_cast<size_t>(tensor->begin + at), bytes.size(), bytes);
    WriteBytes(ShardPath(shard), file);
    if (!agree) return;
    Checksum checksum;
    checksum.Update(file.data(), file.size());
    manifest_.shards[shard].checksum = checksum.Format();
    ASSERT_TRUE(PublishManifest(manifest_, folder_.path()).ok());
  }

  VerifyReport Verify() {
    shard_problems_.clear();
    absl::StatusOr<VerifyReport> report = VerifyCollection(
        folder_.path(), [&](const ShardReport& shard) { shard_problems_.push_back(shard.num_problems); });
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  TemporaryFolder folder_;
  SmallCollection collection_;
  Manifest manifest_;
  std::vector<int64_t> shard_problems_;
};

TEST_F(VerifierTest, FindsNothingWrongWithWhatWasBuilt) {
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, ElementsAre());
  EXPECT_EQ(report.num_shards, 2);
  EXPECT_EQ(report.num_documents, 4);
  EXPECT_EQ(report.num_tokens, 240);
  EXPECT_THAT(shard_problems_, ElementsAre(0, 0));
}

TEST_F(VerifierTest, FindsValuesThatAreNotFinite) {
  const uint16_t infinity = 0x7c00;
  Patch(0, "tokens", (60 * 64 + 3 * 64 + 5) * 2, AsBytes<uint16_t>({infinity}));
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, ElementsAre(AllOf(HasSubstr(manifest_.shards[0].file), HasSubstr("document 1, id \"b\""),
                                                 HasSubstr("token 3, column 5: inf is not finite"))));
  EXPECT_THAT(shard_problems_, ElementsAre(1, 0));
}

TEST_F(VerifierTest, FindsWhatI8MustNotHold) {
  TemporaryFolder folder;
  const auto built =
      BuildSmall(collection_, {.folder = folder.path(), .name = "x", .storage = ScalarType::kI8, .rotation_seed = 5});
  ASSERT_TRUE(built.ok()) << built.status();
  const std::string path = folder.Path(built->shards[0].file);
  const std::string whole = ReadBytes(path);
  const auto header = ParseSafetensorsHeader(whole, static_cast<int64_t>(whole.size()));
  ASSERT_TRUE(header.ok());
  const auto problems_with = [&](const char* tensor, int64_t at, std::string_view bytes) {
    std::string file = whole;
    file.replace(static_cast<size_t>(header->Find(tensor)->begin + at), bytes.size(), bytes);
    WriteBytes(path, file);
    Manifest manifest = *built;
    Checksum checksum;
    checksum.Update(file.data(), file.size());
    manifest.shards[0].checksum = checksum.Format();
    EXPECT_TRUE(PublishManifest(manifest, folder.path()).ok());
    const auto report = VerifyCollection(folder.path());
    EXPECT_TRUE(report.ok()) << report.status();
    return report->problems;
  };
  EXPECT_THAT(problems_with("tokens", 0, whole.substr(header->Find("tokens")->begin, 1)), ElementsAre());
  EXPECT_THAT(problems_with("tokens", 60 * 64 + 3 * 64 + 5, "\x80"),
              ElementsAre(AllOf(HasSubstr("document 1, id \"b\""),
                                HasSubstr("token 3, column 5: -128 is not in -127 .. 127"))));
  EXPECT_THAT(problems_with("scales", 8, AsBytes<float>({-1})),
              ElementsAre(HasSubstr("scales[2]: -1 is not in 0 .. ")));
  EXPECT_THAT(problems_with("scales", 0, AsBytes<uint32_t>({0x7fc00000})), ElementsAre(HasSubstr("scales[0]: nan")));
}

TEST_F(VerifierTest, FindsAnIdThatAnotherShardHas) {
  // The first shard has the ids "alpha" and "b", the second has "gamma-é" and "4". The patch turns "4" into "b".
  Patch(1, "id_bytes", 8, "b");
  const VerifyReport report = Verify();
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("document 1: id \"b\" is already the id of document 1")));
  EXPECT_THAT(shard_problems_, ElementsAre(0, 1));
}

TEST_F(VerifierTest, FindsAPayloadThatIsNoJsonObject) {
  Patch(1, "payload_bytes", 0, "[");
  EXPECT_THAT(Verify().problems, ElementsAre(HasSubstr("document 1, id \"4\": payload:")));
}

TEST_F(VerifierTest, SaysBothThatAFileChangedAndWhatIsWrongWithIt) {
  Patch(0, "tokens", 0, AsBytes<uint16_t>({0x7e00}), /*agree=*/false);
  EXPECT_THAT(Verify().problems, ElementsAre(HasSubstr("checksum"), HasSubstr("nan is not finite")));
}

TEST_F(VerifierTest, GoesOnAfterADamagedShard) {
  Patch(0, "offsets", 8, AsBytes<int64_t>({-1}), /*agree=*/false);
  Patch(1, "payload_bytes", 0, "[");
  EXPECT_THAT(Verify().problems,
              ElementsAre(HasSubstr("checksum"), HasSubstr("offsets[1]: -1"), HasSubstr("payload:")));
  ::unlink(ShardPath(0).c_str());
  EXPECT_THAT(Verify().problems, ElementsAre(HasSubstr("cannot open"), HasSubstr("payload:")));
}

// The verifier must survive damage that happens while it reads.
TEST_F(VerifierTest, AFileThatShrinksWhileItIsReadIsAProblemAndNoSignal) {
  SmallCollection large;
  large.id_type = IdType::kInt64;
  large.dim = 256;
  large.lengths = {test::kSanitized ? 10'000 : 60'000, 5'000};
  large.int_ids = {1, 2};
  TemporaryFolder folder;
  const absl::StatusOr<Manifest> manifest = BuildSmall(large, {.folder = folder.path(), .name = "large"});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const std::string path = folder.Path(manifest->shards[0].file);
  const std::string bytes = ReadBytes(path);
  std::mt19937_64 generator(1);
  // Cuts the file off at a random place and makes it as long as before. The lost bytes are zeros then.
  const auto damage = [&] {
    EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(generator() % bytes.size())), 0);
    EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(bytes.size())), 0);
  };
  damage();
  const std::jthread damaging([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      damage();
      std::this_thread::sleep_for(std::chrono::milliseconds(generator() % 30));
    }
  });
  for (int run = 0; run < (test::kSanitized ? 4 : 20); ++run) {
    const auto report = VerifyCollection(folder.path());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GT(report->num_problems, 0) << "run " << run;
  }
}

TEST_F(VerifierTest, KeepsABoundedListAndTheWholeCount) {
  SmallCollection many;
  many.id_type = IdType::kInt64;
  many.lengths.assign(500, 1);
  many.int_ids.clear();
  for (int64_t id = 0; id < 500; ++id) many.int_ids.push_back(id);
  TemporaryFolder folder;
  Manifest manifest = *BuildSmall(many, {.folder = folder.path(), .name = "many"});
  const std::string path = folder.Path(manifest.shards[0].file);
  std::string file = ReadBytes(path);
  file.replace(4096, 500 * 8 * 2, std::string(500 * 8 * 2, '\xff'));
  WriteBytes(path, file);
  const auto report = VerifyCollection(folder.path());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problems.size(), kMaxProblems);
  EXPECT_EQ(report->num_problems, 501);
}

TEST_F(VerifierTest, NoManifestIsAnErrorOfItsOwn) {
  EXPECT_EQ(VerifyCollection(folder_.Path("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace maxsim::collection
