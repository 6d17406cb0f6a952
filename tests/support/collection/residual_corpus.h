// Makes collections of residual codes on disk. Outside of tests, only Python's CollectionWriter can write such
// collections.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "collection/formats/safetensors.h"
#include "collection/manifest.h"
#include "collection/shard_contents.h"
#include "kernels/scalar_type.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// A tensor of a shard file, which a test may change before the file is written.
struct ShardTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Returns the tensors of a shard file with the documents. Document n gets the id `id_prefix` + n. The last centroid of
// random documents is NaN. It is left out, because a shard file must not contain NaN.
inline std::vector<ShardTensor> ResidualTensors(const RandomDocuments& documents, const std::string& id_prefix) {
  const DocumentsView view = documents.view();
  const int64_t count = view.num_documents;
  const int64_t num_centroids = view.codebook.num_centroids - 1;
  const int64_t row_bytes = RowBytes(view.type, view.dim);
  std::string ids;
  std::vector<int64_t> id_offsets = {0};
  for (int64_t document = 0; document < count; ++document) {
    ids += id_prefix + std::to_string(document);
    id_offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  const std::vector<uint16_t> centroids(documents.centroids.begin(), documents.centroids.end() - view.dim);
  return {{"tokens",
           "U8",
           {view.num_tokens(), row_bytes},
           std::string(static_cast<const char*>(view.tokens), static_cast<size_t>(view.num_tokens() * row_bytes))},
          {"offsets", "I64", {count + 1}, BytesOf(documents.offsets)},
          {"id_offsets", "I64", {count + 1}, BytesOf(id_offsets)},
          {"bucket_weights",
           "F32",
           {static_cast<int64_t>(documents.bucket_weights.size())},
           BytesOf(documents.bucket_weights)},
          {"centroids", "F16", {num_centroids, view.dim}, BytesOf(centroids)},
          {"id_bytes", "U8", {static_cast<int64_t>(ids.size())}, ids}};
}

// Returns the file of a shard with these tensors.
inline std::string ShardFileOf(const std::vector<ShardTensor>& tensors) {
  std::vector<collection::SafetensorsTensor> entries;
  for (const ShardTensor& tensor : tensors) entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  std::string file =
      collection::FormatSafetensorsHeader({{"format", std::string(collection::kShardFormat)},
                                           {"format_version", std::string(collection::kShardFormatVersion)}},
                                          entries, collection::kWriterAlignment);
  for (const ShardTensor& tensor : tensors) file += tensor.bytes;
  return file;
}

// Writes generation 1 of a collection, with one shard, into `folder`. If that fails, fails the test.
inline collection::Manifest WriteResidualCorpus(const std::string& folder, const std::string& name,
                                                const RandomDocuments& documents,
                                                const std::string& id_prefix = "doc-") {
  const DocumentsView view = documents.view();
  const std::string bytes = ShardFileOf(ResidualTensors(documents, id_prefix));
  std::filesystem::create_directories(folder);
  const std::string file = "shard-000001-00000.safetensors";
  std::ofstream(folder + "/" + file, std::ios::binary) << bytes;
  Checksum checksum;
  checksum.Update(bytes.data(), bytes.size());
  collection::Manifest manifest;
  manifest.name = name;
  manifest.generation = 1;
  manifest.dim = view.dim;
  manifest.storage = view.type;
  manifest.num_centroids = view.codebook.num_centroids - 1;
  manifest.num_documents = view.num_documents;
  manifest.num_tokens = view.num_tokens();
  manifest.created_by = "a test";
  manifest.created_at = "2026-01-01T00:00:00Z";
  manifest.shards = {{.file = file,
                      .num_documents = view.num_documents,
                      .num_tokens = view.num_tokens(),
                      .num_bytes = static_cast<int64_t>(bytes.size()),
                      .checksum = checksum.Format()}};
  const absl::Status published = collection::PublishManifest(manifest, folder);
  EXPECT_TRUE(published.ok()) << published;
  return manifest;
}

}  // namespace maxsim::test
