#include "tests/support/collection/corpus.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "collection/build/sources/memory_sources.h"
#include "collection/catalog.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/residual_corpus.h"

namespace maxsim::test {
namespace {

collection::ElementType ElementTypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return collection::ElementType::kF32;
    case ScalarType::kBF16:
      return collection::ElementType::kBF16;
    default:
      return collection::ElementType::kF16;
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "maxsim-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << name << " failed";
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, std::string_view bytes) {
  // Removes the old file instead of overwriting it, because a store may still have it mapped.
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.flush()) << path;
}

collection::Manifest BuildCorpus(const std::string& folder, const RandomDocuments& documents,
                                 const CorpusOptions& options) {
  const DocumentsView view = documents.view();
  if (IsResidual(view.type)) return WriteResidualCorpus(folder, options.name, documents, options.id_prefix);
  collection::Catalog catalog(options.id_type);
  std::vector<std::string> payloads;
  const bool has_payloads = options.payloads || !options.payload_texts.empty();
  for (int64_t document = 0; document < view.num_documents; ++document) {
    catalog.lengths.push_back(static_cast<int32_t>(documents.length(document)));
    const absl::Status added = options.id_type == collection::IdType::kString
                                   ? catalog.ids.Add(std::string_view(CorpusId(options, document)))
                                   : catalog.ids.Add(CorpusIntId(document));
    EXPECT_TRUE(added.ok()) << added;
    if (!has_payloads) continue;
    payloads.push_back(options.payloads ? "{\"n\":" + std::to_string(document) + "}"
                                        : options.payload_texts[static_cast<size_t>(document)]);
    catalog.payload_sizes.push_back(static_cast<int32_t>(payloads.back().size()));
  }
  collection::MemoryTokens tokens(ElementTypeOf(view.type), view.dim, view.num_tokens(), view.tokens);
  collection::MemoryPayloads payload_source(std::move(payloads));
  collection::BuildOptions build;
  build.folder = folder;
  build.name = options.name;
  build.storage = options.storage.value_or(view.type);
  if (build.storage == ScalarType::kI8) build.rotation_seed = documents.rotation_seed;
  build.max_shard_bytes = options.max_shard_bytes;
  build.allow_other_shape = true;
  build.codes = options.codes;
  build.fields = options.fields;
  absl::StatusOr<collection::Manifest> manifest =
      collection::BuildCollection(build, catalog, tokens, has_payloads ? &payload_source : nullptr);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return manifest.ok() ? *std::move(manifest) : collection::Manifest{};
}

RandomDocuments StoredAs(const RandomDocuments& documents, ScalarType storage) {
  return storage == ScalarType::kI8 ? Stored(documents, storage) : documents;
}

RandomDocuments SmallDocuments(uint64_t seed, int64_t count, ScalarType type, int32_t dim) {
  return MakeDocuments(seed, type, dim, RandomLengths(seed, count, 1, 12));
}

void ReplaceShard(const std::string& folder, size_t shard_idx, std::string_view bytes) {
  absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  collection::ShardEntry& entry = manifest->shards.at(shard_idx);
  WriteFile(folder + "/" + entry.file, bytes);
  Checksum checksum;
  checksum.Update(bytes.data(), bytes.size());
  entry.checksum = checksum.Format();
  entry.num_bytes = static_cast<int64_t>(bytes.size());
  const absl::Status published = collection::PublishManifest(*manifest, folder);
  ASSERT_TRUE(published.ok()) << published;
}

std::shared_ptr<const store::Collection> LoadCorpus(const std::string& folder, Backend* backend,
                                                    store::Residency residency) {
  store::CollectionStore store(backend, {.memory_reserve_bytes = 0});
  absl::StatusOr<std::shared_ptr<const store::Collection>> loaded = store.Load("corpus", folder, residency);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : nullptr;
}

}  // namespace maxsim::test
