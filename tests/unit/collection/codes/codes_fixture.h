// Makes collections of random vectors, for the tests of their codes.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/builder.h"
#include "collection/build/sources/memory_sources.h"
#include "collection/codes/shard_codes.h"
#include "collection/inspection/verifier.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

// Random documents of 1 to 12 tokens, with string ids. Tokens have the norm 1, or norms of 0.1 to 10 if
// `norms_differ`.
struct RandomDocuments {
  RandomDocuments(int num_documents, int32_t dim, bool norms_differ, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    documents.dim = dim;
    documents.lengths.clear();
    documents.ids.clear();
    for (int idx = 0; idx < num_documents; ++idx) {
      documents.lengths.push_back(static_cast<int32_t>(random() % 12) + 1);
      documents.ids.push_back(Cat("document-", idx));
      for (int32_t token = 0; token < documents.lengths.back(); ++token) {
        const size_t begin = values.size();
        double squares = 0;
        for (int32_t column = 0; column < dim; ++column) {
          values.push_back(normal(random));
          squares += static_cast<double>(values.back()) * values.back();
        }
        const double wanted = norms_differ ? std::pow(10.0, static_cast<double>(random() % 2001) / 1000 - 1) : 1;
        for (size_t at = begin; at < values.size(); ++at) {
          values[at] = static_cast<float>(values[at] * wanted / std::sqrt(squares));
        }
      }
    }
  }

  absl::StatusOr<Manifest> Build(const BuildOptions& options, const BuildObserver& observer = nullptr) const {
    MemoryTokens tokens(ElementType::kF32, documents.dim, documents.num_tokens(), values.data());
    return BuildCollection(options, *documents.MakeCatalog(), tokens, nullptr, observer);
  }

  SmallCollection documents;
  std::vector<float> values;
};

// Returns the names and contents of all files of a folder except the manifest.
inline std::vector<std::pair<std::string, std::string>> ContentsOf(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> contents;
  for (const std::string& name : FilesIn(folder)) {
    if (name != kManifestFileName) contents.emplace_back(name, ReadBytes(JoinPath(folder, name)));
  }
  return contents;
}

inline void ExpectSound(const std::string& folder) {
  const auto report = VerifyCollection(folder);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, ::testing::IsEmpty());
}

// Returns the names of all files of codes in a manifest.
inline std::vector<std::string> CodeFilesOf(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const ShardEntry& entry : manifest.shards) {
    for (const CodeFileEntry& file : entry.code_files) names.push_back(file.file);
  }
  return names;
}

// Opens a shard of a collection and its codes.
struct OpenedCodes {
  std::shared_ptr<Shard> shard;
  std::shared_ptr<ShardCodes> codes;

  CodesView view() const { return codes->view(shard->documents()); }
};
inline OpenedCodes OpenCodes(const std::string& folder, const Manifest& manifest, size_t idx, int planes,
                             Access access = Access::kMapped) {
  const ShardEntry& entry = manifest.shards[idx];
  auto shard = Shard::Open(folder, manifest, entry, Access::kMapped, /*check_checksum=*/true);
  EXPECT_TRUE(shard.ok()) << shard.status();
  auto codes = ShardCodes::Open(folder, manifest, entry, planes, access, /*check_checksum=*/true);
  EXPECT_TRUE(codes.ok()) << codes.status();
  return {*std::move(shard), *std::move(codes)};
}

}  // namespace maxsim::collection
