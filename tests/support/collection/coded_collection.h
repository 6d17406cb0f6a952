// Gives collections codes that no file holds.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/codes/encode.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/generation.h"
#include "server/store/collection/id_index.h"
#include "server/store/memory/device_set.h"

namespace maxsim::test {

// Returns the collection with codes of `planes` bits per value for each replica. The codes are computed from the token
// rows of the collection's parts. If devices may have freed these rows after copying them, pass all documents, in
// order, as `documents`. The collection must not be live.
inline std::shared_ptr<const store::Collection> WithCodes(const store::Collection& collection,
                                                          const store::DeviceSet& devices, int planes,
                                                          bool factors = false,
                                                          const DocumentsView* documents = nullptr) {
  std::vector<store::Part> parts = collection.generation().parts();
  std::vector<std::shared_ptr<const collection::Shard>> shards;
  for (store::Part& part : parts) {
    shards.push_back(part.shard);
    DocumentsView view = part.view;
    if (documents != nullptr) {
      const int64_t first_token = documents->offsets[part.first_ordinal];
      view.tokens = static_cast<const std::byte*>(documents->tokens) +
                    static_cast<size_t>(first_token * view.dim) * SizeOf(view.type);
      view.source = nullptr;
    }
    const CodeShape shape = CodeShapeOf(view, collection.manifest().rotation_seed, factors);
    absl::StatusOr<EncodedDocuments> encoded = EncodedDocuments::Encode(shape, view);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    auto kept = std::make_shared<const EncodedDocuments>(*std::move(encoded));
    for (store::Replica& replica : part.replicas) {
      auto loaded = devices.backend(replica.device).LoadCodes(kept->view(), planes, kept);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      replica.codes = *std::move(loaded);
    }
  }
  return std::make_shared<const store::Collection>(
      std::make_shared<const store::Generation>(store::Generation::Contents{.name = collection.name(),
                                                                            .path = collection.path(),
                                                                            .manifest = collection.manifest(),
                                                                            .parts = std::move(parts),
                                                                            .index = *store::IdIndex::Build(shards),
                                                                            .on_gpu = devices.is_gpu(),
                                                                            .loaded_at = collection.loaded_at(),
                                                                            .tombstones = {}}));
}

}  // namespace maxsim::test
