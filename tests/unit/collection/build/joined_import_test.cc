// Tests builds from several inputs, and from collections.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/import.h"
#include "collection/formats/safetensors.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

class JoinedImportTest : public ::testing::Test {
 protected:
  // Builds a collection of these documents in the folder `name`. Returns the folder's path.
  std::string Source(const std::string& name, const SmallCollection& documents, BuildOptions options = {}) {
    options.folder = folder_.Path(name);
    const auto manifest = BuildSmall(documents, options);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return options.folder;
  }
  // Writes a safetensors file of F64 vectors without ids. Returns its path.
  std::string Archive(const std::string& name, const std::vector<double>& values, const std::vector<int32_t>& lengths) {
    std::vector<SafetensorsTensor> tensors = {{"tokens", "F64", {static_cast<int64_t>(values.size()) / 8, 8}, 0, 0},
                                              {"lengths", "I32", {static_cast<int64_t>(lengths.size())}, 0, 0}};
    const std::string header = FormatSafetensorsHeader({}, tensors, 8);
    WriteBytes(folder_.Path(name), header + AsBytes(values) + AsBytes(lengths));
    return folder_.Path(name);
  }
  absl::StatusOr<Manifest> Build(const std::vector<std::string>& inputs, ScalarType storage,
                                 const std::string& folder) {
    ImportOptions options;
    options.inputs = inputs;
    return Build(options, {.folder = folder_.Path(folder), .name = "x", .storage = storage});
  }
  absl::StatusOr<Manifest> Build(const ImportOptions& options, const BuildOptions& build) {
    absl::StatusOr<Import> import = OpenImport(options);
    if (!import.ok()) return import.status();
    return BuildCollection(build, *import->catalog, *import->tokens, import->payloads.get());
  }
  std::shared_ptr<const Shard> Open(const std::string& folder, const Manifest& manifest) {
    auto shard = Shard::Open(folder_.Path(folder), manifest, manifest.shards[0], Access::kCopied, true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    return shard.ok() ? *std::move(shard) : nullptr;
  }
  std::string Error(const std::vector<std::string>& inputs) {
    ImportOptions options;
    options.inputs = inputs;
    return std::string(OpenImport(options).status().message());
  }

  TemporaryFolder folder_;
};

SmallCollection First() {
  SmallCollection documents;
  documents.payloads = {"{\"a\":1}", "", "{\"b\":[2]}", ""};
  return documents;
}

SmallCollection Second() {
  SmallCollection documents;
  documents.lengths = {5, 2};
  documents.ids = {"delta", "e"};
  return documents;
}

TEST_F(JoinedImportTest, ACollectionStoredAgainInItsStorageHasTheSameBytes) {
  for (const ScalarType storage : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
    const std::string name = std::string(Name(storage));
    // Documents of several shards come together in one.
    const std::string source = Source(name + "-source", First(), {.storage = storage, .max_shard_bytes = 8192});
    const std::string whole = Source(name + "-whole", First(), {.storage = storage});
    ImportOptions options;
    options.inputs = {source};
    absl::StatusOr<Import> import = OpenImport(options);
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_EQ(import->storage, storage);
    const auto manifest = Build({source}, storage, name + "-again");
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->shards[0].checksum, ReadManifest(whole)->shards[0].checksum);
  }
}

