#include "collection/compact/compact.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "collection/inspection/inspect.h"
#include "collection/inspection/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/compact/live_model.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CreateOptions Options(IdType id_type, ScalarType storage) {
  return {.name = "live",
          .dim = 8,
          .storage = storage,
          .rotation_seed = storage == ScalarType::kI8 ? uint64_t{77} : 0,
          .id_type = id_type};
}

void ExpectSound(const std::string& folder, const CollectionLog& log) {
  const auto tombstones = log.TombstonesOf(*ReadManifest(folder));
  ASSERT_TRUE(tombstones.ok()) << tombstones.status();
  const auto report = VerifyCollection(folder, nullptr, &*tombstones);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, IsEmpty());
}

TEST(CreateLiveCollection, MakesACollectionWithoutDocumentsThatEverythingReads) {
  TemporaryFolder folder;
  CreateOptions options = Options(IdType::kInt64, ScalarType::kI8);
  options.encoder = EncoderIdentity{.model = "m", .dim = 8};
  const auto made = CreateLiveCollection(folder.path(), options);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto read = ReadManifest(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatManifest(*read), FormatManifest(*made));
  EXPECT_EQ(read->generation, 1);
  EXPECT_EQ(read->log_sequence, 0);
  EXPECT_EQ(read->rotation_seed, 77);
  EXPECT_THAT(read->shards, IsEmpty());
  EXPECT_TRUE(HasLog(folder.path()));
  const auto summary = Inspect(folder.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(FormatTable(*summary), HasSubstr("documents     0"));
  EXPECT_EQ(VerifyCollection(folder.path())->num_problems, 0);
  EXPECT_TRUE(absl::IsAlreadyExists(CreateLiveCollection(folder.path(), options).status()));
}

TEST(CreateLiveCollection, MakesNoFolderForOptionsThatNoManifestMayHave) {
  TemporaryFolder folder;
  CreateOptions options = Options(IdType::kString, ScalarType::kF16);
  options.dim = 7;
  EXPECT_TRUE(absl::IsInvalidArgument(CreateLiveCollection(folder.Path("new"), options).status()));
  options.dim = 8;
  options.name = "no/name";
  EXPECT_TRUE(absl::IsInvalidArgument(CreateLiveCollection(folder.Path("new"), options).status()));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("new")));
}

struct Case {
  IdType id_type;
  ScalarType storage;
  uint32_t seed;
  const char* fields = "";  // as ParseFields takes them
};

class CompactCases : public ::testing::TestWithParam<Case> {};

TEST_P(CompactCases, HoldsWhatAPlainListHoldsAfterEveryCompaction) {
  TemporaryFolder folder;
  CreateOptions create = Options(GetParam().id_type, GetParam().storage);
  create.fields = *ParseFields(GetParam().fields);
  LiveModel model(folder.path(), create, GetParam().seed);
  model.Create();
  uint64_t compacted = 0;
  int64_t kept = 0;
  int64_t tombstones_left = 0;
  constexpr int kRounds = test::kSanitized ? 16 : 40;
  for (int round = 0; round < kRounds; ++round) {
    model.Write(model.Random(60), 20 + 10 * static_cast<uint32_t>(round), true);
    const uint64_t last = model.log().last_sequence();
    compacted = std::max<uint64_t>(compacted, last - std::min<uint64_t>(last, model.Random(20)));
    CompactOptions options;
    options.max_tombstone_share = std::vector<double>{0, 0.1, 0.5, 1}[model.Random(4)];
    options.max_shard_bytes = 8192 + model.Random(20'000);
    const auto result = Compact(folder.path(), model.log(), compacted, options);
    ASSERT_TRUE(result.ok()) << result.status();
    kept += result->shards_kept;
    tombstones_left += result->tombstones_left;
    if (options.max_tombstone_share == 0) {
      EXPECT_EQ(result->tombstones_left, 0);
    }
    EXPECT_EQ(FormatManifest(*ReadManifest(folder.path())), FormatManifest(result->manifest));
    EXPECT_EQ(result->manifest.log_sequence, compacted);
    EXPECT_EQ(result->manifest.fields, create.fields);
    ASSERT_EQ(model.Published(), model.Expected(compacted)) << "round " << round;
    ExpectSound(folder.path(), model.log());
    if (round % 3 == 0) {
      ASSERT_TRUE(model.log().Truncate(compacted, result->manifest.generation).ok());
    }
    if (round % 7 == 0) model.Open();
    ASSERT_EQ(model.Published(), model.Expected(compacted)) << "round " << round;
  }
  // The test saw what it is about.
  EXPECT_GT(kept, kRounds / 4);
  EXPECT_GT(tombstones_left, kRounds / 4);
}

INSTANTIATE_TEST_SUITE_P(All, CompactCases,
                         ::testing::Values(Case{IdType::kString, ScalarType::kF16, 1},
                                           Case{IdType::kInt64, ScalarType::kF16, 2},
                                           Case{IdType::kString, ScalarType::kI8, 3},
                                           Case{IdType::kInt64, ScalarType::kI8, 4},
                                           Case{IdType::kString, ScalarType::kF16, 5, "n:integer,none:keyword"}));

class CompactTest : public ::testing::Test {
 protected:
  CompactTest() : model_(folder_.path(), Options(IdType::kString, ScalarType::kF16), 9) { model_.Create(); }

  absl::StatusOr<CompactResult> CompactAll(const CompactOptions& options = {}) {
    return Compact(folder_.path(), model_.log(), model_.log().last_sequence(), options);
  }

  TemporaryFolder folder_;
  LiveModel model_;
};

TEST_F(CompactTest, ChangesNothingWhereNothingWasWritten) {
  model_.Write(30, 10, true);
  const auto first = CompactAll();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->changed);
  const auto second = CompactAll();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->changed);
  EXPECT_EQ(second->manifest.generation, first->manifest.generation);
}

