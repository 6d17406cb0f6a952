// Tests that the fingerprint of a manifest tells builds apart.
#include <functional>
#include <set>
#include <string>

#include "base/file.h"
#include "collection/manifest.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

Manifest FingerprintedManifest() {
  const std::string hash = "xxh3-128:0123456789abcdef0123456789abcdef";
  Manifest manifest{.name = "wiki",
                    .generation = 3,
                    .dim = 128,
                    .storage = ScalarType::kBF16,
                    .created_by = "a test",
                    .created_at = "2026-01-02T03:04:05Z",
                    .shards = {}};
  manifest.shards.push_back({"a.safetensors", 10, 100, 5000, hash});
  manifest.shards.push_back({"b.safetensors", 20, 500, 9000, hash});
  return manifest;
}

TEST(ManifestFingerprintTest, TheFingerprintIsOfTheContentsAlone) {
  const std::string fingerprint = FingerprintOf(FingerprintedManifest());
  EXPECT_TRUE(IsChecksum(fingerprint)) << fingerprint;
  Manifest same = FingerprintedManifest();
  same.name = "other";
  same.generation = 4;
  same.created_by = "another program";
  same.created_at = "2027-01-02T03:04:05Z";
  same.shards[0].file = "c.safetensors";
  EXPECT_EQ(FingerprintOf(same), fingerprint);
  const std::string other_hash = "xxh3-128:0123456789abcdef0123456789abcdee";
  std::set<std::string> seen = {fingerprint};
  const auto expect_other = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = FingerprintedManifest();
    change(manifest);
    EXPECT_TRUE(seen.insert(FingerprintOf(manifest)).second) << seen.size();
  };
  expect_other([&](Manifest& manifest) { manifest.shards[0].checksum = other_hash; });
  expect_other([&](Manifest& manifest) { manifest.shards[1].checksum = other_hash; });
  expect_other([&](Manifest& manifest) { manifest.shards.pop_back(); });
  expect_other([&](Manifest& manifest) { manifest.dim = 64; });
  expect_other([&](Manifest& manifest) { manifest.storage = ScalarType::kF16; });
  expect_other([&](Manifest& manifest) { manifest.shards[0].field_file = FileEntry{"f", 1, other_hash}; });
  expect_other([&](Manifest& manifest) { manifest.codes = CodesFormat{}; });
}

}  // namespace
}  // namespace maxsim::collection
