// Fixture for imports: writes input files and builds collections from them.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "base/file.h"
#include "collection/build/import.h"
#include "collection/formats/safetensors.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

class ImportTest : public ::testing::Test {
 protected:
  static constexpr int64_t kDim = 8;

  // Returns the values of three documents of 2, 1 and 3 tokens.
  static std::vector<float> Values() {
    std::vector<float> values;
    for (int idx = 0; idx < 6 * kDim; ++idx) values.push_back(static_cast<float>(idx - 20) / 8.0f);
    return values;
  }

  static std::string ValueBytes(ElementType type) {
    const std::vector<float> values = Values();
    if (type == ElementType::kF64) return AsBytes(std::vector<double>(values.begin(), values.end()));
    std::string bytes(values.size() * SizeOf(type), '\0');
    ConvertElements(ScalarType::kF32, values.data(), *ToScalarType(type), bytes.data(), values.size());
    return bytes;
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    WriteBytes(folder_.Path(name), bytes);
    return folder_.Path(name);
  }
  ImportOptions NpyOptions(const std::string& jsonl = "") {
    ImportOptions options;
    options.tokens = Write("tokens.npy", NpyBytes("<f4", "(6, 8)", ValueBytes(ElementType::kF32)));
    options.lengths = Write("lengths.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3})));
    if (!jsonl.empty()) options.ids = Write("docs.jsonl", jsonl);
    return options;
  }

  // Imports files and builds a collection from them. Expects the vectors of Values() in it. Returns its only shard, or
  // null if the import or the build fails.
  std::shared_ptr<const Shard> Build(const ImportOptions& options, ScalarType storage = ScalarType::kF32) {
    absl::StatusOr<Import> import = OpenImport(options);
    EXPECT_TRUE(import.ok()) << import.status();
    if (!import.ok()) return nullptr;
    const BuildOptions build{.folder = folder_.Path("out"), .name = "x", .storage = storage, .allow_other_shape = true};
    const auto manifest = BuildCollection(build, *import->catalog, *import->tokens, import->payloads.get());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    if (!manifest.ok()) return nullptr;
    auto shard = Shard::Open(folder_.Path("out"), *manifest, manifest->shards[0], Access::kCopied, true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    if (!shard.ok()) return nullptr;
    const DocumentsView& view = (*shard)->documents();
    EXPECT_THAT(std::vector<int64_t>(view.offsets, view.offsets + 4), ::testing::ElementsAre(0, 2, 3, 6));
    std::vector<float> stored(6 * kDim);
    ConvertElements(view.type, view.tokens, ScalarType::kF32, stored.data(), stored.size());
    EXPECT_EQ(stored, Values());
    return *std::move(shard);
  }

  std::string Error(const ImportOptions& options) {
    absl::StatusOr<Import> import = OpenImport(options);
    if (!import.ok()) return std::string(import.status().message());
    const auto manifest = BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog,
                                          *import->tokens, import->payloads.get());
    EXPECT_FALSE(manifest.ok());
    return std::string(manifest.status().message());
  }

  // Returns a safetensors file of these tensors.
  std::string Safetensors(
      const std::vector<std::tuple<std::string, std::string, std::vector<int64_t>, std::string>>& parts) {
    std::vector<SafetensorsTensor> tensors;
    std::string data;
    for (const auto& [name, dtype, shape, bytes] : parts) {
      tensors.push_back({name, dtype, shape, 0, 0});
      data += bytes;
    }
    return Write("input.safetensors", FormatSafetensorsHeader({}, tensors, 8) + data);
  }

  TemporaryFolder folder_;
};

}  // namespace maxsim::collection