TEST_F(CompactTest, LeavesNoShardWhereEverythingIsDeletedAndGoesOn) {
  model_.Append({.deletes = false, .document = {.id = "a", .rows = std::string(16, '\1'), .scale = 0, .payload = ""}});
  ASSERT_TRUE(CompactAll().ok());
  model_.Append({.deletes = true, .document = {.id = "a", .rows = "", .scale = 0, .payload = ""}});
  const auto emptied = CompactAll();
  ASSERT_TRUE(emptied.ok()) << emptied.status();
  EXPECT_THAT(emptied->manifest.shards, IsEmpty());
  EXPECT_EQ(emptied->manifest.num_documents, 0);
  EXPECT_TRUE(Inspect(folder_.path()).ok());
  model_.Write(10, 5, true);
  ASSERT_TRUE(CompactAll().ok());
  EXPECT_EQ(model_.Published(), model_.Expected(model_.log().last_sequence()));
}

TEST_F(CompactTest, WritesEveryShardAgainWhenTheFirstPayloadComes) {
  TemporaryFolder folder;
  CreateOptions options = Options(IdType::kString, ScalarType::kF16);
  options.has_payloads = false;
  LiveModel model(folder.path(), options, 5);
  model.Create();
  model.Write(30, 1000, /*with_payloads=*/false);
  const auto without = Compact(folder.path(), model.log(), model.log().last_sequence(), {});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(without->manifest.has_payloads);
  model.Append({.deletes = false, .document = {.id = "p", .rows = std::string(16, '\1'), .scale = 0, .payload = "{}"}});
  const auto with = Compact(folder.path(), model.log(), model.log().last_sequence(), {});
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE(with->manifest.has_payloads);
  EXPECT_EQ(with->shards_kept, 0);
  EXPECT_EQ(model.Published(), model.Expected(model.log().last_sequence()));
}

TEST_F(CompactTest, WritesADocumentAgainLogarithmicallyOften) {
  int64_t bytes_written = 0;
  size_t most_shards = 0;
  constexpr int kRounds = test::kSanitized ? 64 : 256;
  for (int round = 0; round < kRounds; ++round) {
    ModelDocument document{.id = Cat(round), .rows = std::string(16 * 500, '\1'), .scale = 0, .payload = ""};
    model_.Append({.deletes = false, .document = std::move(document)});
    const auto result = CompactAll();
    ASSERT_TRUE(result.ok()) << result.status();
    bytes_written += result->bytes_written;
    most_shards = std::max(most_shards, result->manifest.shards.size());
  }
  EXPECT_LE(most_shards, 12);
  EXPECT_LT(bytes_written, int64_t{kRounds} * (8000 + 4200) * 8);
  EXPECT_EQ(model_.Published(), model_.Expected(kRounds));
}

TEST_F(CompactTest, KeepsTheFilesOfTheGenerationBeforeAndOfKeptShards) {
  CompactOptions options;
  options.max_tombstone_share = 1;
  model_.set_max_tokens(400);
  options.max_shard_bytes = 8192;  // every shard is as large as it gets
  std::vector<Manifest> manifests = {*ReadManifest(folder_.path())};
  for (int round = 0; round < 6; ++round) {
    model_.Write(12, 1000, true);
    if (round == 4) options.max_tombstone_share = 0;
    if (round == 4) model_.Append({.deletes = true, .document = model_.Expected(model_.log().last_sequence())[0]});
    const auto result = CompactAll(options);
    ASSERT_TRUE(result.ok()) << result.status();
    manifests.push_back(result->manifest);
    std::vector<std::string> expected = {std::string(kManifestFileName)};
    for (size_t idx = manifests.size() - 2; idx < manifests.size(); ++idx) {
      for (const ShardEntry& entry : manifests[idx].shards) expected.push_back(entry.file);
    }
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    EXPECT_EQ(FilesIn(folder_.path()), expected);
  }
  EXPECT_EQ(manifests[3].shards[0].file, manifests[1].shards[0].file);
}

