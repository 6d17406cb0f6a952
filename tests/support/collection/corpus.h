// Makes collections on disk from random documents, for the tests of store, engine and batching.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collection/build/builder.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"
#include "server/store/collection/collection.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::test {

// Makes a folder, and removes it with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, std::string_view bytes);

struct CorpusOptions {
  std::string name = "corpus";
  collection::IdType id_type = collection::IdType::kString;
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  std::string id_prefix = "doc-";  // document n is "doc-n", or 1000 + n
  bool payloads = false;           // document n carries {"n":n}
  // The storage type of the collection; nullopt means the documents' type. For I8, the documents must be F32. They are
  // converted by Stored (values/random_documents.h).
  std::optional<ScalarType> storage = {};
  collection::CodesRequest codes = {};
  std::vector<collection::Field> fields = {};
  std::vector<std::string> payload_texts = {};  // if not empty, the documents' payloads
};

inline std::string CorpusId(const CorpusOptions& options, int64_t document) {
  return options.id_prefix + std::to_string(document);
}
inline int64_t CorpusIntId(int64_t document) { return 1000 + document; }

// Publishes the documents as the next generation of the collection in `folder`. If that fails, fails the test.
// Documents of residual codes are always published as generation 1, in one shard and without payloads.
collection::Manifest BuildCorpus(const std::string& folder, const RandomDocuments& documents,
                                 const CorpusOptions& options = {});

// If `storage` is I8, returns F32 documents converted to I8 by Stored. Otherwise returns the documents unchanged.
RandomDocuments StoredAs(const RandomDocuments& documents, ScalarType storage);

// Returns `count` documents of 1 to 12 tokens.
RandomDocuments SmallDocuments(uint64_t seed, int64_t count, ScalarType type = ScalarType::kF16, int32_t dim = 16);

// Replaces a shard file of the collection by `bytes`, and updates the size and checksum of the file in the manifest.
void ReplaceShard(const std::string& folder, size_t shard_idx, std::string_view bytes);

// Loads a collection through a new store without a memory limit. If loading fails, fails the test and returns null.
std::shared_ptr<const store::Collection> LoadCorpus(const std::string& folder, Backend* backend,
                                                    store::Residency residency = store::Residency::kAuto);

}  // namespace maxsim::test
