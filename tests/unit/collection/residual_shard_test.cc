// Tests shards and manifests with residual codes: that they are read back, and that invalid ones are refused and found
// by verify.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "collection/inspection/verifier.h"
#include "collection/manifest.h"
#include "collection/manifest_parser.h"
#include "collection/shard.h"
#include "collection/shard_contents.h"
#include "kernels/reference.h"
#include "tests/support/collection/residual_corpus.h"

namespace maxsim::collection {
namespace {

using test::RandomDocuments;
using test::ShardTensor;
using testing::HasSubstr;

constexpr ScalarType kTypes[] = {ScalarType::kResidual1, ScalarType::kResidual2, ScalarType::kResidual4,
                                 ScalarType::kResidual8};
constexpr int32_t kResidualDim = 24;

RandomDocuments Documents(ScalarType type) {
  return test::MakeDocuments(test::TestSeed(), type, kResidualDim, {3, 1, 5});
}

std::string Folder(const std::string& name) { return testing::TempDir() + "/residual_shard_test-" + name; }

// Applies `change` to a residual4 shard. Returns the error of ParseShard.
std::string Refusal(const std::function<void(std::vector<ShardTensor>& tensors)>& change) {
  std::vector<ShardTensor> tensors = test::ResidualTensors(Documents(ScalarType::kResidual4), "doc-");
  change(tensors);
  const std::string file = test::ShardFileOf(tensors);
  std::vector<char, test::CacheLineAllocator<char>> aligned(file.begin(), file.end());
  const absl::StatusOr<ShardContents> contents = ParseShard({aligned.data(), aligned.size()});
  EXPECT_FALSE(contents.ok());
  return std::string(contents.status().message());
}

ShardTensor& Tensor(std::vector<ShardTensor>& tensors, const std::string& name) {
  for (ShardTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

TEST(ResidualShardTest, AShardIsReadAndScoredAsTheDocumentsInIt) {
  for (const ScalarType type : kTypes) {
    SCOPED_TRACE(std::string(Name(type)));
    const std::string folder = Folder(std::string(Name(type)));
    const RandomDocuments documents = Documents(type);
    const Manifest manifest = test::WriteResidualCorpus(folder, "corpus", documents);
    const absl::StatusOr<Manifest> read = ReadManifest(folder);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->storage, type);
    EXPECT_EQ(read->num_centroids, manifest.num_centroids);
    const test::RandomQuery query = test::MakeQuery(test::TestSeed() + 1, type, kResidualDim, 9);
    for (const Access access : {Access::kMapped, Access::kCopied}) {
      const auto shard = Shard::Open(folder, *read, read->shards[0], access, /*check_checksum=*/true);
      ASSERT_TRUE(shard.ok()) << shard.status();
      const auto found = ReferenceScores((*shard)->documents(), query.view(3));
      const auto wanted = ReferenceScores(documents.view(), query.view(3));
      for (size_t idx = 0; idx < wanted.size(); ++idx) EXPECT_EQ(found[idx].score, wanted[idx].score);
    }
    const absl::StatusOr<VerifyReport> report = VerifyCollection(folder, nullptr, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_problems, 0) << report->problems.front();
  }
}

TEST(ResidualShardTest, ACodebookThatCannotBeOneIsRefused) {
  EXPECT_THAT(Refusal([](auto& tensors) { std::erase_if(tensors, [](auto& t) { return t.name == "centroids"; }); }),
              HasSubstr("tensor \"centroids\" is missing"));
  EXPECT_THAT(
      Refusal([](auto& tensors) { std::erase_if(tensors, [](auto& t) { return t.name == "bucket_weights"; }); }),
      HasSubstr("tensor \"bucket_weights\" is missing"));
  EXPECT_THAT(Refusal([](auto& tensors) {
                Tensor(tensors, "bucket_weights").shape = {3};
                Tensor(tensors, "bucket_weights").bytes.resize(12);
              }),
              HasSubstr("bucket_weights: 3 entries, expected 2, 4, 16 or 256"));
  EXPECT_THAT(Refusal([](auto& tensors) { Tensor(tensors, "centroids").dtype = "BF16"; }),
              HasSubstr("centroids: dtype \"BF16\", expected F16"));
  EXPECT_THAT(Refusal([](auto& tensors) {
                Tensor(tensors, "tokens").shape[1] -= 1;
                Tensor(tensors, "tokens").bytes.resize(static_cast<size_t>(9 * (kResidualDim / 2 + 3)));
              }),
              HasSubstr("tokens: rows of 15 bytes, expected 16 of residual4 and 24 columns"));
  EXPECT_THAT(Refusal([](auto& tensors) {
                // The first value of centroid 1 becomes infinite.
                Tensor(tensors, "centroids").bytes.replace(2 * kResidualDim, 2, std::string("\x00\x7c", 2));
              }),
              HasSubstr("centroids[1][0]: inf is not in +-30000"));
  EXPECT_THAT(Refusal([](auto& tensors) {
                const float value = 30001;
                Tensor(tensors, "bucket_weights").bytes.replace(8, 4, reinterpret_cast<const char*>(&value), 4);
              }),
              HasSubstr("bucket_weights[2]: 30001 is not in +-30000"));
}

TEST(ResidualShardTest, ACentroidThatIsNotThereIsFoundByVerify) {
  const std::string folder = Folder("wrong-centroid");
  RandomDocuments documents = Documents(ScalarType::kResidual2);
  documents.tokens.Poison(4, 5);
  test::WriteResidualCorpus(folder, "corpus", documents);
  const absl::StatusOr<VerifyReport> report = VerifyCollection(folder, nullptr, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->num_problems, 1);
  EXPECT_THAT(report->problems[0], HasSubstr("document 2, id \"doc-2\": token 0: has centroid 4294967295 of 7"));
}

TEST(ResidualShardTest, AManifestThatCannotBeOneIsRefused) {
  const std::string folder = Folder("manifest");
  const Manifest good = test::WriteResidualCorpus(folder, "corpus", Documents(ScalarType::kResidual4));
  const auto refusal = [](const Manifest& manifest) {
    return std::string(ParseManifest(FormatManifest(manifest), "m").status().message());
  };
  EXPECT_EQ(refusal(good), "");
  Manifest changed = good;
  changed.num_centroids = 0;
  EXPECT_THAT(refusal(changed), HasSubstr("num_centroids: 0 is not in 1 .."));
  changed = good;
  changed.log_sequence = 5;
  EXPECT_THAT(refusal(changed), HasSubstr("the collection is live, but residual4 is for collections that are not"));
  changed = good;
  changed.dim = 1032;
  EXPECT_THAT(refusal(changed), HasSubstr("columns of residual4 must fill whole bytes and be at most 1024"));
  changed = good;
  changed.partition = SlotRange{0, 5};
  EXPECT_THAT(refusal(changed), HasSubstr("a collection of residual4 is not cut"));
  changed = good;
  changed.codes = CodesFormat{};
  EXPECT_THAT(refusal(changed), HasSubstr("a collection of residual4 has none"));
  std::string text = FormatManifest(good);
  const std::string line = "  \"num_centroids\": 7,\n";
  ASSERT_NE(text.find(line), std::string::npos);
  text.erase(text.find(line), line.size());
  EXPECT_THAT(std::string(ParseManifest(text, "m").status().message()),
              HasSubstr("key \"num_centroids\" is missing, which residual4 needs"));
  changed = good;
  changed.storage = ScalarType::kF16;
  text = FormatManifest(changed);
  text.insert(2, line);
  EXPECT_THAT(std::string(ParseManifest(text, "m").status().message()),
              HasSubstr("num_centroids: storage f16 has none"));
}

}  // namespace
}  // namespace maxsim::collection
