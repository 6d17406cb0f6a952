// The server of the fuzz target for requests. It keeps small collections of every kind loaded, and scores on the
// calling thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "kernels/maxsim.h"
#include "server/engine/engine.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::fuzz {

struct KnownCollection {
  test::RandomDocuments documents;  // in the form that the collection stores
  test::CorpusOptions options;
  std::shared_ptr<const store::Collection> collection;
};

inline constexpr int32_t kRequestDim = 8;

// Returns limits that a request of a few hundred bytes can exceed.
inline service::RequestLimits SmallLimits() {
  service::RequestLimits limits;
  limits.max_queries_per_request = 4;
  limits.max_query_tokens = 40;
  limits.max_document_tokens = 24;
  limits.max_candidates_per_query = 24;
  limits.max_inline_documents = 6;
  limits.max_top_k = 30;
  limits.default_top_k = 5;
  limits.max_request_work = 20'000;
  limits.max_alignments = 400;
  limits.max_answer_bytes = 4096;
  return limits;
}

class RequestServer {
 public:
  // Returns the server. The first call makes it, and it is never destroyed.
  static RequestServer& Get() {
    static auto* const server = new RequestServer();
    return *server;
  }

  // Returns the collections by name: f32 (string ids, several shards), f16 (string ids, payloads), bf16 and i8 (integer
  // ids).
  const std::map<std::string, KnownCollection>& collections() const { return collections_; }
  engine::Lane& lane() { return engine_->lane(0); }

 private:
  RequestServer() {
    google::protobuf::SetLogHandler(nullptr);  // it would write a line for a string that is not UTF-8
    backend_ = *CreateCpuBackend({.num_threads = 1, .isa = "portable"});
    engine_ = *engine::Engine::Create(backend_.get(), {.num_lanes = 1, .executor = {.max_queries = 2}});
    Add("f32", ScalarType::kF32, 150,
        {.id_type = collection::IdType::kString, .max_shard_bytes = collection::kMinMaxShardBytes});
    Add("f16", ScalarType::kF16, 8, {.id_type = collection::IdType::kString, .payloads = true});
    Add("bf16", ScalarType::kBF16, 5, {.id_type = collection::IdType::kInt64});
    Add("i8", ScalarType::kI8, 7,
        {.id_type = collection::IdType::kInt64, .payloads = true, .storage = ScalarType::kI8});
  }

  void Add(const std::string& name, ScalarType storage, int64_t num_documents, test::CorpusOptions options) {
    const test::TemporaryFolder folder;
    options.name = name;
    const test::RandomDocuments documents = test::SmallDocuments(17, num_documents, QueryType(storage), kRequestDim);
    test::BuildCorpus(folder / name, documents, options);
    collections_[name] = {.documents = test::StoredAs(documents, storage),
                          .options = options,
                          .collection = test::LoadCorpus(folder / name, backend_.get())};
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<engine::Engine> engine_;
  std::map<std::string, KnownCollection> collections_;
};

}  // namespace maxsim::fuzz
