// Makes small collections for tests that only need to tell generations apart.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/store/collection/collection.h"
#include "server/store/collection/generation.h"
#include "server/store/collection/id_index.h"

namespace maxsim::test {

// Returns a collection without documents. If `is_streamed`, it has one document of 1,000 tokens in the host memory of a
// GPU backend.
inline std::shared_ptr<const store::Collection> EmptyCollection(bool is_streamed = false) {
  static constexpr int64_t kOffsets[] = {0, 1000};
  std::vector<store::Part> parts(is_streamed ? 1 : 0);
  collection::Manifest manifest;
  for (store::Part& part : parts) {
    part.view.offsets = kOffsets;
    part.view.num_documents = manifest.num_documents = 1;
    manifest.num_tokens = 1000;
  }
  store::Generation::Contents contents{.name = "empty",
                                       .path = "",
                                       .manifest = std::move(manifest),
                                       .parts = std::move(parts),
                                       .index = *store::IdIndex::Build({}),
                                       .on_gpu = is_streamed,
                                       .loaded_at = {},
                                       .tombstones = {}};
  return std::make_shared<const store::Collection>(std::make_shared<const store::Generation>(std::move(contents)));
}

}  // namespace maxsim::test