TEST_F(JoinedImportTest, CollectionsOfSeveralStoragesAreMerged) {
  const std::string first = Source("first", First(), {.storage = ScalarType::kF32});
  const std::string second = Source("second", Second(), {.storage = ScalarType::kF16});
  const auto manifest = Build({first, second}, ScalarType::kF16, "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->num_documents, 6);
  EXPECT_TRUE(manifest->has_payloads);
  const auto shard = Open("out", *manifest);
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ(shard->string_id(3), "4");
  EXPECT_EQ(shard->string_id(4), "delta");
  EXPECT_EQ(shard->payload(2), "{\"b\":[2]}");
  EXPECT_EQ(shard->payload(5), "");
  const DocumentsView& view = shard->documents();
  EXPECT_EQ(view.offsets[5] - view.offsets[4], 5);
  const auto* stored = static_cast<const uint16_t*>(view.tokens);
  for (int64_t token = 0; token < view.num_tokens(); ++token) {
    const int64_t of_source = token < 13 ? token : token - 13;
    for (int32_t column = 0; column < 8; ++column) {
      EXPECT_EQ(F16ToF32(stored[token * 8 + column]), SmallCollection::Value(of_source, column)) << token;
    }
  }
}

TEST_F(JoinedImportTest, ArchivesAreReadInOrderAndNumberedThrough) {
  // Inputs of different types are converted to f32. A block of rows that the build reads may begin in one input and end
  // in the next.
  const std::string doubles = Archive("a.safetensors", std::vector<double>(3 * 8, 0.1), {1, 2});
  const std::string more = Archive("b.safetensors", std::vector<double>(4 * 8, -0.5), {4});
  const auto manifest =
      Build({more, doubles, Archive("c.safetensors", std::vector<double>(8, 2.0), {1})}, ScalarType::kF32, "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto shard = Open("out", *manifest);
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ(shard->int_id(3), 3);
  const auto* stored = static_cast<const float*>(shard->documents().tokens);
  EXPECT_EQ(stored[3 * 8], -0.5f);
  EXPECT_EQ(stored[4 * 8], 0.1f);
  EXPECT_EQ(stored[7 * 8], 2.0f);
  // A file of ids must have the ids of all inputs' documents, in the order of the inputs.
  ImportOptions options;
  options.inputs = {more, doubles};
  options.ids = folder_.Path("ids.txt");
  WriteBytes(options.ids, "x\ny\nz\n");
  const auto named = Build(options, {.folder = folder_.Path("named"), .name = "x"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(Open("named", *named)->string_id(2), "z");
}

TEST_F(JoinedImportTest, AnI8CollectionIsRotatedBack) {
  const std::string exact = Source("exact", First(), {.storage = ScalarType::kF32});
  const std::string quantised = Source("i8", First(), {.storage = ScalarType::kI8, .rotation_seed = 3});
  const auto manifest = Build({quantised}, ScalarType::kF32, "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto expected = Open("exact", *ReadManifest(exact));
  const auto found = Open("out", *manifest);
  ASSERT_NE(found, nullptr);
  const auto* values = static_cast<const float*>(expected->documents().tokens);
  const auto* stored = static_cast<const float*>(found->documents().tokens);
  for (int64_t idx = 0; idx < 13 * 8; ++idx) EXPECT_NEAR(stored[idx], values[idx], 0.02) << idx;
  EXPECT_EQ(found->payload(2), "{\"b\":[2]}");
}

TEST_F(JoinedImportTest, ACollectionCanBeStoredAgainInItsOwnFolder) {
  const std::string source = Source("own", First(), {.storage = ScalarType::kF32});
  ImportOptions options;
  options.inputs = {source};
  const auto manifest = Build(options, {.folder = source, .storage = ScalarType::kF16});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->generation, 2);
  EXPECT_EQ(manifest->storage, ScalarType::kF16);
  EXPECT_EQ(Open("own", *manifest)->string_id(2), "gamma-\xc3\xa9");
}

TEST_F(JoinedImportTest, TheEncoderIsKeptWhereAllInputsNameIt) {
  const EncoderIdentity one{.model = "one", .dim = 8};
  const EncoderIdentity other{.model = "other", .dim = 8};
  const std::string first = Source("first", First(), {.encoder = one});
  const std::string second = Source("second", Second(), {.encoder = one});
  ImportOptions options;
  options.inputs = {first, second};
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->encoder, one);
  EXPECT_TRUE(import->one_encoder.ok());
  options.inputs = {first, Source("unnamed", Second())};
  import = OpenImport(options);
  EXPECT_FALSE(import->encoder.has_value());
  EXPECT_TRUE(import->one_encoder.ok());
  options.inputs = {first, Source("third", Second(), {.encoder = other})};
  import = OpenImport(options);
  EXPECT_FALSE(import->encoder.has_value());
  EXPECT_THAT(std::string(import->one_encoder.message()), HasSubstr("first was encoded by one, but "));
}

TEST_F(JoinedImportTest, WhatDoesNotGoTogetherIsNamed) {
  const std::string first = Source("first", First());
  SmallCollection wide = Second();
  wide.dim = 16;
  EXPECT_THAT(Error({first, Source("wide", wide)}), HasSubstr("wide: 16 columns, but "));
  EXPECT_THAT(Error({first, first}), HasSubstr("document 0: id \"alpha\" is already the id of document 0"));
  SmallCollection numbered = Second();
  numbered.id_type = IdType::kInt64;
  const std::string ints = Source("ints", numbered);
  EXPECT_THAT(Error({first, ints}), HasSubstr("id -5 is an integer, unlike those before it; --id-type"));
  ImportOptions options;
  options.inputs = {first, ints};
  options.id_type = IdType::kString;
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->catalog->ids.string_id(4), "-5");
  const std::string unnamed = Archive("a.safetensors", std::vector<double>(8, 0.5), {1});
  EXPECT_THAT(Error({first, unnamed}), HasSubstr("a.safetensors holds no ids, but "));
  options = {};
  options.inputs = {first};
  options.ids = folder_.Path("ids.txt");
  EXPECT_THAT(std::string(OpenImport(options).status().message()), HasSubstr("given twice"));
  EXPECT_THAT(Error({folder_.path()}), HasSubstr("a folder without a collection: it holds no collection.json"));
  // The build notices by its checksum that a collection is damaged, and leaves no output.
  const std::string shard = JoinPath(first, ReadManifest(first)->shards[0].file);
  std::string bytes = ReadBytes(shard);
  bytes[4096] = static_cast<char>(bytes[4096] ^ 1);
  WriteBytes(shard, bytes);
  const auto manifest = Build({first}, ScalarType::kF16, "out");
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kDataLoss) << manifest.status();
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out")));
}

}  // namespace
}  // namespace maxsim::collection
