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
  // The storage type; nullopt for that of the documents. F32 documents become i8 in the way of Stored.
  std::optional<ScalarType> storage = {};
  collection::CodesRequest codes = {};
  std::vector<collection::Field> fields = {};
  std::vector<std::string> payload_texts = {};  // of the documents, instead of those of `payloads`; may be empty
};

inline std::string CorpusId(const CorpusOptions& options, int64_t document) {
  return options.id_prefix + std::to_string(document);
}
inline int64_t CorpusIntId(int64_t document) { return 1000 + document; }

// Publishes the next generation in `folder`; a failure fails the test. Documents of residual codes are generation 1,
// without payloads, in one shard.
collection::Manifest BuildCorpus(const std::string& folder, const RandomDocuments& documents,
                                 const CorpusOptions& options = {});

// Returns F32 documents as the i8 ones that Stored makes of them, and documents of any other type as they are.
RandomDocuments StoredAs(const RandomDocuments& documents, ScalarType storage);

// Returns `count` documents of 1 to 12 tokens.
RandomDocuments SmallDocuments(uint64_t seed, int64_t count, ScalarType type = ScalarType::kF16, int32_t dim = 16);

// Replaces a file of the collection by `bytes`, and updates its size and checksum in the manifest, as a script that
// writes shards would.
void ReplaceShard(const std::string& folder, size_t shard_idx, std::string_view bytes);

// Loads a collection by a store of its own that has no memory limit; a failure fails the test and gives null.
std::shared_ptr<const store::Collection> LoadCorpus(const std::string& folder, Backend* backend,
                                                    store::Residency residency = store::Residency::kAuto);

}  // namespace maxsim::test