TEST_F(CompactTest, LeavesOneValidStateWhereverItFails) {
  model_.Write(60, 40, true);
  CompactOptions options;
  options.max_shard_bytes = 8192;
  model_.set_max_tokens(300);
  ASSERT_TRUE(CompactAll(options).ok());
  const uint64_t before = model_.log().last_sequence();
  model_.Write(60, 60, true);
  const std::vector<std::string> files = FilesIn(folder_.path());
  int steps = 0;
  for (bool failed = true; failed; ++steps) {
    int step = 0;
    options.observer = [&](CompactStep at) {
      return step++ == steps && at != CompactStep::kPublished ? absl::AbortedError("injected") : absl::OkStatus();
    };
    const auto result = CompactAll(options);
    failed = !result.ok();
    if (!failed) break;
    EXPECT_EQ(result.status(), absl::AbortedError("injected"));
    EXPECT_EQ(FilesIn(folder_.path()), files);
    ASSERT_EQ(model_.Published(), model_.Expected(before)) << "step " << steps;
  }
  EXPECT_GT(steps, 6);
  EXPECT_EQ(model_.Published(), model_.Expected(model_.log().last_sequence()));
}

TEST_F(CompactTest, LeavesOneValidStateWhereverTheProcessDies) {
  model_.Write(60, 40, true);
  CompactOptions options;
  options.max_shard_bytes = 8192;
  model_.set_max_tokens(300);
  ASSERT_TRUE(CompactAll(options).ok());
  const uint64_t before = model_.log().last_sequence();
  model_.Write(test::kSanitized ? 20 : 60, 60, true);
  const uint64_t last = model_.log().last_sequence();
  // Copies the folder each time that the observer is called. Each copy is what a process that died at that moment would
  // leave.
  std::vector<std::string> copies;
  TemporaryFolder root;
  options.observer = [&](CompactStep) {
    copies.push_back(root.Path(Cat("copy", copies.size())));
    std::filesystem::copy(folder_.path(), copies.back(), std::filesystem::copy_options::recursive);
    return absl::OkStatus();
  };
  ASSERT_TRUE(CompactAll(options).ok());
  ASSERT_GT(copies.size(), 6);
  options.observer = nullptr;
  for (const std::string& copy : copies) {
    LiveModel again(copy, Options(IdType::kString, ScalarType::kF16), 1);
    again.Open();
    const bool published = *ReadManifest(copy)->log_sequence == last;
    EXPECT_EQ(published, copy == copies.back());
    ASSERT_EQ(again.Published(), model_.Expected(published ? last : before)) << copy;
    const auto result = Compact(copy, again.log(), last, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->changed, !published);
    ASSERT_EQ(again.Published(), model_.Expected(last)) << copy;
    ExpectSound(copy, again.log());
  }
}

TEST_F(CompactTest, EndsWithTheSignalThatStopsItAndKeepsToItsPace) {
  model_.set_max_tokens(2000);
  model_.Write(30, 1000, true);
  CompactOptions options;
  options.bytes_per_second = 200'000;
  const auto began = std::chrono::steady_clock::now();
  const StopSignal soon(began + std::chrono::milliseconds(300));
  options.stop = &soon;
  const auto result = CompactAll(options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  EXPECT_GT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(250));
  EXPECT_THAT(model_.Published(), IsEmpty());
  EXPECT_THAT(FilesIn(folder_.path()), ElementsAre(std::string(kManifestFileName)));
}

TEST_F(CompactTest, RefusesAManifestThatKnowsOfNoLogAndASequenceThatIsNotThere) {
  model_.Write(3, 10, true);
  EXPECT_TRUE(absl::IsInvalidArgument(Compact(folder_.path(), model_.log(), 4, {}).status()));
  Manifest manifest = *ReadManifest(folder_.path());
  manifest.log_sequence = 9;
  ASSERT_TRUE(PublishManifest(manifest, folder_.path()).ok());
  EXPECT_TRUE(absl::IsDataLoss(CompactAll().status()));
  manifest.log_sequence.reset();
  ASSERT_TRUE(PublishManifest(manifest, folder_.path()).ok());
  const auto refused = CompactAll();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--log-sequence"));
}

TEST_F(CompactTest, FailsWhereABuildRuns) {
  model_.Write(3, 10, true);
  const auto lock = FolderLock::Acquire(folder_.path());
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CompactAll().status()));
}

}  // namespace
}  // namespace maxsim::collection
