// Builds a collection, quantises it to i8, and compares the result with the kernels' quantisation of the same values.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "collection/build/quantize.h"
#include "collection/shard.h"
#include "gtest/gtest.h"
#include "kernels/quantize.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

// Returns `count` documents of 1 to 40 tokens with payloads.
inline SmallCollection MadeUp(int count, int32_t dim = 16) {
  SmallCollection collection;
  collection.dim = dim;
  collection.lengths.clear();
  collection.ids.clear();
  collection.payloads.clear();
  for (int document = 0; document < count; ++document) {
    collection.lengths.push_back(1 + document * 7 % 40);
    collection.ids.push_back("doc-" + std::to_string(document));
    collection.payloads.push_back(document % 3 == 0 ? "" : "{\"n\":" + std::to_string(document) + "}");
  }
  return collection;
}

class QuantizeTest : public ::testing::Test {
 protected:
  QuantizeOptions Options(const std::string& source = "source", const std::string& target = "target") {
    QuantizeOptions options;
    options.source = folder_.Path(source);
    options.target = folder_.Path(target);
    return options;
  }
  Manifest BuildSource(const SmallCollection& collection, BuildOptions options = {}) {
    options.folder = folder_.Path("source");
    options.name = "documents";
    const auto manifest = BuildSmall(collection, options);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  std::string Error(const QuantizeOptions& options) {
    const absl::Status status = QuantizeCollection(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
  bool Published(const std::string& target = "target") {
    return std::filesystem::exists(folder_.Path(target + "/collection.json"));
  }

  // Expects every document of `folder` to equal the result of QuantizeDocument for the collection's values.
  void ExpectQuantized(const std::string& folder, const Manifest& manifest, const SmallCollection& collection,
                       uint64_t seed) {
    std::vector<float> values = collection.Values();
    size_t document = 0;
    int64_t row = 0;
    for (const ShardEntry& entry : manifest.shards) {
      const auto shard = Shard::Open(folder, manifest, entry, Access::kMapped, true);
      ASSERT_TRUE(shard.ok()) << shard.status();
      const DocumentsView& view = (*shard)->documents();
      ASSERT_EQ(view.type, ScalarType::kI8);
      EXPECT_EQ(view.rotation_seed, seed);
      EXPECT_TRUE(ValidateDocuments(view).ok());
      for (int64_t idx = 0; idx < view.num_documents; ++idx, ++document) {
        const auto count = static_cast<size_t>(collection.lengths[document]) * static_cast<size_t>(collection.dim);
        std::vector<int8_t> expected(count);
        const float scale = QuantizeDocument(
            seed, collection.dim, absl::MakeSpan(values).subspan(static_cast<size_t>(row * collection.dim), count),
            expected.data());
        ASSERT_EQ(view.scales[idx], scale) << document;
        ASSERT_EQ(
            std::memcmp(static_cast<const int8_t*>(view.tokens) + view.offsets[idx] * view.dim, expected.data(), count),
            0)
            << document;
        EXPECT_EQ((*shard)->string_id(idx), collection.ids[document]);
        EXPECT_EQ((*shard)->payload(idx), collection.payloads.empty() ? "" : collection.payloads[document]);
        row += collection.lengths[document];
      }
    }
    EXPECT_EQ(document, collection.lengths.size());
  }

  TemporaryFolder folder_;
};

}  // namespace maxsim::collection
