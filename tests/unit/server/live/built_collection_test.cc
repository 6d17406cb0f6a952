// Tests which built collections become live, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/stop.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

class BuiltCollectionTest : public LiveTest {
 protected:
  void Build() { test::BuildCorpus(path_, test::SmallDocuments(1, 20, ScalarType::kF16, kDim), {.payloads = true}); }
};

TEST_F(BuiltCollectionTest, BecomesLiveAndSaysSoInItsManifest) {
  Build();
  Open();
  EXPECT_EQ(Find()->num_documents(), 20u);
  MustWrite(List(Upsert("a", 1), Delete("doc-3"), Upsert("doc-4", 2)));
  EXPECT_EQ(Find()->num_documents(), 20u);
  Reopen();
  EXPECT_EQ(Find()->manifest().log_sequence, 0u);
  EXPECT_EQ(Find()->num_documents(), 20u);
  EXPECT_FALSE(Find()->Find("doc-3").has_value());
  MustCompact();
  EXPECT_EQ(Find()->num_documents(), 20u);
}

TEST_F(BuiltCollectionTest, IsNotLoadedAnewForTheSequenceThatItsManifestNames) {
  Build();
  Open();
  const auto served = Find();
  ASSERT_EQ(collection::ReadManifest(path_)->log_sequence, 0u);
  bool changed = true;
  ASSERT_TRUE(store_->Reload("c", &changed).ok());
  EXPECT_FALSE(changed);
  EXPECT_EQ(Find(), served);
  collection::Manifest manifest = *collection::ReadManifest(path_);
  ++manifest.generation;
  ASSERT_TRUE(collection::PublishManifest(manifest, path_).ok());
  ASSERT_TRUE(store_->Reload("c", &changed).ok());
  EXPECT_TRUE(changed);
}

TEST_F(BuiltCollectionTest, IsRefusedWhereItWasBuiltWithoutKnowingOfTheLog) {
  Build();
  Open();
  MustWrite(List(Upsert("a", 1)));
  // The real builder refuses to build without a log sequence. So the test itself publishes a manifest without one.
  collection::Manifest manifest = *collection::ReadManifest(path_);
  ++manifest.generation;
  manifest.log_sequence = std::nullopt;
  ASSERT_TRUE(collection::PublishManifest(manifest, path_).ok());
  const absl::Status status = store_->Reload("c", nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--log-sequence"));
  // The generation before goes on.
  MustWrite(List(Upsert("b", 1)));
  EXPECT_EQ(Find()->num_documents(), 22u);
}

TEST_F(BuiltCollectionTest, IsRefusedWhereItHasAnotherFormatThanTheLog) {
  Build();
  Open();
  MustWrite(List(Upsert("a", 1)));
  const collection::Manifest served = *collection::ReadManifest(path_);
  collection::Manifest other = served;
  other.dim = 2 * kDim;
  other.storage = ScalarType::kI8;
  other.rotation_seed = 5;
  const absl::Status status = live().TombstonesOf(other).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("has string ids, i8, dimension 16, rotation seed 5, but its log has string ids, f16, dimension 8"));
  // Publishes a generation (version) with another storage type, which the real builder would refuse.
  for (int64_t generation = 1; generation <= 2; ++generation) {
    other = test::BuildCorpus(folder_ / "other", test::SmallDocuments(1, 20, ScalarType::kF32, kDim));
  }
  ASSERT_EQ(other.generation, served.generation + 1);
  other.log_sequence = 1;
  for (const collection::ShardEntry& shard : other.shards) {
    std::filesystem::copy_file((folder_ / "other/") + shard.file, std::filesystem::path(path_) / shard.file);
  }
  ASSERT_TRUE(collection::PublishManifest(other, path_).ok());
  const absl::Status reloaded = store_->Reload("c", nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(reloaded)) << reloaded;
  EXPECT_THAT(std::string(reloaded.message()), HasSubstr("f32, dimension 8"));
  MustWrite(List(Upsert("b", 1)));
  EXPECT_EQ(Find()->num_documents(), 22u);
}

}  // namespace
}  // namespace maxsim::live
